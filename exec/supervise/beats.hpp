// Signs of life of a rank's process, in a file that the supervisor reads: who it is, how often it has beaten, how many steps it has done.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace orrery {

struct Beat {
    std::string host;
    std::int64_t process = 0, started = 0; // its number, and when it began by the kernel's clock: numbers are used again
    std::int64_t count = 0;                // of beats
    std::int64_t steps = -1;               // done in this process; -1: it has not begun to train
};

inline constexpr double beat_every_s = 0.5;

// Beats until it is destroyed, from a thread of its own, so that a long kernel is not taken for silence.
class Beats {
  public:
    // The folder is made. Throws std::runtime_error where its file cannot be written.
    Beats(const std::filesystem::path& folder, int rank);
    ~Beats();
    Beats(const Beats&) = delete;
    Beats& operator=(const Beats&) = delete;
    void steps(std::int64_t done); // the first is told at once

  private:
    void beat();
    std::mutex mutex_; // of the file and the count
    int file_ = -1;
    std::string who_;
    std::int64_t count_ = 0;
    std::atomic<std::int64_t> steps_{-1};
    std::jthread thread_;
};

// Beats of all ranks that have beaten, by rank. A file that is being written is left out.
std::map<int, Beat> read_beats(const std::filesystem::path& folder);

std::string host_name();
// When a process of this machine began, in ticks since the machine did; -1: there is none of that number.
std::int64_t process_started(std::int64_t process);

} // namespace orrery
