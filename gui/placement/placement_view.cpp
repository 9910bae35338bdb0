#include "gui/placement/placement_view.hpp"

#include "gui/parts/legend.hpp"
#include "gui/parts/run_label.hpp"

#include <QComboBox>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QLabel>
#include <QLocale>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>
#include <QToolTip>
#include <QVBoxLayout>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

constexpr double smallest_cell = 4, largest_cell = 150;

} // namespace

// Few shards get colours of their own, many a scale from blue over green to yellow that is safe for the colour-blind and rises in
// lightness; the number stands in the cell too.
QColor shade_colour(const Shade& s, bool dark) {
    static const QColor few[] = {{86, 180, 233},  {230, 159, 0}, {0, 158, 115},   {240, 228, 66},
                                 {204, 121, 167}, {213, 94, 0},  {100, 143, 255}, {126, 126, 126}};
    if (s.count <= 8) return dark ? few[s.index].darker(130) : few[s.index].lighter(135);
    const double t = s.count > 1 ? static_cast<double>(s.index) / (s.count - 1) : 0;
    static const QColor blue(62, 74, 150), teal(33, 145, 140), yellow(250, 226, 70);
    const auto mixed = [](const QColor& a, const QColor& b, double u) {
        const auto part = [u](int x, int y) { return static_cast<int>(x + (y - x) * u); };
        return QColor(part(a.red(), b.red()), part(a.green(), b.green()), part(a.blue(), b.blue()));
    };
    return t < 0.5 ? mixed(blue, teal, 2 * t) : mixed(teal, yellow, 2 * t - 1);
}

PlacementPlot::PlacementPlot(QWidget* parent) : QAbstractScrollArea(parent) {
    setFocusPolicy(Qt::StrongFocus);
    setFrameShape(QFrame::NoFrame);
    setAccessibleName(tr("Devices and what they hold"));
    viewport()->setMouseTracking(true);
}

void PlacementPlot::setPlacements(std::optional<Placements> placements) {
    placements_ = std::move(placements);
    focus_ = 0;
    zoom_ = 1;
    arrange();
}

void PlacementPlot::setArrangement(Arrangement arrangement) {
    arrangement_ = arrangement;
    arrange();
}

void PlacementPlot::setShadeBy(ShadeBy by) {
    by_ = by;
    viewport()->update();
}

void PlacementPlot::setSelected(const std::vector<std::int32_t>& ranks) {
    selected_ = {ranks.begin(), ranks.end()};
    viewport()->update();
}

void PlacementPlot::arrange() {
    const double aspect = static_cast<double>(viewport()->width()) / std::max(1, viewport()->height());
    grid_ = placements_ ? grid(*placements_, arrangement_, aspect) : Grid{};
    updateScroll();
    viewport()->update();
}

// As large as fits, then the user's zoom; below the smallest cell it scrolls.
void PlacementPlot::updateScroll() {
    if (grid_.size.isEmpty()) return;
    const double fit = std::min(viewport()->width() / grid_.size.width(), viewport()->height() / grid_.size.height());
    cell_ = std::clamp(fit, smallest_cell, largest_cell) * zoom_;
    horizontalScrollBar()->setRange(0, std::max(0, static_cast<int>(std::ceil(grid_.size.width() * cell_)) - viewport()->width()));
    verticalScrollBar()->setRange(0, std::max(0, static_cast<int>(std::ceil(grid_.size.height() * cell_)) - viewport()->height()));
    horizontalScrollBar()->setPageStep(viewport()->width());
    verticalScrollBar()->setPageStep(viewport()->height());
}

void PlacementPlot::resizeEvent(QResizeEvent* event) {
    QAbstractScrollArea::resizeEvent(event);
    arrange();
}

QRectF PlacementPlot::shown(const QRectF& units) const {
    return {units.left() * cell_ - horizontalScrollBar()->value(), units.top() * cell_ - verticalScrollBar()->value(),
            units.width() * cell_, units.height() * cell_};
}

