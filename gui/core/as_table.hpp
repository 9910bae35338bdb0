// A view's content as a table of texts, for CSV and for the clipboard. Numbers in full precision, one unit a column, said in its header.
//
// Item models whose cells are words for people ("7.48 ms") give the number under export_role, and the header with the unit ("Step (s)")
// under the same role of headerData(). A cell that gives nothing there is exported as it is shown.
#pragma once

#include <QString>
#include <QStringList>
#include <QVariant>

#include <cstdint>
#include <optional>
#include <vector>

class QAbstractItemModel;
class QModelIndex;

namespace orrery {

inline constexpr int export_role = 0x0100 + 900; // Qt::UserRole and far beyond the models' own

struct TextTable {
    QStringList head;
    std::vector<QStringList> rows;
    QString problem{}; // why there is none; else empty
    QString name{};    // where a view has several: the others' files are called so
};

class AsTable {
  public:
    virtual ~AsTable() = default;
    virtual TextTable asTable() const = 0;
    virtual std::vector<TextTable> moreTables() const { return {}; } // beside it, each with a name
};

// All rows of a model; of a tree children behind their parents.
TextTable table_of_model(const QAbstractItemModel& model);
// Rows of a flat model, in the order given.
TextTable table_of_rows(const QAbstractItemModel& model, const std::vector<int>& rows);

QString to_csv(const TextTable& table);
// For the clipboard: cells apart by tabs.
QString to_tabs(const TextTable& table);

// A header with its unit: "Step (s)".
QString with_unit(const QString& title, const QString& unit);
// The value that a model gives under export_role for a figure: the number, or an empty cell where there is none.
QVariant exported(std::optional<double> figure, double unit = 1);

// Numbers as every program reads them: the shortest text that gives the same number again.
QString plain(double v);
QString plain_seconds(std::int64_t ps);

} // namespace orrery
