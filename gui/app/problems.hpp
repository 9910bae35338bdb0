// Problems, in a dock instead of boxes that stop the work: a list with where, what and a jump to the place.
#pragma once

#include <QAbstractTableModel>
#include <QWidget>

#include <functional>
#include <vector>

class QTableView;

namespace orrery {

struct ProblemEntry {
    QString source; // who says so: "scenario", a file's name
    QString where;  // JSON pointer, or empty
    QString what;
};

class ProblemsModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    enum Column { SourceColumn, WhereColumn, WhatColumn, ColumnCount };
    using QAbstractTableModel::QAbstractTableModel;

    void add(const ProblemEntry& entry);                                           // the newest 500 are kept
    void replace(const QString& source, const std::vector<ProblemEntry>& entries); // all that `source` said
    void clear();
    const ProblemEntry& entry(int row) const { return entries_[row]; }

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

  private:
    std::vector<ProblemEntry> entries_;
};

class ProblemsView : public QWidget {
    Q_OBJECT
  public:
    explicit ProblemsView(ProblemsModel& model, QWidget* parent = nullptr);

  Q_SIGNALS:
    void jump(const QString& source, const QString& where);

  private:
    QTableView* table_;
};

} // namespace orrery