QRectF PlacementPlot::cellRect(int rank) const { return shown(grid_.cells[rank]); }

int PlacementPlot::rankAt(const QPointF& at) const {
    const int group = groupAt(at);
    if (group < 0) return -1;
    for (std::int32_t rank : grid_.groups[group].ranks)
        if (cellRect(rank).contains(at)) return rank;
    return -1;
}

int PlacementPlot::groupAt(const QPointF& at) const {
    for (std::size_t g = 0; g < grid_.groups.size(); ++g)
        if (shown(grid_.groups[g].box).contains(at)) return static_cast<int>(g);
    return -1;
}

void PlacementPlot::paintCell(QPainter& painter, int rank) const {
    const DevicePlace& d = placements_->devices[rank];
    const bool dark = palette().color(QPalette::Base).lightness() < 128;
    QRectF rect = cellRect(rank);
    const double space = cell_ > 14 ? 2 : 0.5;
    rect.adjust(space, space, -space, -space);
    const QColor fill = shade_colour(shade(*placements_, d, by_), dark);
    painter.fillRect(rect, fill);
    if (selected_.contains(rank)) {
        painter.setPen(QPen(palette().color(QPalette::Text), cell_ > 14 ? 3 : 1.5));
        painter.drawRect(rect.adjusted(1, 1, -1, -1));
    }
    if (rank == focus_ && hasFocus()) {
        painter.setPen(QPen(palette().color(QPalette::Highlight), 2, Qt::DashLine));
        painter.drawRect(rect.adjusted(-1, -1, 1, 1));
    }
    const int line = fontMetrics().height();
    if (cell_ < line * 1.6) return;
    painter.setPen(qGray(fill.rgb()) > 125 ? QColor(20, 22, 26) : QColor(255, 255, 255));
    double y = rect.top() + 2;
    for (const CellLine& words : cell_lines(*placements_, d)) {
        if (y + line > rect.bottom() + 1) break;
        const QString& text = fontMetrics().horizontalAdvance(words.full) <= rect.width() - 4 ? words.full : words.brief;
        // A number cut short is another number: it is written smaller, or not at all.
        const double fit = (rect.width() - 4) / std::max(1, fontMetrics().horizontalAdvance(text));
        if (fit < 0.6) continue;
        QFont small = font();
        if (fit < 1) small.setPointSizeF(font().pointSizeF() * fit);
        painter.setFont(small);
        painter.drawText(QRectF(rect.left() + 3, y, rect.width() - 3, line), Qt::AlignLeft | Qt::AlignVCenter, text);
        y += line;
    }
    painter.setFont(font());
}

void PlacementPlot::paintEvent(QPaintEvent*) {
    QPainter painter(viewport());
    painter.fillRect(viewport()->rect(), palette().color(QPalette::Base));
    if (!placements_) {
        painter.setPen(palette().color(QPalette::PlaceholderText));
        painter.drawText(viewport()->rect(), Qt::AlignCenter, tr("The current run has no plan: simulate a scenario"));
        return;
    }
    const int line = fontMetrics().height();
    for (const GridGroup& group : grid_.groups) {
        const QRectF box = shown(group.box);
        if (!box.intersects(QRectF(viewport()->rect()))) continue;
        painter.setPen(palette().color(QPalette::PlaceholderText));
        painter.drawRect(box.adjusted(-2, 0, 2, 2));
        if (cell_ * 0.45 >= line * 0.75) {
            painter.setPen(palette().color(QPalette::Text));
            painter.drawText(QRectF(box.left() + 3, box.top(), box.width() - 4, cell_ * 0.45), Qt::AlignLeft | Qt::AlignVCenter,
                             group.title);
        }
        for (std::int32_t rank : group.ranks) paintCell(painter, rank);
    }
    if (!rubber_.isEmpty()) {
        QColor tint = palette().color(QPalette::Highlight);
        painter.setPen(tint);
        tint.setAlpha(40);
        painter.fillRect(rubber_.normalized(), tint);
        painter.drawRect(rubber_.normalized());
    }
}

