// Painting and keys of the bars.
#include "gui/breakdown/bars.hpp"
#include "gui/core/axis.hpp"
#include "gui/core/categories.hpp"
#include "gui/parts/legend.hpp"
#include "gui/parts/run_label.hpp"

#include <QComboBox>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QLabel>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>
#include <QToolTip>
#include <QVBoxLayout>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace orrery {
namespace {

double total(const Breakdown& seconds) { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

constexpr int margin = 8;
constexpr int longest_name = 320;

} // namespace

BarsPlot::BarsPlot(QWidget* parent) : QAbstractScrollArea(parent) {
    setFocusPolicy(Qt::StrongFocus);
    setAccessibleName(tr("Breakdown bars"));
    setFrameShape(QFrame::NoFrame);
    viewport()->setAutoFillBackground(true);
    viewport()->setBackgroundRole(QPalette::Base);
}

void BarsPlot::setBars(std::vector<Bar> bars) {
    bars_ = std::move(bars);
    current_ = std::min(current_, static_cast<int>(bars_.size()) - 1);
    updateScroll();
    viewport()->update();
}

void BarsPlot::setCurrent(int bar) {
    if (bar < -1 || bar >= static_cast<int>(bars_.size()) || bar == current_) return;
    current_ = bar;
    if (bar >= 0) {
        setAccessibleDescription(bars_[bar].name + QStringLiteral(": ") + breakdown_text(bars_[bar].seconds));
        const QRect rect = barRect(bar);
        if (rect.top() < 0) verticalScrollBar()->setValue(verticalScrollBar()->value() + rect.top());
        if (rect.bottom() > viewport()->height() - rowHeight())
            verticalScrollBar()->setValue(verticalScrollBar()->value() + rect.bottom() - viewport()->height() + rowHeight());
    }
    viewport()->update();
}

int BarsPlot::rowHeight() const { return fontMetrics().height() + 12; }

int BarsPlot::nameWidth() const {
    int width = 60;
    for (std::size_t i = 0; i < std::min<std::size_t>(bars_.size(), 200); ++i)
        width = std::max(width, fontMetrics().horizontalAdvance(bars_[i].name) + 8);
    return std::min({width, longest_name, viewport()->width() / 3});
}

double BarsPlot::longest() const {
    double full = 0;
    for (const Bar& bar : bars_) full = std::max(full, total(bar.seconds));
    return full;
}

// The value behind each bar needs room on the right.
QRect BarsPlot::barRect(int bar) const {
    const int left = margin + nameWidth() + 6,
              right = viewport()->width() - margin - fontMetrics().horizontalAdvance(QStringLiteral("0.000 ms")) - 6;
    return {left, margin + bar * rowHeight() + 3 - verticalScrollBar()->value(), std::max(10, right - left), rowHeight() - 6};
}

int BarsPlot::barAt(const QPoint& at) const {
    const int row = (at.y() - margin + verticalScrollBar()->value()) / rowHeight();
    return at.y() >= 0 && row >= 0 && row < static_cast<int>(bars_.size()) && at.y() < viewport()->height() - rowHeight() ? row : -1;
}

void BarsPlot::updateScroll() {
    const int content = 2 * margin + static_cast<int>(bars_.size()) * rowHeight(), shown = viewport()->height() - rowHeight();
    verticalScrollBar()->setRange(0, std::max(0, content - shown));
    verticalScrollBar()->setPageStep(shown);
    verticalScrollBar()->setSingleStep(rowHeight());
}

void BarsPlot::resizeEvent(QResizeEvent* event) {
    QAbstractScrollArea::resizeEvent(event);
    updateScroll();
}

void BarsPlot::paintAxis(QPainter& painter) const {
    const double full = longest();
    const QRect bar = barRect(0);
    const int y = viewport()->height() - rowHeight();
    painter.fillRect(0, y, viewport()->width(), rowHeight(), palette().color(QPalette::Base));
    painter.setPen(palette().color(QPalette::Mid));
    painter.drawLine(bar.left(), y, bar.right(), y);
    const double step = round_step(full / std::max(2, bar.width() / 110));
    for (int i = 0; i * step <= full * 1.0001; ++i) {
        const double x = bar.left() + bar.width() * (i * step / full);
        painter.setPen(palette().color(QPalette::Mid));
        painter.drawLine(QPointF(x, y), QPointF(x, y + 4));
        painter.setPen(palette().color(QPalette::PlaceholderText));
        painter.drawText(QRectF(x - 50, y + 3, 100, rowHeight() - 3), Qt::AlignHCenter | Qt::AlignTop, seconds_words(i * step));
    }
}

void BarsPlot::paintEvent(QPaintEvent*) {
    QPainter painter(viewport());
    if (bars_.empty()) {
        painter.setPen(palette().color(QPalette::PlaceholderText));
        painter.drawText(viewport()->rect(), Qt::AlignCenter, tr("Nothing simulated yet: open or edit a scenario"));
        return;
    }
    const double full = longest();
    const bool dark = is_dark(palette());
    for (int i = 0; i < static_cast<int>(bars_.size()); ++i) {
        const QRect rect = barRect(i);
        if (rect.bottom() < 0 || rect.top() > viewport()->height()) continue;
        const Bar& bar = bars_[i];
        if (i == current_)
            painter.fillRect(QRect(0, rect.top() - 3, viewport()->width(), rowHeight()),
                             palette().color(QPalette::AlternateBase).darker(dark ? 60 : 106));
        painter.setPen(palette().color(QPalette::Text));
        const QRect name(margin, rect.top(), nameWidth(), rect.height());
        painter.drawText(name, Qt::AlignRight | Qt::AlignVCenter, fontMetrics().elidedText(bar.name, Qt::ElideMiddle, name.width()));
        paint_breakdown(painter, rect, bar.seconds, full, dark);
        const double end = rect.left() + rect.width() * total(bar.seconds) / full;
        painter.drawText(QPointF(end + 6, rect.center().y() + fontMetrics().ascent() / 2.0 - 1), seconds_words(total(bar.seconds)));
        if (i == current_ && hasFocus()) {
            painter.setPen(QPen(palette().color(QPalette::Highlight), 2));
            painter.drawRect(rect.adjusted(-2, -2, 2, 2));
        }
    }
    paintAxis(painter);
}

void BarsPlot::mousePressEvent(QMouseEvent* event) {
    const int bar = barAt(event->position().toPoint());
    if (bar < 0) return;
    setCurrent(bar);
    Q_EMIT chosen(bar);
}

std::vector<ViewCommand> BarsPlot::commands() {
    const auto step = [this](int by) {
        if (!bars_.empty()) setCurrent(std::clamp(current_ + by, 0, static_cast<int>(bars_.size()) - 1));
    };
    return {{QStringLiteral("next"),
             tr("Next bar"),
             tr("Chooses the bar and says what it is made of"),
             {Qt::Key_Down, Qt::Key_Right},
             {},
             [step] { step(1); }},
            {QStringLiteral("previous"),
             tr("Bar before"),
             tr("Chooses the bar and says what it is made of"),
             {Qt::Key_Up, Qt::Key_Left},
             {},
             [step] { step(-1); }},
            {QStringLiteral("choose"),
             tr("Show the bar's run or rank"),
             tr("Shows it in all views"),
             {Qt::Key_Space, Qt::Key_Return},
             {},
             [this] {
                 if (current_ >= 0) Q_EMIT chosen(current_);
             }}};
}

void BarsPlot::keyPressEvent(QKeyEvent* event) {
    if (!run_key(commands(), *event)) QAbstractScrollArea::keyPressEvent(event);
}

bool BarsPlot::viewportEvent(QEvent* event) {
    if (event->type() != QEvent::ToolTip) return QAbstractScrollArea::viewportEvent(event);
    const auto* help = static_cast<QHelpEvent*>(event);
    const int i = barAt(help->pos());
    if (i < 0) {
        QToolTip::hideText();
        return true;
    }
    const Bar& bar = bars_[i];
    QString text = QStringLiteral("<b>%1</b>").arg(bar.name.toHtmlEscaped());
    const int c = category_at(help->pos().x(), barRect(i), bar.seconds, longest());
    if (c >= 0) text += QStringLiteral("<br><b>%1: %2</b>").arg(title(static_cast<Category>(c)), seconds_words(bar.seconds[c]));
    QToolTip::showText(help->globalPos(), text + QStringLiteral("<br>") + breakdown_text(bar.seconds), viewport());
    return true;
}

BreakdownView::BreakdownView(RunStore& store, ViewState& state, QWidget* parent)
    : QWidget(parent), store_(store), state_(state), of_(new QComboBox), plot_(new BarsPlot), run_(new RunLabel(store, state)),
      legend_(new Legend) {
    of_->addItems(
        {tr("One bar for each strategy"), tr("One bar for each stage of the current run"), tr("One bar for each rank of the current run")});
    of_->setAccessibleName(tr("Meaning of a bar"));
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 2, 0, 0);
    layout->setSpacing(2);
    auto* row = new QHBoxLayout;
    row->addWidget(of_);
    row->addWidget(run_, 1);
    row->addStretch();
    layout->addLayout(row);
    layout->addWidget(plot_, 1);
    layout->addWidget(legend_);
    connect(of_, &QComboBox::currentIndexChanged, this, &BreakdownView::refresh);
    connect(&store_, &RunStore::runChanged, this, &BreakdownView::refresh);
    connect(&store_, &RunStore::runAdded, this, &BreakdownView::refresh);
    connect(&store_, &RunStore::runRemoved, this, &BreakdownView::refresh);
    connect(&state_, &ViewState::brushedRunsChanged, this, &BreakdownView::refresh);
    connect(&state_, &ViewState::currentRunChanged, this, &BreakdownView::refresh);
    connect(plot_, &BarsPlot::chosen, this, [this](int i) {
        const Bar& bar = plot_->bars()[i];
        state_.setCurrentRun(bar.run);
        if (bar.rank >= 0) state_.setSelectedRanks({bar.rank});
    });
    refresh();
}

