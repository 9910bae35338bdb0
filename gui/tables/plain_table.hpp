// The tables of the views, made alike.
#pragma once

#include <QString>

class QAbstractItemModel;
class QObject;
class QTableView;

namespace orrery {

// Rows are chosen whole; the last column takes what room is left. name: what a screen reader says.
QTableView* plain_table(QAbstractItemModel* model, const QString& name);
// The same, sorted by its headers: by Qt::UserRole, as the model has it until one is chosen. owner: of the proxy between.
QTableView* sorted_table(QAbstractItemModel* model, QObject* owner, const QString& name);

} // namespace orrery
