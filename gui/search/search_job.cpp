#include "gui/search/search_job.hpp"

#include "sim/sweep/store.hpp"

#include <utility>

namespace orrery {

constexpr int batch_ms = 250;

SearchJob::SearchJob(QObject* parent) : QObject(parent) {
    timer_.setInterval(batch_ms);
    connect(&timer_, &QTimer::timeout, this, &SearchJob::deliver);
}

SearchJob::~SearchJob() {
    cancel_ = true;
    if (thread_.joinable()) thread_.join();
}

void SearchJob::start(const std::string& text, const std::string& base_dir, const std::string& space, int jobs) {
    if (running()) return;
    folder_ = std::make_unique<QTemporaryDir>();
    SearchOptions options;
    options.space.parsing.base_dir = base_dir;
    options.space.space = space;
    options.space.jobs = jobs;
    options.space.go_on = [this] { return !cancel_; };
    options.go_on = [this] { return !cancel_; };
    options.database = folder_->filePath(QStringLiteral("found.sqlite")).toStdString();
    options.progress = [this](const SearchProgress& p) {
        const std::lock_guard lock(mutex_);
        progress_ = p;
    };
    cancel_ = false;
    over_ = false;
    seen_ = 0;
    progress_ = {};
    result_ = {};
    error_.clear();
    thread_ = std::thread([this, options = std::move(options), text] { work(options, text); });
    timer_.start();
}

void SearchJob::cancel() { cancel_ = true; }

SearchProgress SearchJob::progress() const {
    const std::lock_guard lock(mutex_);
    return progress_;
}

void SearchJob::work(SearchOptions options, std::string text) {
    SearchResult result;
    QString error;
    try {
        result = search(text, options);
    } catch (const std::exception& e) { error = QString::fromStdString(e.what()); }
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    error_ = error;
    over_ = true;
}

void SearchJob::deliver() {
    bool over = false;
    {
        const std::lock_guard lock(mutex_);
        over = over_;
    }
    std::vector<SweepRow> rows;
    try {
        for (auto& [hash, row] : SweepStore(folder_->filePath(QStringLiteral("found.sqlite")).toStdString()).rows())
            rows.push_back(std::move(row));
    } catch (const std::exception&) { rows.clear(); } // it is being made: next time
    if (rows.size() > seen_) {
        seen_ = rows.size();
        Q_EMIT rowsCame(rows);
    }
    Q_EMIT progressed();
    if (!over) return;
    timer_.stop();
    thread_.join();
    Q_EMIT finished(result_, error_);
}

} // namespace orrery
