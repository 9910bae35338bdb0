// The points of a sweep as a table, and as a map over two of its axes. No widgets here.
#pragma once

#include <QAbstractTableModel>

#include "sim/sweep/sweep.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace orrery {

class SweepModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    // Columns after the axes.
    enum Figure {
        StatusFigure,
        StepFigure,
        TokensFigure,
        MfuFigure,
        BubbleFigure,
        StragglersFigure,
        PeakFigure,
        ReasonFigure,
        FigureCount
    };
    enum Role { SortRole = Qt::UserRole + 1, PointRole };
    using QAbstractTableModel::QAbstractTableModel;

    void setDocument(std::shared_ptr<const SweepDocument> document);
    void take(const std::vector<SweepRow>& rows);
    const SweepDocument* document() const { return document_.get(); }
    const SweepRow* row(std::size_t point) const; // null: not computed yet
    int axes() const { return document_ ? static_cast<int>(document_->axes().size()) : 0; }

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

  private:
    QVariant figure(const SweepRow& row, int figure, bool sort) const;
    QVariant exportedFigure(const SweepRow& row, int figure) const;
    std::shared_ptr<const SweepDocument> document_;
    std::vector<std::optional<SweepRow>> rows_; // by point
};

// The figure that the map shows; smaller step times and memory are better, larger shares.
enum class HeatMetric { step_time, tokens_per_s, mfu, bubble, stragglers, peak_memory };
struct HeatCell {
    std::optional<double> value; // of the best point that fits
    std::int64_t point = -1;     // that one, or one that says why none does
    int computed = 0, points = 0;
};
struct HeatMap {
    std::vector<std::string> columns, rows; // values as JSON text
    std::vector<HeatCell> cells;            // row by row
    double low = 0, high = 0;
    const HeatCell& cell(std::size_t column, std::size_t row) const { return cells[row * columns.size() + column]; }
};
bool smaller_is_better(HeatMetric metric);
double value_of(const SweepRow& row, HeatMetric metric);
HeatMap heat_map(const SweepModel& model, int x_axis, int y_axis, HeatMetric metric); // y_axis < 0: one row

QString status_words(const SweepRow& row);    // "fits, narrowly"
QString axis_title(const SweepAxis& axis);    // "tensor parallel"
QString value_words(const std::string& json); // texts without their quotes

} // namespace orrery
