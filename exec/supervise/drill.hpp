// A fire drill for a supervised run: random ranks are killed at random moments that were drawn beforehand.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <thread>
#include <vector>

namespace orrery {

// `number` moments of a Poisson process with `mean_s` seconds between two, in seconds, ascending. The same seed gives the same.
std::vector<double> drill_moments(double mean_s, int number, std::uint64_t seed);

// From its making to its end, in a thread of its own: at each moment after the record's first "begin" SIGKILL to a random rank of this
// machine that beats into `beats`; where there is none at the moment, to the next that comes.
class Drill {
  public:
    Drill(std::filesystem::path record, std::filesystem::path beats, std::vector<double> moments, std::uint64_t seed);
    int sent() const { return sent_; }
    double last_s() const { return last_s_; } // when the last kill was, UNIX time

  private:
    void run(const std::stop_token& stop);
    std::filesystem::path record_, beats_;
    std::vector<double> moments_;
    std::uint64_t seed_;
    std::atomic<int> sent_{0};
    std::atomic<double> last_s_{0};
    std::jthread thread_;
};

} // namespace orrery
