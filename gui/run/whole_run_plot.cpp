#include "gui/run/whole_run_plot.hpp"

#include "gui/run/lost_time_model.hpp"

#include <QHelpEvent>
#include <QLocale>
#include <QPainter>
#include <QPainterPath>
#include <QToolTip>

#include <algorithm>
#include <array>
#include <cmath>

namespace orrery {
namespace {

constexpr double day = 86400, month = 30 * day;
constexpr int most_rows = 24; // months drawn; a longer run's rows are longer
constexpr double label_width = 96, line = 16;

bool dark(const QWidget& w) { return w.palette().color(QPalette::Base).lightness() < 128; }

// A restart is what was lost to recover, an evaluation is its own; training that is slower counts as slower steps.
int kind_of(const JobSpan& s) {
    if (s.what == "training") return -1;
    if (s.what == "evaluation") return static_cast<int>(LostTime::evaluation);
    return static_cast<int>(s.what.starts_with("training") ? LostTime::slower : LostTime::recovery);
}

// Lowest value of a goodput axis: round, and below all.
double floor_of(double least) { return std::max(0.0, std::floor(least * 20 - 1e-9) / 20); }

} // namespace

WholeRunPlot::WholeRunPlot(QWidget* parent) : QWidget(parent) {
    setAccessibleName(tr("The run's months, goodput over time and the curve of intervals"));
    setMouseTracking(true);
}

void WholeRunPlot::setReport(std::shared_ptr<const WholeRunReport> report) {
    report_ = std::move(report);
    update();
}

int WholeRunPlot::months() const {
    if (!report_ || report_->example.timeline.empty()) return 0;
    return std::clamp(static_cast<int>(std::ceil(report_->example.wall_s / month - 1e-9)), 1, most_rows);
}

QRectF WholeRunPlot::monthRow(int i) const {
    const double room = height() * 0.45 - line - 4, each = std::min(26.0, room / std::max(1, months()));
    return {label_width, line + 4 + i * each, std::max(1.0, width() - label_width - 8), std::max(2.0, each - 3)};
}

int WholeRunPlot::spanAt(const QPointF& at) const {
    const int rows = months();
    const double length = rows > 0 ? std::max(month, report_->example.wall_s / rows) : month;
    for (int i = 0; i < rows; ++i) {
        const QRectF row = monthRow(i);
        if (!row.contains(at)) continue;
        const double t = (i + (at.x() - row.left()) / row.width()) * length;
        const auto& spans = report_->example.timeline;
        for (std::size_t k = 0; k < spans.size(); ++k)
            if (spans[k].begin_s <= t && t < spans[k].end_s) return static_cast<int>(k);
    }
    return -1;
}

// Each pixel column shows its kinds in their true share, as a timeline's rows do.
void WholeRunPlot::paintMonths(QPainter& painter) const {
    const auto& spans = report_->example.timeline;
    const int rows = months();
    const double length = rows > 0 ? std::max(month, report_->example.wall_s / rows) : month;
    painter.setPen(palette().color(QPalette::Text));
    painter.drawText(QRectF(4, 0, width() - 8, line), Qt::AlignLeft | Qt::AlignVCenter, tr("Timeline of the first simulated run"));
    std::size_t next = 0;
    for (int i = 0; i < rows; ++i) {
        const QRectF row = monthRow(i);
        painter.setPen(palette().color(QPalette::Text));
        painter.drawText(QRectF(4, row.top(), label_width - 8, row.height()), Qt::AlignLeft | Qt::AlignVCenter,
                         tr("from day %1").arg(i * length / day, 0, 'f', 0));
        const int columns = std::max(1, static_cast<int>(row.width()));
        for (int c = 0; c < columns; ++c) {
            const double from = (i + static_cast<double>(c) / columns) * length, to = from + length / columns;
            while (next < spans.size() && spans[next].end_s <= from) ++next;
            std::array<double, lost_times + 1> inside{};
            for (std::size_t k = next; k < spans.size() && spans[k].begin_s < to; ++k)
                inside[kind_of(spans[k]) + 1] += std::max(0.0, std::min(to, spans[k].end_s) - std::max(from, spans[k].begin_s));
            double top = row.bottom();
            for (std::size_t k = 0; k < inside.size(); ++k) {
                const double tall = inside[k] / (to - from) * row.height();
                top -= tall;
                if (tall > 0) painter.fillRect(QRectF(row.left() + c, top, 1, tall), share_colour(static_cast<int>(k) - 1, dark(*this)));
            }
        }
    }
}

// Over a box; what has no room ends in dots.
void WholeRunPlot::paintTitle(QPainter& painter, const QRectF& box, const QString& title) const {
    const QRectF room(box.left() - label_width + 8, box.top() - line, box.width() + label_width - 8, line);
    painter.drawText(room, Qt::AlignLeft, fontMetrics().elidedText(title, Qt::ElideRight, static_cast<int>(room.width())));
}

void WholeRunPlot::paintBand(QPainter& painter, const QRectF& box) const {
    const auto& points = report_->progress;
    painter.setPen(palette().color(QPalette::Text));
    paintTitle(painter, box, tr("Goodput so far: median, and p10 to p90 of the seeds"));
    if (points.empty()) return;
    double least = 1;
    for (const ProgressPoint& p : points) least = std::min(least, p.goodput.p10);
    least = floor_of(least);
    const auto at = [&](double t, double g) {
        return QPointF(box.left() + t / points.back().at_s * box.width(), box.bottom() - (g - least) / (1 - least) * box.height());
    };
    QPainterPath area(at(points.front().at_s, points.front().goodput.p10)), middle(at(points.front().at_s, points.front().goodput.p50));
    for (const ProgressPoint& p : points) area.lineTo(at(p.at_s, p.goodput.p10)), middle.lineTo(at(p.at_s, p.goodput.p50));
    for (auto p = points.rbegin(); p != points.rend(); ++p) area.lineTo(at(p->at_s, p->goodput.p90));
    const QColor ink = share_colour(-1, dark(*this));
    QColor pale = ink;
    pale.setAlpha(70);
    painter.fillPath(area, pale);
    painter.setPen(QPen(ink, 2));
    painter.drawPath(middle);
    painter.setPen(palette().color(QPalette::PlaceholderText));
    painter.drawRect(box);
    painter.setPen(palette().color(QPalette::Text));
    painter.drawText(QRectF(box.left() - 64, box.top(), 60, line), Qt::AlignRight, tr("100 %"));
    painter.drawText(QRectF(box.left() - 64, box.bottom() - line, 60, line), Qt::AlignRight, tr("%1 %").arg(least * 100, 0, 'f', 0));
    painter.drawText(QRectF(box.left(), box.bottom(), box.width(), line), Qt::AlignRight, days_words(points.back().at_s));
}

void WholeRunPlot::paintCurve(QPainter& painter, const QRectF& box) const {
    painter.setPen(palette().color(QPalette::Text));
    paintTitle(painter, box, tr("Goodput by the interval between saves"));
    const auto& curve = report_->curve;
    if (curve.size() < 2) return;
    double least = 1;
    for (const IntervalPoint& p : curve) least = std::min(least, p.goodput);
    least = floor_of(least);
    const double low = std::log(static_cast<double>(curve.front().steps)), high = std::log(static_cast<double>(curve.back().steps));
    const auto x = [&](double steps) {
        return box.left() + (std::log(std::max(1.0, steps)) - low) / std::max(1e-9, high - low) * box.width();
    };
    const auto at = [&](const IntervalPoint& p) {
        return QPointF(x(static_cast<double>(p.steps)), box.bottom() - (p.goodput - least) / (1 - least) * box.height());
    };
    const auto mark = [&](double seconds, const QString& word, Qt::PenStyle style, double down) {
        const double here = x(seconds / report_->step_s);
        if (seconds <= 0 || here < box.left() || here > box.right()) return;
        painter.setPen(QPen(palette().color(QPalette::Text), 1, style));
        painter.drawLine(QPointF(here, box.top()), QPointF(here, box.bottom()));
        const bool left = here > box.center().x();
        painter.drawText(QRectF(left ? here - 104 : here + 4, box.bottom() - down * line, 100, line), left ? Qt::AlignRight : Qt::AlignLeft,
                         word);
    };
    QPainterPath path(at(curve.front()));
    for (const IntervalPoint& p : curve) path.lineTo(at(p));
    painter.setPen(QPen(share_colour(static_cast<int>(LostTime::save), dark(*this)), 2));
    painter.drawPath(path);
    mark(static_cast<double>(report_->save_every) * report_->step_s, tr("this run"), Qt::SolidLine, 1);
    mark(report_->young_s, tr("Young"), Qt::DashLine, 2);
    mark(report_->daly_s, tr("Daly"), Qt::DotLine, 3);
    painter.setPen(palette().color(QPalette::PlaceholderText));
    painter.drawRect(box);
    painter.setPen(palette().color(QPalette::Text));
    painter.drawText(QRectF(box.left() - 64, box.top(), 60, line), Qt::AlignRight, tr("100 %"));
    painter.drawText(QRectF(box.left() - 64, box.bottom() - line, 60, line), Qt::AlignRight, tr("%1 %").arg(least * 100, 0, 'f', 0));
    painter.drawText(QRectF(box.left(), box.bottom(), 120, line), Qt::AlignLeft,
                     days_words(static_cast<double>(curve.front().steps) * report_->step_s));
    painter.drawText(QRectF(box.right() - 120, box.bottom(), 120, line), Qt::AlignRight,
                     days_words(static_cast<double>(curve.back().steps) * report_->step_s));
}

void WholeRunPlot::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    painter.fillRect(rect(), palette().color(QPalette::Base));
    if (!report_) return;
    painter.setRenderHint(QPainter::Antialiasing);
    paintMonths(painter);
    const double top = height() * 0.45 + 2 * line, tall = std::max(20.0, height() - top - line - 6), half = width() / 2.0;
    paintBand(painter, {label_width, top, std::max(20.0, half - label_width - 12), tall});
    paintCurve(painter, {half + label_width, top, std::max(20.0, half - label_width - 12), tall});
}

bool WholeRunPlot::event(QEvent* event) {
    if (event->type() != QEvent::ToolTip) return QWidget::event(event);
    const auto* help = static_cast<QHelpEvent*>(event);
    const int i = spanAt(help->pos());
    if (i < 0) return QToolTip::hideText(), true;
    const JobSpan& s = report_->example.timeline[i];
    const std::string more = detail_words(s);
    const QString detail = more.empty() ? QString() : QStringLiteral(": ") + QString::fromStdString(more);
    QToolTip::showText(help->globalPos(),
                       tr("%1%2\nday %3, for %4")
                           .arg(QString::fromStdString(s.what), detail)
                           .arg(QLocale().toString(s.begin_s / day, 'f', 2))
                           .arg(days_words(s.end_s - s.begin_s)),
                       this);
    return true;
}

} // namespace orrery
