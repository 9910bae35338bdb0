// Views as files: pictures (PNG, SVG, PDF) of what is shown, tables as CSV, traces for Perfetto. Written whole or not at all.
#pragma once

#include <QString>
#include <QStringList>

class QAbstractItemModel;
class QWidget;

namespace orrery {

struct Trace;

// By the name's ending; what went wrong, or nothing.
QString export_picture(QWidget& view, const QString& path);
QString export_csv(const QWidget& view, const QString& path);
// The files that takes: of a view with several tables the others stand beside it, as compare-slices.csv beside compare.csv.
QStringList csv_paths(const QWidget& view, const QString& path);
QString export_trace(const Trace& trace, const QString& path); // .json: for Perfetto; else our own format

QString to_csv(const QAbstractItemModel& model); // of a tree: all of it, children behind their parents
// The table in a view that CSV is made of where the view itself does not say (as_table.hpp); null: it has none.
const QAbstractItemModel* table_of(const QWidget& view);

} // namespace orrery
