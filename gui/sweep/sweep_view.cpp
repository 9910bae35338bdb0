#include "gui/sweep/sweep_view.hpp"

#include "gui/parts/plain_table.hpp"
#include "gui/sweep/heat_plot.hpp"
#include "gui/sweep/sweep_job.hpp"

#include <QComboBox>
#include <QCryptographicHash>
#include <QDir>
#include <QHeaderView>
#include <QItemSelectionModel>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QSortFilterProxyModel>
#include <QSplitter>
#include <QStandardPaths>
#include <QTableView>
#include <QTimer>
#include <QVBoxLayout>

#include <algorithm>
#include <thread>

namespace orrery {

SweepView::SweepView(RunStore& store, ViewState& state, QWidget* parent)
    : QWidget(parent), store_(store), state_(state), job_(new SweepJob(this)), model_(new SweepModel(this)),
      sorted_(new QSortFilterProxyModel(this)), heat_(new HeatPlot), table_(new QTableView), title_(new QLabel(tr("No sweep is open"))),
      words_(new QLabel), progress_(new QProgressBar), run_(new QPushButton(tr("Run"))), add_(new QPushButton(tr("Add to strategies"))),
      x_(new QComboBox), y_(new QComboBox), metric_(new QComboBox), redraw_(new QTimer(this)) {
    makeTable();
    layOut();
    redraw_->setSingleShot(true);
    redraw_->setInterval(100); // a map a batch would be too many
    connect(redraw_, &QTimer::timeout, this, &SweepView::showMap);
    connect(run_, &QPushButton::clicked, this, [this] { running() ? cancel() : start(); });
    connect(add_, &QPushButton::clicked, this, &SweepView::addSelected);
    connect(table_, &QTableView::activated, this, &SweepView::addSelected);
    for (QComboBox* box : {x_, y_, metric_}) connect(box, &QComboBox::currentIndexChanged, this, &SweepView::showMap);
    connect(job_, &SweepJob::rowsCame, this, [this](const std::vector<SweepRow>& rows) {
        model_->take(rows);
        showProgress();
        if (!redraw_->isActive()) redraw_->start();
    });
    connect(job_, &SweepJob::finished, this, &SweepView::over);
    connect(heat_, &HeatPlot::chosen, this, [this](qint64 point) { selectPoint(static_cast<int>(point)); });
    run_->setEnabled(false);
    add_->setEnabled(false);
    progress_->hide();
}

SweepView::~SweepView() = default;

void SweepView::selectPoint(int point) {
    const QModelIndex index = sorted_->mapFromSource(model_->index(point, 0));
    table_->selectRow(index.row());
    table_->scrollTo(index);
}

void SweepView::makeTable() {
    sorted_->setSourceModel(model_);
    sorted_->setSortRole(SweepModel::SortRole);
    table_->setModel(sorted_);
    table_->setSortingEnabled(true);
    table_->sortByColumn(-1, Qt::AscendingOrder);
    table_->setSelectionBehavior(QAbstractItemView::SelectRows);
    table_->setAlternatingRowColors(true);
    table_->setTabKeyNavigation(false);
    table_->setShowGrid(false);
    table_->setWordWrap(false);
    table_->verticalHeader()->hide();
    table_->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 6);
    table_->horizontalHeader()->setStretchLastSection(true);
    table_->setAccessibleName(tr("Points of the sweep"));
    copies_rows(*table_);
    connect(table_->selectionModel(), &QItemSelectionModel::selectionChanged, this,
            [this] { add_->setEnabled(table_->selectionModel()->hasSelection()); });
}

