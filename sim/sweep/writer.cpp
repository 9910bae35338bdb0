#include "sim/sweep/writer.hpp"

#include <utility>

namespace orrery {

Writer::~Writer() { stop(); }

void Writer::add(SweepRow row) {
    const std::lock_guard lock(mutex_);
    pending_.push_back(std::move(row));
    come_.notify_one();
}

void Writer::finish() {
    stop();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Writer::stop() {
    if (!thread_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        finished_ = true;
        come_.notify_one();
    }
    thread_.join();
}

void Writer::write() {
    try {
        std::unique_lock lock(mutex_);
        while (true) {
            come_.wait(lock, [&] { return finished_ || !pending_.empty(); });
            if (pending_.empty()) return;
            std::vector<SweepRow> rows;
            rows.swap(pending_);
            lock.unlock();
            store_.commit(rows);
            lock.lock();
        }
    } catch (...) {
        error_ = std::current_exception();
        broken_ = true;
    }
}

} // namespace orrery
