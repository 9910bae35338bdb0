#include "gui/compare/predicted_measured.hpp"

#include "gui/compare/models.hpp"
#include "gui/parts/legend.hpp"
#include "gui/parts/plain_table.hpp"
#include "gui/timeline/timeline.hpp"

#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QSignalBlocker>
#include <QSortFilterProxyModel>
#include <QSplitter>
#include <QTableView>
#include <QtConcurrent/QtConcurrentRun>
#include <QVBoxLayout>

namespace orrery {

namespace {

constexpr std::size_t most_offenders = 500;

QTableView* table(QAbstractItemModel* model, QObject* owner, const QString& name) {
    QTableView* view = sorted_table(model, owner, name);
    view->horizontalHeader()->setDefaultSectionSize(90);
    return view;
}

bool is_measured(const Run& run) { return run.data->trace && run.data->trace->source != "simulated"; }

} // namespace

PredictedMeasured::PredictedMeasured(RunStore& runs, ViewState& state, QWidget* parent) : QWidget(parent), runs_(runs), state_(state) {
    setAccessibleName(tr("Prediction over measurement"));
    predicted_ = new QComboBox;
    measured_ = new QComboBox;
    predicted_->setAccessibleName(tr("Predicted run"));
    measured_->setAccessibleName(tr("Measured run"));
    words_ = new QLabel;
    words_->setWordWrap(true);
    for (QComboBox* box : {predicted_, measured_}) {
        box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
        box->setMinimumContentsLength(10);
    }
    auto* choice = new QHBoxLayout;
    choice->addWidget(new QLabel(tr("Predicted")));
    choice->addWidget(predicted_, 1);
    choice->addWidget(new QLabel(tr("measured")));
    choice->addWidget(measured_, 1);
    choice->addWidget(words_, 3);
    line_ = new Timeline;
    line_->setHint(tr("Open the trace of a real run (simexec run SCENARIO --trace FILE) and the scenario that predicts it."));
    errors_ = new ErrorsModel(this);
    offenders_ = new OffendersModel(this);
    auto* tables = new QSplitter(Qt::Horizontal);
    tables->addWidget(table(errors_, this, tr("Error by kind of op")));
    auto* worst = table(offenders_, this, tr("Slices that are furthest off"));
    tables->addWidget(worst);
    auto* parts = new QSplitter(Qt::Vertical);
    parts->addWidget(line_);
    parts->addWidget(tables);
    parts->setSizes({500, 200});
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(4, 4, 4, 4);
    layout->addLayout(choice);
    layout->addWidget(parts, 1);
    legend_ = new Legend;
    layout->addWidget(legend_);
    const auto chosen = [this] { setRuns(predicted_->currentData().toInt(), measured_->currentData().toInt()); };
    connect(predicted_, &QComboBox::currentIndexChanged, this, chosen);
    connect(measured_, &QComboBox::currentIndexChanged, this, chosen);
    const auto go = [this, worst](const QModelIndex& i) {
        if (i.isValid()) jump(static_cast<QSortFilterProxyModel*>(worst->model())->mapToSource(i).row());
    };
    connect(worst, &QTableView::activated, this, go);
    connect(worst->selectionModel(), &QItemSelectionModel::currentRowChanged, this, go);
    connect(&work_, &QFutureWatcherBase::finished, this, &PredictedMeasured::showAnswer);
    connect(line_, &Timeline::rangeChanged, this, &PredictedMeasured::tellRange);
    connect(line_, &Timeline::microbatchAsked, &state_, &ViewState::setMicrobatch);
    connect(line_, &Timeline::cursorMoved, this, [this](std::int64_t t) {
        if (const auto from = origin()) state_.setCursor(t < 0 ? -1 : t + *from);
    });
    connect(&state_, &ViewState::microbatchChanged, line_, &Timeline::setMicrobatch);
    connect(&state_, &ViewState::timeRangeChanged, this, &PredictedMeasured::showRange);
    connect(&state_, &ViewState::cursorChanged, this, [this](std::int64_t t) {
        if (const auto from = origin()) line_->setCursorTime(t < 0 ? -1 : t - *from);
    });
    connect(&runs_, &RunStore::runAdded, this, &PredictedMeasured::fillChoices);
    connect(&runs_, &RunStore::runChanged, this, &PredictedMeasured::fillChoices);
    connect(&runs_, &RunStore::runRemoved, this, &PredictedMeasured::fillChoices);
    fillChoices();
}

PredictedMeasured::~PredictedMeasured() { work_.waitForFinished(); }

void PredictedMeasured::fillChoices() {
    const int p = predicted_->currentData().toInt(), m = measured_->currentData().toInt();
    {
        const QSignalBlocker a(predicted_), b(measured_);
        predicted_->clear();
        measured_->clear();
        for (const Run& r : runs_.runs())
            if (r.data->tracks) (is_measured(r) ? measured_ : predicted_)->addItem(shown_name(r), r.id);
        const auto take = [](QComboBox* box, RunId wanted, int before) {
            const int w = box->findData(wanted);
            box->setCurrentIndex(w >= 0 ? w : std::max(0, box->findData(before)));
        };
        take(measured_, wanted_.second, m);
        take(predicted_, wanted_.first, p);
        if (measured_->findData(wanted_.second) >= 0) wanted_ = {};
    }
    setRuns(predicted_->currentData().toInt(), measured_->currentData().toInt());
}

void PredictedMeasured::choose(RunId predicted, RunId measured) {
    fillChoices();
    {
        const QSignalBlocker a(predicted_), b(measured_);
        if (const int i = predicted_->findData(predicted); i >= 0) predicted_->setCurrentIndex(i);
        if (const int i = measured_->findData(measured); i >= 0) measured_->setCurrentIndex(i);
    }
    wanted_ = {predicted, measured}; // a trace may still be on its way
    setRuns(predicted_->currentData().toInt(), measured_->currentData().toInt());
}

void PredictedMeasured::setRuns(RunId predicted, RunId measured) {
    const Run *p = runs_.find(predicted), *m = runs_.find(measured);
    const auto p_data = p ? p->data : nullptr, m_data = m ? m->data : nullptr;
    if (p_data == predictedData_ && m_data == measuredData_) return;
    shownPredicted_ = predicted;
    shownMeasured_ = measured;
    predictedData_ = p_data;
    measuredData_ = m_data;
    ask();
}

void PredictedMeasured::ask() {
    answer_ = {};
    line_->setRun(0, nullptr);
    legend_->setEntries({});
    errors_->setErrors({});
    offenders_->setOffenders({}, nullptr, nullptr);
    words_->clear();
    if (!predictedData_ || !measuredData_ || !predictedData_->trace || !measuredData_->trace) return;
    words_->setText(tr("Comparing .."));
    work_.setFuture(QtConcurrent::run([p = predictedData_, m = measuredData_] {
        Answer a;
        auto overlaid = std::make_shared<Overlaid>(overlay(*p->trace, *m->trace));
        a.picture = run_of_trace(std::move(overlaid->trace));
        overlaid->trace = {};
        a.overlaid = overlaid;
        a.agreement = agreement(*p->trace, *m->trace, most_offenders);
        return a;
    }));
}

void PredictedMeasured::showAnswer() {
    if (work_.future().resultCount() == 0 || !predictedData_ || !measuredData_) return;
    answer_ = work_.result();
    RowOptions options;
    options.groups.clear();
    options.names = answer_.overlaid->names;
    for (const QString& name : options.names) options.folded.insert(name);
    line_->setRowOptions(std::move(options));
    line_->setRun(-1, answer_.picture);
    legend_->setEntries(legend_of_slices({line_->store()}));
    errors_->setErrors(answer_.agreement.kinds);
    offenders_->setOffenders(answer_.agreement.offenders, &*predictedData_->trace, &*measuredData_->trace);
    const double p = step_seconds(*predictedData_), m = step_seconds(*measuredData_);
    QString text = tr("Step %1 predicted, %2 measured")
                       .arg(duration_text(static_cast<std::int64_t>(p * 1e12)), duration_text(static_cast<std::int64_t>(m * 1e12)));
    if (m > 0) text += tr(": %1%2 %.").arg(p >= m ? "+" : "").arg(100 * (p / m - 1), 0, 'f', 1);
    if (answer_.agreement.only_predicted + answer_.agreement.only_measured > 0)
        text += " " + tr("Without a counterpart: %L1 predicted slices, %L2 measured.")
                          .arg(answer_.agreement.only_predicted)
                          .arg(answer_.agreement.only_measured);
    words_->setText(text);
}

TextTable PredictedMeasured::errors() const {
    if (!answer_.picture) return {{}, {}, tr("no prediction is laid over a measurement"), {}};
    return table_of_model(*errors_);
}

TextTable PredictedMeasured::offenders() const {
    TextTable out = table_of_model(*offenders_);
    out.name = QStringLiteral("slices"); // part of a file's name
    return out;
}

std::optional<std::int64_t> PredictedMeasured::origin() const {
    const RunId current = state_.currentRun();
    if (!line_->store() || (current != shownPredicted_ && current != shownMeasured_)) return std::nullopt;
    return (current == shownPredicted_ ? predictedData_ : measuredData_)->tracks->begin;
}

void PredictedMeasured::showRange() {
    const auto from = origin();
    const TimeRange r = state_.timeRange();
    if (!from || telling_ || r.length() <= 0) return;
    telling_ = true;
    line_->setRange({r.begin - *from, r.end - *from});
    telling_ = false;
}

// Both lanes may go further than the current run's: the shared range ends where that does.
void PredictedMeasured::tellRange(TimeRange range) {
    const auto from = origin();
    if (!from || telling_) return;
    const TimeRange all = whole_of(*runs_.find(state_.currentRun())->data->tracks);
    const TimeRange shared{std::max(all.begin, range.begin + *from), std::min(all.end, range.end + *from)};
    telling_ = true;
    if (shared.length() > 0) state_.setTimeRange(shared);
    telling_ = false;
}

void PredictedMeasured::jump(int row) {
    if (row < 0 || row >= offenders_->rowCount() || !answer_.picture) return;
    const Offender& o = offenders_->line(row).offender;
    const SpanRef here = in_overlay(*answer_.overlaid, *answer_.picture->trace, *measuredData_->trace, o.measured, false);
    if (!here.valid()) return;
    const Span& s = span_of(*answer_.picture->trace, here);
    const std::int64_t around = 8 * (s.end.ps - s.begin.ps) + 1;
    state_.setCurrentRun(shownMeasured_);
    line_->setRange({s.begin.ps - around, s.end.ps + around});
    line_->select(here, true);
    state_.setSelectedSlice({shownMeasured_, o.measured.lane, o.measured.span});
}

} // namespace orrery
