// The timeline of one run: its rows over time. The rows' picture is kept and only made anew when what it shows changes; what moves with
// the mouse is drawn over it. Its keys are those of commands() and work while it has the focus.
#pragma once

#include "gui/core/frame.hpp"
#include "gui/core/queries.hpp"
#include "gui/core/run.hpp"
#include "gui/core/view_command.hpp"

#include <QAbstractScrollArea>

#include <memory>
#include <optional>
#include <vector>

class QTimer;

namespace orrery {

struct Marker {
    std::int64_t at = 0;
    QString note;
};

// The step, with what ran for it before its begin and after its end; not what was only posted before it.
TimeRange whole_of(const TrackStore& store);

class Timeline : public QAbstractScrollArea {
    Q_OBJECT
  public:
    explicit Timeline(QWidget* parent = nullptr);
    ~Timeline() override;

    void setRun(RunId id, std::shared_ptr<const RunData> data); // data without a trace: shows `hint`
    void setHint(const QString& hint);
    RunId run() const { return run_; }
    const std::vector<ViewCommand>& commands() const { return commands_; } // what its keys do
    const RunData* data() const { return data_.get(); }
    const TrackStore* store() const { return data_ ? data_->tracks.get() : nullptr; }

    void setRange(TimeRange range); // kept inside the trace, and not narrower than a pixel a picosecond
    TimeRange range() const { return range_; }
    TimeRange whole() const;                         // of the trace, or the limits
    void setLimits(std::optional<TimeRange> limits); // how far one can go, where that is not the trace
    void setRowOptions(RowOptions options);
    const RowOptions& rowOptions() const { return options_; }
    const std::vector<Row>& rows() const { return rows_; }
    int currentRow() const { return currentRow_; }
    void setCurrentRow(int row);
    QString rowText(int row) const;   // a row in words, for those who cannot see it
    QRect rowRect(int row) const;     // of the viewport
    int widthOfLabels() const;        // what the rows' labels need
    void setLabelsAtLeast(int width); // so that timelines above each other begin at one place

    void select(SpanRef ref, bool reveal); // an invalid one: nothing
    SpanRef selected() const { return selected_; }
    const std::vector<Arrow>& arrows() const { return arrows_; }
    void setMicrobatch(std::int32_t microbatch);
    void setCursorTime(std::int64_t ps);              // -1: none
    void setCriticalPath(std::vector<PathStep> path); // shown where it is not empty
    const std::vector<PathStep>& criticalPath() const { return path_; }
    void setMarkers(std::vector<Marker> markers);
    std::optional<TimeRange> area() const { return area_; }
    std::vector<std::int32_t> areaTracks() const;
    void showArea(TimeRange area); // over all rows; says nothing
    void clearArea();

    // The commands of keys.
    void zoom(double factor, double anchor_x); // the time under anchor_x (of the viewport) stays there
    void pan(double share);                    // of the width shown
    void fit();                                // the selection, the area, or all
    void back();
    void forward();
    void step(int delta);       // to the next or previous slice of the row
    void follow(bool outgoing); // along the selection's arrows
    void toggleRow(int row);
    void foldLanes(bool folded); // the queues of all ranks
    void togglePin(int row);
    void moveRow(int delta);

    double xOf(std::int64_t ps) const; // of the viewport
    std::int64_t timeOf(double x) const;
    QSize sizeHint() const override { return {900, 500}; }
    QSize minimumSizeHint() const override { return {160, ruler_ + 2 * rowHeight_}; }

  Q_SIGNALS:
    void rangeChanged(orrery::TimeRange range);
    void sliceSelected(orrery::SliceId slice);
    void cursorMoved(std::int64_t ps);
    void areaChanged();
    void microbatchAsked(std::int32_t microbatch);
    void rowOptionsChanged();
    void searchAsked();
    void markerAsked(std::int64_t ps);
    void markerRemovalAsked(std::int64_t ps);
    void criticalPathAsked();

  protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;
    void leaveEvent(QEvent* event) override;
    void changeEvent(QEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;
    bool viewportEvent(QEvent* event) override;
    void scrollContentsBy(int dx, int dy) override;

  private:
    struct Frame; // the kept picture and what it was made for
    void rebuildRows();
    void updateGeometryOfRows();
    void showFrame(QPainter& p);
    void paintGutter(QPainter& p, const QRect& dirty);
    void paintRuler(QPainter& p);
    void paintOverlays(QPainter& p);
    void paintSelection(QPainter& p);
    void paintArrows(QPainter& p);
    void paintPath(QPainter& p);
    void paintArea(QPainter& p);
    void paintCursor(QPainter& p);
    void paintHint(QPainter& p);
    int rowAt(int y) const;
    int rowOfTrack(std::int32_t track) const; // the row that shows it, folded or not; -1: none
    std::optional<SpanRef> spanAt(const QPoint& pos) const;
    QRectF rectOf(SpanRef ref) const; // empty where no row shows it
    void goTo(TimeRange range);       // and remember where we were
    void updateColumn(std::int64_t ps);
    void makeCommands();
    void addTimeCommands();
    void addSliceCommands();
    void addRowCommands();
    void zoomAtCursor(double factor);
    void clearAll();
    void chooseRow(int row);
    void fold(bool folded); // the current row
    int pinnedRows() const;
    int plotWidth() const;
    bool dark() const;

    std::vector<ViewCommand> commands_;
    RunId run_ = 0;
    std::shared_ptr<const RunData> data_;
    QString hint_;
    RowOptions options_;
    std::vector<Row> rows_;
    std::vector<std::int32_t> rowOfTrack_;
    TimeRange range_;
    std::optional<TimeRange> limits_;
    std::vector<TimeRange> past_, future_;
    qint64 lastMove_ = 0; // quick moves are remembered as one
    int leastGutter_ = 0, gutter_ = 180, ruler_ = 24, rowHeight_ = 16, currentRow_ = 0;
    SpanRef selected_;
    std::vector<Arrow> arrows_;
    std::vector<PathStep> path_;
    std::vector<Marker> markers_;
    std::int32_t microbatch_ = -1;
    std::int64_t cursor_ = -1;
    std::optional<TimeRange> area_;
    int areaTop_ = 0, areaBottom_ = -1; // rows
    enum class Drag { none, click, area, pan, ruler } drag_ = Drag::none;
    QPoint pressed_;
    TimeRange pressedRange_;
    std::unique_ptr<Frame> frame_;
    QTimer* refine_ = nullptr; // after quick moves at a coarser resolution, the full one
};

} // namespace orrery
