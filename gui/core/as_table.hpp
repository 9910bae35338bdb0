// What a view shows as a table of texts, for CSV: of views that draw, and of those whose tables are not the whole of it.
#pragma once

#include <QString>
#include <QStringList>

#include <vector>

namespace orrery {

struct TextTable {
    QStringList head;
    std::vector<QStringList> rows;
    QString problem; // why there is none; else empty
};

class AsTable {
  public:
    virtual ~AsTable() = default;
    virtual TextTable asTable() const = 0;
};

// Numbers as every program reads them.
inline QString plain(double v) { return QString::number(v, 'g', 12); }
inline QString plain_seconds(std::int64_t ps) { return QString::number(static_cast<double>(ps) * 1e-12, 'f', 12); }

} // namespace orrery
