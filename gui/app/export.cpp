#include "gui/app/export.hpp"

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
    if (!file.open(QIODevice::WriteOnly) || file.write(bytes) != bytes.size() || !file.commit()) return tr("%1 could not be written: %2").arg(path, file.errorString());
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

QString to_csv(const QAbstractItemModel& model) {
    QString text;
    QStringList line;
    for (int c = 0; c < model.columnCount(); ++c) line << cell(model.headerData(c, Qt::Horizontal).toString());
    text += line.join(QLatin1Char(',')) + QLatin1Char('\n');
    for (int r = 0; r < model.rowCount(); ++r) {
        line.clear();
        for (int c = 0; c < model.columnCount(); ++c) {
            const QModelIndex index = model.index(r, c);
            QString value = index.data().toString();
            line << cell(value.isEmpty() ? index.data(Qt::AccessibleTextRole).toString() : value);
        }
        text += line.join(QLatin1Char(',')) + QLatin1Char('\n');
    }
    return text;
}

QString export_csv(const QAbstractItemModel& model, const QString& path) { return write(to_csv(model).toUtf8(), path); }

QString export_trace(const Trace& trace, const QString& path) {
    try {
        if (path.endsWith(QLatin1String(".json"), Qt::CaseInsensitive)) export_perfetto(trace, path.toStdString());
        else save(trace, path.toStdString());
        return {};
    } catch (const std::exception& e) {
        return QString::fromStdString(e.what());
    }
}

const QAbstractItemModel* table_of(const QWidget& view) {
    const auto* table = view.findChild<QAbstractItemView*>();
    return table ? table->model() : nullptr;
}

} // namespace orrery
