// Views as files: pictures (PNG, SVG, PDF) of what is shown, tables as CSV, traces for Perfetto. Written whole or not at all.
#pragma once

#include <QString>

class QAbstractItemModel;
class QWidget;

namespace orrery {

struct TextTable;
struct Trace;

// By the name's ending; what went wrong, or nothing.
QString export_picture(QWidget& view, const QString& path);
QString export_csv(const QWidget& view, const QString& path);
QString export_trace(const Trace& trace, const QString& path); // .json: for Perfetto; else our own format

QString to_csv(const QAbstractItemModel& model); // of a tree: all of it, children behind their parents
QString to_csv(const TextTable& table);
// The table in a view that CSV is made of where the view itself does not say (as_table.hpp); null: it has none.
const QAbstractItemModel* table_of(const QWidget& view);

} // namespace orrery
