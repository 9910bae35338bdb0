#include "gui/app/key_sheet.hpp"

#include "gui/app/actions.hpp"

#include <QAction>
#include <QTextBrowser>
#include <QVBoxLayout>

namespace orrery {
namespace {

QString row(const QString& what, const QString& keys) {
    return QStringLiteral("<tr><td width='330'>%1</td><td><b>%2</b></td></tr>").arg(what.toHtmlEscaped(), keys.toHtmlEscaped());
}

} // namespace

QString key_sheet_html(const ActionRegistry& registry) {
    std::vector<std::pair<QString, QString>> groups; // title, rows
    const auto group = [&](const QString& title) -> QString& {
        for (auto& [name, rows] : groups)
            if (name == title) return rows;
        return groups.emplace_back(title, QString{}).second;
    };
    for (const QAction* action : registry.actions()) {
        const QString keys = ActionRegistry::keysOf(*action);
        if (keys.isEmpty()) continue;
        QString text = action->text();
        text.remove(QLatin1Char('&'));
        group(ActionRegistry::menuOf(*action)) += row(text, keys);
    }
    for (const ActionRegistry::Hint& hint : registry.hints()) group(hint.title) += row(hint.what, hint.keys);
    QString html;
    for (const auto& [title, rows] : groups)
        html += QStringLiteral("<h3>%1</h3><table cellspacing='2'>%2</table>").arg(title.toHtmlEscaped(), rows);
    return html;
}

KeySheet::KeySheet(const ActionRegistry& registry, QWidget* parent) : QDialog(parent) {
    setWindowTitle(tr("Keys"));
    setAttribute(Qt::WA_DeleteOnClose);
    auto* page = new QTextBrowser;
    page->setHtml(key_sheet_html(registry));
    page->setAccessibleName(tr("Keys of every command"));
    (new QVBoxLayout(this))->addWidget(page);
    resize(560, 640);
}

} // namespace orrery
