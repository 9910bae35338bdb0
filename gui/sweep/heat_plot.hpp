// A sweep over two of its axes: the best that fits in each cell; hatched where nothing does, empty where nothing is known yet.
#pragma once

#include <QWidget>

#include "gui/core/view_command.hpp"
#include "gui/sweep/sweep_model.hpp"

namespace orrery {

class HeatPlot : public QWidget {
    Q_OBJECT
  public:
    explicit HeatPlot(QWidget* parent = nullptr);
    void setMap(HeatMap map, HeatMetric metric, const QString& x_title, const QString& y_title);
    void setTips(std::vector<QString> tips) { tips_ = std::move(tips); } // by cell
    const HeatMap& map() const { return map_; }
    QRectF cellRect(std::size_t column, std::size_t row) const;
    std::vector<ViewCommand> commands(); // what its keys do
    QSize sizeHint() const override { return {420, 300}; }

  Q_SIGNALS:
    void chosen(qint64 point);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    bool event(QEvent* event) override;

  private:
    QRectF area() const;
    int cellAt(const QPointF& at) const; // index in the map, or -1
    void paintCell(QPainter& painter, std::size_t index) const;
    QString words(double value) const;
    void choose(int cell);
    void go(int right, int down);

    HeatMap map_;
    HeatMetric metric_ = HeatMetric::step_time;
    QString x_title_, y_title_;
    std::vector<QString> tips_;
    int current_ = -1;
};

} // namespace orrery
