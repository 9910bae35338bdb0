#include "gui/core/frame.hpp"

#include "gui/core/parallel.hpp"
#include "gui/core/queries.hpp"
#include "topology/at.hpp"

#include <QFontMetricsF>
#include <QHash>
#include <QPainter>
#include <QStaticText>

#include <algorithm>
#include <cmath>

namespace orrery {

namespace {

constexpr double narrowest_label = 14, narrowest_name = 46, narrowest_edge = 5;

// Times to logical pixels of the picture.
struct Scale {
    double begin, factor;
    double x(std::int64_t t) const { return (static_cast<double>(t) - begin) * factor; }
};

// All slices and stretches of other microbatches behind a veil of background.
void veil(QPainter& p, const Track& t, const FrameRequest& r, const Scale& scale, int y) {
    QColor pale = r.background;
    pale.setAlpha(200);
    const auto visible = [&](const Stretch& s) { return s.end <= r.range.begin; };
    auto s = std::partition_point(t.stretches.begin(), t.stretches.end(), visible);
    double from = 0;
    for (; s != t.stretches.end() && s->begin < r.range.end; ++s) {
        if (s->microbatch != r.microbatch) continue;
        const double x = std::max(from, scale.x(s->begin));
        p.fillRect(QRectF(from, y, x - from, r.row_height), pale);
        from = std::max(from, scale.x(s->end));
    }
    if (from < r.width) p.fillRect(QRectF(from, y, r.width - from, r.row_height), pale);
}

// Texts laid out once a picture: the same few stand on hundreds of slices.
class Labels {
  public:
    explicit Labels(const QFont& font) : font_(font), metrics_(font) {}
    double width(const QString& text) { return of(text).size().width(); }

    void draw(QPainter& p, const QString& text, double left, double right, int y, int height, const QColor& ink) {
        const QStaticText& laid = of(text);
        const double room = right - left - 2;
        p.setPen(ink);
        if (laid.size().width() <= room)
            return p.drawStaticText(QPointF((left + right - laid.size().width()) / 2, y + (height - laid.size().height()) / 2), laid);
        const QString cut = metrics_.elidedText(text, Qt::ElideRight, room);
        if (cut.size() > 2) p.drawText(QRectF(left + 1, y, room, height), Qt::AlignCenter | Qt::TextSingleLine, cut);
    }

  private:
    const QStaticText& of(const QString& text) {
        auto known = laid_.find(text);
        if (known == laid_.end()) {
            known = laid_.insert(text, QStaticText(text));
            known->setTextFormat(Qt::PlainText);
            known->prepare({}, font_);
        }
        return *known;
    }

    QFont font_;
    QFontMetricsF metrics_;
    QHash<QString, QStaticText> laid_;
};

// How much of a stretch its track was busy: what a label stands on.
double covered(const TrackStore& store, const Track& t, const Stretch& s) {
    const KindTimes before = busy_before(store, t, s.begin), after = busy_before(store, t, s.end);
    std::int64_t busy = 0;
    for (int k = 0; k < slice_kind_count; ++k)
        if (!is_waiting(static_cast<SliceKind>(k))) busy += after[at(k)] - before[at(k)];
    return static_cast<double>(busy) / static_cast<double>(std::max<std::int64_t>(1, s.end - s.begin));
}

// F, B and W with the number of the microbatch, on what is wide enough.
void label_stretches(QPainter& p, Labels& labels, const TrackStore& store, const Track& t, const FrameRequest& r, const Scale& scale,
                     int y) {
    const auto visible = [&](const Stretch& s) { return s.end <= r.range.begin; };
    const auto first = std::partition_point(t.stretches.begin(), t.stretches.end(), visible);
    const auto last = std::partition_point(first, t.stretches.end(), [&](const Stretch& s) { return s.begin < r.range.end; });
    if (static_cast<double>(last - first) * narrowest_edge > r.width * 2.0) return;
    for (auto s = first; s != last; ++s) {
        const double left = std::max(0.0, scale.x(s->begin)), right = std::min<double>(r.width, scale.x(s->end));
        if (right - left < narrowest_edge) continue;
        p.fillRect(QRectF(scale.x(s->begin), y, 1, r.row_height), r.lines);
        if (right - left < narrowest_label) continue;
        const char* letter = s->kind == SliceKind::forward           ? "F"
                             : s->kind == SliceKind::backward_input  ? "B"
                             : s->kind == SliceKind::backward_weight ? "W"
                             : s->kind == SliceKind::recompute       ? "R"
                                                                     : "";
        QColor ink = ink_on(r.background);
        if (r.microbatch >= 0 && s->microbatch != r.microbatch)
            ink.setAlpha(110);
        else if (covered(store, t, *s) > 0.6)
            ink = ink_on(colour(s->kind, r.dark));
        QString text = QString::number(s->microbatch);
        if (labels.width(text) + 12 < right - left) text.prepend(letter);
        labels.draw(p, text, left, right, y, r.row_height, ink);
    }
}

// Names, where slices are wide. False: they are not.
bool label_slices(QPainter& p, Labels& labels, const TrackStore& store, const Track& t, const FrameRequest& r, const Scale& scale, int y) {
    const std::int32_t from = std::max(0, last_begun(store, t, r.range.begin)), to = last_begun(store, t, r.range.end - 1);
    if (to < from || (to - from + 1) * narrowest_edge > r.width) return false;
    bool named = false;
    for (std::int32_t i = from; i <= to; ++i) {
        const Span& s = slice(store, t, i);
        const double left = std::max(0.0, scale.x(s.begin.ps)), right = std::min<double>(r.width, scale.x(s.end.ps));
        if (right - left < narrowest_edge) continue;
        p.fillRect(QRectF(scale.x(s.begin.ps), y, 1, r.row_height), r.lines);
        if (right - left < narrowest_name) continue;
        const SliceKind k = kind_of(s, store.op_kinds);
        QString text = title(*store.trace, s);
        if (s.microbatch >= 0) text += QString("  %1").arg(s.microbatch);
        // On a pattern a plate keeps the words readable.
        if (pattern(k) != Pattern::solid) {
            const double wide = std::min(right - left - 4, labels.width(text) + 6);
            p.fillRect(QRectF((left + right - wide) / 2, y + 1, wide, r.row_height - 2), r.background);
            labels.draw(p, text, left, right, y, r.row_height, ink_on(r.background));
        } else {
            labels.draw(p, text, left, right, y, r.row_height, ink_on(colour(k, r.dark)));
        }
        named = true;
    }
    return named;
}

} // namespace

// WCAG's relative luminance; where it is above 0.179 black has the higher contrast.
QColor ink_on(const QColor& c) {
    const auto linear = [](double v) { return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4); };
    const double light = 0.2126 * linear(c.redF()) + 0.7152 * linear(c.greenF()) + 0.0722 * linear(c.blueF());
    return light > 0.179 ? QColor(Qt::black) : QColor(Qt::white);
}