void SweepView::layOut() {
    for (QComboBox* box : {x_, y_, metric_}) box->setSizeAdjustPolicy(QComboBox::AdjustToContents); // sweeps come and go
    x_->setAccessibleName(tr("Horizontal axis"));
    y_->setAccessibleName(tr("Vertical axis"));
    metric_->setAccessibleName(tr("Figure"));
    metric_->addItems({tr("step time"), tr("tokens/s"), tr("MFU"), tr("bubble"), tr("stragglers"), tr("peak memory")});
    progress_->setMaximumWidth(220);
    progress_->setAccessibleName(tr("Points computed"));
    add_->setToolTip(tr("Simulates the chosen points in full and adds them to the table of strategies (Enter)"));
    auto* row = new QHBoxLayout;
    row->setContentsMargins(4, 0, 4, 0);
    for (QWidget* w :
         {static_cast<QWidget*>(title_), static_cast<QWidget*>(run_), static_cast<QWidget*>(progress_), static_cast<QWidget*>(words_)})
        row->addWidget(w);
    row->addStretch();
    row->addWidget(add_);
    auto* axes = new QHBoxLayout;
    axes->setContentsMargins(4, 0, 4, 0);
    axes->addWidget(new QLabel(tr("Best")));
    axes->addWidget(metric_);
    axes->addWidget(new QLabel(tr("over")));
    axes->addWidget(x_);
    axes->addWidget(new QLabel(tr("and")));
    axes->addWidget(y_);
    axes->addStretch();
    auto* left = new QWidget;
    auto* column = new QVBoxLayout(left);
    column->setContentsMargins(0, 0, 0, 0);
    column->addLayout(axes);
    column->addWidget(heat_, 1);
    auto* splitter = new QSplitter;
    splitter->addWidget(left);
    splitter->addWidget(table_);
    splitter->setStretchFactor(0, 1);
    splitter->setStretchFactor(1, 1);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 4, 0, 0);
    layout->addLayout(row);
    layout->addWidget(splitter, 1);
    setFocusProxy(table_);
}

std::vector<Problem> SweepView::load(const std::string& text, const std::string& base_dir, const QString& name) {
    ParseOptions options;
    options.base_dir = base_dir;
    SweepResult parsed = parse_sweep(text, options);
    if (!parsed.document || !parsed.problems.empty()) return parsed.problems;
    cancel();
    if (running()) return {{"", "the sweep before is being stopped: open this one again in a moment"}};
    document_ = std::make_shared<const SweepDocument>(std::move(*parsed.document));
    name_ = name;
    text_ = text;
    complete_ = false;
    const QString full = QString::fromStdString(document_->name());
    title_->setText(QStringLiteral("<b>%1</b>").arg((full.isEmpty() ? name : full).toHtmlEscaped()));
    {
        const QSignalBlocker quiet_x(x_), quiet_y(y_);
        x_->clear();
        y_->clear();
        for (const SweepAxis& axis : document_->axes()) {
            x_->addItem(axis_title(axis));
            y_->addItem(axis_title(axis));
        }
        y_->setCurrentIndex(document_->axes().size() > 1 ? 1 : 0);
    }
    model_->setDocument(document_);
    for (int c = 0; c < model_->columnCount(); ++c)
        table_->setColumnWidth(c, std::clamp(fontMetrics().horizontalAdvance(model_->headerData(c, Qt::Horizontal).toString()) + 24,
                                             c < model_->axes() ? 40 : 84, 130));
    run_->setEnabled(true);
    words_->setText(tr("%n combinations", "", static_cast<int>(document_->size())));
    showMap();
    return {};
}

// The same text finds the same file: what was computed before comes back at once.
QString SweepView::databasePath() const {
    if (!database_.isEmpty()) return database_;
    const QString folder = QStandardPaths::writableLocation(QStandardPaths::CacheLocation) + QStringLiteral("/sweeps");
    QDir().mkpath(folder);
    const QByteArray hash = QCryptographicHash::hash(QByteArray::fromStdString(text_), QCryptographicHash::Sha1).toHex().left(16);
    return folder + QLatin1Char('/') + QString::fromLatin1(hash) + QStringLiteral(".sqlite");
}

void SweepView::start() {
    if (!document_ || running()) return;
    model_->setDocument(document_);
    progress_->setRange(0, static_cast<int>(document_->size()));
    progress_->setValue(0);
    progress_->show();
    run_->setText(tr("Cancel"));
    // One core stays free for the window.
    const int jobs = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) - 1);
    job_->start(document_, databasePath().toStdString(), jobs);
    Q_EMIT runningChanged(true);
}

