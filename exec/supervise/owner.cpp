#include "exec/supervise/owner.hpp"

#include "exec/supervise/beats.hpp"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>
#include <unistd.h>
#include <vector>

namespace orrery {
namespace {

namespace fs = std::filesystem;

bool lives(const std::string& host, std::int64_t process, std::int64_t started) {
    return host == host_name() && process > 0 && process_started(process) == started;
}

std::vector<std::int64_t> living_ranks(const fs::path& watch) {
    std::vector<std::int64_t> out;
    for (const auto& [rank, beat] : read_beats(watch))
        if (lives(beat.host, beat.process, beat.started)) out.push_back(beat.process);
    return out;
}

void end_ranks(const fs::path& watch, double patience_s) {
    using Clock = std::chrono::steady_clock;
    const auto until = Clock::now() + std::chrono::duration<double>(patience_s);
    while (Clock::now() < until && !living_ranks(watch).empty()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (const std::int64_t process : living_ranks(watch)) kill(static_cast<pid_t>(process), SIGKILL);
}

} // namespace

FolderOwner::FolderOwner(fs::path folder, const fs::path& watch, double patience_s) : file_(std::move(folder)) {
    std::error_code none;
    fs::create_directories(file_, none);
    const fs::path of = file_;
    file_ /= ".supervisor";
    std::string host;
    std::int64_t process = 0, started = 0;
    std::ifstream in(file_);
    if (in >> host >> process >> started && lives(host, process, started) && process != getpid()) {
        problem_ = fmt::format("{} belongs to a run that goes on, process {}: end it first, or name another folder", of.string(), process);
        return;
    }
    end_ranks(watch, patience_s);
    std::ofstream(file_) << host_name() << ' ' << getpid() << ' ' << process_started(getpid()) << '\n';
}

FolderOwner::~FolderOwner() {
    std::error_code none;
    if (problem_.empty()) fs::remove(file_, none);
}

} // namespace orrery
