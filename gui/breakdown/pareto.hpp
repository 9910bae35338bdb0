// Points of two figures with the frontier of those that fit: step time against memory, cost or devices. What is brushed here is
// brushed in the table. Own painting.
#pragma once

#include "gui/core/as_table.hpp"
#include "gui/core/figures.hpp"
#include "gui/core/run.hpp"
#include "gui/core/view_command.hpp"

#include <QWidget>

#include <vector>

class QComboBox;

namespace orrery {

struct ParetoPoint {
    RunId id = 0; // of a run; below zero: a sweep's point (id_of_swept), drawn as a ring
    QString name;
    double x = 0, y = 0;
    bool fits = true;
};

// Points no other that fits beats in both, smaller being better in each; by rising x. A point that does not fit is never on it.
std::vector<std::size_t> frontier(const std::vector<ParetoPoint>& points);

class ParetoPlot : public QWidget {
    Q_OBJECT
  public:
    explicit ParetoPlot(QWidget* parent = nullptr);
    using Words = QString (*)(std::optional<double>);
    void setAxes(const QString& x, Words x_words, const QString& y, Words y_words);
    void setPoints(std::vector<ParetoPoint> points);
    void setBrushed(std::vector<RunId> brushed, RunId current);
    const std::vector<ParetoPoint>& points() const { return points_; }
    std::vector<ViewCommand> commands();    // what its keys do
    QPointF place(std::size_t point) const; // on the widget
    QSize sizeHint() const override { return {480, 320}; }

  Q_SIGNALS:
    void brushed(const std::vector<orrery::RunId>& ids);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    bool event(QEvent* event) override;

  private:
    struct Range {
        double low = 0, high = 1;
    };
    QRectF area() const;
    int pointAt(const QPointF& at) const;
    void paintAxes(QPainter& painter) const;
    void paintFrontier(QPainter& painter) const;
    void step(int by);
    static Range range(const std::vector<ParetoPoint>& points, double ParetoPoint::*axis);

    QString x_title_, y_title_;
    Words x_words_ = nullptr, y_words_ = nullptr;
    std::vector<ParetoPoint> points_;
    Range x_, y_;
    std::vector<RunId> brushed_;
    RunId current_ = 0;
    int focus_ = -1; // the point keys are at
    QRectF rubber_;
};

class ParetoView : public QWidget, public AsTable, public HasCommands {
    Q_OBJECT
  public:
    ParetoView(RunStore& store, ViewState& state, QWidget* parent = nullptr);
    TextTable asTable() const override;
    std::vector<ViewCommand> commands() override { return plot_->commands(); }
    ParetoPlot& plot() { return *plot_; }
    void setSwept(std::vector<SweptPoint> swept); // beside the runs

  Q_SIGNALS:
    void sweptChosen(int number);

  private:
    void refresh();
    void showBrush();
    std::vector<SweptPoint> swept_;
    RunStore& store_;
    ViewState& state_;
    QComboBox* x_;
    QComboBox* y_;
    ParetoPlot* plot_;
};

} // namespace orrery
