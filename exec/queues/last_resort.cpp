#include "exec/queues/last_resort.hpp"

#include <cstdio>
#include <unistd.h>

namespace orrery {

LastResort::LastResort(int exit_code) : exit_code_(exit_code), thread_([this] { watch(); }) {}

LastResort::~LastResort() {
    {
        const std::lock_guard lock(mutex_);
        over_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void LastResort::arm(double seconds, const std::string& why) {
    const std::lock_guard lock(mutex_);
    patience_ = std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
    until_ = std::chrono::steady_clock::now() + patience_;
    armed_ = true;
    why_ = why;
    changed_.notify_all();
}

void LastResort::beat() {
    const std::lock_guard lock(mutex_);
    until_ = std::chrono::steady_clock::now() + patience_;
}

void LastResort::disarm() {
    const std::lock_guard lock(mutex_);
    armed_ = false;
}

void LastResort::watch() {
    std::unique_lock lock(mutex_);
    while (!over_) {
        if (!armed_) {
            changed_.wait(lock);
            continue;
        }
        const auto until = until_;
        if (changed_.wait_until(lock, until) == std::cv_status::no_timeout) continue;
        if (over_ || !armed_ || std::chrono::steady_clock::now() < until_) continue;
        std::fputs(("simexec: error: " + why_ + "\n").c_str(), stderr);
        std::fflush(stderr);
        _exit(exit_code_); // no destructor: one of them would wait as well
    }
}

} // namespace orrery
