#include "gui/workers/course_plot.hpp"

#include "gui/core/axis.hpp"
#include "gui/core/categories.hpp"
#include "gui/core/queries.hpp"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>
#include <QToolTip>

#include <algorithm>
#include <cmath>

namespace orrery {

namespace {
constexpr double lowest_row = 3, highest_row = 34;
constexpr std::int64_t picoseconds(double s) { return static_cast<std::int64_t>(s * 1e12); }
} // namespace

CoursePlot::CoursePlot(QWidget* parent) : QAbstractScrollArea(parent) {
    setAccessibleName(tr("Workers over time"));
    setFocusPolicy(Qt::StrongFocus);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setMinimumHeight(100);
}

void CoursePlot::setCourse(std::shared_ptr<const WorkersCourse> course) {
    course_ = std::move(course);
    selected_ = -1;
    begin_s_ = 0;
    end_s_ = course_ && course_->length_s > 0 ? course_->length_s : 1;
    gutter_ = 40;
    if (course_)
        for (const QString& row : course_->rows) gutter_ = std::max(gutter_, fontMetrics().horizontalAdvance(row) + 14);
    setAccessibleDescription(course_ ? course_->words : QString());
    updateScroll();
    viewport()->update();
}

void CoursePlot::select(int span) {
    if (span == selected_) return;
    selected_ = span;
    if (span >= 0 && !empty()) {
        const CourseSpan& s = course_->spans[static_cast<std::size_t>(span)];
        const double length = end_s_ - begin_s_;
        if (s.end_s < begin_s_ || s.begin_s > end_s_) setRange(s.begin_s - length / 3, s.begin_s + length * 2 / 3);
        const double top = rowTop(s.row);
        if (top < plot().top() || top + heightOf(s.row) > plot().bottom())
            verticalScrollBar()->setValue(static_cast<int>(top + verticalScrollBar()->value() - plot().center().y()));
    }
    viewport()->update();
}

QRectF CoursePlot::plot() const {
    const double axis = fontMetrics().height() + 8;
    return {double(gutter_), 4, std::max(1.0, viewport()->width() - gutter_ - 10.0), std::max(1.0, viewport()->height() - axis - 4)};
}

double CoursePlot::rowHeight() const {
    return empty() ? highest_row : std::clamp(plot().height() / static_cast<double>(course_->rows.size()), lowest_row, highest_row);
}
double CoursePlot::heightOf(int row) const {
    return row == 0 && !empty() && course_->servers ? std::max(rowHeight(), fontMetrics().height() + 2.0) : rowHeight();
}
double CoursePlot::allRows() const { return empty() ? 0 : heightOf(0) + rowHeight() * static_cast<double>(course_->rows.size() - 1); }
double CoursePlot::rowTop(int row) const {
    return plot().top() + (row > 0 ? heightOf(0) + (row - 1) * rowHeight() : 0) - verticalScrollBar()->value();
}
double CoursePlot::xOf(double s) const { return plot().left() + (s - begin_s_) / (end_s_ - begin_s_) * plot().width(); }
double CoursePlot::timeOf(double x) const { return begin_s_ + (x - plot().left()) / plot().width() * (end_s_ - begin_s_); }

void CoursePlot::updateScroll() {
    verticalScrollBar()->setRange(0, std::max(0, static_cast<int>(std::ceil(allRows() - plot().height()))));
    verticalScrollBar()->setPageStep(static_cast<int>(plot().height()));
    verticalScrollBar()->setSingleStep(static_cast<int>(rowHeight()));
}

void CoursePlot::setRange(double begin, double end) {
    if (empty()) return;
    const double length = std::clamp(end - begin, course_->length_s * 1e-5, course_->length_s);
    begin_s_ = std::clamp(begin, 0.0, course_->length_s - length);
    end_s_ = begin_s_ + length;
    viewport()->update();
}

void CoursePlot::zoom(double factor, double x) {
    const double length = (end_s_ - begin_s_) / factor, share = std::clamp((x - plot().left()) / plot().width(), 0.0, 1.0);
    const double begin = begin_s_ + share * (end_s_ - begin_s_ - length);
    setRange(begin, begin + length);
}

QRectF CoursePlot::rectOf(int span) const {
    const CourseSpan& s = course_->spans[static_cast<std::size_t>(span)];
    const double high = heightOf(s.row), tall = high > 10 ? high - 2 : high - 0.5, top = rowTop(s.row);
    const double split = course_->beside ? tall * 0.6 : tall; // messages run below what they move beside
    return {xOf(s.begin_s), s.beside ? top + split : top, xOf(s.end_s) - xOf(s.begin_s), s.beside ? tall - split : split};
}

int CoursePlot::spanAt(const QPointF& at) const {
    if (empty() || !plot().contains(at)) return -1;
    for (std::size_t i = course_->spans.size(); i-- > 0;)
        if (rectOf(static_cast<int>(i)).contains(at)) return static_cast<int>(i);
    return -1;
}

void CoursePlot::paintEvent(QPaintEvent*) {
    QPainter p(viewport());
    p.fillRect(viewport()->rect(), palette().base());
    if (empty()) {
        p.setPen(palette().color(QPalette::PlaceholderText));
        p.drawText(viewport()->rect().adjusted(20, 20, -20, -20), Qt::AlignCenter | Qt::TextWordWrap, course_ ? course_->words : QString());
        return;
    }
    paintRows(p);
    paintAxis(p);
    if (hasFocus()) {
        p.setBrush(Qt::NoBrush);
        p.setPen(QPen(palette().color(QPalette::Highlight), 2));
        p.drawRect(viewport()->rect().adjusted(1, 1, -1, -1));
    }
}

// Spans cover their share of each pixel: antialiasing mixes those that meet inside one.
void CoursePlot::paintRows(QPainter& p) const {
    const QRectF r = plot();
    const bool dark = is_dark(palette());
    p.save();
    p.setClipRect(r);
    p.setRenderHint(QPainter::Antialiasing);
    for (std::size_t i = 0; i < course_->spans.size(); ++i) {
        const CourseSpan& s = course_->spans[i];
        if (s.end_s < begin_s_ || s.begin_s > end_s_) continue;
        const QRectF box = rectOf(static_cast<int>(i));
        if (box.bottom() < r.top() || box.top() > r.bottom()) continue;
        fill_course(p, box, s.doing, dark);
        const bool edge = box.width() > 6 && box.height() > 6;
        if (edge) {
            p.setPen(QPen(palette().color(QPalette::Base), 1));
            p.drawLine(box.topLeft(), box.bottomLeft());
        }
        if (s.doing != CourseDoing::update && s.doing != CourseDoing::compute) continue;
        if (box.height() < p.fontMetrics().height() - 2 || p.fontMetrics().horizontalAdvance(s.what) + 8 > box.width()) continue;
        p.setPen(dark || s.doing == CourseDoing::update ? Qt::black : Qt::white);
        p.drawText(box, Qt::AlignCenter, s.what);
    }
    p.setRenderHint(QPainter::Antialiasing, false);
    p.setPen(QPen(palette().color(QPalette::Text), 1, Qt::DashLine));
    for (double at : course_->marks)
        if (at > begin_s_ && at < end_s_) p.drawLine(QPointF(xOf(at), r.top()), QPointF(xOf(at), r.bottom()));
    if (selected_ >= 0) {
        p.setPen(QPen(palette().color(QPalette::Text), 2));
        p.setBrush(Qt::NoBrush);
        const QRectF box = rectOf(selected_);
        p.drawRect(box.adjusted(0, 1, std::max(0.0, 3 - box.width()), -1));
    }
    p.restore();
    const int every = std::max(1, static_cast<int>(std::ceil(p.fontMetrics().height() / rowHeight()))), head = course_->servers ? 1 : 0;
    p.save();
    p.setClipRect(QRectF(0, r.top(), gutter_, r.height()));
    p.setPen(palette().color(QPalette::Text));
    const auto label = [&](int row, double high, Qt::AlignmentFlag where) {
        p.drawText(QRectF(4, rowTop(row), gutter_ - 10, high), Qt::AlignLeft | where, course_->rows[static_cast<std::size_t>(row)]);
    };
    if (head > 0) label(0, heightOf(0), Qt::AlignVCenter);
    for (int row = head; row < static_cast<int>(course_->rows.size()); row += every)
        label(row, rowHeight() * every, every > 1 ? Qt::AlignTop : Qt::AlignVCenter);
    p.restore();
}

void CoursePlot::paintAxis(QPainter& p) const {
    const QRectF r = plot();
    const std::int64_t begin = picoseconds(begin_s_), end = picoseconds(end_s_);
    const std::int64_t apart = round_step_ps(static_cast<double>(end - begin) / std::max(2.0, r.width() / 140));
    p.setPen(palette().color(QPalette::Text));
    for (std::int64_t t = first_mark(begin, apart); t <= end; t += apart) {
        const double x = xOf(static_cast<double>(t) * 1e-12), left = std::clamp(x - 35, 0.0, std::max(0.0, viewport()->width() - 70.0));
        p.drawLine(QPointF(x, r.bottom() + 1), QPointF(x, r.bottom() + 4));
        p.drawText(QRectF(left, r.bottom() + 4, 70, 20), (left < x - 35 ? Qt::AlignRight : Qt::AlignHCenter) | Qt::AlignTop,
                   time_text(t, apart));
    }
}

std::vector<ViewCommand> CoursePlot::commands() {
    const auto zoomed = [this](double factor) { zoom(factor, plot().center().x()); };
    const auto moved = [this](double share) {
        const double by = (end_s_ - begin_s_) * share;
        setRange(begin_s_ + by, end_s_ + by);
    };
    return {{QStringLiteral("zoom_in"), tr("Zoom in"), tr("Zooms in the middle"), {Qt::Key_W}, {}, [zoomed] { zoomed(1.5); }},
            {QStringLiteral("zoom_out"), tr("Zoom out"), tr("Zooms in the middle"), {Qt::Key_S}, {}, [zoomed] { zoomed(1 / 1.5); }},
            {QStringLiteral("wheel"), tr("Zoom at the pointer"), {}, {}, tr("Ctrl+wheel"), {}},
            {QStringLiteral("earlier"),
             tr("Earlier"),
             tr("Moves a fifth of the time shown to the left"),
             {Qt::Key_A},
             {},
             [moved] { moved(-0.2); }},
            {QStringLiteral("later"),
             tr("Later"),
             tr("Moves a fifth of the time shown to the right"),
             {Qt::Key_D},
             {},
             [moved] { moved(0.2); }},
            {QStringLiteral("whole"), tr("All of it"), tr("Zooms out as far as the rows go"), {Qt::Key_Home}, {}, [this] {
                 if (!empty()) setRange(0, course_->length_s);
             }}};
}

void CoursePlot::keyPressEvent(QKeyEvent* e) {
    if (empty() || !run_key(commands(), *e)) QAbstractScrollArea::keyPressEvent(e);
}

void CoursePlot::mousePressEvent(QMouseEvent* e) {
    const int span = spanAt(e->position());
    select(span);
    if (span >= 0) Q_EMIT spanChosen(span);
}

void CoursePlot::wheelEvent(QWheelEvent* e) {
    if (empty() || !(e->modifiers() & Qt::ControlModifier)) return QAbstractScrollArea::wheelEvent(e);
    zoom(std::pow(1.0015, e->angleDelta().y()), e->position().x());
    e->accept();
}

bool CoursePlot::viewportEvent(QEvent* e) {
    if (e->type() != QEvent::ToolTip) return QAbstractScrollArea::viewportEvent(e);
    const auto* help = static_cast<QHelpEvent*>(e);
    const int span = spanAt(help->pos());
    if (span < 0) return QToolTip::hideText(), true;
    const CourseSpan& s = course_->spans[static_cast<std::size_t>(span)];
    QString text = course_->rows[static_cast<std::size_t>(s.row)] + QStringLiteral(": ") + s.what;
    if (!s.detail.isEmpty()) text += QLatin1Char('\n') + s.detail;
    text += QLatin1Char('\n') +
            tr("begins at %1, takes %2").arg(duration_text(picoseconds(s.begin_s)), duration_text(picoseconds(s.end_s - s.begin_s)));
    QToolTip::showText(help->globalPos(), text, viewport());
    return true;
}

void CoursePlot::resizeEvent(QResizeEvent*) { updateScroll(); }
void CoursePlot::scrollContentsBy(int, int) { viewport()->update(); }
void CoursePlot::focusInEvent(QFocusEvent*) { viewport()->update(); }
void CoursePlot::focusOutEvent(QFocusEvent*) { viewport()->update(); }

} // namespace orrery
