// The table of runs, and the order and choice of its rows. No widgets here.
#pragma once

#include "gui/core/figures.hpp"
#include "gui/core/run.hpp"

#include <QAbstractTableModel>
#include <QSortFilterProxyModel>

#include <map>
#include <vector>

namespace orrery {

class StrategiesModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    enum Column {
        // The columns that decide stand where narrow windows show them.
        NameColumn,
        StepColumn,
        IntervalColumn,
        DeltaColumn,
        FitsColumn,
        NoteColumn,
        BreakdownColumn,
        TokensColumn,
        MfuColumn,
        PeakColumn,
        HeadroomColumn,
        CostColumn,
        BubbleColumn,
        StragglersColumn,
        TensorColumn,
        ContextColumn,
        ExpertColumn,
        PipelineColumn,
        DataColumn,
        DevicesColumn,
        ColumnCount
    };
    // SortRole: a number, or the text of a name. BreakdownRole: a Breakdown. FullRole: the seconds that a bar's full width stands for.
    // Cells and headers are exported with units (as_table.hpp), all but the breakdown's bar.
    enum Role { RunRole = Qt::UserRole + 1, SortRole, BreakdownRole, FullRole };

    StrategiesModel(RunStore& store, ViewState& state, QObject* parent = nullptr);

    RunId runAt(int row) const; // of a swept point: id_of_swept()
    int rowOf(RunId id) const;  // -1: none
    const Figures& figuresAt(int row) const;
    // The points of a sweep, behind the runs: those of a name that a run has are left to it.
    void setSwept(const std::vector<SweptPoint>& swept);

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;
    Qt::ItemFlags flags(const QModelIndex& index) const override;
    bool setData(const QModelIndex& index, const QVariant& value, int role = Qt::EditRole) override; // the name

  private:
    void refresh(int row);
    double longest() const;
    std::optional<double> number(int row, int column) const;
    QString text(int row, int column) const;
    QString tip(int row, int column) const;
    int runs() const { return static_cast<int>(ids_.size()); }
    const SweptPoint* sweptAt(int row) const;
    bool outOfDate(int row) const;
    QString fitsText(int row) const; // "fits", "fits, narrowly" ..
    QVariant exportedAt(int row, int column) const;
    std::optional<double> delta(int row) const; // of the step time against the baseline, as a fraction

    RunStore& store_;
    ViewState& state_;
    std::vector<RunId> ids_; // rows, beside the store's runs: signals come after the store has changed
    std::vector<Figures> figures_;
    std::vector<SweptPoint> swept_;
};

// "fits mfu>40 gpt": words of the name, and comparisons of a figure (step in s, mfu, bubble, stragglers in %, memory in GB, devices, cost).
class StrategiesProxy : public QSortFilterProxyModel {
    Q_OBJECT
  public:
    explicit StrategiesProxy(QObject* parent = nullptr);
    void setFilter(const QString& text);

  protected:
    bool filterAcceptsRow(int row, const QModelIndex& parent) const override;
    bool lessThan(const QModelIndex& left, const QModelIndex& right) const override;

  private:
    QStringList terms_;
};

} // namespace orrery