void PlacementPlot::mousePressEvent(QMouseEvent* event) {
    if (event->button() == Qt::LeftButton) rubber_ = QRectF(event->position(), QSizeF(0, 0));
}

void PlacementPlot::mouseMoveEvent(QMouseEvent* event) {
    if (!event->buttons().testFlag(Qt::LeftButton)) return;
    rubber_.setBottomRight(event->position());
    viewport()->update();
}

// A click takes a device, on a box's title all of it; a drag all it touches; Ctrl adds; beside everything: none.
void PlacementPlot::mouseReleaseEvent(QMouseEvent* event) {
    const QRectF box = rubber_.normalized();
    rubber_ = {};
    if (!placements_ || event->button() != Qt::LeftButton) return;
    if (!event->modifiers().testFlag(Qt::ControlModifier)) selected_.clear();
    if (box.width() > 4 || box.height() > 4) {
        for (std::size_t r = 0; r < grid_.cells.size(); ++r)
            if (cellRect(static_cast<int>(r)).intersects(box)) selected_.insert(static_cast<std::int32_t>(r));
    } else if (const int rank = rankAt(event->position()); rank >= 0) {
        focus_ = rank;
        if (!selected_.insert(rank).second) selected_.erase(rank);
    } else if (const int group = groupAt(event->position()); group >= 0) {
        const auto& ranks = grid_.groups[group].ranks;
        selected_.insert(ranks.begin(), ranks.end());
    }
    tell();
}

void PlacementPlot::tell() {
    viewport()->update();
    Q_EMIT selected({selected_.begin(), selected_.end()});
}

// To the nearest cell in a direction.
void PlacementPlot::moveFocus(const QPointF& way) {
    if (!placements_) return;
    const QPointF from = grid_.cells[focus_].center();
    double best = 1e18;
    int to = focus_;
    for (std::size_t r = 0; r < grid_.cells.size(); ++r) {
        const QPointF d = grid_.cells[r].center() - from;
        const double ahead = QPointF::dotProduct(d, way), aside = std::abs(d.x() * way.y()) + std::abs(d.y() * way.x());
        if (ahead > 0.1 && ahead + 3 * aside < best) {
            best = ahead + 3 * aside;
            to = static_cast<int>(r);
        }
    }
    focus_ = to;
    setAccessibleDescription(cell_lines(*placements_, placements_->devices[focus_]).front().full);
    viewport()->update();
}

void PlacementPlot::toggleFocused() {
    if (!placements_) return;
    if (!selected_.insert(focus_).second) selected_.erase(focus_);
    tell();
}

std::vector<ViewCommand> PlacementPlot::commands() {
    const auto way = [this](double x, double y) { return [this, x, y] { moveFocus({x, y}); }; };
    const QString near = tr("Goes to the nearest device in that direction");
    return {{QStringLiteral("right"), tr("Device to the right"), near, {Qt::Key_Right}, {}, way(1, 0)},
            {QStringLiteral("left"), tr("Device to the left"), near, {Qt::Key_Left}, {}, way(-1, 0)},
            {QStringLiteral("down"), tr("Device below"), near, {Qt::Key_Down}, {}, way(0, 1)},
            {QStringLiteral("up"), tr("Device above"), near, {Qt::Key_Up}, {}, way(0, -1)},
            {QStringLiteral("choose"),
             tr("Choose the device"),
             tr("Timelines show the devices that are chosen; again: no longer"),
             {Qt::Key_Space},
             {},
             [this] { toggleFocused(); }},
            {QStringLiteral("clear"),
             tr("Choose no device"),
             tr("Timelines show all of them again"),
             {Qt::Key_Escape},
             {},
             [this] {
                 selected_.clear();
                 tell();
             }},
            {QStringLiteral("fit"),
             tr("Show all devices"),
             tr("Draws the devices as large as they fit"),
             {Qt::Key_F},
             {},
             [this] {
                 zoom_ = 1;
                 arrange();
             }},
            {QStringLiteral("drag"), tr("Choose all devices in a rectangle"), {}, {}, tr("drag"), {}},
            {QStringLiteral("wheel"), tr("Zoom at the pointer"), {}, {}, tr("Ctrl+wheel"), {}}};
}

