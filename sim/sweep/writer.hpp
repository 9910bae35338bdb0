// Rows on their way to a sweep's file: a thread of its own writes as many a commit as have come meanwhile. Private to this room.
#pragma once

#include "sim/sweep/store.hpp"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace orrery {

// An error of the file reaches the thread that calls finish().
class Writer {
  public:
    explicit Writer(SweepStore& store) : store_(store), thread_([this] { write(); }) {}
    ~Writer();
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    void add(SweepRow row);
    bool broken() const { return broken_; }
    void finish(); // writes what is left

  private:
    void write();
    void stop();

    SweepStore& store_;
    std::mutex mutex_;
    std::condition_variable come_;
    std::vector<SweepRow> pending_;
    bool finished_ = false;
    std::atomic<bool> broken_{false};
    std::exception_ptr error_;
    std::thread thread_;
};

} // namespace orrery
