#include "gui/topology/cluster_plot.hpp"

#include "gui/core/figures.hpp"

#include <QHelpEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace orrery {
namespace {

constexpr double apart = 3; // the two directions of a link, in pixels
constexpr int arc_pieces = 16;
constexpr int scale_width = 170, apart_names = 8;

double away(const QLineF& line, const QPointF& at) {
    const QPointF d = line.p2() - line.p1();
    const double length = QPointF::dotProduct(d, d);
    const double t = length > 0 ? std::clamp(QPointF::dotProduct(at - line.p1(), d) / length, 0.0, 1.0) : 0;
    return QLineF(line.pointAt(t), at).length();
}

double away(const QPolygonF& along, const QPointF& at) {
    double least = std::numeric_limits<double>::infinity();
    for (qsizetype i = 0; i + 1 < along.size(); ++i) least = std::min(least, away(QLineF(along[i], along[i + 1]), at));
    return least;
}

QColor mixed(const QColor& a, const QColor& b, double t) {
    const auto part = [t](int x, int y) { return static_cast<int>(x + (y - x) * t); };
    return {part(a.red(), b.red()), part(a.green(), b.green()), part(a.blue(), b.blue())};
}

} // namespace

QColor use_colour(double share, bool dark) {
    const double t = std::clamp(share, 0.0, 1.0);
    if (t < 0.001) return dark ? QColor(60, 66, 74) : QColor(208, 212, 217);
    static const QColor blue(86, 160, 215), yellow(235, 190, 20), red(200, 50, 20);
    return t < 0.5 ? mixed(blue, yellow, 2 * t) : mixed(yellow, red, 2 * t - 1);
}

ClusterPlot::ClusterPlot(QWidget* parent) : QWidget(parent) {
    setMouseTracking(true);
    setMinimumHeight(160);
    setAccessibleName(tr("Cluster with the use of its links; the table beside it holds the same figures"));
}

void ClusterPlot::setPicture(std::optional<ClusterPicture> picture) {
    picture_ = std::move(picture);
    update();
}

void ClusterPlot::setUse(std::vector<double> by_series) {
    use_ = std::move(by_series);
    update();
}

void ClusterPlot::setCurrentSeries(int series) {
    current_ = series;
    update();
}

QPointF ClusterPlot::place(int vertex) const {
    const ClusterPicture::Vertex& v = picture_->vertices[vertex];
    const double top = fontMetrics().height() * 2 + 16, bottom = height() - fontMetrics().height() * 2 - 6;
    return {20 + (width() - 40) * v.x / picture_->width, bottom - (bottom - top) * v.level / std::max(1, picture_->levels - 1)};
}

// A straight line; between two of one level that are no neighbours an arc over those between them.
QPolygonF ClusterPlot::course(const ClusterPicture::Edge& edge) const {
    const QLineF l(place(edge.from), place(edge.to));
    if (l.length() < 1) return {l.p1(), l.p2()};
    const QPointF aside = QPointF(-l.dy(), l.dx()) / l.length() * (apart / 2 + 0.5);
    const double neighbours = 1.6 * (width() - 40) / picture_->width;
    const auto level = [this](int v) { return picture_->vertices[v].level; };
    const int levels = std::abs(level(edge.from) - level(edge.to));
    const auto arc = [&l](const QPointF& from_line, const QPointF& apex) {
        QPolygonF out;
        for (int i = 0; i <= arc_pieces; ++i) {
            const double t = static_cast<double>(i) / arc_pieces;
            out << l.pointAt(t) + from_line + apex * (4 * t * (1 - t));
        }
        return out;
    };
    if (levels > 1 && std::abs(l.dx()) < 1) // round a column of a torus
        return arc({aside.x(), 0}, {0.35 * (width() - 40) / picture_->width, 0});
    if (levels > 0 || l.length() < neighbours) return {l.p1() + aside, l.p2() + aside};
    const double room = height() / (1.5 * picture_->levels), top = std::min(l.p1().y(), l.p2().y()) - 4;
    return arc({0, aside.y()}, {0, -std::min(room * l.length() / (l.length() + width() / 4.0), top)});
}

