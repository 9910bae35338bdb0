#include "gui/app/welcome.hpp"

#include "gui/app/actions.hpp"
#include "sim/scenario/sweep.hpp"
#include "topology/catalog.hpp"

#include <nlohmann/json.hpp>

#include <QAction>
#include <QKeyEvent>
#include <QLabel>
#include <QListWidget>
#include <QPainter>
#include <QPushButton>
#include <QVBoxLayout>

namespace orrery {

std::span<const EmbeddedFile> example_files(); // made by the build from scenarios/*.json

QStringList example_names() {
    QStringList names;
    for (const EmbeddedFile& file : example_files()) names << QString::fromUtf8(file.name.data(), static_cast<qsizetype>(file.name.size()));
    return names;
}

std::string_view example_text(const QString& name) {
    for (const EmbeddedFile& file : example_files())
        if (name.toStdString() == file.name) return file.text;
    return {};
}

WelcomePage::WelcomePage(const ActionRegistry& actions, QWidget* parent) : QWidget(parent) {
    setAutoFillBackground(true);
    setBackgroundRole(QPalette::Base);
    auto* title = new QLabel(tr("How will this model train on that cluster?"));
    QFont big = title->font();
    big.setPointSizeF(big.pointSizeF() * 1.8);
    title->setFont(big);
    auto* what = new QLabel(tr("Open a scenario, a sweep or a trace (or drop one here), or begin with an example. "
                               "Change a field and the step is simulated again; pin one run as the baseline and compare others with it."));
    what->setWordWrap(true);
    auto* list = new QListWidget;
    list->setAccessibleName(tr("Example scenarios"));
    for (const QString& name : example_names()) {
        const auto json = nlohmann::json::parse(example_text(name), nullptr, false, true);
        QString line = json.is_object() ? QString::fromStdString(json.value("name", name.toStdString())) : name;
        if (is_sweep(example_text(name))) line += tr("  (a sweep)");
        auto* item = new QListWidgetItem(line, list);
        item->setData(Qt::UserRole, name);
        if (json.is_object() && json.contains("description") && json.at("description").is_string())
            item->setToolTip(QString::fromStdString(json.at("description").get<std::string>()));
    }
    list->setCurrentRow(0);
    auto* buttons = new QHBoxLayout;
    for (const char* id : {"file.open", "file.new", "help.palette", "help.keys"}) {
        QAction* action = actions.find(QLatin1String(id));
        if (!action) continue;
        const QString keys = action->shortcut().toString(QKeySequence::NativeText);
        auto* button = new QPushButton(action->text() + (keys.isEmpty() ? QString{} : QStringLiteral("   ") + keys));
        button->setToolTip(action->toolTip());
        connect(button, &QPushButton::clicked, action, &QAction::trigger);
        buttons->addWidget(button);
    }
    buttons->addStretch();
    auto* column = new QVBoxLayout;
    column->setSpacing(14);
    column->addWidget(title);
    column->addWidget(what);
    column->addLayout(buttons);
    auto* examples = new QLabel(tr("E&xamples (double-click, or Enter)"));
    examples->setBuddy(list);
    column->addWidget(examples);
    column->addWidget(list, 1);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(60, 40, 60, 40);
    layout->addLayout(column);
    setFocusProxy(list);
    connect(list, &QListWidget::itemActivated, this,
            [this](QListWidgetItem* item) { Q_EMIT exampleChosen(item->data(Qt::UserRole).toString()); });
}

void WelcomePage::keyPressEvent(QKeyEvent* event) {
    if (event->key() != Qt::Key_Escape) return QWidget::keyPressEvent(event);
    hide();
    Q_EMIT dismissed();
}

void WelcomePage::paintEvent(QPaintEvent*) { QPainter(this).fillRect(rect(), palette().color(QPalette::Base)); }

} // namespace orrery
