#include "sim/schedules/support/zero_bubble.hpp"

#include "sim/schedules/support/clock.hpp"
#include "sim/schedules/support/placement.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace orrery {
namespace {

constexpr double rounding = 1e-9; // of sums of parts
constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max() / 4;

// Relative times in whole ticks, so that orders (and repetition) do not hang on rounding. A thousandth of the shortest part is enough.
StepLengths ticks_of(const ScheduleShape& shape) {
    const double unit = std::min({shape.forward, shape.input, shape.weight}) / 1000;
    const auto ticks = [&](double time) { return std::int64_t(std::llround(std::min(time / unit, 1e9))); };
    return {ticks(shape.forward), ticks(shape.input + shape.weight), ticks(shape.input), ticks(shape.weight), ticks(shape.communication)};
}

struct Rank {
    std::vector<int> chunks;           // held here, in model order
    std::vector<int> forwards, inputs; // steps done, per chunk held
    std::vector<ScheduleStep> steps;
    std::vector<ScheduleStep> owed; // weight steps in the order their input steps were done
    std::size_t paid = 0;
    int total_forwards = 0, total_inputs = 0;
    std::int64_t busy_until = 0, wake = never;

    // Activations held, in those of one microbatch.
    double held(double by_owed) const { return total_forwards - total_inputs + by_owed * static_cast<double>(owed.size() - paid); }
    bool owes() const { return paid < owed.size(); }
};

// Which step a rank may take now, and, if none, when the next one it knows of is ready.
struct Choice {
    int local = -1; // index of the chunk held; -1: none
    std::int64_t ready = never;
    bool now(std::int64_t time) const { return local >= 0 && ready <= time; }
};

class Run {
  public:
    Run(const ScheduleShape& shape, int (*stage_of)(int, int), const ZeroBubblePolicy& policy)
        : policy_(policy), owed_(shape.owed), ticks_(ticks_of(shape)), microbatches_(static_cast<int>(shape.microbatches)),
          chunks_(shape.stages * shape.chunks_per_stage), ranks_(static_cast<std::size_t>(shape.stages)) {
        forward_ready_.assign(static_cast<std::size_t>(chunks_) * shape.microbatches, never);
        input_ready_ = forward_ready_;
        for (int k = 0; k < microbatches_; ++k) forward_ready_[at(0, k)] = 0;
        for (int chunk = 0; chunk < chunks_; ++chunk) {
            stage_.push_back(stage_of(chunk, shape.stages));
            ranks_[stage_.back()].chunks.push_back(chunk);
        }
        for (Rank& rank : ranks_) {
            rank.forwards.assign(rank.chunks.size(), 0);
            rank.inputs = rank.forwards;
            const std::size_t steps = rank.chunks.size() * shape.microbatches;
            rank.steps.reserve(3 * steps);
            rank.owed.reserve(steps);
        }
        ranks_[stage_[0]].wake = 0;
    }

    Schedule finish() {
        while (true) {
            std::size_t next = 0;
            for (std::size_t r = 1; r < ranks_.size(); ++r)
                if (ranks_[r].wake < ranks_[next].wake) next = r;
            if (ranks_[next].wake == never) break;
            act(next);
        }
        Schedule result;
        for (Rank& rank : ranks_) result.ranks.push_back(std::move(rank.steps));
        return result;
    }

  private:
    std::size_t at(int chunk, int microbatch) const { return static_cast<std::size_t>(microbatch) * chunks_ + chunk; }

    bool forwards_left(const Rank& rank) const { return rank.total_forwards < microbatches_ * static_cast<int>(rank.chunks.size()); }

    // Later chunks first: they free memory sooner. The first chunk leaves a place for the last, or a V could fill up and stand still.
    Choice next_forward(const Rank& rank, bool blocked_by_memory) const {
        Choice choice;
        for (int local = static_cast<int>(rank.chunks.size()) - 1; local >= 0; --local) {
            if (rank.forwards[local] == microbatches_) continue;
            const int kept_free = static_cast<int>(rank.chunks.size()) - 1 - local;
            const bool room = rank.held(owed_) + kept_free + 1 <= policy_.limit + rounding;
            const std::int64_t ready = forward_ready_[at(rank.chunks[local], rank.forwards[local])];
            if (room != blocked_by_memory && (ready < choice.ready) && !choice.now(now_)) choice = {local, ready};
        }
        return choice;
    }

    // Earlier chunks first: their gradients have the longest way after them, and the next microbatch's wait for no one.
    Choice next_input(const Rank& rank) const {
        Choice choice;
        for (int local = 0; local < static_cast<int>(rank.chunks.size()); ++local) {
            if (rank.inputs[local] == microbatches_) continue;
            const std::int64_t ready = input_ready_[at(rank.chunks[local], rank.inputs[local])];
            if (ready < choice.ready && !choice.now(now_)) choice = {local, ready};
        }
        return choice;
    }

    void act(std::size_t r) {
        Rank& rank = ranks_[r];
        now_ = rank.wake;
        const bool wants_forward = rank.total_forwards - rank.total_inputs < policy_.ahead[r];
        const Choice input = next_input(rank);
        Choice forward = next_forward(rank, false);
        // Past its allowance a rank starts no new microbatch, but goes on with those whose later chunks it holds.
        if (!wants_forward && forward.local == 0) forward = {};
        if (wants_forward && forward.now(now_)) return do_forward(r, forward.local);
        if (wants_forward && rank.owes() && next_forward(rank, true).now(now_)) return do_weight(rank);
        if (policy_.prompt_weights && rank.owes() && forwards_left(rank)) return do_weight(rank);
        if (input.now(now_)) return do_input(r, input.local);
        if (forward.now(now_)) return do_forward(r, forward.local);
        const std::int64_t ready = std::min(forward.ready, input.ready);
        if (rank.owes() && double(ready - now_) >= policy_.patience * double(ticks_.weight)) return do_weight(rank);
        rank.wake = ready;
    }

