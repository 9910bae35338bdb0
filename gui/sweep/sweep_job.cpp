#include "gui/sweep/sweep_job.hpp"

#include <utility>

namespace orrery {

constexpr int batch_ms = 60;

SweepJob::SweepJob(QObject* parent) : QObject(parent) {
    timer_.setInterval(batch_ms);
    connect(&timer_, &QTimer::timeout, this, &SweepJob::deliver);
}

SweepJob::~SweepJob() {
    cancel_ = true;
    if (thread_.joinable()) thread_.join();
}

void SweepJob::start(std::shared_ptr<const SweepDocument> document, const std::string& database, int jobs) {
    if (running()) return;
    cancel_ = false;
    over_ = stopped_ = false;
    error_.clear();
    come_.clear();
    done_ = 0;
    total_ = static_cast<std::size_t>(document->size());
    begin_ = std::chrono::steady_clock::now();
    thread_ = std::thread([this, document = std::move(document), database, jobs] { work(document, database, jobs); });
    timer_.start();
}

void SweepJob::cancel() { cancel_ = true; }

double SweepJob::secondsLeft() const {
    const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    return done_ < 3 || spent < 0.3 ? -1 : spent / static_cast<double>(done_) * static_cast<double>(total_ - done_);
}

void SweepJob::work(std::shared_ptr<const SweepDocument> document, std::string database, int jobs) {
    SweepRunOptions options;
    options.jobs = jobs;
    options.go_on = [this] { return !cancel_; };
    options.found = [this](const SweepRow& row) {
        const std::lock_guard lock(mutex_);
        come_.push_back(row);
    };
    QString error;
    bool stopped = false;
    try {
        stopped = run_sweep(*document, database, options).stopped;
    } catch (const std::exception& e) { error = QString::fromStdString(e.what()); }
    const std::lock_guard lock(mutex_);
    over_ = true;
    stopped_ = stopped;
    error_ = error;
}

void SweepJob::deliver() {
    std::vector<SweepRow> rows;
    bool over = false;
    {
        const std::lock_guard lock(mutex_);
        rows.swap(come_);
        over = over_;
    }
    done_ += rows.size();
    if (!rows.empty()) Q_EMIT rowsCame(rows);
    if (!over) return;
    timer_.stop();
    thread_.join();
    Q_EMIT finished(stopped_, error_);
}

} // namespace orrery