double ClusterPlot::use(const ClusterPicture::Edge& edge) const {
    return edge.series >= 0 && edge.series < static_cast<int>(use_.size()) ? use_[edge.series] : 0;
}

QRectF ClusterPlot::shape(int vertex) const {
    const double each = (width() - 40) / picture_->width, size = std::clamp(each * 0.3, 3.0, 9.0);
    const QPointF at = place(vertex);
    const auto of = [&at](double half_width, double half_height) {
        return QRectF(at - QPointF(half_width, half_height), QSizeF(2 * half_width, 2 * half_height));
    };
    switch (picture_->vertices[vertex].kind) {
    case ExplicitGraph::VertexKind::device:
        return of(size, size);
    case ExplicitGraph::VertexKind::switch_:
        return of(std::clamp(0.44 * roomOf(vertex), 2.0, 1.8 * size), 0.8 * size); // apart from those beside it
    default:
        return of(0.7 * size, 0.7 * size);
    }
}

// How far the next vertex of its level is.
double ClusterPlot::roomOf(int vertex) const {
    const auto& me = picture_->vertices[vertex];
    double least = width();
    for (std::size_t i = 0; i < picture_->vertices.size(); ++i)
        if (static_cast<int>(i) != vertex && picture_->vertices[i].level == me.level)
            least = std::min(least, std::abs(place(static_cast<int>(i)).x() - place(vertex).x()));
    return least;
}

std::vector<ClusterPlot::Label> ClusterPlot::labels() const {
    std::vector<Label> placed;
    if (!picture_) return placed;
    std::vector<QRectF> taken;
    for (std::size_t i = 0; i < picture_->vertices.size(); ++i) taken.push_back(shape(static_cast<int>(i)));
    const int h = fontMetrics().height();
    const QRectF inside(0, h + 8, width(), height() - h - 8);
    const double each = (width() - 40) / picture_->width;
    for (std::size_t i = 0; i < picture_->vertices.size(); ++i) {
        const ClusterPicture::Vertex& v = picture_->vertices[i];
        const QString whole = QString::fromStdString(v.name), name = v.node < 0 ? whole : whole.section(QLatin1Char('.'), -1);
        const QRectF box = shape(static_cast<int>(i));
        const QSizeF size(fontMetrics().horizontalAdvance(name) + 2, h);
        if (v.node >= 0 && size.width() > 1.5 * each) continue; // in a narrow node it could be any of its neighbours' name
        if (v.node < 0 && size.width() + apart_names > roomOf(static_cast<int>(i))) continue; // as between switches that stand close
        const QPointF under(box.center().x() - size.width() / 2, box.bottom() + 1), over(under.x(), box.top() - h - 1),
            beside(box.right() + 3, box.center().y() - h);
        const std::vector<QPointF> corners =
            v.kind == ExplicitGraph::VertexKind::device ? std::vector<QPointF>{under} : std::vector<QPointF>{beside, over};
        for (const QPointF& corner : corners) {
            const QRectF at(corner, size);
            if (!inside.contains(at) || std::any_of(taken.begin(), taken.end(), [&](const QRectF& other) { return other.intersects(at); }))
                continue;
            taken.push_back(at);
            placed.push_back({at, name});
            break;
        }
    }
    return placed;
}

void ClusterPlot::paintVertices(QPainter& painter) const {
    for (std::size_t i = 0; i < picture_->vertices.size(); ++i) {
        const QRectF box = shape(static_cast<int>(i));
        painter.setPen(QPen(palette().color(QPalette::Text), 1));
        painter.setBrush(palette().color(QPalette::Button));
        switch (picture_->vertices[i].kind) {
        case ExplicitGraph::VertexKind::device:
            painter.drawRect(box);
            break;
        case ExplicitGraph::VertexKind::switch_:
            painter.drawRoundedRect(box, 3, 3);
            break;
        default:
            painter.drawEllipse(box);
        }
    }
    QColor plate = palette().color(QPalette::Base);
    plate.setAlpha(215); // links run under names, not through them
    painter.setPen(palette().color(QPalette::Text));
    for (const Label& l : labels()) {
        painter.fillRect(l.at, plate);
        painter.drawText(l.at, Qt::AlignCenter, l.name);
    }
}

