// Where measured runs are kept: a folder each, in the application's data, so that they are there at the next start. The oldest go once
// they take more than a limit.
#pragma once

#include <QString>
#include <QStringList>

namespace orrery {

class MeasuredRuns {
  public:
    MeasuredRuns(); // in the user's data folder; the limit from the settings ("measured/limit_gb", 2 where nothing is set)
    void setFolder(const QString& folder) { folder_ = folder; }
    void setLimit(qint64 bytes) { limit_ = bytes; }

    // A new folder for a run, made; empty where it cannot be.
    QString add(const QString& name) const;
    bool holds(const QString& path) const; // a file of one of them
    int count() const;
    qint64 size() const; // bytes of all
    // Deletes the oldest, but none that one of `keep` (files) is in, until the rest is within the limit. How many are gone.
    int trim(const QStringList& keep) const;
    void clear() const;                          // all
    static QString fileName(const QString& run); // a run's name as a file may be called

  private:
    QStringList folders() const; // oldest first
    QString folder_;
    qint64 limit_;
};

} // namespace orrery
