#include "exec/supervise/drill.hpp"

#include "exec/supervise/beats.hpp"
#include "exec/supervise/record.hpp"

#include <chrono>
#include <cmath>
#include <csignal>
#include <random>

namespace orrery {
namespace {

double unix_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }
void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

} // namespace

std::vector<double> drill_moments(double mean_s, int number, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<double> moments;
    double at = 0;
    for (int i = 0; i < number; ++i) {
        const double share = static_cast<double>(random() >> 11) * 0x1.0p-53;
        moments.push_back(at += -std::log(1 - share) * mean_s);
    }
    return moments;
}

Drill::Drill(std::filesystem::path record, std::filesystem::path beats, std::vector<double> moments, std::uint64_t seed)
    : record_(std::move(record)), beats_(std::move(beats)), moments_(std::move(moments)), seed_(seed),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void Drill::run(const std::stop_token& stop) {
    double began = -1;
    for (; began < 0 && !stop.stop_requested(); pause())
        for (const RunEvent& e : read_record(record_))
            if (e.what == "begin" && began < 0) began = e.time_s;
    std::mt19937_64 random(seed_);
    for (const double moment : moments_) {
        while (unix_s() < began + moment && !stop.stop_requested()) pause();
        for (bool killed = false; !killed && !stop.stop_requested();) {
            const auto ranks = read_beats(beats_);
            if (!ranks.empty()) {
                auto it = ranks.begin();
                std::advance(it, static_cast<int>(random() % ranks.size()));
                const Beat& b = it->second;
                const bool here = b.host == host_name() && b.started >= 0 && process_started(b.process) == b.started;
                killed = here && kill(static_cast<pid_t>(b.process), SIGKILL) == 0;
            }
            if (!killed) pause();
        }
        if (stop.stop_requested()) return;
        last_s_ = unix_s();
        ++sent_;
    }
}

} // namespace orrery
