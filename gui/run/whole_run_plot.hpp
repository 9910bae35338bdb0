// A whole run drawn: its months from left to right, goodput as a band of the seeds, and the curve of intervals between saves.
#pragma once

#include "sim/job/whole_run.hpp"

#include <QWidget>

#include <memory>

namespace orrery {

class WholeRunPlot : public QWidget {
    Q_OBJECT
  public:
    explicit WholeRunPlot(QWidget* parent = nullptr);
    void setReport(std::shared_ptr<const WholeRunReport> report);
    // At a place in a month's row: which span of the first seed's timeline lies there; -1: none.
    int spanAt(const QPointF& at) const;
    int months() const;
    QSize minimumSizeHint() const override { return {360, 170}; }

  protected:
    void paintEvent(QPaintEvent* event) override;
    bool event(QEvent* event) override;

  private:
    QRectF monthRow(int month) const;
    void paintMonths(QPainter& painter) const;
    void paintTitle(QPainter& painter, const QRectF& box, const QString& title) const;
    void paintBand(QPainter& painter, const QRectF& box) const;
    void paintCurve(QPainter& painter, const QRectF& box) const;
    std::shared_ptr<const WholeRunReport> report_;
};

} // namespace orrery