namespace {

// The edges of a row in device pixels, so that rows neither touch nor drift apart at a ratio like 1.25; top >= bottom: nothing of it is
// seen.
struct Band {
    int top, bottom;
};
Band band(const FrameRequest& r, const FrameRow& place, int height) {
    return {std::max(0, static_cast<int>(std::lround((place.y + 1) * r.ratio))),
            std::min(height, static_cast<int>(std::lround((place.y + r.row_height) * r.ratio)))};
}

// The area that no row paints over.
void clear_between(QImage& image, const std::vector<Row>& rows, const FrameRequest& r) {
    std::vector<bool> painted(at(image.height()));
    for (const FrameRow& place : r.rows) {
        const Band b = band(r, place, image.height());
        for (int y = b.top; y < b.bottom && !rows[at(place.row)].tracks.empty(); ++y) painted[at(y)] = true;
    }
    for (int y = 0; y < image.height(); ++y)
        if (!painted[at(y)]) std::fill_n(reinterpret_cast<QRgb*>(image.scanLine(y)), image.width(), r.background.rgb());
}

} // namespace

QImage render_rows(const TrackStore& store, const std::vector<Row>& rows, const FrameRequest& r) {
    QImage image;
    render_rows(store, rows, r, image);
    return image;
}

void render_rows(const TrackStore& store, const std::vector<Row>& rows, const FrameRequest& r, QImage& image) {
    const int width = std::max(1, static_cast<int>(std::ceil(r.width * r.ratio))),
              height = std::max(1, static_cast<int>(std::ceil(r.height * r.ratio)));
    if (image.size() != QSize(width, height) || image.format() != QImage::Format_RGB32) image = QImage(width, height, QImage::Format_RGB32);
    image.bits(); // detached here, not by every thread
    image.setDevicePixelRatio(r.ratio);
    if (r.range.length() <= 0) return image.fill(r.background);
    clear_between(image, rows, r);
    const Tiles look = tiles(r.dark, r.background.rgb(), std::max(1, static_cast<int>(r.ratio)));
    const Columns columns{r.range.begin, r.range.end, width};
    parallel_for_with<ColumnTimes>(r.rows.size(), [&](std::size_t i, ColumnTimes& times) {
        const Row& row = rows[at(r.rows[i].row)];
        const Band b = band(r, r.rows[i], height);
        if (row.tracks.empty() || b.bottom <= b.top) return;
        column_times(store, row.tracks, columns, times);
        paint(image, {0, b.top, b.bottom - b.top}, times, columns, look);
    });
    QPainter p(&image);
    p.setFont(r.font);
    Labels labels(r.font);
    const Scale scale{static_cast<double>(r.range.begin), r.width / static_cast<double>(r.range.length())};
    for (const FrameRow& place : r.rows) {
        const Row& row = rows[at(place.row)];
        if (r.microbatch >= 0) {
            static const Track folded; // of several ranks: they cannot be told apart here
            veil(p, row.tracks.size() == 1 ? store.tracks[at(row.tracks[0])] : folded, r, scale, place.y);
        }
        if (row.tracks.size() != 1) continue;
        const Track& track = store.tracks[at(row.tracks[0])];
        if (!label_slices(p, labels, store, track, r, scale, place.y)) label_stretches(p, labels, store, track, r, scale, place.y);
    }
}

} // namespace orrery
