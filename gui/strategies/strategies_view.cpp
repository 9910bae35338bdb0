#include "gui/strategies/strategies_view.hpp"

#include "gui/core/categories.hpp"
#include "gui/parts/plain_table.hpp"
#include "gui/strategies/strategies_model.hpp"

#include <QAbstractItemView>
#include <QAction>
#include <QApplication>
#include <QHeaderView>
#include <QHelpEvent>
#include <QItemSelectionModel>
#include <QLineEdit>
#include <QMenu>
#include <QPainter>
#include <QTableView>
#include <QToolTip>
#include <QVBoxLayout>

#include <algorithm>
#include <numeric>

namespace orrery {
namespace {

QRectF bar_rect(const QRect& cell) { return QRectF(cell).adjusted(4, 4, -4, -4); }

constexpr int wide_bar = 240;

// Chosen rows as a tint, so that their bars keep their colours.
void soften_selection(QTableView& table) {
    QPalette palette = table.palette();
    const QColor base = QGuiApplication::palette().color(QPalette::Base), strong = QGuiApplication::palette().color(QPalette::Highlight);
    const auto mixed = [](int a, int b) { return (3 * a + b) / 4; };
    palette.setColor(QPalette::Highlight,
                     QColor(mixed(base.red(), strong.red()), mixed(base.green(), strong.green()), mixed(base.blue(), strong.blue())));
    palette.setColor(QPalette::HighlightedText, QGuiApplication::palette().color(QPalette::Text));
    table.setPalette(palette);
}

} // namespace

void BreakdownDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const {
    QStyleOptionViewItem plain = option;
    initStyleOption(&plain, index);
    plain.text.clear();
    QApplication::style()->drawControl(QStyle::CE_ItemViewItem, &plain, painter, plain.widget);
    const QVariant breakdown = index.data(StrategiesModel::BreakdownRole);
    if (!breakdown.isValid()) return;
    paint_breakdown(*painter, bar_rect(option.rect), breakdown.value<Breakdown>(), index.data(StrategiesModel::FullRole).toDouble(),
                    is_dark(option.palette));
}

bool BreakdownDelegate::helpEvent(QHelpEvent* event, QAbstractItemView* view, const QStyleOptionViewItem& option,
                                  const QModelIndex& index) {
    const QVariant breakdown = index.data(StrategiesModel::BreakdownRole);
    if (event->type() != QEvent::ToolTip || !breakdown.isValid()) return QStyledItemDelegate::helpEvent(event, view, option, index);
    const auto seconds = breakdown.value<Breakdown>();
    const int c = category_at(event->pos().x(), bar_rect(option.rect), seconds, index.data(StrategiesModel::FullRole).toDouble());
    QString text = index.data(Qt::ToolTipRole).toString();
    if (c >= 0) text = QStringLiteral("<b>%1: %2</b><br>%3").arg(title(static_cast<Category>(c)), seconds_words(seconds[c]), text);
    QToolTip::showText(event->globalPos(), text, view);
    return true;
}

StrategiesView::StrategiesView(RunStore& store, ViewState& state, QWidget* parent)
    : QWidget(parent), store_(store), state_(state), model_(new StrategiesModel(store, state, this)), proxy_(new StrategiesProxy(this)),
      filter_(new QLineEdit), table_(new QTableView) {
    proxy_->setSourceModel(model_);
    // Before the table hears of it: rows that a filter takes away, or brings back, are no choice of the user's.
    connect(proxy_, &QAbstractItemModel::rowsAboutToBeRemoved, this, [this] { telling_ = true; });
    connect(proxy_, &QAbstractItemModel::rowsAboutToBeInserted, this, [this] { telling_ = true; });
    filter_->setPlaceholderText(tr("Filter: words of the name, fits, mfu>40, step<2, memory<70, bubble<10, devices<=64"));
    filter_->setClearButtonEnabled(true);
    filter_->setAccessibleName(tr("Filter of the strategies"));
    table_->setModel(proxy_);
    table_->setItemDelegateForColumn(StrategiesModel::BreakdownColumn, new BreakdownDelegate(table_));
    table_->setSortingEnabled(true);
    table_->sortByColumn(-1, Qt::AscendingOrder);
    table_->setSelectionBehavior(QAbstractItemView::SelectRows);
    table_->setSelectionMode(QAbstractItemView::ExtendedSelection);
    table_->setEditTriggers(QAbstractItemView::EditKeyPressed | QAbstractItemView::DoubleClicked);
    table_->setAlternatingRowColors(true);
    table_->setShowGrid(false);
    table_->setTabKeyNavigation(false);
    table_->setWordWrap(false);
    table_->setTextElideMode(Qt::ElideMiddle);
    table_->setContextMenuPolicy(Qt::CustomContextMenu);
    table_->setAccessibleName(tr("Strategies"));
    soften_selection(*table_);
    table_->verticalHeader()->hide();
    table_->verticalHeader()->setDefaultSectionSize(table_->fontMetrics().height() + 12);
    makeHeader();
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(2);
    layout->addWidget(filter_);
    layout->addWidget(table_);
    setFocusProxy(table_);

    copies_rows(*table_, [this] { return rowsAsTable(chosen_rows(*table_)); });
    connect(filter_, &QLineEdit::textChanged, proxy_, &StrategiesProxy::setFilter);
    const auto again = [this] {
        telling_ = false;
        showSelection();
    };
    connect(proxy_, &QAbstractItemModel::rowsRemoved, this, again);
    connect(proxy_, &QAbstractItemModel::rowsInserted, this, again);
    connect(proxy_, &QAbstractItemModel::modelReset, this, again);
    connect(table_->selectionModel(), &QItemSelectionModel::selectionChanged, this, &StrategiesView::tellSelection);
    connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this, &StrategiesView::tellSelection);
    connect(table_, &QWidget::customContextMenuRequested, this, &StrategiesView::menu);
    connect(table_, &QTableView::activated, this, [this](const QModelIndex& index) {
        const RunId id = index.data(StrategiesModel::RunRole).toInt();
        if (id < 0) Q_EMIT sweptRequested(swept_number(id));
    });
    connect(&state_, &ViewState::brushedRunsChanged, this, &StrategiesView::showSelection);
    connect(&state_, &ViewState::currentRunChanged, this, &StrategiesView::showSelection);
    showSelection();
}

