// The meaning of colours and patterns: swatches with words, in as many lines as it takes.
#pragma once

#include "gui/core/tracks.hpp"
#include "sim/engine/simulate.hpp"

#include <QWidget>

#include <functional>
#include <vector>

namespace orrery {

class Legend : public QWidget {
    Q_OBJECT
  public:
    struct Entry {
        QString text;
        std::function<void(QPainter&, const QRect&, const QPalette&)> paint;
    };
    explicit Legend(QWidget* parent = nullptr);
    void setEntries(std::vector<Entry> entries);
    const std::vector<Entry>& entries() const { return entries_; }
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {60, lineHeight()}; }
    bool hasHeightForWidth() const override { return true; }
    int heightForWidth(int width) const override; // as many lines as it takes

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    int lineHeight() const;
    std::vector<QRect> places(int width) const; // of each entry, its text included
    std::vector<Entry> entries_;
};

// The kinds of slices that occur in any of the runs; a null store has none.
std::vector<Legend::Entry> legend_of_slices(const std::vector<const TrackStore*>& stores);
std::vector<Legend::Entry> legend_of_categories(const std::vector<Category>& categories);

} // namespace orrery