void PlacementPlot::keyPressEvent(QKeyEvent* event) {
    if (!placements_ || !run_key(commands(), *event)) QAbstractScrollArea::keyPressEvent(event);
}

void PlacementPlot::wheelEvent(QWheelEvent* event) {
    if (!event->modifiers().testFlag(Qt::ControlModifier)) return QAbstractScrollArea::wheelEvent(event);
    const QPointF at = event->position();
    const double x = (at.x() + horizontalScrollBar()->value()) / cell_, y = (at.y() + verticalScrollBar()->value()) / cell_;
    zoom_ = std::clamp(zoom_ * std::pow(1.2, event->angleDelta().y() / 120.0), 1.0, 40.0);
    updateScroll();
    horizontalScrollBar()->setValue(static_cast<int>(x * cell_ - at.x()));
    verticalScrollBar()->setValue(static_cast<int>(y * cell_ - at.y()));
    viewport()->update();
}

bool PlacementPlot::viewportEvent(QEvent* event) {
    if (event->type() != QEvent::ToolTip) return QAbstractScrollArea::viewportEvent(event);
    const auto* help = static_cast<QHelpEvent*>(event);
    const int rank = placements_ ? rankAt(help->pos()) : -1;
    if (rank < 0)
        QToolTip::hideText();
    else
        QToolTip::showText(help->globalPos(), device_text(*placements_, placements_->devices[rank]), viewport());
    return true;
}

PlacementView::PlacementView(RunStore& store, ViewState& state, QWidget* parent)
    : QWidget(parent), store_(store), state_(state), arrangement_(new QComboBox), by_(new QComboBox), words_(new QLabel),
      plot_(new PlacementPlot), legend_(new Legend) {
    arrangement_->addItems({tr("By nodes"), tr("By parallelism")});
    arrangement_->setItemData(1, tr("Stages down, shards across, a box for each replica"), Qt::ToolTipRole);
    arrangement_->setAccessibleName(tr("Arrangement"));
    by_->addItems({tr("Coloured by stage"), tr("Coloured by tensor shard"), tr("Coloured by context shard"), tr("Coloured by data"),
                   tr("Coloured by experts")});
    by_->setAccessibleName(tr("Meaning of the colour"));
    words_->setTextFormat(Qt::PlainText);
    words_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
    auto* first = new QHBoxLayout;
    first->addWidget(new RunLabel(store, state));
    first->addWidget(words_, 1);
    auto* row = new QHBoxLayout;
    row->addWidget(arrangement_);
    row->addWidget(by_);
    row->addStretch();
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 2, 0, 0);
    layout->setSpacing(2);
    layout->addLayout(first);
    layout->addLayout(row);
    layout->addWidget(plot_, 1);
    layout->addWidget(legend_);
    setFocusProxy(plot_);
    connect(arrangement_, &QComboBox::currentIndexChanged, this, [this](int i) { plot_->setArrangement(static_cast<Arrangement>(i)); });
    connect(by_, &QComboBox::currentIndexChanged, this, [this](int i) {
        plot_->setShadeBy(static_cast<ShadeBy>(i));
        showLegend();
    });
    connect(plot_, &PlacementPlot::selected, &state_, [this](const std::vector<std::int32_t>& ranks) { state_.setSelectedRanks(ranks); });
    connect(&state_, &ViewState::selectedRanksChanged, this, [this] { plot_->setSelected(state_.selectedRanks()); });
    connect(&state_, &ViewState::currentRunChanged, this, &PlacementView::refresh);
    connect(&store_, &RunStore::runChanged, this, [this](RunId id) {
        if (id == state_.currentRun()) refresh();
    });
    refresh();
}

