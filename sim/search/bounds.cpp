#include "sim/search/bounds.hpp"

#include "sim/cost/own_constants.hpp"
#include "sim/plan/lowering.hpp"
#include "sim/scenario/layers.hpp"
#include "sim/scenario/practice.hpp"
#include "sim/search/parts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>

namespace orrery {

namespace {

struct StageTime {
    double busy = 0, host = 0, weight = 0, last_weight = 0, ends = std::numeric_limits<double>::infinity();
    double fills = std::numeric_limits<double>::infinity(), drains = std::numeric_limits<double>::infinity();
    double layers = 0;
    double kernels = 0, moving = 0, queue = 0, idle = 0; // of a microbatch; idle: certain_idle()
};

double time_of(const std::vector<StepCounts>& steps, const std::vector<ChunkCost>& chunks) {
    double t = 0;
    for (std::size_t c = 0; c < steps.size(); ++c)
        t += steps[c].forward * chunks[c].forward + steps[c].backward * chunks[c].backward +
             steps[c].input * (chunks[c].backward - chunks[c].weight) + steps[c].weight * chunks[c].weight;
    return t;
}

// A stage's time under data parallelism, and how long it is certainly idle beside what microbatches are.
struct Shared {
    double bound = 0, idle = 0;
};

// Communication starts after the computation issued before it; what is overlapped may run under all that is issued later, gathers for the
// next step under what comes before its last chunk's first microbatch is through; those that block at a step's end run under nothing.
Shared once_a_step(const Scenario& s, const StageTime& st, const InFlight::Held& held, const std::vector<ChunkCost>& chunks,
                   const SharingTime& time, double later, double slowdown) {
    const bool under_forward = s.strategy.overlap.param_gather || sharing_practice(s).gathers_in_step;
    const double last = s.strategy.overlap.grad_reduce ? time_of(held.last, chunks) : 0,
                 first = under_forward ? time_of(held.first, chunks) : 0;
    // Beside what microbatches are, where kernels take `times` as long.
    const auto idle = [&](double times) {
        return std::max({0.0, time.reduce - times * last, st.drains - times * later}) + std::max(st.fills, time.gather - times * first);
    };
    return {static_cast<double>(s.microbatches()) * st.busy + idle(1), idle(1 + slowdown)};
}

// How often a stage's gradients are reduced in a step, and its parameters gathered; again: of these, for backward passes unit by unit.
struct Passes {
    double reduces = 1, gathers = 1, again = 0;