void ClusterPlot::paintScale(QPainter& painter) const {
    const bool dark = palette().color(QPalette::Base).lightness() < 128;
    const QRectF words(width() - scale_width - 10, 16, scale_width, fontMetrics().height());
    painter.fillRect(words.adjusted(-4, -12, 4, 0), palette().color(QPalette::Base));
    for (int x = 0; x < scale_width; ++x)
        painter.fillRect(QRectF(words.left() + x, 8, 1, 7), use_colour(static_cast<double>(x + 1) / scale_width, dark));
    painter.setPen(palette().color(QPalette::PlaceholderText));
    painter.drawText(words, Qt::AlignLeft, QStringLiteral("0 %"));
    painter.drawText(words, Qt::AlignRight, tr("100 % of capacity"));
    QString shown = tr("%n node(s) shown", "", picture_->nodes);
    if (picture_->nodes_left_out > 0) shown += tr("; %n more not drawn", "", picture_->nodes_left_out);
    const QRect room(10, 4, std::max(60, width() - scale_width - 40), 3 * fontMetrics().height());
    const QRect corner = fontMetrics().boundingRect(room, Qt::AlignLeft | Qt::TextWordWrap, shown);
    painter.fillRect(corner, palette().color(QPalette::Base));
    painter.drawText(room, Qt::AlignLeft | Qt::TextWordWrap, shown);
}

void ClusterPlot::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    painter.fillRect(rect(), palette().color(QPalette::Base));
    if (!picture_) {
        painter.setPen(palette().color(QPalette::PlaceholderText));
        painter.drawText(rect().adjusted(8, 0, -8, 0), Qt::AlignCenter | Qt::TextWordWrap, empty_);
        return;
    }
    const bool dark = palette().color(QPalette::Base).lightness() < 128;
    painter.setRenderHint(QPainter::Antialiasing);
    std::vector<const ClusterPicture::Edge*> order;
    for (const ClusterPicture::Edge& e : picture_->edges) order.push_back(&e);
    std::stable_sort(order.begin(), order.end(),
                     [this](const auto* a, const auto* b) { return std::pair(a->down, use(*a)) < std::pair(b->down, use(*b)); });
    for (const ClusterPicture::Edge* e : order) {
        const QPolygonF along = course(*e);
        if (current_ >= 0 && e->series == current_) {
            painter.setPen(QPen(palette().color(QPalette::Highlight), 8));
            painter.drawPolyline(along);
        }
        painter.setPen(e->down ? QPen(use_colour(1, dark), 1.5, Qt::DashLine)
                               : QPen(use_colour(use(*e), dark), 1 + 3.5 * std::clamp(use(*e), 0.0, 1.0)));
        painter.drawPolyline(along);
    }
    paintVertices(painter);
    paintScale(painter);
}

int ClusterPlot::edgeAt(const QPointF& at) const {
    int best = -1;
    double nearest = 6;
    for (std::size_t i = 0; picture_ && i < picture_->edges.size(); ++i)
        if (const double d = away(course(picture_->edges[i]), at); picture_->edges[i].link >= 0 && d < nearest) {
            nearest = d;
            best = static_cast<int>(i);
        }
    return best;
}

void ClusterPlot::mousePressEvent(QMouseEvent* event) {
    const int edge = edgeAt(event->position());
    Q_EMIT chosen(edge < 0 ? -1 : picture_->edges[edge].series);
}

bool ClusterPlot::event(QEvent* event) {
    if (event->type() != QEvent::ToolTip) return QWidget::event(event);
    const auto* help = static_cast<QHelpEvent*>(event);
    const int i = edgeAt(help->pos());
    if (i < 0) {
        QToolTip::hideText();
        return true;
    }
    const ClusterPicture::Edge& e = picture_->edges[i];
    const auto name = [this](int v) { return QString::fromStdString(picture_->vertices[v].name); };
    const QString what = e.down         ? tr("down")
                         : e.series < 0 ? tr("carries nothing, or another link of the trace stands for it")
                         : e.own        ? percent_words(use(e))
                                        : tr("%1, taken from a link that carries the same").arg(percent_words(use(e)));
    QToolTip::showText(help->globalPos(), tr("%1 to %2: %3").arg(name(e.from), name(e.to), what), this);
    return true;
}

} // namespace orrery
