#include "exec/supervise/beats.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <unistd.h>

namespace orrery {

namespace fs = std::filesystem;

namespace {
constexpr std::size_t line_length = 256; // always as long, so that a reader never sees the end of an older line
}

std::string host_name() {
    char name[128] = {};
    return gethostname(name, sizeof name - 1) == 0 && *name ? name : "?";
}

std::int64_t process_started(std::int64_t process) {
    std::ifstream in(fmt::format("/proc/{}/stat", process));
    std::string text{std::istreambuf_iterator<char>(in), {}};
    const std::size_t close = text.rfind(')'); // the program's name may hold anything
    if (close == std::string::npos) return -1;
    std::istringstream rest(text.substr(close + 1));
    std::string word;
    rest >> word;
    if (word == "Z" || word == "X") return -1;              // it has ended, and nobody has asked how
    for (int field = 4; field <= 22; ++field) rest >> word; // proc(5): field 22
    std::int64_t started = -1;
    std::from_chars(word.data(), word.data() + word.size(), started);
    return started;
}

Beats::Beats(const fs::path& folder, int rank) {
    std::error_code made;
    fs::create_directories(folder, made);
    const fs::path file = folder / fmt::format("rank-{}", rank);
    file_ = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file_ < 0) throw std::runtime_error(fmt::format("{} cannot be written: {}", file.string(), std::strerror(errno)));
    who_ = fmt::format("{} {} {}", host_name(), getpid(), process_started(getpid()));
    beat();
    thread_ = std::jthread([this](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any wake;
        std::unique_lock lock(mutex);
        while (!wake.wait_for(lock, stop, std::chrono::duration<double>(beat_every_s), [&] { return stop.stop_requested(); })) beat();
    });
}

Beats::~Beats() {
    thread_.request_stop();
    thread_.join();
    beat();
    ::close(file_);
}

void Beats::steps(std::int64_t done) {
    steps_ = done;
    if (done <= 1) beat();
}

void Beats::beat() {
    const std::lock_guard lock(mutex_);
    std::string line = fmt::format("{} {} {}", who_, ++count_, steps_.load());
    line.resize(line_length - 1, ' ');
    line += '\n';
    [[maybe_unused]] const auto written = ::pwrite(file_, line.data(), line.size(), 0); // the next one may succeed
}

std::map<int, Beat> read_beats(const fs::path& folder) {
    std::map<int, Beat> beats;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none)) {
        const std::string name = entry.path().filename().string();
        int rank = -1;
        if (!name.starts_with("rank-") || std::from_chars(name.data() + 5, name.data() + name.size(), rank).ec != std::errc{}) continue;
        std::ifstream in(entry.path());
        Beat b;
        if (in >> b.host >> b.process >> b.started >> b.count >> b.steps) beats[rank] = b;
    }
    return beats;
}

} // namespace orrery