    // The gathers of whole stages that they take as long as.
    double whole_gathers(double layers) const { return gathers - again * (1 - layers); }
};

Passes passes(const Scenario& s, const InFlight::Held& held) {
    const SharingPractice practice = sharing_practice(s);
    if (practice.zero <= 1) return {};
    const auto m = static_cast<double>(s.microbatches());
    const bool whole = held.late_weights == 0; // backward steps are not cut in two
    const double runs = s.strategy.virtual_pipeline == 1 ? m : std::ceil(m / s.strategy.microbatch_group());
    const double in_step = held.gathers + held.more_gathers * (m - static_cast<double>(held.microbatches));
    if (!practice.gathers_in_step || practice.keeps) return {whole ? runs : 1, practice.gathers_in_step ? m : 1};
    return {whole ? runs : 1, in_step, s.strategy.pipeline_parallel == 1 ? std::max(0.0, in_step - m) : 0};
}

// ZeRO 2 and 3: gradients are reduced with each run of microbatches, and parameters may be gathered.
Shared each_run(const Scenario& s, const StageTime& st, const InFlight::Held& held, const SharingTime& time) {
    const SharingPractice practice = sharing_practice(s);
    const Overlap& overlap = s.strategy.overlap;
    const Passes n = passes(s, held);
    Shared shared;
    shared.bound = sharing_moves(s, held, time);
    // With one stage and nothing overlapped a unit waits for its parameters, and the next for its gradients: all but the first and the
    // last.
    if (s.strategy.pipeline_parallel == 1 && held.late_weights == 0) {
        const double inner = std::max(0.0, st.layers - 2) / std::max(1.0, st.layers);
        const double waits = (overlap.grad_reduce ? 0 : n.reduces * time.reduce) +
                             (overlap.param_gather || !practice.gathers_in_step ? 0 : n.whole_gathers(time.layers) * time.gather);
        shared.idle = inner * waits;
        shared.bound = std::max(shared.bound, static_cast<double>(s.microbatches()) * st.busy + shared.idle);
    }
    return shared;
}

// Joined blocks, whose order is not known, under ZeRO 1 at most: all that moves, and reductions that wait for the last kernel.
Shared joined_once_a_step(const Scenario& s, const StageTime& st, const InFlight::Held& held, const SharingTime& time) {
    const double moving = sharing_moves(s, held, time), tail = s.strategy.overlap.grad_reduce ? 0 : time.reduce;
    return {std::max(moving, static_cast<double>(s.microbatches()) * st.busy + tail), tail};
}

Shared shared_of(const Scenario& s, const StageTime& st, const InFlight::Held& held, const std::vector<ChunkCost>& chunks,
                 const SharingTime& time, double later, double slowdown, bool joined) {
    const int zero = sharing_practice(s).zero;
    if (joined) return zero <= 1 ? joined_once_a_step(s, st, held, time) : Shared{};
    return zero <= 1 ? once_a_step(s, st, held, chunks, time, later, slowdown) : each_run(s, st, held, time);
}

} // namespace

double sharing_moves(const Scenario& s, const InFlight::Held& held, const SharingTime& time, double transfers) {
    const Passes n = passes(s, held);
    const double reduces = n.reduces, gathers = n.whole_gathers(time.layers);
    const double reduce = reduces * time.reduce, gather = gathers * time.gather,
                 link = reduces * time.link_reduce + gathers * time.link_gather + transfers;
    if (sharing_practice(s).zero > 1 && sharing_practice(s).one_queue) return std::max(reduce + gather, link);
    return std::max({reduce, gather, link});
}

double transfer_bytes(const Scenario& s) {
    const Strategy& t = s.strategy;
    const bool scattered = !t.sequence_parallel && practice_of(s).scatters_transfers;
    return handed_on(s) / (scattered ? t.tensor_parallel : 1);
}

double transfers_beside(const Scenario& s, const ScheduleInfo& info, int stage, SharedWire& sharing, const SharingTime& time, double most) {
    if (most <= 0) return 0;
    const int stages = s.strategy.pipeline_parallel, length = stages * s.strategy.virtual_pipeline;
    const double bytes = transfer_bytes(s);
    // While another rank's transfer holds up the stage's own reduction, that one slows the stage's kernels.
    const double other = time.reduce > 0 ? std::min(time.reduce_slows, time.gather_slows) : most;
    const auto passes = [&](int from, int to) {
        const double on_link = sharing.on_link(s, stage, from, to, bytes);
        return on_link > 0 ? on_link * lost(std::min(other, sharing.hop(s, from, to, bytes).slows)) / lost(most) : 0;
    };
    double beside = 0;
    for (int c = 0; c + 1 < length; ++c) {
        const int from = info.stage_of(c, stages), to = info.stage_of(c + 1, stages);
        if (from == to || (from != stage && to != stage)) continue;
        beside += passes(from, to) + passes(to, from);
    }
    return beside;
}

bool uncertain(const Scenario& s) {
    return deferred_output_gradients(s) > 0 || std::any_of(s.perturb.begin(), s.perturb.end(), [](const Perturbation& p) {
               return p.kind == Perturbation::Kind::jitter || (p.kind != Perturbation::Kind::background && p.factor < 1);
           });
}

Scenario without_recompute(Scenario s) {
    Strategy& t = s.strategy;
    t.recompute_ops.clear();
    t.recompute_segments = t.recompute_segment_layers = 0;
    t.recompute = RecomputeKind::none;
    return s;
}

double least_factor(const Scenario& s) {
    const LearnedConstants* learned = learned_for(s);
    if (!learned) return 1;
    const CostFactors factors = learned->factors();
    return std::min(1.0, *std::min_element(factors.begin(), factors.end()));
}

namespace {

// Bounds of single stages' times in a step: what all of them need is worked out once.
class StageBounds {
  public:
    StageBounds(const Scenario& s, const ScheduleInfo& info, const Profile& profile, InFlight& in_flight, SharedWire* sharing)
        : s_(s), info_(info), slowdown_(profile.slowdown), m_(static_cast<double>(s.microbatches()) / info.directions),
          joined_(joins(s, info)), chunks_(chunk_costs(s, profile, joined_)), held_(in_flight.of(s)), sharing_(sharing),
          shares_(sharing && info.directions == 1 && !info.asynchronous),
          away_(sharing && states_leave(s.strategy.offload) && !info.asynchronous), of_stage_(at(s.strategy.pipeline_parallel)) {
        for (int direction = 0; direction < info.directions; ++direction) add(direction);
        if (shares_ || away_) elements_ = stage_elements(s, info, chunk_elements(s));
    }

