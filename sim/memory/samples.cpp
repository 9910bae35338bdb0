#include "sim/memory/samples.hpp"

#include "sim/plan/rounds.hpp"
#include "topology/check.hpp"

#include <algorithm>
#include <numeric>

namespace orrery {

namespace {

using Levels = std::vector<std::int64_t>;

// Whether the op is a span of the compute queue, in a trace: memory ops and the host's waits take no time there.
bool computes(const Op& op) {
    return op.queue == compute_queue && !is_memory_op(op.work) && !std::holds_alternative<HostSync>(op.work) &&
           !std::holds_alternative<Collective>(op.work) && !std::holds_alternative<Exchange>(op.work);
}

// Walks a stage's program in issue order beside the computations of a lane, which have the same order.
class Walk {
  public:
    Walk(const Plan& plan, Lane& lane, Levels level, Time begin)
        : plan_(plan), lane_(lane), level_(std::move(level)), highest_(level_), sum_(total(level_)), highest_sum_(sum_), now_(begin) {
        for (const Span& s : lane.spans) {
            if (s.queue == compute_queue && s.kind == SpanKind::op) begins_.push_back(s.begin);
        }
    }

    void run(const Program& program, Time end) {
        for (const Action& a : program.actions) {
            const Block& block = plan_.blocks[a.block];
            for (std::int32_t i = a.first; i < a.last; ++i) step(block.ops[i]);
        }
        require(next_ == begins_.size(), "memory samples: a trace with other computations than the plan's");
        sample(end);
    }

  private:
    static std::int64_t total(const Levels& l) { return std::accumulate(l.begin(), l.end(), std::int64_t{0}); }

    void step(const Op& op) {
        if (const auto* a = std::get_if<Alloc>(&op.work)) change(a->buffer, 1);
        if (const auto* f = std::get_if<Free>(&op.work)) change(f->buffer, -1);
        if (!computes(op)) return;
        require(next_ < begins_.size(), "memory samples: a trace with fewer computations than the plan");
        sample(begins_[next_++]);
    }

    void change(BufferId id, int sign) {
        const Buffer& b = plan_.buffers[id];
        if (b.space != Space::device) return;
        level_[static_cast<std::size_t>(b.kind)] += sign * b.bytes.count;
        sum_ += sign * b.bytes.count;
        if (sum_ > highest_sum_) highest_ = level_, highest_sum_ = sum_;
    }

    void sample(Time at) {
        if (lane_.memory.empty() || lane_.memory.back().bytes != highest_) lane_.memory.push_back({std::max(at, now_), highest_});
        now_ = std::max(at, now_);
        highest_ = level_;
        highest_sum_ = sum_;
    }

    const Plan& plan_;
    Lane& lane_;
    Levels level_, highest_; // now; the highest since the last sample
    std::int64_t sum_, highest_sum_;
    Time now_;
    std::vector<Time> begins_;
    std::size_t next_ = 0;
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
        lane.memory.clear();
        Walk(plan, lane, std::move(level), trace.begin).run(plan.programs[stage], trace.end);
    }
}

} // namespace orrery
