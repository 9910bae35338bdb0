// Which run a view shows: its name, and a warning where its figures are out of date.
#pragma once

#include "gui/core/run.hpp"

#include <QLabel>

namespace orrery {

// Follows the current run. It takes the room that is left, and cuts a long name instead of widening the window; the tooltip has all of it.
class RunLabel : public QLabel {
    Q_OBJECT
  public:
    RunLabel(RunStore& runs, ViewState& state, QWidget* parent = nullptr);
    QSize minimumSizeHint() const override;
    QSize sizeHint() const override;

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    void follow();
    RunStore& runs_;
    ViewState& state_;
    bool warns_ = false;
};

} // namespace orrery
