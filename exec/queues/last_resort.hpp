// A timer that ends the process where a host thread no longer comes back: inside a library that waits for a peer which is gone, or whose
// abort itself does not return. Everything else ends by exceptions; this is for when nothing else can.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace orrery {

class LastResort {
  public:
    explicit LastResort(int exit_code);
    ~LastResort();
    LastResort(const LastResort&) = delete;
    LastResort& operator=(const LastResort&) = delete;

    // From now on the process ends, saying why, `seconds` after this call or the last beat.
    void arm(double seconds, const std::string& why);
    void beat();
    void disarm();

  private:
    void watch();

    int exit_code_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool armed_ = false, over_ = false;
    std::chrono::steady_clock::duration patience_{};
    std::chrono::steady_clock::time_point until_{};
    std::string why_;
    std::thread thread_;
};

} // namespace orrery
