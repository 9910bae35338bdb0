// A sweep run in the background: rows come in batches, a few times a second, and it can be stopped. Computed rows stay in its file.
#pragma once

#include <QObject>
#include <QTimer>

#include "sim/sweep/sweep.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace orrery {

class SweepJob : public QObject {
    Q_OBJECT
  public:
    explicit SweepJob(QObject* parent = nullptr);
    ~SweepJob() override;

    bool running() const { return thread_.joinable(); }
    void start(std::shared_ptr<const SweepDocument> document, const std::string& database, int jobs);
    void cancel(); // finished() follows
    std::size_t done() const { return done_; }
    // Seconds the rest is likely to take; negative: too early to say.
    double secondsLeft() const;

  Q_SIGNALS:
    void rowsCame(const std::vector<orrery::SweepRow>& rows);
    void finished(bool stopped, const QString& error);

  private:
    void work(std::shared_ptr<const SweepDocument> document, std::string database, int jobs);
    void deliver();

    std::thread thread_;
    QTimer timer_;
    std::mutex mutex_;
    std::vector<SweepRow> come_; // under the mutex, as the two below
    bool over_ = false, stopped_ = false;
    QString error_;
    std::atomic<bool> cancel_{false};
    std::size_t done_ = 0, total_ = 0;
    std::chrono::steady_clock::time_point begin_;
};

} // namespace orrery
