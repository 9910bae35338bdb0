#include "sim/memory/samples.hpp"

#include "sim/memory/tiers.hpp"
#include "sim/plan/rounds.hpp"
#include "topology/check.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

namespace orrery {

namespace {

using Levels = std::vector<std::int64_t>;

// Whether the op is a span of its queue, in a trace: memory ops and the host's waits take no time there.
bool takes_time(const Op& op) {
    return op.queue < first_comm_queue && !is_memory_op(op.work) && !std::holds_alternative<HostSync>(op.work) &&
           !std::holds_alternative<Collective>(op.work) && !std::holds_alternative<Exchange>(op.work);
}

// Walks a stage's program in issue order beside the computations of a lane, which have the same order. What lies outside the device comes
// and goes with copies, reads and updates of the host too: there their begins are times of samples as well.
class Walk {
  public:
    Walk(const Plan& plan, const Program& program, const Lane& lane, Space space, Levels level, Time begin)
        : plan_(plan), program_(program), space_(space), level_(std::move(level)), highest_(level_), sum_(total(level_)),
          highest_sum_(sum_), now_(begin) {
        for (const Span& s : lane.spans)
            if (s.queue < first_comm_queue && s.kind == SpanKind::op) begins_[at(s.queue)].push_back(s.begin);
        std::array<std::size_t, first_comm_queue> issued{};
        for_each_op([&](const Op& op) {
            if (takes_time(op)) ++issued[at(op.queue)];
        });
        for (QueueId q = 0; q < first_comm_queue; ++q)
            sampled_[at(q)] = q == compute_queue || (space != Space::device && issued[at(q)] == begins_[at(q)].size());
        require(issued[compute_queue] == begins_[compute_queue].size(), "memory samples: a trace with other computations than the plan's");
    }

    std::vector<MemorySample> run(Time end) {
        for_each_op([&](const Op& op) { step(op); });
        sample(end);
        return std::move(samples_);
    }

  private:
    static constexpr std::size_t at(QueueId q) { return static_cast<std::size_t>(q); }
    template <class F> void for_each_op(F&& f) const {
        for (const Action& a : program_.actions) {
            const Block& block = plan_.blocks[a.block];
            for (std::int32_t i = a.first; i < a.last; ++i) f(block.ops[i]);
        }
    }
    static std::int64_t total(const Levels& l) { return std::accumulate(l.begin(), l.end(), std::int64_t{0}); }

    void step(const Op& op) {
        if (const auto* a = std::get_if<Alloc>(&op.work)) change(a->buffer, 1);
        if (const auto* f = std::get_if<Free>(&op.work)) change(f->buffer, -1);
        if (!takes_time(op) || !sampled_[at(op.queue)]) return;
        sample(begins_[at(op.queue)][next_[at(op.queue)]++]);
    }

    void change(BufferId id, int sign) {
        const Buffer& b = plan_.buffers[id];
        if (b.space != space_) return;
        level_[static_cast<std::size_t>(b.kind)] += sign * b.bytes.count;
        sum_ += sign * b.bytes.count;
        if (sum_ > highest_sum_) highest_ = level_, highest_sum_ = sum_;
    }

    void sample(Time at) {
        if (samples_.empty() || samples_.back().bytes != highest_) samples_.push_back({std::max(at, now_), highest_});
        now_ = std::max(at, now_);
        highest_ = level_;
        highest_sum_ = sum_;
    }

    const Plan& plan_;
    const Program& program_;
    const Space space_;
    std::vector<MemorySample> samples_;
    Levels level_, highest_; // now; the highest since the last sample
    std::int64_t sum_, highest_sum_;
    Time now_;
    std::array<std::vector<Time>, first_comm_queue> begins_; // by queue
    std::array<std::size_t, first_comm_queue> next_{};
    std::array<bool, first_comm_queue> sampled_{};
};

} // namespace

void sample_memory(Trace& trace, const Plan& plan, const MemoryReport& memory) {
    if (has_rounds(plan)) return sample_memory(trace, unrolled(plan), memory); // a trace shows a round
    trace.memory_kinds.clear();
    for (int k = 0; k < memory_kind_count; ++k) trace.memory_kinds.emplace_back(name(static_cast<MemoryKind>(k)));
    trace.memory_kinds.emplace_back("reserved");
    for (Lane& lane : trace.lanes) {
        const auto stage = static_cast<std::size_t>(lane.stage);
        const StageMemory& m = memory.stages[stage];
        Levels level(m.timeline.back().begin(), m.timeline.back().end()); // steady: as a step ends, the next begins
        level.push_back(m.reserved.count);
        lane.memory = Walk(plan, plan.programs[stage], lane, Space::device, std::move(level), trace.begin).run(trace.end);
    }
}

namespace {

std::vector<MemorySample> tier_of_lane(const Trace& trace, const Plan& plan, const Lane& lane, Space space) {
    const Program& program = plan.programs[static_cast<std::size_t>(lane.stage)];
    const StageMemory m = walk(plan, program, space);
    return Walk(plan, program, lane, space, Levels(m.timeline.back().begin(), m.timeline.back().end()), trace.begin).run(trace.end);
}

// The sum of curves, each times its number.
std::vector<MemorySample> added_up(const std::vector<std::pair<std::vector<MemorySample>, std::int64_t>>& curves) {
    struct Change {
        Time at;
        std::size_t curve, sample;
    };
    std::vector<Change> changes;
    for (std::size_t c = 0; c < curves.size(); ++c)
        for (std::size_t i = 0; i < curves[c].first.size(); ++i) changes.push_back({curves[c].first[i].at, c, i});
    std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.at < b.at; });
    std::vector<MemorySample> out;
    Levels sum(memory_kind_count, 0);
    for (std::size_t i = 0; i < changes.size(); ++i) {
        const auto& [curve, times] = curves[changes[i].curve];
        const std::size_t s = changes[i].sample;
        for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += times * (curve[s].bytes[k] - (s > 0 ? curve[s - 1].bytes[k] : 0));
        if (i + 1 == changes.size() || changes[i + 1].at > changes[i].at) out.push_back({changes[i].at, sum});
    }
    return out;
}

} // namespace

TierCurve tier_curve(const Trace& trace, const Plan& plan, const MemoryReport& memory, const std::vector<std::int32_t>& lane_of_rank,
                     int devices_per_node, Space space) {
    if (has_rounds(plan)) return tier_curve(trace, unrolled(plan), memory, lane_of_rank, devices_per_node, space);
    const TierMemory& used = (space == Space::host ? memory.host : memory.disk).used;
    if (used.peak.count == 0) return {};
    if (plan.served) {
        Levels level;
        for (const Bytes b : used.by_kind) level.push_back(b.count);
        return {-1, {{trace.begin, level}}};
    }
    TierCurve out;
    out.node = fullest_node(plan, memory.stages, space == Space::host ? &StageMemory::host : &StageMemory::disk, devices_per_node);
    std::map<std::int32_t, std::int64_t> times; // by lane: ranks of the node that it stands for
    for (int r = out.node * devices_per_node; r < std::min((out.node + 1) * devices_per_node, plan.mesh.ranks()); ++r)
        ++times[lane_of_rank[static_cast<std::size_t>(r)]];
    std::vector<std::pair<std::vector<MemorySample>, std::int64_t>> curves;
    for (const auto& [lane, n] : times)
        curves.push_back({tier_of_lane(trace, plan, trace.lanes[static_cast<std::size_t>(lane)], space), n});
    out.samples = added_up(curves);
    return out;
}

} // namespace orrery
