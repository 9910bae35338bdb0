#include "exec/supervise/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <unistd.h>

namespace orrery {

namespace fs = std::filesystem;

RunRecord::RunRecord(const fs::path& file, int attempt) : attempt_(attempt) {
    std::error_code made;
    fs::create_directories(file.parent_path(), made);
    file_ = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file_ < 0) throw std::runtime_error(fmt::format("{} cannot be written: {}", file.string(), std::strerror(errno)));
}

RunRecord::~RunRecord() { ::close(file_); }

void RunRecord::add(const std::string& what, std::int64_t step, double loss, const std::string& how) const {
    const double time = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    const std::string line = fmt::format("{:.6f},{},{},{},{:.17g},{}\n", time, attempt_, what, step, loss, how);
    [[maybe_unused]] const auto written = ::write(file_, line.data(), line.size()); // a full disk ends the run elsewhere, with its reason
}

std::vector<RunEvent> read_record(const fs::path& file) {
    std::vector<RunEvent> events;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
        std::vector<std::string> cells;
        std::istringstream cut(line);
        for (std::string cell; std::getline(cut, cell, ',');) cells.push_back(cell);
        if (cells.size() < 5) continue;
        RunEvent e;
        std::istringstream numbers(cells[0] + ' ' + cells[1] + ' ' + cells[3] + ' ' + cells[4]);
        if (!(numbers >> e.time_s >> e.attempt >> e.step >> e.loss)) continue;
        e.what = cells[2];
        if (cells.size() > 5) e.how = cells[5];
        events.push_back(std::move(e));
    }
    return events;
}

RunSummary summary(const std::vector<RunEvent>& events) {
    RunSummary s;
    std::map<std::int64_t, double> losses, took_last; // by step, of the time it counted
    std::vector<double> restarts;
    double first = -1, before = -1, ended = -1;
    for (const RunEvent& e : events) {
        s.attempts = std::max(s.attempts, e.attempt + 1);
        if (e.what == "begin") {
            if (first < 0) first = e.time_s;
            if (ended >= 0) restarts.push_back(e.time_s - ended);
            ended = -1;
            before = e.time_s;
        } else if (e.what == "step") {
            const double took = e.time_s - before;
            before = e.time_s;
            took_last[e.step] = took;
            const auto [it, fresh] = losses.try_emplace(e.step, e.loss);
            if (!fresh) {
                s.wasted_s += took;
                s.largest_redo = std::max(s.largest_redo, std::abs(e.loss - it->second) / std::max(1e-300, std::abs(it->second)));
                it->second = e.loss;
            }
        } else if (e.what == "saved") {
            before = e.time_s;
        } else if (e.what == "end" && ended < 0 && first >= 0) {
            ended = e.time_s;
        }
    }
    s.steps = static_cast<std::int64_t>(losses.size());
    for (const auto& [step, loss] : losses) s.losses.push_back(loss);
    for (const auto& [step, took] : took_last) s.step_s += took / static_cast<double>(took_last.size());
    for (const double r : restarts) s.restart_s += r / static_cast<double>(restarts.size());
    if (first >= 0) s.wall_s = events.back().time_s - first;
    if (s.wall_s > 0) s.goodput = static_cast<double>(s.steps) * s.step_s / s.wall_s;
    return s;
}

} // namespace orrery
