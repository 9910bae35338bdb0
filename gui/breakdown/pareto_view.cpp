// The frontier of the runs in the store: which figures are its axes, brushing linked to the table.
#include "gui/breakdown/pareto.hpp"

#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QVBoxLayout>

#include <algorithm>

namespace orrery {
namespace {

struct AxisChoice {
    const char* title;
    std::optional<double> (*value)(const Figures&);
    ParetoPlot::Words words;
    const char* unit; // in which it is exported
    double scale = 1; // exported: the value times this
};

QString dollars(std::optional<double> v) { return v ? QStringLiteral("$%1").arg(*v, 0, 'g', 3) : QString{}; }

// Smaller is better in each.
const std::vector<AxisChoice>& choices() {
    static const std::vector<AxisChoice> all = {
        {QT_TRANSLATE_NOOP("orrery::ParetoView", "Peak memory"), [](const Figures& f) { return f.peak_bytes; }, gigabytes_words, "bytes"},
        {QT_TRANSLATE_NOOP("orrery::ParetoView", "Devices"), [](const Figures& f) { return f.devices; }, count_words, ""},
        {QT_TRANSLATE_NOOP("orrery::ParetoView", "Cost of a step"), [](const Figures& f) { return f.cost_usd; }, dollars, "$"},
        {QT_TRANSLATE_NOOP("orrery::ParetoView", "Step time"), [](const Figures& f) { return f.step_s; }, seconds_words, "s"},
        {QT_TRANSLATE_NOOP("orrery::ParetoView", "Device time of a token"),
         [](const Figures& f) {
             return f.tokens_per_s && *f.tokens_per_s > 0 && f.devices ? std::optional<double>(*f.devices / *f.tokens_per_s) : std::nullopt;
         },
         seconds_words, "s"},
        {QT_TRANSLATE_NOOP("orrery::ParetoView", "Bubble"), [](const Figures& f) { return f.bubble; }, percent_words, "%", 100},
        {QT_TRANSLATE_NOOP("orrery::ParetoView", "Stragglers"), [](const Figures& f) { return f.stragglers; }, percent_words, "%", 100},
    };
    return all;
}

constexpr int step_time = 3;

} // namespace

ParetoView::ParetoView(RunStore& store, ViewState& state, QWidget* parent)
    : QWidget(parent), store_(store), state_(state), x_(new QComboBox), y_(new QComboBox), plot_(new ParetoPlot) {
    for (QComboBox* box : {x_, y_})
        for (const AxisChoice& choice : choices()) box->addItem(tr(choice.title));
    x_->setAccessibleName(tr("Figure on the horizontal axis"));
    y_->setAccessibleName(tr("Figure on the vertical axis"));
    y_->setCurrentIndex(step_time);
    auto* row = new QHBoxLayout;
    row->addWidget(y_);
    row->addWidget(new QLabel(tr("against")));
    row->addWidget(x_);
    row->addStretch();
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 2, 0, 0);
    layout->setSpacing(2);
    layout->addLayout(row);
    layout->addWidget(plot_, 1);
    setFocusProxy(plot_);
    for (QComboBox* box : {x_, y_}) connect(box, &QComboBox::currentIndexChanged, this, &ParetoView::refresh);
    connect(&store_, &RunStore::runChanged, this, &ParetoView::refresh);
    connect(&store_, &RunStore::runAdded, this, &ParetoView::refresh);
    connect(&store_, &RunStore::runRemoved, this, &ParetoView::refresh);
    connect(&state_, &ViewState::brushedRunsChanged, this, &ParetoView::showBrush);
    connect(&state_, &ViewState::currentRunChanged, this, &ParetoView::showBrush);
    connect(plot_, &ParetoPlot::brushed, this, [this](const std::vector<RunId>& ids) {
        state_.setBrushedRuns(ids, ids.empty() ? 0 : ids.back());
        if (!ids.empty() && ids.back() < 0) Q_EMIT sweptChosen(swept_number(ids.back()));
    });
    refresh();
}

void ParetoView::refresh() {
    const AxisChoice &x = choices()[x_->currentIndex()], &y = choices()[y_->currentIndex()];
    plot_->setAxes(tr(x.title), x.words, tr(y.title), y.words);
    std::vector<ParetoPoint> points;
    for (const Run& run : store_.runs()) {
        const Figures f = figures(*run.data);
        const auto right = x.value(f), up = y.value(f);
        if (right && up) points.push_back({run.id, shown_name(run), *right, *up, f.fits.value_or(true)});
    }
    for (const SweptPoint& p : swept_) {
        const auto right = x.value(p.figures), up = y.value(p.figures);
        if (right && up) points.push_back({id_of_swept(p.number), p.name, *right, *up, p.figures.fits.value_or(true)});
    }
    plot_->setPoints(std::move(points));
    showBrush();
}

void ParetoView::setSwept(std::vector<SweptPoint> swept) {
    swept_ = std::move(swept);
    refresh();
}

void ParetoView::showBrush() { plot_->setBrushed(state_.highlighted(), state_.currentRun()); }

TextTable ParetoView::asTable() const {
    TextTable out;
    const AxisChoice &x = choices()[x_->currentIndex()], &y = choices()[y_->currentIndex()];
    const auto head = [this](const AxisChoice& a) { return *a.unit ? with_unit(tr(a.title), QLatin1String(a.unit)) : tr(a.title); };
    out.head = {tr("run"), head(x), head(y), tr("fits"), tr("on the frontier")};
    const auto best = frontier(plot_->points());
    for (std::size_t i = 0; i < plot_->points().size(); ++i) {
        const ParetoPoint& p = plot_->points()[i];
        const bool on = std::find(best.begin(), best.end(), i) != best.end();
        out.rows.push_back({p.name, plain(p.x * x.scale), plain(p.y * y.scale), p.fits ? tr("yes") : tr("no"), on ? tr("yes") : tr("no")});
    }
    return out;
}

} // namespace orrery
