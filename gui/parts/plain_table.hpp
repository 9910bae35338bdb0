// The tables of the views, made alike.
#pragma once

#include "gui/core/as_table.hpp"

#include <QString>

#include <functional>
#include <vector>

class QAbstractItemModel;
class QAbstractItemView;
class QObject;
class QTableView;

namespace orrery {

// Rows are chosen whole and copied with Ctrl+C; the last column takes what room is left. name: what a screen reader says.
QTableView* plain_table(QAbstractItemModel* model, const QString& name);
// The same, sorted by its headers: by Qt::UserRole, as the model has it until one is chosen. owner: of the proxy between.
QTableView* sorted_table(QAbstractItemModel* model, QObject* owner, const QString& name);

// The rows chosen in a table, in the order shown; all of them where none is.
std::vector<int> chosen_rows(const QAbstractItemView& view);
// Ctrl+C in the view copies its chosen rows, headers first, cells apart by tabs. rows: what they are where the view's model does not say.
void copies_rows(QAbstractItemView& view, std::function<TextTable()> rows = {});

} // namespace orrery
