// What the colours and patterns of slices mean: those that occur in the run shown.
#pragma once

#include "gui/core/tracks.hpp"

#include <QWidget>

#include <vector>

namespace orrery {

class Legend : public QWidget {
    Q_OBJECT
  public:
    explicit Legend(QWidget* parent = nullptr);
    void setStore(const TrackStore* store);
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {60, sizeHint().height()}; }

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    std::vector<SliceKind> kinds_;
};

} // namespace orrery
