// A search in the background: what it has simulated comes in batches, a few times a second, and it can be stopped.
#pragma once

#include "sim/search/search.hpp"

#include <QObject>
#include <QTemporaryDir>
#include <QTimer>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace orrery {

class SearchJob : public QObject {
    Q_OBJECT
  public:
    explicit SearchJob(QObject* parent = nullptr);
    ~SearchJob() override;

    bool running() const { return thread_.joinable(); }
    void start(const std::string& text, const std::string& base_dir, const std::string& space, int jobs = 0);
    void cancel(); // finished() follows
    SearchProgress progress() const;

  Q_SIGNALS:
    void rowsCame(const std::vector<orrery::SweepRow>& rows); // those that are new
    void progressed();
    void finished(const orrery::SearchResult& result, const QString& error);

  private:
    void work(SearchOptions options, std::string text);
    void deliver();

    std::thread thread_;
    QTimer timer_;
    std::unique_ptr<QTemporaryDir> folder_; // of the file that the search writes and this reads
    mutable std::mutex mutex_;
    SearchProgress progress_; // under the mutex, as the three below
    SearchResult result_;
    QString error_;
    bool over_ = false;
    std::atomic<bool> cancel_{false};
    std::size_t seen_ = 0;
};

} // namespace orrery
