#include "sim/schedules/support/clock.hpp"

#include <algorithm>

namespace orrery {
namespace {

class Clock {
  public:
    Clock(const Schedule& schedule, int (*stage_of)(int, int), int chunks, const StepLengths& lengths, int directions)
        : schedule_(schedule), lengths_(lengths), chunks_(chunks), length_(chunks / directions), start_(schedule.ranks.size()) {
        for (int chunk = 0; chunk < chunks; ++chunk) stage_.push_back(stage_of(chunk, static_cast<int>(schedule.ranks.size())));
        for (auto& end : end_) end.assign(std::size_t(microbatches_of(schedule) * chunks), -1);
        for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
            start_[rank].reserve(schedule.ranks[rank].size());
            runnable_.push_back(static_cast<int>(rank));
        }
    }

    std::vector<std::vector<std::int64_t>> run() {
        while (!runnable_.empty()) {
            const int rank = runnable_.back();
            runnable_.pop_back();
            advance(rank);
        }
        return std::move(start_);
    }

  private:
    std::int64_t& end(bool gradient, int chunk, int microbatch) { return end_[gradient][std::size_t(microbatch) * chunks_ + chunk]; }

    // When what `from` makes is there for `to`; -1: not yet known.
    std::int64_t arrival(bool gradient, int from, int to, int microbatch) {
        const std::int64_t made = end(gradient, from, microbatch);
        return made < 0 || stage_[from] == stage_[to] ? made : made + lengths_.transfer;
    }

    std::int64_t ready(const ScheduleStep& step) {
        const int chunk = step.chunk;
        if (step.kind == StepKind::weight) return end(true, chunk, step.microbatch);
        const bool gradient = step.kind != StepKind::forward;
        const int sender = sender_of(chunk, gradient, length_);
        if (!gradient) return sender < 0 ? 0 : arrival(false, sender, chunk, step.microbatch);
        const std::int64_t own = end(false, chunk, step.microbatch);
        if (own < 0 || sender < 0) return own;
        return arrival(true, sender, chunk, step.microbatch);
    }

    void advance(int rank) {
        const auto& steps = schedule_.ranks[rank];
        auto& start = start_[rank];
        std::int64_t now = start.empty() ? 0 : start.back() + lengths_.of(steps[start.size() - 1].kind);
        while (start.size() < steps.size()) {
            const std::size_t first = start.size(), count = steps[first].joined ? 2 : 1;
            std::int64_t since = now;
            for (std::size_t i = first; i < first + count; ++i) {
                const std::int64_t one = ready(steps[i]);
                if (one < 0) return;
                since = std::max(since, one);
            }
            now = since;
            for (std::size_t i = first; i < first + count; ++i) {
                start.push_back(now);
                now += lengths_.of(steps[i].kind);
            }
            for (std::size_t i = first; i < first + count; ++i) finish(rank, steps[i], now);
        }
    }

    void finish(int rank, const ScheduleStep& step, std::int64_t now) {
        if (step.kind == StepKind::weight) return;
        const bool gradient = step.kind != StepKind::forward;
        end(gradient, step.chunk, step.microbatch) = now;
        const int next = receiver_of(step.chunk, gradient, length_);
        if (next >= 0 && stage_[next] != rank) runnable_.push_back(stage_[next]);
    }

    const Schedule& schedule_;
    const StepLengths& lengths_;
    int chunks_, length_;    // in all, and of one direction
    std::vector<int> stage_; // by chunk
    std::vector<std::vector<std::int64_t>> start_;
    std::vector<std::int64_t> end_[2]; // of forward and backward steps, by (microbatch, chunk)
    std::vector<int> runnable_;
};

} // namespace

std::int64_t StepLengths::of(StepKind kind) const {
    switch (kind) {
    case StepKind::forward:
        return forward;
    case StepKind::backward:
        return backward;
    case StepKind::input:
        return input;
    case StepKind::weight:
        return weight;
    }
    return 0;
}

std::int64_t microbatches_of(const Schedule& schedule) {
    std::int64_t microbatches = 0;
    for (const auto& steps : schedule.ranks)
        for (const ScheduleStep& step : steps) microbatches = std::max<std::int64_t>(microbatches, step.microbatch + 1);
    return microbatches;
}

std::vector<std::vector<std::int64_t>> start_times(const Schedule& schedule, int (*stage_of)(int, int), int chunks,
                                                   const StepLengths& lengths, int directions) {
    return Clock(schedule, stage_of, chunks, lengths, directions).run();
}

} // namespace orrery