void BreakdownView::setKind(BarsOf of) { of_->setCurrentIndex(static_cast<int>(of)); }

void BreakdownView::refresh() {
    std::vector<Bar> shown = bars(store_, state_, static_cast<BarsOf>(of_->currentIndex()));
    std::vector<Category> categories;
    for (Category c : drawing_order)
        if (std::any_of(shown.begin(), shown.end(), [&](const Bar& b) { return b.seconds[c] > 0; })) categories.push_back(c);
    legend_->setEntries(legend_of_categories(categories));
    run_->setVisible(of_->currentIndex() != static_cast<int>(BarsOf::strategies)); // bars have their runs' names
    plot_->setBars(std::move(shown));
    for (int i = 0; i < static_cast<int>(plot_->bars().size()); ++i)
        if (of_->currentIndex() == 0 && plot_->bars()[i].run == state_.currentRun()) plot_->setCurrent(i);
}

std::vector<ViewCommand> BreakdownView::commands() {
    std::vector<ViewCommand> out = plot_->commands();
    for (int i = 0; i < of_->count(); ++i)
        out.push_back({QStringLiteral("bars_%1").arg(i), of_->itemText(i), tr("Chooses what each bar stands for"), {}, {}, [this, i] {
                           of_->setCurrentIndex(i);
                       }});
    return out;
}

TextTable BreakdownView::asTable() const {
    TextTable out;
    out.head << tr("bar");
    for (int c = 0; c < category_count; ++c) out.head << tr("%1 (s)").arg(title(static_cast<Category>(c)));
    for (const Bar& bar : plot_->bars()) {
        QStringList row{bar.name};
        for (double s : bar.seconds) row << plain(s);
        out.rows.push_back(row);
    }
    return out;
}

} // namespace orrery