void StrategiesView::makeHeader() {
    QHeaderView* header = table_->horizontalHeader();
    header->setSectionsMovable(true);
    header->setHighlightSections(false);
    header->setContextMenuPolicy(Qt::CustomContextMenu);
    const auto wide = [this](const QString& text) { return table_->fontMetrics().horizontalAdvance(text) + 24; };
    for (int c = 0; c < StrategiesModel::ColumnCount; ++c)
        header->resizeSection(c,
                              c == StrategiesModel::NameColumn || c == StrategiesModel::BreakdownColumn || c == StrategiesModel::NoteColumn
                                  ? wide_bar
                                  : std::max(86, wide(model_->headerData(c, Qt::Horizontal).toString())));
    header->resizeSection(StrategiesModel::FitsColumn, wide(QStringLiteral("\u2717 ") + StrategiesModel::tr("too big, narrowly")));
    connect(header, &QWidget::customContextMenuRequested, this, &StrategiesView::columnMenu);
    connect(model_, &QAbstractItemModel::rowsInserted, this, &StrategiesView::showNotes);
    connect(model_, &QAbstractItemModel::rowsRemoved, this, &StrategiesView::showNotes);
    connect(model_, &QAbstractItemModel::dataChanged, this, &StrategiesView::showNotes);
    showNotes();
}

void StrategiesView::changeEvent(QEvent* event) {
    if (event->type() == QEvent::PaletteChange) soften_selection(*table_);
    QWidget::changeEvent(event);
}

std::vector<RunId> StrategiesView::selectedRuns() const {
    QModelIndexList rows = table_->selectionModel()->selectedRows();
    std::sort(rows.begin(), rows.end(), [](const QModelIndex& a, const QModelIndex& b) { return a.row() < b.row(); });
    std::vector<RunId> runs;
    for (const QModelIndex& row : rows) runs.push_back(row.data(StrategiesModel::RunRole).toInt());
    return runs;
}

void StrategiesView::tellSelection() {
    if (telling_) return;
    telling_ = true;
    const RunId current = table_->currentIndex().data(StrategiesModel::RunRole).toInt();
    state_.setBrushedRuns(selectedRuns(), current);
    telling_ = false;
}