void SweepView::cancel() { job_->cancel(); }

bool SweepView::running() const { return job_->running(); }

void SweepView::showProgress() {
    progress_->setValue(static_cast<int>(job_->done()));
    QString text = tr("%1 of %2").arg(job_->done()).arg(document_->size());
    if (const double left = job_->secondsLeft(); left >= 1)
        text += tr(", about %1 left")
                    .arg(left < 90 ? tr("%1 s").arg(static_cast<int>(left + 0.5)) : tr("%1 min").arg(static_cast<int>(left / 60 + 0.5)));
    words_->setText(text);
}

void SweepView::over(bool stopped, const QString& error) {
    run_->setText(tr("Run"));
    progress_->hide();
    complete_ = !stopped && error.isEmpty();
    int fits = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(document_->size()); ++i)
        fits += model_->row(i) && model_->row(i)->status == PointStatus::fits;
    words_->setText(stopped ? tr("Stopped: %1 of %2 computed; Run goes on from here").arg(job_->done()).arg(document_->size())
                            : tr("%1 of %2 combinations fit").arg(fits).arg(document_->size()));
    showMap();
    if (!error.isEmpty()) Q_EMIT failed(name_, error);
    Q_EMIT runningChanged(false);
}

void SweepView::showMap() {
    if (!document_) return;
    const auto metric = static_cast<HeatMetric>(metric_->currentIndex());
    const HeatMap map = heat_map(*model_, x_->currentIndex(), y_->currentIndex(), metric);
    std::vector<QString> tips;
    for (const HeatCell& cell : map.cells) {
        QString tip = tr("%1 of %2 points computed").arg(cell.computed).arg(cell.points);
        if (cell.point >= 0) {
            const SweepRow& row = *model_->row(static_cast<std::size_t>(cell.point));
            tip += QStringLiteral("\n") + QString::fromStdString(row.label) +
                   (row.reason.empty() ? QString{} : QStringLiteral("\n") + QString::fromStdString(row.reason));
        }
        tips.push_back(tip);
    }
    heat_->setTips(std::move(tips));
    Q_EMIT pointsChanged();
    heat_->setMap(map, metric, x_->currentText(), x_->currentIndex() == y_->currentIndex() ? QString{} : y_->currentText());
}

void SweepView::addSelected() {
    if (!document_) return;
    RunId last = 0;
    QStringList rejected;
    for (const QModelIndex& index : table_->selectionModel()->selectedRows()) {
        const int number = index.data(SweepModel::PointRole).toInt();
        const SweepPoint point = document_->point(number);
        const SweepRow* row = model_->row(static_cast<std::size_t>(number));
        const bool impossible = point.rejected || (row && (row->status == PointStatus::impossible || row->status == PointStatus::failed));
        if (!impossible) {
            last = store_.simulate(point.json, document_->base_dir(), QString::fromStdString(point.label));
            continue;
        }
        const std::string why = row && !row->reason.empty() ? row->reason : point.rejected.value_or("");
        rejected << tr("%1 cannot be added: %2").arg(QString::fromStdString(point.label), QString::fromStdString(why));
    }
    if (last != 0) state_.setCurrentRun(last);
    for (const QString& what : rejected) Q_EMIT failed(name_, what);
}

std::vector<ViewCommand> SweepView::commands() {
    std::vector<ViewCommand> out = heat_->commands();
    out.push_back({QStringLiteral("add"),
                   tr("Add to strategies"),
                   tr("Simulates the chosen points in full and adds them to the table of strategies"),
                   {Qt::Key_Return},
                   {},
                   [this] { addSelected(); }});
    for (int i = 0; i < metric_->count(); ++i)
        out.push_back({QStringLiteral("figure_%1").arg(i),
                       tr("Map of: %1").arg(metric_->itemText(i)),
                       tr("Colours the cells by this figure"),
                       {},
                       {},
                       [this, i] { metric_->setCurrentIndex(i); }});
    return out;
}

} // namespace orrery
