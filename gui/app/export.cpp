#include "gui/app/export.hpp"

#include "gui/core/as_table.hpp"
#include "sim/trace/trace.hpp"

#include <QAbstractItemView>
#include <QBuffer>
#include <QCoreApplication>
#include <QPainter>
#include <QPdfWriter>
#include <QPixmap>
#include <QSaveFile>
#include <QSvgGenerator>

#include <exception>

namespace orrery {
namespace {

QString tr(const char* text) { return QCoreApplication::translate("orrery", text); }

QString write(const QByteArray& bytes, const QString& path) {
    QSaveFile file(path);
    if (!file.open(QIODevice::WriteOnly) || file.write(bytes) != bytes.size() || !file.commit())
        return tr("%1 could not be written: %2").arg(path, file.errorString());
    return {};
}

QByteArray svg(QWidget& view) {
    QBuffer buffer;
    QSvgGenerator generator;
    generator.setOutputDevice(&buffer);
    generator.setSize(view.size());
    generator.setViewBox(view.rect());
    generator.setTitle(view.windowTitle());
    QPainter painter(&generator);
    view.render(&painter);
    painter.end();
    return buffer.data();
}

// A page as large as the view, at its own proportions.
QByteArray pdf(QWidget& view) {
    QBuffer buffer;
    buffer.open(QIODevice::WriteOnly);
    QPdfWriter writer(&buffer);
    writer.setPageSize(QPageSize(QSizeF(view.size()) * 72.0 / 96.0, QPageSize::Point));
    writer.setPageMargins(QMarginsF(0, 0, 0, 0));
    QPainter painter(&writer);
    const double scale = static_cast<double>(writer.width()) / view.width();
    painter.scale(scale, scale);
    view.render(&painter);
    painter.end();
    return buffer.data();
}

QString cell(QString text) {
    if (!text.contains(QLatin1Char(',')) && !text.contains(QLatin1Char('"')) && !text.contains(QLatin1Char('\n'))) return text;
    return QLatin1Char('"') + text.replace(QLatin1Char('"'), QStringLiteral("\"\"")) + QLatin1Char('"');
}

} // namespace

QString export_picture(QWidget& view, const QString& path) {
    if (path.endsWith(QLatin1String(".svg"), Qt::CaseInsensitive)) return write(svg(view), path);
    if (path.endsWith(QLatin1String(".pdf"), Qt::CaseInsensitive)) return write(pdf(view), path);
    QByteArray bytes;
    QBuffer buffer(&bytes);
    buffer.open(QIODevice::WriteOnly);
    if (!view.grab().save(&buffer, "PNG")) return tr("%1: the picture could not be made").arg(path);
    return write(bytes, path);
}

namespace {

void add_rows(const QAbstractItemModel& model, const QModelIndex& parent, TextTable& out) {
    for (int r = 0; r < model.rowCount(parent); ++r) {
        QStringList line;
        for (int c = 0; c < model.columnCount(parent); ++c) {
            const QModelIndex index = model.index(r, c, parent);
            const QString value = index.data().toString();
            line << (value.isEmpty() ? index.data(Qt::AccessibleTextRole).toString() : value);
        }
        out.rows.push_back(line);
        add_rows(model, model.index(r, 0, parent), out);
    }
}

} // namespace

QString to_csv(const TextTable& table) {
    QString text;
    const auto add = [&](const QStringList& line) {
        QStringList cells;
        for (const QString& c : line) cells << cell(c);
        text += cells.join(QLatin1Char(',')) + QLatin1Char('\n');
    };
    add(table.head);
    for (const QStringList& row : table.rows) add(row);
    return text;
}

QString to_csv(const QAbstractItemModel& model) {
    TextTable table;
    for (int c = 0; c < model.columnCount(); ++c) table.head << model.headerData(c, Qt::Horizontal).toString();
    add_rows(model, {}, table);
    return to_csv(table);
}

QString export_csv(const QWidget& view, const QString& path) {
    if (const auto* itself = dynamic_cast<const AsTable*>(&view)) {
        const TextTable table = itself->asTable();
        return table.problem.isEmpty() ? write(to_csv(table).toUtf8(), path) : table.problem;
    }
    const QAbstractItemModel* model = table_of(view);
    return model ? write(to_csv(*model).toUtf8(), path) : tr("%1: the view has no table").arg(path);
}

QString export_trace(const Trace& trace, const QString& path) {
    try {
        if (path.endsWith(QLatin1String(".json"), Qt::CaseInsensitive))
            export_perfetto(trace, path.toStdString());
        else
            save(trace, path.toStdString());
        return {};
    } catch (const std::exception& e) { return QString::fromStdString(e.what()); }
}

// The one that is seen, of several.
const QAbstractItemModel* table_of(const QWidget& view) {
    const QAbstractItemModel* first = nullptr;
    for (const auto* table : view.findChildren<QAbstractItemView*>()) {
        if (!table->model() || table->inherits("QHeaderView") || table->inherits("QComboBoxListView")) continue;
        if (table->isVisibleTo(&view)) return table->model();
        if (!first) first = table->model();
    }
    return first;
}

} // namespace orrery
