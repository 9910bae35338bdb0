// `simrun learn`: rows of one's own, the beliefs they leave, and predictions with them.
#include "sim/validate/lessons.hpp"

#include "sim/cost/own_constants.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <numeric>

namespace orrery {

namespace {

using DeviceStack = std::pair<std::string, Stack>; // device and stack

DeviceStack kind_of(const ValidationRow& r) { return {r.configuration.device, r.configuration.stack}; }

bool usable(const ValidationRow& r) { return r.failure.empty() && !r.doubtful; }

void predict_all(std::vector<ValidationRow>& rows, int jobs, const Progress& progress) {
    rows = validate(std::move(rows), jobs, progress, true).rows;
}

// Rows predicted with factors say how far off these still are; what was learned is how far off the constants were without.
std::vector<LearnedConstants> taught(const std::vector<ValidationRow>& rows, const std::vector<ValidationRow>& before,
                                     const std::map<DeviceStack, BeliefArray>& means) {
    struct Lessons {
        std::vector<Lesson> time;
        std::vector<MemoryLesson> memory;
    };
    std::map<DeviceStack, Lessons> by_kind;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (!usable(before[i]) || !usable(rows[i])) continue;
        Lessons& l = by_kind[kind_of(before[i])];
        if (auto lesson = lesson_of(rows[i])) {
            if (const auto mean = means.find(kind_of(before[i])); mean != means.end()) {
                const BeliefArray x = with_rest(lesson->shares);
                lesson->off += std::inner_product(x.begin(), x.end(), mean->second.begin(), 0.0);
            }
            l.time.push_back(*lesson);
        }
        if (const auto lesson = memory_lesson_of(before[i])) l.memory.push_back(*lesson);
    }
    std::vector<LearnedConstants> out;
    for (const auto& [kind, lessons] : by_kind) {
        if (lessons.time.empty() && lessons.memory.empty()) continue;
        const Taught time = taught_by(lessons.time);
        LearnedConstants learned{kind.first,   kind.second, static_cast<int>(std::max(lessons.time.size(), lessons.memory.size())),
                                 time.beliefs, time.noise,  std::nullopt};
        if (!lessons.memory.empty()) {
            const MemoryTaught memory = taught_by(lessons.memory);
            learned.memory = LearnedConstants::Memory{static_cast<int>(lessons.memory.size()), memory.beliefs, memory.noise};
        }
        out.push_back(learned);
    }
    return out;
}

std::vector<std::string> without_lesson(const std::vector<ValidationRow>& rows) {
    std::vector<std::string> out;
    for (const ValidationRow& r : rows) {
        if (!r.failure.empty())
            out.push_back(r.name + ": " + r.failure);
        else if (r.doubtful)
            out.push_back(r.name + ": its note says that it is doubtful");
        else if (!lesson_of(r) && !memory_lesson_of(r))
            out.push_back(r.name + ": it has neither a measured step time nor a measured memory");
    }
    return out;
}

constexpr double farthest = 20; // as far as factors are learned (sim/cost/learned.cpp)

struct Unit {
    double factor; // of the figure's own unit
    const char* name;
};

// The unit that makes the figure near what is predicted; a prediction is hardly off by four.
std::string likely(double ratio, std::initializer_list<Unit> units) {
    constexpr double near = 4;
    for (const Unit& u : units)
        if (ratio * u.factor < near && ratio * u.factor > 1 / near) return fmt::format(": is it in {}?", u.name);
    return ": is it of another job, or in another unit?";
}

std::string odd(const char* field, double measured, double predicted, const char* unit, std::initializer_list<Unit> units) {
    const double ratio = measured / predicted;
    if (!(predicted > 0) || (ratio < farthest && ratio > 1 / farthest)) return "";
    return fmt::format("\"{}\" = {:.6g} is read in {}, and {:.4g} are predicted{}", field, measured, unit, predicted, likely(ratio, units));
}

// Before anything is learned: what no factor that can be learned explains is a slip.
void require_plausible(const std::vector<ValidationRow>& rows) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const ValidationRow& r = rows[i];
        if (!usable(r)) continue;
        std::string why;
        if (r.measured.step_time_s && r.predicted.step_time_s)
            why = odd("step_time_s", *r.measured.step_time_s, *r.predicted.step_time_s, "seconds",
                      {{1e-3, "milliseconds"}, {1e-6, "microseconds"}, {60, "minutes"}, {3600, "hours"}});
        if (why.empty() && r.measured.memory_gb && r.predicted.memory_gb)
            why = odd("memory_gb", *r.measured.memory_gb, *r.predicted.memory_gb, "GB",
                      {{1e-9, "bytes"}, {1e-3, "MB"}, {1e-6, "kB"}, {1e3, "TB"}});
        if (!why.empty()) throw OddRow("row \"" + r.name + "\": " + why, i);
    }
}

} // namespace

std::optional<Lesson> lesson_of(const ValidationRow& r) {
    const std::optional<double> error = r.step_time_error();
    if (!error || r.shares == CostShares{} || !usable(r) || *error <= -1) return std::nullopt;
    return Lesson{r.shares, -std::log1p(*error), r.configuration.left_open};
}

std::optional<MemoryLesson> memory_lesson_of(const ValidationRow& r) {
    const std::optional<double> error = r.memory_error();
    if (!error || !usable(r) || *error <= -1) return std::nullopt;
    return MemoryLesson{r.moving, -std::log1p(*error)};
}

LearnedRows learn_from(std::vector<ValidationRow> rows, int jobs, const Progress& progress) {
    constexpr int times = 3;
    const std::size_t total = rows.size() * times;
    LearnedRows out;
    std::map<DeviceStack, BeliefArray> means;
    for (int time = 0; time < times; ++time) {
        predict_all(rows, jobs, [&](std::size_t done, std::size_t all) {
            if (progress) progress(static_cast<std::size_t>(time) * all + done, total);
        });
        if (time == 0) require_plausible(rows), out.before = rows;
        out.constants = taught(rows, out.before, means);
        for (const LearnedConstants& l : out.constants) means[{l.device, l.stack}] = l.time.mean;
        for (std::size_t i = 0; i < rows.size(); ++i)
            for (const LearnedConstants& l : out.constants)
                if (kind_of(out.before[i]) == DeviceStack{l.device, l.stack}) rows[i].factors = l.factors();
    }
    for (ValidationRow& r : rows) r.factors = no_factors;
    out.left_out = without_lesson(out.before);
    out.after = predicted_with(std::move(rows), out.constants, jobs);
    return out;
}

std::vector<ValidationRow> predicted_with(std::vector<ValidationRow> rows, std::span<const LearnedConstants> learned, int jobs,
                                          const Progress& progress) {
    std::map<const OwnConstants*, std::shared_ptr<const OwnConstants>> with; // by what rows carried
    for (ValidationRow& r : rows) {
        auto& own = with[r.constants.get()];
        if (!own) {
            const auto both = std::make_shared<OwnConstants>();
            if (r.constants) r.constants->copy_to(*both);
            both->add(write_learned(learned));
            own = both;
        }
        r.constants = own;
    }
    predict_all(rows, jobs, progress);
    return rows;
}

} // namespace orrery
