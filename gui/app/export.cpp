#include "gui/app/export.hpp"

#include "gui/core/as_table.hpp"
#include "gui/core/tr.hpp"
#include "sim/trace/trace.hpp"

#include <QAbstractItemView>
#include <QBuffer>
#include <QFileInfo>
#include <QPainter>
#include <QPdfWriter>
#include <QPixmap>
#include <QSaveFile>
#include <QSvgGenerator>

#include <exception>

namespace orrery {
namespace {

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

std::vector<TextTable> tables_of(const QWidget& view) {
    if (const auto* itself = dynamic_cast<const AsTable*>(&view)) {
        std::vector<TextTable> out{itself->asTable()};
        for (TextTable& more : itself->moreTables()) out.push_back(std::move(more));
        return out;
    }
    const QAbstractItemModel* model = table_of(view);
    if (!model) return {};
    return {table_of_model(*model)};
}

QString path_of(const QString& path, const TextTable& table) {
    if (table.name.isEmpty()) return path;
    const QFileInfo file(path);
    return file.path() + QLatin1Char('/') + file.completeBaseName() + QLatin1Char('-') + table.name + QStringLiteral(".csv");
}

} // namespace

QString to_csv(const QAbstractItemModel& model) { return to_csv(table_of_model(model)); }

QStringList csv_paths(const QWidget& view, const QString& path) {
    QStringList out;
    for (const TextTable& t : tables_of(view)) out << path_of(path, t);
    return out;
}

QString export_csv(const QWidget& view, const QString& path) {
    const std::vector<TextTable> tables = tables_of(view);
    if (tables.empty()) return tr("%1: the view has no table").arg(path);
    for (const TextTable& t : tables) {
        if (!t.problem.isEmpty()) return t.problem;
        if (const QString wrong = write(to_csv(t).toUtf8(), path_of(path, t)); !wrong.isEmpty()) return wrong;
    }
    return {};
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
