// The picture of a course: a row a worker or client over time. Keys and wheel zoom and move; a click chooses a span.
#pragma once

#include "gui/core/view_command.hpp"
#include "gui/workers/course.hpp"

#include <QAbstractScrollArea>

#include <memory>

namespace orrery {

class CoursePlot : public QAbstractScrollArea {
    Q_OBJECT
  public:
    explicit CoursePlot(QWidget* parent = nullptr);
    void setCourse(std::shared_ptr<const WorkersCourse> course); // null, or without rows: its words alone
    std::vector<ViewCommand> commands();
    void select(int span); // -1: none
    int selected() const { return selected_; }
    int spanAt(const QPointF& at) const; // of the viewport; -1: none
    QRectF rectOf(int span) const;       // of the viewport
    double begin() const { return begin_s_; }
    double end() const { return end_s_; }
    QSize sizeHint() const override { return {700, 320}; }

  Q_SIGNALS:
    void spanChosen(int span);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    bool viewportEvent(QEvent* event) override;
    void scrollContentsBy(int dx, int dy) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;

  private:
    bool empty() const { return !course_ || course_->rows.empty(); }
    QRectF plot() const; // of the viewport: rows without labels and axis
    double rowHeight() const;
    double rowTop(int row) const;
    double heightOf(int row) const; // the servers' row is never too low for its words
    double allRows() const;
    double xOf(double s) const;
    double timeOf(double x) const;
    void setRange(double begin, double end);
    void zoom(double factor, double x);
    void updateScroll();
    void paintRows(QPainter& p) const;
    void paintAxis(QPainter& p) const;

    std::shared_ptr<const WorkersCourse> course_;
    double begin_s_ = 0, end_s_ = 1;
    int gutter_ = 90, selected_ = -1;
};

} // namespace orrery
