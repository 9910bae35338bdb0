#include "gui/tables/plain_table.hpp"

#include <QHeaderView>
#include <QSortFilterProxyModel>
#include <QTableView>

namespace orrery {

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
    view->setMinimumSize(80, 3 * view->fontMetrics().height()); // a header and a row: what is around it may need the room more
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
