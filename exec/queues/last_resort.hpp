// A timer that ends the process where a host thread no longer comes back: inside a library that waits for a peer which is gone, or whose
// abort itself does not return. Everything else ends by exceptions; this is for when nothing else can.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace orrery {

class LastResort {
  public:
    // ended: asked twice a second, from another thread, where arm() says so: why the job is over; empty: it is not.
    LastResort(int exit_code, std::function<std::string()> ended = {});
    ~LastResort();
    LastResort(const LastResort&) = delete;
    LastResort& operator=(const LastResort&) = delete;

    // From now on the process ends, saying why, `seconds` after this call or the last beat. job: where the job is over elsewhere, the host
    // thread has five seconds to come back: a full queue of launches keeps it until the peer comes that never will.
    void arm(double seconds, const std::string& why, bool job = false);
    void beat();
    void disarm();

  private:
    using Clock = std::chrono::steady_clock;
    void watch();
    void end(const std::string& why) const;
    void look(std::unique_lock<std::mutex>& lock);

    int exit_code_;
    std::function<std::string()> ended_;
    bool job_ = false;
    std::optional<Clock::time_point> over_since_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool armed_ = false, over_ = false;
    std::chrono::steady_clock::duration patience_{};
    std::chrono::steady_clock::time_point until_{};
    std::string why_;
    std::thread thread_;
};

} // namespace orrery
