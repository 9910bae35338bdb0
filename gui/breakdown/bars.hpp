// Stacked bars of where a step's time goes: a bar a strategy, a stage or a rank. Own painting; the table of strategies is its twin
// in text, and each bar's tooltip and accessible description say the same.
#pragma once

#include "gui/core/as_table.hpp"
#include "gui/core/figures.hpp"
#include "gui/core/run.hpp"
#include "gui/core/view_command.hpp"

#include <QAbstractScrollArea>
#include <QWidget>

#include <vector>

class QComboBox;

namespace orrery {

class Legend;
class RunLabel;

struct Bar {
    RunId run = 0;
    std::int32_t rank = -1; // the first of those it stands for; -1: no rank's
    QString name;
    Breakdown seconds{};
};

enum class BarsOf { strategies, stages, ranks };
// strategies: the brushed runs, or all where fewer than two are. stages: means over a stage's ranks. ranks: a bar a lane.
std::vector<Bar> bars(const RunStore& store, const ViewState& state, BarsOf of);

class BarsPlot : public QAbstractScrollArea {
    Q_OBJECT
  public:
    explicit BarsPlot(QWidget* parent = nullptr);
    void setBars(std::vector<Bar> bars);
    const std::vector<Bar>& bars() const { return bars_; }
    int current() const { return current_; } // -1: none
    void setCurrent(int bar);
    std::vector<ViewCommand> commands(); // what its keys do
    QRect barRect(int bar) const;        // in the viewport

  Q_SIGNALS:
    void chosen(int bar);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    bool viewportEvent(QEvent* event) override;

  private:
    int rowHeight() const;
    int nameWidth() const;
    int barAt(const QPoint& at) const;
    double longest() const;
    void paintAxis(QPainter& painter) const;
    void updateScroll();

    std::vector<Bar> bars_;
    int current_ = -1;
};

class BreakdownView : public QWidget, public AsTable, public HasCommands {
    Q_OBJECT
  public:
    BreakdownView(RunStore& store, ViewState& state, QWidget* parent = nullptr);
    TextTable asTable() const override;
    std::vector<ViewCommand> commands() override;
    BarsPlot& plot() { return *plot_; }
    void setKind(BarsOf of);

  private:
    void refresh();
    RunStore& store_;
    ViewState& state_;
    QComboBox* of_;
    BarsPlot* plot_;
    RunLabel* run_;
    Legend* legend_;
};

} // namespace orrery