    // With transfers: the ranks that share its parameters stand where the stage's do; else where the first's do.
    double of(int stage, bool transfers) const {
        const StageTime& st = of_stage_[at(stage)];
        const InFlight::Held& held = held_[at(stage)];
        const double later = held.late_weights < 0 ? m_ * st.weight : (held.late_weights + 1) * st.last_weight;
        double least = std::max({m_ * st.busy, m_ * st.host, m_ * st.queue, info_.asynchronous ? 0 : m_ * st.busy + st.ends - later});
        double moving = m_ * st.moving, idle = info_.asynchronous ? 0 : std::max(0.0, st.ends - (1 + slowdown_) * later);
        if (shares_ && !held.last.empty()) {
            const SharingTime time = sharing_->of(s_, elements_[at(stage)], transfers ? stage : 0);
            const Shared shared = shared_of(s_, st, held, chunks_, time, later, slowdown_, joined_);
            least = std::max(least, shared.bound);
            const double passing = transfers ? m_ * transfers_beside(s_, info_, stage, *sharing_, time, slowdown_) : 0;
            moving = std::max(moving, sharing_moves(s_, held, time.beside(slowdown_), passing));
            idle = std::max(idle, shared.idle);
        }
        if (away_) {
            const AwayTime time = sharing_->away(s_, elements_[at(stage)], info_.directions);
            least = std::max({least, time.busiest, time.after ? m_ * st.busy + time.update : 0});
        }
        return std::max(least, slowed(m_ * st.kernels, m_ * st.idle + idle, moving, slowdown_));
    }

    bool shares() const { return shares_; }

  private:
    void add(int direction) {
        const int length = static_cast<int>(chunks_.size());
        double fills = 0, drains = 0; // before and behind a chunk
        for (int c = 0; c < length; ++c) {
            const ChunkCost& chunk = chunks_[at(c)];
            StageTime& st = of_stage_[at(info_.stage_of(direction * length + c, s_.strategy.pipeline_parallel))];
            st.busy += chunk.forward + chunk.backward;
            st.host += chunk.host;
            st.weight += chunk.weight;
            const double behind = info_.splits_backward ? chunk.weight : chunk.late;
            st.last_weight = std::max(st.last_weight, behind);
            st.ends = std::min(st.ends, fills + drains);
            st.fills = std::min(st.fills, fills);
            st.drains = std::min(st.drains, drains);
            st.kernels += chunk.kernels;
            st.moving += chunk.moving;
            st.queue += chunk.queue;
            st.idle += joined_ ? 0 : certain_idle(chunk, slowdown_);
            st.layers += s_.strategy.layers_per_chunk[at(c)];
            fills += chunk.forward;
            drains += std::max(0.0, chunk.backward - behind - chunk.early);
        }
    }

    const Scenario& s_;
    const ScheduleInfo& info_;
    double slowdown_, m_; // m_: microbatches of a direction
    bool joined_;
    std::vector<ChunkCost> chunks_;
    const std::vector<InFlight::Held>& held_;
    SharedWire* sharing_;
    bool shares_, away_;
    std::vector<StageTime> of_stage_;
    std::vector<Elements> elements_ = {};
};

} // namespace

// A stage begins when the first microbatch has passed the stages before it, and its last goes back through them before their optimizer
// steps; weight gradients may come after that. Of several directions the nearer end counts: their gradients meet before any steps.
double time_bound(const Scenario& s, const Profile& profile, InFlight& in_flight, SharedWire* sharing, bool transfers) {
    constexpr int most = 2; // stages whose transfers are looked at: to price one stage's takes as long as all the rest
    const ScheduleInfo* info = find_schedule(s.strategy.schedule);
    if (!info || uncertain(s)) return 0;
    const int stages = s.strategy.pipeline_parallel;
    const StageBounds bounds(s, *info, profile, in_flight, sharing);
    std::vector<std::pair<double, int>> longest; // negative, stage
    for (int stage = 0; stage < stages; ++stage) longest.emplace_back(-bounds.of(stage, false), stage);
    std::ranges::sort(longest);
    double bound = -longest.front().first;
    for (int i = 0; transfers && bounds.shares() && stages > 1 && i < std::min(most, stages); ++i)
        bound = std::max(bound, bounds.of(longest[at(i)].second, true));
    return bound * least_factor(s);
}

} // namespace orrery