    void record(Rank& rank, ScheduleStep what, std::int64_t length) {
        rank.steps.push_back(what);
        rank.busy_until = rank.wake = now_ + length;
    }

    void announce(int from, int chunk, std::int64_t& ready) {
        Rank& to = ranks_[stage_[chunk]];
        ready = now_ + (stage_[chunk] == stage_[from] ? 0 : ticks_.transfer) + (ranks_[stage_[from]].busy_until - now_);
        to.wake = std::min(to.wake, std::max(ready, to.busy_until));
    }

    void do_forward(std::size_t r, int local) {
        Rank& rank = ranks_[r];
        const int chunk = rank.chunks[local], microbatch = rank.forwards[local]++;
        ++rank.total_forwards;
        record(rank, step(StepKind::forward, chunk, microbatch), ticks_.forward);
        if (chunk + 1 < chunks_)
            announce(chunk, chunk + 1, forward_ready_[at(chunk + 1, microbatch)]);
        else
            announce(chunk, chunk, input_ready_[at(chunk, microbatch)]);
    }

    void do_input(std::size_t r, int local) {
        Rank& rank = ranks_[r];
        const int chunk = rank.chunks[local], microbatch = rank.inputs[local]++;
        ++rank.total_inputs;
        rank.owed.push_back(step(StepKind::weight, chunk, microbatch));
        record(rank, step(StepKind::input, chunk, microbatch), ticks_.input);
        if (chunk > 0) announce(chunk, chunk - 1, input_ready_[at(chunk - 1, microbatch)]);
    }

    void do_weight(Rank& rank) { record(rank, rank.owed[rank.paid++], ticks_.weight); }

    const ZeroBubblePolicy& policy_;
    double owed_;
    StepLengths ticks_;
    int microbatches_, chunks_;
    std::int64_t now_ = 0;
    std::vector<Rank> ranks_;
    std::vector<int> stage_;                                // by chunk
    std::vector<std::int64_t> forward_ready_, input_ready_; // by (chunk, microbatch)
};

// The cost of a schedule: period and makespan, the deciding one first.
std::pair<std::int64_t, std::int64_t> cost_of(const Schedule& schedule, int (*stage_of)(int, int), const ScheduleShape& shape) {
    const StepLengths ticks = ticks_of(shape);
    const auto starts = start_times(schedule, stage_of, shape.stages * shape.chunks_per_stage, ticks);
    std::int64_t period = 0, makespan = 0;
    for (std::size_t rank = 0; rank < starts.size(); ++rank) {
        const std::int64_t end = starts[rank].back() + ticks.of(schedule.ranks[rank].back().kind);
        period = std::max(period, end - starts[rank].front());
        makespan = std::max(makespan, end);
    }
    return shape.post_validation ? std::pair(period, makespan) : std::pair(makespan, period);
}

// The shapes a policy may plan with: links as they are, their time as part of the steps, or free.
std::vector<ScheduleShape> planning_shapes(const ScheduleShape& shape) {
    std::vector<ScheduleShape> plans{shape};
    if (shape.communication <= 0) return plans;
    plans.resize(3, shape);
    plans[1].forward += shape.communication;
    plans[1].input += shape.communication;
    plans[1].communication = plans[2].communication = 0;
    return plans;
}

} // namespace

Schedule run_zero_bubble(const ScheduleShape& shape, int (*stage_of)(int, int), const ZeroBubblePolicy& policy) {
    return Run(shape, stage_of, policy).finish();
}

std::vector<ZeroBubblePolicy> one_chunk_policies(const ScheduleShape& shape, int limit, std::initializer_list<double> slopes) {
    std::vector<ZeroBubblePolicy> policies;
    for (double slope : slopes) {
        ZeroBubblePolicy policy;
        policy.limit = limit;
        for (int rank = 0; rank < shape.stages; ++rank) {
            const int ahead = 1 + static_cast<int>(std::ceil(slope * (shape.stages - 1 - rank)));
            policy.ahead.push_back(std::min(ahead, limit));
        }
        for (double patience : {1.0, 0.5, 0.0}) {
            policy.patience = patience;
            policies.push_back(policy);
        }
    }
    return policies;
}

Schedule best_zero_bubble(const ScheduleShape& shape, int (*stage_of)(int, int), const std::vector<ZeroBubblePolicy>& policies) {
    // Warm-up and drain last about two microbatches a stage each: eight show the steady state as well.
    const std::int64_t trial = std::min<std::int64_t>(shape.microbatches, 8 * std::int64_t(shape.stages));
    ScheduleShape real = shape;
    real.microbatches = trial;
    ScheduleShape best_plan = real;
    const ZeroBubblePolicy* best_policy = &policies.front();
    std::pair<std::int64_t, std::int64_t> least{never, never};
    Schedule best;
    for (const ScheduleShape& plan : planning_shapes(real))
        for (const ZeroBubblePolicy& policy : policies) {
            Schedule candidate = run_zero_bubble(plan, stage_of, policy);
            const auto cost = cost_of(candidate, stage_of, real);
            if (cost >= least) continue;
            least = cost;
            best_plan = plan;
            best_policy = &policy;
            best = std::move(candidate);
        }
    if (trial == shape.microbatches) return best;
    best_plan.microbatches = shape.microbatches;
    return run_zero_bubble(best_plan, stage_of, *best_policy);
}

} // namespace orrery
