#include "gui/parts/plain_table.hpp"

#include <QClipboard>
#include <QGuiApplication>
#include <QHeaderView>
#include <QItemSelectionModel>
#include <QKeyEvent>
#include <QSortFilterProxyModel>
#include <QTableView>

#include <algorithm>
#include <numeric>

namespace orrery {
namespace {

// Before the view itself, which would copy one cell.
class RowCopier : public QObject {
  public:
    RowCopier(QAbstractItemView& view, std::function<TextTable()> rows) : QObject(&view), rows_(std::move(rows)) {
        view.installEventFilter(this);
    }
    bool eventFilter(QObject*, QEvent* event) override {
        if (event->type() != QEvent::KeyPress || !static_cast<QKeyEvent*>(event)->matches(QKeySequence::Copy)) return false;
        QGuiApplication::clipboard()->setText(to_tabs(rows_()));
        return true;
    }

  private:
    std::function<TextTable()> rows_;
};

} // namespace

std::vector<int> chosen_rows(const QAbstractItemView& view) {
    if (!view.model()) return {};
    std::vector<int> rows;
    for (const QModelIndex& index : view.selectionModel()->selectedRows()) rows.push_back(index.row());
    std::sort(rows.begin(), rows.end());
    if (rows.empty()) {
        rows.resize(view.model()->rowCount());
        std::iota(rows.begin(), rows.end(), 0);
    }
    return rows;
}

void copies_rows(QAbstractItemView& view, std::function<TextTable()> rows) {
    if (!rows) rows = [&view] { return view.model() ? table_of_rows(*view.model(), chosen_rows(view)) : TextTable{}; };
    new RowCopier(view, std::move(rows)); // the view's from here on
}

QTableView* plain_table(QAbstractItemModel* model, const QString& name) {
    auto* view = new QTableView;
    view->setModel(model);
    view->setAccessibleName(name);
    view->setSelectionBehavior(QAbstractItemView::SelectRows);
    view->verticalHeader()->hide();
    view->verticalHeader()->setDefaultSectionSize(view->fontMetrics().height() + 6);
    view->horizontalHeader()->setStretchLastSection(true);
    view->setAlternatingRowColors(true);
    view->setShowGrid(false);
    view->setTabKeyNavigation(false);
    view->setMinimumSize(80, 3 * view->fontMetrics().height()); // a header and a row: what is around it may need the room more
    copies_rows(*view);
    return view;
}

QTableView* sorted_table(QAbstractItemModel* model, QObject* owner, const QString& name) {
    auto* sorted = new QSortFilterProxyModel(owner);
    sorted->setSourceModel(model);
    sorted->setSortRole(Qt::UserRole);
    QTableView* view = plain_table(sorted, name);
    view->setSortingEnabled(true);
    view->horizontalHeader()->setSortIndicator(-1, Qt::AscendingOrder);
    return view;
}

} // namespace orrery
