// "Find the best": the search runs in the background and fills the table of strategies.
#include "gui/app/main_window.hpp"
#include "gui/editor/scenario_document.hpp"
#include "gui/strategies/strategies_model.hpp"
#include "gui/strategies/strategies_view.hpp"
#include "sim/scenario/abilities.hpp"
#include "sim/search/print.hpp"

#include <QAction>
#include <QLabel>
#include <QLocale>
#include <QProgressBar>
#include <QToolButton>

namespace orrery {

void MainWindow::makeSearchAction(const QString& menu) {
    actions_->add({QStringLiteral("run.find_best"),
                   menu,
                   tr("Find the &best"),
                   tr("Searches the best strategy for the scenario: its degrees, micro batch, schedule, ZeRO and recompute are set free"),
                   {QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_B)},
                   true},
                  [this] { findBest(); });
}

void MainWindow::joinSearch() {
    connect(search_, &SearchJob::rowsCame, this, [this](const std::vector<SweepRow>& rows) {
        found_.add(rows);
        showSwept();
    });
    connect(search_, &SearchJob::progressed, this, [this] {
        const SearchProgress p = search_->progress();
        progress_->show();
        cancel_->show();
        actions_->find(QStringLiteral("run.cancel"))->setEnabled(true);
        doing_->setText(tr("searching: %1 of %2 strategies simulated, %3 left to look at")
                            .arg(QLocale().toString(qlonglong{p.simulated}), QLocale().toString(qlonglong{p.legal}),
                                 QLocale().toString(qlonglong{p.left})));
    });
    connect(search_, &SearchJob::finished, this, &MainWindow::searchOver);
    connect(strategies_, &StrategiesView::sweptRequested, this, [this](int number) {
        const std::string text = found_.scenario(number);
        if (text.empty()) return;
        QString name;
        for (const SweptPoint& p : found_.points())
            if (p.number == number) name = p.name;
        state_.setCurrentRun(store_.simulate(text, searched_dir_, name, {}));
    });
}

void MainWindow::findBest() {
    const Run* run = store_.find(state_.currentRun());
    const ScenarioDocument* document = documents_->current();
    if (!run || !document || search_->running()) return;
    const std::string text = document->text();
    found_.clear();
    showSwept();
    searched_dir_ = run->data->base_dir;
    showView(QStringLiteral("strategies"));
    search_->start(with_free_strategy(text), searched_dir_, schedules_beside_own(text));
}

void MainWindow::searchOver(const SearchResult& result, const QString& error) {
    const QString source = tr("Find the best");
    for (const Problem& p : result.problems) complain(source, QString::fromStdString(p.where + ": " + p.what));
    if (!error.isEmpty()) complain(source, error);
    if (const std::string why = no_answer(result); !why.empty()) complain(source, QString::fromStdString(why));
    found_.finish(result);
    strategies_->model().setSwept({}); // rows stand as they came: from here on the best is the first
    showSwept();
    progress_->setVisible(!working_.empty());
    cancel_->setVisible(!working_.empty());
    actions_->find(QStringLiteral("run.cancel"))->setEnabled(!working_.empty());
    doing_->setText(result.points.empty()
                        ? QString{}
                        : tr("%1 strategies found that fit, of %2 legal ones")
                              .arg(QLocale().toString(qlonglong{found_.fitting()}), QLocale().toString(qlonglong{result.counts.legal})));
    if (idle()) Q_EMIT becameIdle();
}

} // namespace orrery
