#include "gui/app/command_palette.hpp"

#include "gui/app/actions.hpp"

#include <QAction>
#include <QKeyEvent>
#include <QLineEdit>
#include <QListView>
#include <QPainter>
#include <QStyledItemDelegate>
#include <QVBoxLayout>

#include <algorithm>

namespace orrery {
namespace {

QString plain_text(const QAction& action) {
    QString text = action.text();
    text.remove(QLatin1Char('&')).remove(QStringLiteral("\u2026"));
    return ActionRegistry::menuOf(action) + QStringLiteral(": ") + text;
}

// The command on the left, its keys on the right.
class CommandDelegate : public QStyledItemDelegate {
  public:
    using QStyledItemDelegate::QStyledItemDelegate;
    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
        QStyledItemDelegate::paint(painter, option, index);
        const bool selected = option.state.testFlag(QStyle::State_Selected);
        painter->setPen(option.palette.color(selected ? QPalette::HighlightedText : QPalette::PlaceholderText));
        painter->drawText(option.rect.adjusted(0, 0, -8, 0), Qt::AlignRight | Qt::AlignVCenter,
                          index.data(CommandModel::ShortcutRole).toString());
    }
    QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override {
        return QStyledItemDelegate::sizeHint(option, index) + QSize(0, 8);
    }
};

} // namespace

int fuzzy_score(const QString& pattern, const QString& text) {
    int score = 1;
    qsizetype at = 0, last = -2;
    for (const QChar c : pattern) {
        if (c.isSpace()) continue;
        const qsizetype found = text.indexOf(c, at, Qt::CaseInsensitive);
        if (found < 0) return 0;
        score += found == last + 1 ? 5 : 1;
        if (found == 0 || !text[found - 1].isLetterOrNumber()) score += 4;
        last = found;
        at = found + 1;
    }
    return score;
}

CommandModel::CommandModel(const ActionRegistry& registry, QObject* parent) : QAbstractListModel(parent), registry_(registry) {
    setPattern({});
}

void CommandModel::setPattern(const QString& pattern) {
    beginResetModel();
    shown_.clear();
    std::vector<std::pair<int, QAction*>> scored;
    for (QAction* action : registry_.actions())
        if (const int score = fuzzy_score(pattern, plain_text(*action)); score > 0) scored.emplace_back(score, action);
    std::stable_sort(scored.begin(), scored.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [score, action] : scored) shown_.push_back(action);
    endResetModel();
}

QAction* CommandModel::action(const QModelIndex& index) const { return index.isValid() ? shown_[index.row()] : nullptr; }

int CommandModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : static_cast<int>(shown_.size()); }

QVariant CommandModel::data(const QModelIndex& index, int role) const {
    const QAction* shown = action(index);
    if (!shown) return {};
    if (role == Qt::DisplayRole) return plain_text(*shown);
    if (role == Qt::ToolTipRole) return shown->toolTip();
    if (role == ShortcutRole) return ActionRegistry::keysOf(*shown);
    return {};
}

Qt::ItemFlags CommandModel::flags(const QModelIndex& index) const {
    const QAction* shown = action(index);
    return shown && !shown->isEnabled() ? Qt::NoItemFlags : QAbstractListModel::flags(index);
}

CommandPalette::CommandPalette(const ActionRegistry& registry, QWidget* parent)
    : QDialog(parent), model_(new CommandModel(registry, this)), line_(new QLineEdit), list_(new QListView) {
    setWindowTitle(tr("Commands"));
    setAttribute(Qt::WA_DeleteOnClose);
    line_->setPlaceholderText(tr("Type a command"));
    line_->setAccessibleName(tr("Command"));
    line_->installEventFilter(this);
    list_->setModel(model_);
    list_->setItemDelegate(new CommandDelegate(list_));
    list_->setAccessibleName(tr("Commands that match"));
    list_->setFocusPolicy(Qt::NoFocus);
    auto* layout = new QVBoxLayout(this);
    layout->addWidget(line_);
    layout->addWidget(list_);
    resize(560, 380);
    list_->setCurrentIndex(model_->index(0));
    connect(line_, &QLineEdit::textChanged, this, [this](const QString& text) {
        model_->setPattern(text);
        list_->setCurrentIndex(model_->index(0));
    });
    connect(line_, &QLineEdit::returnPressed, this, &CommandPalette::run);
    connect(list_, &QListView::clicked, this, &CommandPalette::run);
}

bool CommandPalette::eventFilter(QObject* watched, QEvent* event) {
    if (event->type() == QEvent::KeyPress) {
        const int key = static_cast<QKeyEvent*>(event)->key();
        const int step = key == Qt::Key_Down ? 1 : key == Qt::Key_Up ? -1 : key == Qt::Key_PageDown ? 10 : key == Qt::Key_PageUp ? -10 : 0;
        if (step != 0 && model_->rowCount() > 0) {
            const int row = std::clamp(list_->currentIndex().row() + step, 0, model_->rowCount() - 1);
            list_->setCurrentIndex(model_->index(row));
            return true;
        }
    }
    return QDialog::eventFilter(watched, event);
}

// The palette goes first: a command may open a dialog of its own.
void CommandPalette::run() {
    QAction* action = model_->action(list_->currentIndex());
    if (!action || !action->isEnabled()) return;
    accept();
    action->trigger();
}

} // namespace orrery
