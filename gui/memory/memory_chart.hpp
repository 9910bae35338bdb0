// The stacked picture of a lane's memory over time, with the capacity, the peak and where it would run out.
#pragma once

#include "gui/core/memory_series.hpp"
#include "gui/core/view_command.hpp"
#include "gui/core/view_state.hpp"

#include <QImage>
#include <QWidget>

namespace orrery {

class MemoryChart : public QWidget {
    Q_OBJECT
  public:
    explicit MemoryChart(QWidget* parent = nullptr);
    void setSeries(MemorySeries series);
    void setTitle(const QString& title); // above the picture, where several stand beside each other; empty: none
    void setHint(const QString& hint);
    void setRange(TimeRange range); // length 0: all
    void setCursorTime(std::int64_t ps);
    const MemorySeries& series() const { return series_; }
    TimeRange range() const;
    std::vector<ViewCommand> commands(); // what its keys do
    double xOf(std::int64_t ps) const;
    double yOf(std::int64_t bytes) const;
    QSize sizeHint() const override { return {600, 240}; }

  Q_SIGNALS:
    void rangeAsked(orrery::TimeRange range);
    void cursorMoved(std::int64_t ps);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void leaveEvent(QEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void changeEvent(QEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;

  private:
    QRect plot() const;
    std::int64_t top() const; // bytes at the plot's upper edge
    std::int64_t timeOf(double x) const;
    void paintStack();
    void paintAxes(QPainter& p);
    void paintMarks(QPainter& p);
    void zoom(double factor, double x);

    MemorySeries series_;
    QString hint_, title_;
    TimeRange range_;
    std::int64_t cursor_ = -1;
    QPointF pressed_;
    TimeRange pressedRange_;
    QImage picture_; // null: to be made
};

} // namespace orrery
