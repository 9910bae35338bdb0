#include "exec/queues/last_resort.hpp"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

namespace orrery {

LastResort::LastResort(int exit_code, std::function<std::string()> ended)
    : exit_code_(exit_code), ended_(std::move(ended)), thread_([this] { watch(); }) {}

LastResort::~LastResort() {
    {
        const std::lock_guard lock(mutex_);
        over_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void LastResort::arm(double seconds, const std::string& why, bool job) {
    const std::lock_guard lock(mutex_);
    patience_ = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    until_ = Clock::now() + patience_;
    armed_ = true;
    job_ = job && ended_;
    over_since_.reset();
    why_ = why;
    changed_.notify_all();
}

void LastResort::beat() {
    const std::lock_guard lock(mutex_);
    until_ = Clock::now() + patience_;
}

void LastResort::disarm() {
    const std::lock_guard lock(mutex_);
    armed_ = false;
}

void LastResort::end(const std::string& why) const {
    std::fputs(("simexec: error: " + why + "\n").c_str(), stderr);
    std::fflush(stderr);
    _exit(exit_code_); // no destructor: one of them would wait as well
}

// Whether the job is over, and since when. Asking may take a while: others may beat and disarm meanwhile.
void LastResort::look(std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    const std::string ended = ended_();
    lock.lock();
    if (ended.empty() || over_ || !armed_ || !job_) return;
    const Clock::time_point now = Clock::now();
    if (!over_since_) over_since_ = now;
    if (now - *over_since_ >= std::chrono::seconds(5)) end(why_ + " (" + ended + ")");
}

void LastResort::watch() {
    std::unique_lock lock(mutex_);
    while (!over_) {
        if (!armed_) {
            changed_.wait(lock);
            continue;
        }
        const auto until = job_ ? std::min(until_, Clock::now() + std::chrono::milliseconds(500)) : until_;
        if (changed_.wait_until(lock, until) == std::cv_status::no_timeout) continue;
        if (over_ || !armed_) continue;
        if (Clock::now() >= until_)
            end(why_ + " (no sign of it for " + std::to_string(std::chrono::duration_cast<std::chrono::seconds>(patience_).count()) +
                " s)");
        if (job_) look(lock);
    }
}

} // namespace orrery