void PlacementView::refresh() {
    const Run* run = store_.find(state_.currentRun());
    const std::shared_ptr<const RunData> now = run ? run->data : nullptr;
    if (now == shown_ && now) return;
    shown_ = now;
    if (!now || !now->plan || !now->scenario) {
        plot_->setPlacements(std::nullopt);
        words_->clear();
        showLegend();
        return;
    }
    const Placements p = placements(*now->plan, *now->scenario);
    words_->setText(tr("%1 devices: tensor %2 x context %3 x pipeline %4 x data %5")
                        .arg(QLocale().toString(static_cast<qlonglong>(p.devices.size())))
                        .arg(p.mesh.extent(Axis::tp))
                        .arg(p.mesh.extent(Axis::cp))
                        .arg(p.mesh.extent(Axis::pp))
                        .arg(p.data_ranks()) +
                    (p.experts > 0 ? tr(", experts over %1").arg(p.expert_mesh.extent(Axis::ep)) : QString{}));
    plot_->setPlacements(p);
    plot_->setSelected(state_.selectedRanks());
    showLegend();
}

// Each shade where they are few, else the ends and the middle of the scale.
void PlacementView::showLegend() {
    std::vector<Legend::Entry> entries;
    if (const auto& p = plot_->placements(); p && !p->devices.empty()) {
        const auto by = static_cast<ShadeBy>(by_->currentIndex());
        const int count = shade(*p, p->devices.front(), by).count;
        for (int i = 0; i < count; ++i) {
            if (count > 16 && i != 0 && i != count / 2 && i != count - 1) continue;
            entries.push_back({shade_words(*p, by, i), [i, count](QPainter& painter, const QRect& r, const QPalette& palette) {
                                   painter.fillRect(r, shade_colour({i, count}, palette.color(QPalette::Base).lightness() < 128));
                               }});
        }
    }
    legend_->setEntries(std::move(entries));
}

std::vector<ViewCommand> PlacementView::commands() {
    std::vector<ViewCommand> out = plot_->commands();
    const auto add = [&](QComboBox* box, const char* id) {
        for (int i = 0; i < box->count(); ++i)
            out.push_back(
                {QStringLiteral("%1_%2").arg(QLatin1String(id)).arg(i), box->itemText(i), box->accessibleName(), {}, {}, [box, i] {
                     box->setCurrentIndex(i);
                 }});
    };
    add(arrangement_, "arrange");
    add(by_, "colour");
    return out;
}

TextTable PlacementView::asTable() const {
    if (!shown_ || !shown_->plan || !shown_->scenario) return {{}, {}, tr("the current run has no plan")};
    const Placements p = placements(*shown_->plan, *shown_->scenario);
    TextTable out;
    out.head = {tr("rank"),
                tr("node"),
                tr("device"),
                tr("stage"),
                tr("tensor shard"),
                tr("context shard"),
                tr("data"),
                tr("layers"),
                tr("first expert"),
                tr("experts"),
                tr("parameters (bytes)"),
                tr("experts' parameters (bytes)"),
                tr("gradients (bytes)"),
                tr("optimizer states (bytes)")};
    for (const DevicePlace& d : p.devices) {
        const StageHoldings& stage = p.stages[p.stage(d)];
        const auto along = [&](Axis a) { return QString::number(d.at[a]); };
        const auto bytes = [](const Holding& h) { return QString::number(static_cast<qlonglong>(h.bytes.count)); };
        out.rows.push_back({QString::number(d.rank), QString::number(d.node), QString::number(d.slot), QString::number(p.stage(d)),
                            along(Axis::tp), along(Axis::cp), QString::number(p.data_rank(d)), all_layers(stage),
                            p.experts > 0 ? QString::number(p.first_expert(d)) : QString{},
                            p.experts > 0 ? QString::number(p.experts_each()) : QString{}, bytes(stage.parameters),
                            bytes(stage.expert_parameters), bytes(stage.gradients), bytes(stage.optimizer)});
    }
    return out;
}

} // namespace orrery
