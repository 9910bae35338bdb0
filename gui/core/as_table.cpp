#include "gui/core/as_table.hpp"

#include <QAbstractItemModel>
#include <QLocale>

namespace orrery {
namespace {

QStringList head_of(const QAbstractItemModel& model) {
    QStringList head;
    for (int c = 0; c < model.columnCount(); ++c) {
        const QVariant exported = model.headerData(c, Qt::Horizontal, export_role);
        head << (exported.isValid() ? exported : model.headerData(c, Qt::Horizontal)).toString();
    }
    return head;
}

QString text_of(const QModelIndex& index) {
    const QVariant exported = index.data(export_role);
    if (exported.userType() == QMetaType::Double) return plain(exported.toDouble());
    if (exported.isValid()) return exported.toString();
    const QString shown = index.data().toString();
    return shown.isEmpty() ? index.data(Qt::AccessibleTextRole).toString() : shown;
}

QStringList row_of(const QAbstractItemModel& model, int row, const QModelIndex& parent) {
    QStringList line;
    for (int c = 0; c < model.columnCount(parent); ++c) line << text_of(model.index(row, c, parent));
    return line;
}

void add_rows(const QAbstractItemModel& model, const QModelIndex& parent, TextTable& out) {
    for (int r = 0; r < model.rowCount(parent); ++r) {
        out.rows.push_back(row_of(model, r, parent));
        add_rows(model, model.index(r, 0, parent), out);
    }
}

// A spreadsheet takes a text that begins so for a formula, and runs it.
bool looks_like_a_formula(const QString& text) {
    if (text.isEmpty() || !QStringLiteral("=+-@\t\r").contains(text.front())) return false;
    bool number = false;
    text.toDouble(&number);
    return !number;
}

QString joined(const TextTable& table, QChar between, QString (*cell)(QString)) {
    QString text;
    const auto add = [&](const QStringList& line) {
        QStringList cells;
        for (const QString& c : line) cells << cell(looks_like_a_formula(c) ? QLatin1Char('\'') + c : c);
        text += cells.join(between) + QLatin1Char('\n');
    };
    add(table.head);
    for (const QStringList& row : table.rows) add(row);
    return text;
}

} // namespace

TextTable table_of_model(const QAbstractItemModel& model) {
    TextTable table;
    table.head = head_of(model);
    add_rows(model, {}, table);
    return table;
}

TextTable table_of_rows(const QAbstractItemModel& model, const std::vector<int>& rows) {
    TextTable table;
    table.head = head_of(model);
    for (int r : rows) table.rows.push_back(row_of(model, r, {}));
    return table;
}

QString to_csv(const TextTable& table) {
    return joined(table, QLatin1Char(','), [](QString text) {
        const bool quoted = text.contains(QLatin1Char(',')) || text.contains(QLatin1Char('"')) || text.contains(QLatin1Char('\n')) ||
                            text.contains(QLatin1Char('\r'));
        return quoted ? QLatin1Char('"') + text.replace(QLatin1Char('"'), QStringLiteral("\"\"")) + QLatin1Char('"') : text;
    });
}

QString to_tabs(const TextTable& table) {
    return joined(table, QLatin1Char('\t'), [](QString text) {
        for (const char blank : {'\t', '\n', '\r'}) text.replace(QLatin1Char(blank), QLatin1Char(' '));
        return text;
    });
}

QString with_unit(const QString& title, const QString& unit) { return QStringLiteral("%1 (%2)").arg(title, unit); }

QVariant exported(std::optional<double> figure, double unit) { return figure ? QVariant(*figure / unit) : QVariant(QString()); }

QString plain(double v) { return QString::number(v, 'g', QLocale::FloatingPointShortest); }

QString plain_seconds(std::int64_t ps) { return QString::number(static_cast<double>(ps) * 1e-12, 'f', 12); }

} // namespace orrery
