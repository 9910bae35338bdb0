// The picture every textbook draws: a grid of devices with what each holds. Devices chosen here are those the timeline shows.
#pragma once

#include "gui/core/as_table.hpp"
#include "gui/core/run.hpp"
#include "gui/core/view_command.hpp"
#include "gui/placement/grid.hpp"

#include <QAbstractScrollArea>
#include <QWidget>

#include <set>

class QComboBox;
class QLabel;

namespace orrery {

class Legend;

QColor shade_colour(const Shade& shade, bool dark);

class PlacementPlot : public QAbstractScrollArea {
    Q_OBJECT
  public:
    explicit PlacementPlot(QWidget* parent = nullptr);
    void setPlacements(std::optional<Placements> placements);
    void setArrangement(Arrangement arrangement);
    void setShadeBy(ShadeBy by);
    void setSelected(const std::vector<std::int32_t>& ranks);
    const std::optional<Placements>& placements() const { return placements_; }
    QRectF cellRect(int rank) const;     // in the viewport
    std::vector<ViewCommand> commands(); // what its keys do

  Q_SIGNALS:
    void selected(const std::vector<std::int32_t>& ranks);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    bool viewportEvent(QEvent* event) override;

  private:
    QRectF shown(const QRectF& units) const;
    int rankAt(const QPointF& at) const;
    int groupAt(const QPointF& at) const;
    void arrange();
    void updateScroll();
    void paintCell(QPainter& painter, int rank) const;
    void tell();
    void moveFocus(const QPointF& way);
    void toggleFocused();

    std::optional<Placements> placements_;
    Arrangement arrangement_ = Arrangement::nodes;
    ShadeBy by_ = ShadeBy::stage;
    Grid grid_;
    double cell_ = 40, zoom_ = 1; // pixels of a cell; the user's factor on what fits
    std::set<std::int32_t> selected_;
    int focus_ = 0;
    QRectF rubber_;
};

class PlacementView : public QWidget, public AsTable, public HasCommands {
    Q_OBJECT
  public:
    PlacementView(RunStore& store, ViewState& state, QWidget* parent = nullptr);
    TextTable asTable() const override;
    std::vector<ViewCommand> commands() override;
    PlacementPlot& plot() { return *plot_; }

  private:
    void refresh();
    void showLegend();
    RunStore& store_;
    ViewState& state_;
    std::shared_ptr<const RunData> shown_;
    QComboBox* arrangement_;
    QComboBox* by_;
    QLabel* words_;
    PlacementPlot* plot_;
    Legend* legend_;
};

} // namespace orrery
