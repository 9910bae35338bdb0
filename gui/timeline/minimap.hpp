// The whole step in a strip: all ranks' computation added up, and the range that is shown, which can be dragged and resized.
#pragma once

#include "gui/core/run.hpp"

#include <QImage>
#include <QWidget>

namespace orrery {

class Minimap : public QWidget {
    Q_OBJECT
  public:
    explicit Minimap(QWidget* parent = nullptr);
    void setRun(std::shared_ptr<const RunData> run, TimeRange whole);
    void setRange(TimeRange range);
    QSize sizeHint() const override { return {400, 34}; }

  Q_SIGNALS:
    void rangeAsked(orrery::TimeRange range);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void changeEvent(QEvent* event) override;

  private:
    double xOf(std::int64_t ps) const;
    std::int64_t timeOf(double x) const;

    std::shared_ptr<const RunData> data_;
    TimeRange whole_, range_;
    std::int64_t pressed_ = 0;
    TimeRange pressedRange_;
    enum class Drag { none, left, right, move, fresh } drag_ = Drag::none;
    QImage picture_;
};

} // namespace orrery
