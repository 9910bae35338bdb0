#include "gui/workers/workers_view.hpp"

#include "gui/core/categories.hpp"
#include "gui/parts/legend.hpp"
#include "gui/parts/plain_table.hpp"
#include "gui/parts/run_label.hpp"
#include "gui/workers/course_model.hpp"
#include "gui/workers/course_plot.hpp"

#include <QHeaderView>
#include <QItemSelectionModel>
#include <QLabel>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>

#include <array>

namespace orrery {

namespace {

std::vector<Legend::Entry> legend_of(const WorkersCourse& course) {
    std::array<bool, course_doing_count> seen{};
    for (const CourseSpan& s : course.spans) seen[static_cast<std::size_t>(s.doing)] = true;
    std::vector<Legend::Entry> out;
    for (int k = 0; k < course_doing_count; ++k)
        if (const auto doing = static_cast<CourseDoing>(k); seen[static_cast<std::size_t>(k)])
            out.push_back({label(doing), [doing](QPainter& p, const QRect& r, const QPalette& palette) {
                               fill_course(p, QRectF(r), doing, is_dark(palette));
                           }});
    return out;
}

} // namespace

WorkersView::WorkersView(RunStore& runs, ViewState& state, QWidget* parent)
    : QWidget(parent), runs_(runs), state_(state), words_(new QLabel), plot_(new CoursePlot), spans_(new CourseModel(this)),
      legend_(new Legend) {
    setAccessibleName(tr("Workers and clients"));
    words_->setWordWrap(true);
    table_ = plain_table(spans_, tr("What workers and clients do"));
    table_->horizontalHeader()->setStretchLastSection(false);
    const int widths[] = {100, 230, 440, 90, 90};
    for (int i = 0; i < CourseModel::column_count; ++i) table_->horizontalHeader()->resizeSection(i, widths[i]);
    auto* parts = new QSplitter(Qt::Vertical);
    parts->addWidget(plot_);
    parts->addWidget(table_);
    parts->setSizes({420, 160});
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(4, 4, 4, 4);
    layout->addWidget(new RunLabel(runs, state));
    layout->addWidget(words_);
    layout->addWidget(parts, 1);
    layout->addWidget(legend_);
    connect(plot_, &CoursePlot::spanChosen, this, [this](int span) {
        table_->selectRow(span);
        table_->scrollTo(spans_->index(span, 0));
    });
    connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
            [this](const QModelIndex& now) { plot_->select(now.isValid() ? now.row() : -1); });
    connect(&state_, &ViewState::currentRunChanged, this, &WorkersView::showRun);
    connect(&runs_, &RunStore::runChanged, this, [this](RunId id) {
        if (id == state_.currentRun()) showRun();
    });
    connect(&runs_, &RunStore::runRemoved, this, &WorkersView::showRun);
    showRun();
}

void WorkersView::showRun() {
    const Run* run = runs_.find(state_.currentRun());
    const std::shared_ptr<const RunData> now = run ? run->data : nullptr;
    if (now && now == shown_) return;
    shown_ = now;
    WorkersCourse course = now ? course_of(*now) : WorkersCourse{};
    if (!run) course.words = tr("No run is open.");
    course_ = std::make_shared<const WorkersCourse>(std::move(course));
    spans_->setCourse(course_);
    plot_->setCourse(course_);
    words_->setText(course_->rows.empty() ? QString() : course_->words);
    words_->setVisible(!course_->rows.empty());
    table_->setVisible(!course_->rows.empty());
    legend_->setEntries(legend_of(*course_));
}

QString WorkersView::words() const { return course_ ? course_->words : QString(); }

TextTable WorkersView::asTable() const {
    TextTable out = table_of_model(*spans_);
    if (out.rows.empty()) out.problem = words();
    return out;
}

std::vector<ViewCommand> WorkersView::commands() { return plot_->commands(); }

} // namespace orrery
