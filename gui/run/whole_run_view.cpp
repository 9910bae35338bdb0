#include "gui/run/whole_run_view.hpp"

#include "gui/parts/plain_table.hpp"
#include "gui/parts/run_label.hpp"
#include "gui/run/lost_time_model.hpp"
#include "gui/run/whole_run_plot.hpp"

#include <QHeaderView>
#include <QLabel>
#include <QLocale>
#include <QSplitter>
#include <QTableView>
#include <QtConcurrent>
#include <QVBoxLayout>

namespace orrery {

WholeRunView::WholeRunView(RunStore& store, ViewState& state, QWidget* parent)
    : QWidget(parent), store_(store), state_(state), words_(new QLabel), plot_(new WholeRunPlot), lost_(new LostTimeModel(this)) {
    setAccessibleName(tr("The whole run"));
    words_->setWordWrap(true);
    QTableView* table = plain_table(lost_, tr("Time of the run by cause"));
    table->horizontalHeader()->resizeSection(0, 220);
    auto* parts = new QSplitter(Qt::Vertical);
    parts->addWidget(plot_);
    parts->addWidget(table);
    parts->setSizes({420, 200});
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(4, 4, 4, 4);
    layout->addWidget(new RunLabel(store, state));
    layout->addWidget(words_);
    layout->addWidget(parts, 1);
    setFocusProxy(table);
    connect(&watcher_, &QFutureWatcher<Result>::finished, this, &WholeRunView::take);
    connect(&state_, &ViewState::currentRunChanged, this, &WholeRunView::refresh);
    connect(&store_, &RunStore::runChanged, this, [this](RunId id) {
        if (id == state_.currentRun()) refresh();
    });
    connect(&store_, &RunStore::runRemoved, this, &WholeRunView::refresh);
    refresh();
}

WholeRunView::~WholeRunView() { watcher_.waitForFinished(); }

QString WholeRunView::words() const { return words_->text(); }

void WholeRunView::refresh() {
    const Run* run = store_.find(state_.currentRun());
    const std::shared_ptr<const RunData> now = run ? run->data : nullptr;
    if (now == shown_ && now) return;
    shown_ = now;
    plot_->setReport(nullptr);
    lost_->setReport(nullptr);
    if (!now || !now->scenario || !now->report) {
        words_->setText(tr("No scenario is simulated here."));
    } else if (!now->scenario->run) {
        words_->setText(
            tr("This scenario is of one step. Give it \"run\", as in {\"run\": {\"days\": 30}}, and its months are simulated."));
    } else if (!now->report->memory.fits) {
        words_->setText(tr("The run is not simulated: its step does not fit in memory."));
    } else {
        words_->setText(tr("Simulating the run .."));
        if (!watcher_.isRunning())
            watcher_.setFuture(QtConcurrent::run([now] {
                Result out{now, nullptr, {}};
                try {
                    Prediction step;
                    step.report = *now->report;
                    out.report = std::make_shared<const WholeRunReport>(whole_run(*now->scenario, step));
                } catch (const std::exception& e) { out.problem = QString::fromUtf8(e.what()); }
                return out;
            }));
    }
}

void WholeRunView::take() {
    const Result result = watcher_.result();
    if (result.of != shown_) { // another run is shown by now
        shown_ = nullptr;
        return refresh();
    }
    if (!result.report) return words_->setText(result.problem);
    const WholeRunReport& r = *result.report;
    plot_->setReport(result.report);
    lost_->setReport(&r);
    const bool fixed = r.wall_s.p90 <= r.wall_s.p10 * (1 + 1e-9); // the scenario says the days
    const QString days = fixed
                             ? days_words(r.wall_s.p50)
                             : tr("%1 (p10 %2, p90 %3)").arg(days_words(r.wall_s.p50), days_words(r.wall_s.p10), days_words(r.wall_s.p90));
    const auto tenths = [](double value) { return QLocale().toString(value, 'f', 1); };
    words_->setText(tr("%1 simulated runs: %2, goodput %3 % (p10 %4, p90 %5); %6 interruptions a run, and %7 planned ones")
                        .arg(r.seeds)
                        .arg(days)
                        .arg(tenths(r.goodput.p50 * 100), tenths(r.goodput.p10 * 100), tenths(r.goodput.p90 * 100), tenths(r.interruptions),
                             tenths(r.planned)));
}

TextTable WholeRunView::asTable() const {
    TextTable out = table_of_model(*lost_);
    if (out.rows.empty()) out.problem = words_->text();
    return out;
}

} // namespace orrery