void StrategiesView::showSelection() {
    if (telling_) return;
    telling_ = true;
    QItemSelection selection;
    for (RunId id : state_.highlighted()) {
        const QModelIndex index = proxy_->mapFromSource(model_->index(model_->rowOf(id), 0));
        if (index.isValid()) selection.select(index, proxy_->index(index.row(), StrategiesModel::ColumnCount - 1));
    }
    const int column = std::max(0, table_->currentIndex().column()); // that the table does not scroll sideways
    const QModelIndex current = proxy_->mapFromSource(model_->index(model_->rowOf(state_.currentRun()), column));
    if (selection.contains(current)) table_->selectionModel()->setCurrentIndex(current, QItemSelectionModel::NoUpdate);
    table_->selectionModel()->select(selection, QItemSelectionModel::ClearAndSelect);
    telling_ = false;
}

TextTable StrategiesView::asTable() const {
    std::vector<int> all(static_cast<std::size_t>(proxy_->rowCount()));
    std::iota(all.begin(), all.end(), 0);
    return rowsAsTable(all);
}

// In place of the bar the seconds that it shows.
TextTable StrategiesView::rowsAsTable(const std::vector<int>& rows) const {
    TextTable table = table_of_rows(*proxy_, rows);
    const auto widen = [](QStringList& row, const QStringList& with) {
        row.removeAt(StrategiesModel::BreakdownColumn);
        for (int i = 0; i < with.size(); ++i) row.insert(StrategiesModel::BreakdownColumn + i, with[i]);
    };
    QStringList titles;
    for (Category c : drawing_order) titles << with_unit(title(c), QStringLiteral("s"));
    widen(table.head, titles);
    for (std::size_t r = 0; r < rows.size(); ++r) {
        const auto& its = model_->figuresAt(proxy_->mapToSource(proxy_->index(rows[r], 0)).row()).breakdown;
        QStringList seconds;
        for (Category c : drawing_order) seconds << (its ? plain((*its)[c]) : QString{});
        widen(table.rows[r], seconds);
    }
    return table;
}

void StrategiesView::pinCurrent() {
    const RunId run = state_.currentRun();
    state_.setBaseline(run == state_.baseline() ? 0 : run);
}

void StrategiesView::removeSelected() {
    for (RunId run : selectedRuns())
        if (run > 0) store_.remove(run);
}

void StrategiesView::focusFilter() {
    filter_->setFocus(Qt::ShortcutFocusReason);
    filter_->selectAll();
}

void StrategiesView::menu(const QPoint& at) {
    const RunId run = table_->indexAt(at).data(StrategiesModel::RunRole).toInt();
    if (run == 0) return;
    auto* menu = new QMenu(this);
    menu->setAttribute(Qt::WA_DeleteOnClose);
    if (run < 0) {
        menu->addAction(tr("Simulate in full"), this, [this, run] { Q_EMIT sweptRequested(swept_number(run)); });
        return menu->popup(table_->viewport()->mapToGlobal(at));
    }
    menu->addAction(run == state_.baseline() ? tr("Unpin the baseline") : tr("Pin as baseline"), this,
                    [this, run] { state_.setBaseline(run == state_.baseline() ? 0 : run); });
    menu->addAction(tr("Edit its scenario"), this, [this, run] { Q_EMIT editRequested(run); });
    menu->addSeparator();
    menu->addAction(tr("Remove from the table"), this, &StrategiesView::removeSelected);
    menu->popup(table_->viewport()->mapToGlobal(at));
}

// The notes' column takes the room of others only where a search has left one.
void StrategiesView::showNotes() {
    if (notes_chosen_) return;
    bool any = false;
    for (int row = 0; row < model_->rowCount() && !any; ++row) any = !model_->figuresAt(row).note.isEmpty();
    table_->setColumnHidden(StrategiesModel::NoteColumn, !any);
}

void StrategiesView::columnMenu(const QPoint& at) {
    auto* menu = new QMenu(this);
    menu->setAttribute(Qt::WA_DeleteOnClose);
    for (int c = 1; c < StrategiesModel::ColumnCount; ++c) {
        QAction* action = menu->addAction(model_->headerData(c, Qt::Horizontal).toString());
        action->setCheckable(true);
        action->setChecked(!table_->isColumnHidden(c));
        connect(action, &QAction::toggled, this, [this, c](bool on) {
            notes_chosen_ = notes_chosen_ || c == StrategiesModel::NoteColumn;
            table_->setColumnHidden(c, !on);
        });
    }
    menu->popup(table_->horizontalHeader()->mapToGlobal(at));
}

} // namespace orrery
