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
    QSize minimumSizeHint() const override { return {60, lineHeight()}; }
    bool hasHeightForWidth() const override { return true; }
    int heightForWidth(int width) const override; // as many lines as it takes

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    int lineHeight() const;
    std::vector<QRect> places(int width) const; // of each kind, its text included
    std::vector<SliceKind> kinds_;
};

} // namespace orrery
