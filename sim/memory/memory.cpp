// Memory of each stage over one step. A range of a block's ops allocates and frees the same for every microbatch, so each
// range is walked once and the program is then a sum over its actions.
#include "sim/memory/memory.hpp"

#include "sim/cost/own_constants.hpp"
#include "sim/memory/loose.hpp"
#include "sim/memory/reserve.hpp"
#include "sim/memory/segments.hpp"
#include "sim/memory/tiers.hpp"
#include "sim/plan/rounds.hpp"
#include "sim/scenario/practice.hpp"
#include "topology/indexed.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace orrery {

namespace {

using Kinds = ByEnum<MemoryKind, std::int64_t, memory_kind_count>;

std::int64_t total(const Kinds& k) {
    std::int64_t sum = 0;
    for (std::int64_t v : k) sum += v;
    return sum;
}

std::size_t index(const Buffer& b) { return static_cast<std::size_t>(b.kind); }

// The buffer an op allocates (+1) or frees (-1); {-1, 0} for every other op.
struct MemoryStep {
    BufferId buffer = -1;
    int sign = 0;
};
MemoryStep memory_step(const Op& op) {
    if (const auto* a = std::get_if<Alloc>(&op.work)) return {a->buffer, 1};
    if (const auto* f = std::get_if<Free>(&op.work)) return {f->buffer, -1};
    return {};
}

// Ops [first, last) of a block: what they add in the end, and the highest level on the way, against the level at their start.
struct Range {
    std::int32_t first, last;
    Kinds change{};
    std::int64_t highest = 0;
    std::int32_t highest_op = -1; // the op that reached it; -1: nothing rose above the start
    std::int64_t executed = 0;    // while counting what is alive at the peak
};

class StageWalk {
  public:
    StageWalk(const Plan& plan, const Program& program, Space space = Space::device)
        : plan_(plan), program_(program), space_(space), ranges_(plan.blocks.size()), met_(plan.buffers.size()),
          alive_at_start_(plan.buffers.size()) {
        for (BufferId id = 0; id < plan.buffers.next_id(); ++id)
            if (plan.buffers[id].stage == program.stage) own_.push_back(id);
    }

    StageMemory measure() {
        find_initial();
        StageMemory m;
        m.stage = program_.stage;
        walk(m);
        describe_peak(m);
        return m;
    }

  private:
    Range& range_of(const Action& a) {
        auto& of_block = ranges_[a.block];
        for (Range& r : of_block) {
            if (r.first == a.first && r.last == a.last) return r;
        }
        of_block.push_back(make_range(a));
        return of_block.back();
    }

    Range make_range(const Action& a) {
        Range r{a.first, a.last};
        const Block& block = plan_.blocks[a.block];
        std::int64_t level = 0;
        for (std::int32_t i = a.first; i < a.last; ++i) {
            const MemoryStep s = memory_step(block.ops[i]);
            if (s.sign == 0) continue;
            const Buffer& b = plan_.buffers[s.buffer];
            if (s.sign < 0) freed_first(s.buffer, b);
            met_[s.buffer] = true;
            if (b.space != space_) continue;
            level += s.sign * b.bytes.count;
            r.change[index(b)] += s.sign * b.bytes.count;
            if (level > r.highest) r.highest = level, r.highest_op = i;
        }
        return r;
    }

    // A buffer whose first op in a steady step is its Free was alive when the step began.
    void freed_first(BufferId id, const Buffer& b) {
        if (met_[id] || b.space != space_) return;
        initial_[index(b)] += b.bytes.count;
        alive_at_start_[id] = true;
    }

    void find_initial() {
        for (const Action& a : program_.actions) range_of(a);
        for (const BufferId id : own_) {
            const Buffer& b = plan_.buffers[id];
            if (met_[id] || !lasts(b, program_, space_)) continue;
            held_[index(b)] += b.bytes.count;
            alive_at_start_[id] = true;
        }
        for (std::size_t k = 0; k < initial_.size(); ++k) initial_[k] += held_[k];
    }

    void walk(StageMemory& m) {
        Kinds level = initial_;
        std::int64_t sum = total(level), peak = sum;
        m.timeline.reserve(program_.actions.size());
        for (std::size_t i = 0; i < program_.actions.size(); ++i) {
            const Range& r = range_of(program_.actions[i]);
            if (sum + r.highest > peak) peak = sum + r.highest, m.peak_action = static_cast<int>(i);
            for (std::size_t k = 0; k < level.size(); ++k) level[k] += r.change[k];
            sum = total(level);
            m.timeline.push_back(level);
        }
        m.allocated_peak = Bytes{peak};
    }

    // Counts every buffer alive at the peak: those alive at the start, and what each executed range left of them.
    void describe_peak(StageMemory& m) {
        std::vector<std::int64_t> alive(alive_at_start_.begin(), alive_at_start_.end()); // instances, by buffer
        if (m.peak_action >= 0) {
            const Action& peak = program_.actions[m.peak_action];
            for (int i = 0; i < m.peak_action; ++i) ++range_of(program_.actions[i]).executed;
            for (std::size_t b = 0; b < ranges_.size(); ++b) {
                for (const Range& r : ranges_[b]) count(plan_.blocks[b], r.first, r.last, r.executed, alive);
            }
            const Block& block = plan_.blocks[peak.block];
            const std::int32_t reached = range_of(peak).highest_op;
            count(block, peak.first, reached + 1, 1, alive);
            name_peak_op(m, block, peak, reached);
        }
        for (const BufferId id : own_)
            if (alive[id] != 0) m.by_kind[index(plan_.buffers[id])] += plan_.buffers[id].bytes * alive[id];
        m.largest = largest_groups(alive);
    }

    void count(const Block& block, std::int32_t first, std::int32_t last, std::int64_t times, std::vector<std::int64_t>& alive) const {
        if (times == 0) return;
        for (std::int32_t i = first; i < last; ++i) {
            const MemoryStep s = memory_step(block.ops[i]);
            if (s.sign == 0 || plan_.buffers[s.buffer].space != space_) continue;
            alive[s.buffer] += s.sign * times;
        }
    }

    // The op that needs the memory is the first to run after the last allocation.
    static void name_peak_op(StageMemory& m, const Block& block, const Action& action, std::int32_t reached) {
        std::int32_t op = reached;
        while (op + 1 < action.last && is_memory_op(block.ops[op].work)) ++op;
        const Op& at = block.ops[op];
        m.peak_op = op;
        m.peak_op_name = at.name.empty() ? block.name : at.name;
        const std::int32_t microbatch = action.microbatch[at.port];
        if (microbatch >= 0) m.peak_op_name += " (microbatch " + std::to_string(microbatch) + ")";
    }

    // "c3.l17.qkv" -> "c*.l*.qkv": the number after a letter at the start of a dotted part.
    static std::string group_name(const std::string& name) {
        std::string out;
        for (std::size_t i = 0; i < name.size();) {
            const bool starts_part = i == 0 || name[i - 1] == '.';
            out += name[i++];
            if (!starts_part || (out.back() != 'c' && out.back() != 'l' && out.back() != 'b')) continue;
            std::size_t digits = i;
            while (digits < name.size() && name[digits] >= '0' && name[digits] <= '9') ++digits;
            if (digits == i || (digits < name.size() && name[digits] != '.')) continue;
            out += '*';
            i = digits;
        }
        return out;
    }

    std::vector<LiveBuffer> largest_groups(const std::vector<std::int64_t>& alive) const {
        std::map<std::string, LiveBuffer> groups;
        for (const BufferId id : own_) {
            if (alive[id] <= 0) continue;
            const Buffer& b = plan_.buffers[id];
            LiveBuffer& g = groups[group_name(b.name)];
            g.bytes += b.bytes * alive[id];
            g.count += static_cast<std::int32_t>(alive[id]);
        }
        std::vector<LiveBuffer> sorted;
        for (const auto& [name, g] : groups) sorted.push_back({name, g.bytes, g.count});
        std::stable_sort(sorted.begin(), sorted.end(), [](const LiveBuffer& a, const LiveBuffer& b) { return a.bytes > b.bytes; });
        if (sorted.size() > 12) sorted.resize(12);
        return sorted;
    }

    const Plan& plan_;
    const Program& program_;
    const Space space_;
    std::vector<std::vector<Range>> ranges_; // by block
    std::vector<char> met_, alive_at_start_; // by buffer
    std::vector<BufferId> own_;              // buffers of the stage
    Kinds initial_{}, held_{};
};

} // namespace

StageMemory walk(const Plan& plan, const Program& program, Space space) { return StageWalk(plan, program, space).measure(); }

PlanMemory walk(const Plan& plan) {
    if (has_rounds(plan)) return walk(unrolled(plan, 1)); // what workers do when they meet takes memory too
    PlanMemory out;
    const auto any_in = [&](Space space) {
        return std::any_of(plan.buffers.begin(), plan.buffers.end(), [&](const Buffer& b) { return b.space == space; });
    };
    const bool host = any_in(Space::host), disk = any_in(Space::nvme);
    for (const Program& program : plan.programs) {
        out.stages.push_back(orrery::walk(plan, program, Space::device));
        const auto tier = [&](Space space) {
            const StageMemory there = orrery::walk(plan, program, space);
            return TierMemory{there.allocated_peak, there.by_kind};
        };
        if (host) out.stages.back().host = tier(Space::host);
        if (disk) out.stages.back().disk = tier(Space::nvme);
    }
    return out;
}

// Ranks of a node may be of several stages, and nodes unlike.
int fullest_node(const Plan& plan, const std::vector<StageMemory>& stages, TierMemory StageMemory::*tier, int devices_per_node) {
    int fullest = 0;
    Bytes most, node;
    for (int r = 0; r < plan.mesh.ranks(); ++r) {
        if (r % devices_per_node == 0) node = {};
        node += (stages[plan.mesh.coordinates(r)[Axis::pp]].*tier).peak;
        if (node > most) most = node, fullest = r / devices_per_node;
    }
    return fullest;
}

namespace {

TierMemory memory_of_node(const Plan& plan, const std::vector<StageMemory>& stages, TierMemory StageMemory::*tier, int devices_per_node) {
    TierMemory sum;
    const int first = fullest_node(plan, stages, tier, devices_per_node) * devices_per_node;
    for (int r = first; r < std::min(first + devices_per_node, plan.mesh.ranks()); ++r) {
        const TierMemory& of_rank = stages[plan.mesh.coordinates(r)[Axis::pp]].*tier;
        sum.peak += of_rank.peak;
        for (std::size_t k = 0; k < sum.by_kind.size(); ++k) sum.by_kind[k] += of_rank.by_kind[k];
    }
    return sum;
}

bool offloads(const Strategy& s) {
    const Offload& o = s.offload;
    return (s.diloco() && s.synchronization.outer_on_host) || o.optimizer != Tier::none || o.parameters != Tier::none ||
           o.gradients != Tier::none || o.activations != Tier::none;
}

void add_reserve(StageMemory& stage, const ReserveItem& item) {
    stage.reserve.push_back(item);
    if (!item.kept) stage.reserved += item.bytes;
    stage.peak = stage.allocated_peak + stage.reserved;
}

// The caching allocator's cache on a device that has `capacity`, after all else that the device holds. (torch.optim's optimizers, whose
// zero_grad leaves None, make their moments in the first update: with them expandable segments have holes too.)
void add_cache(StageMemory& stage, const Plan& plan, const Program& program, const Scenario& scenario, Bytes capacity) {
    const Runtime& r = scenario.runtime;
    const Practice practice = practice_of(scenario);
    if (r.plan_allocator || (r.expandable_segments && !practice.gradients_none) || r.reserved_gb >= 0) return;
    const AllocatorUse use{practice.sharding, r.expandable_segments, practice.gradients_none};
    const Bytes peak = reserved_peak(plan, program, use, capacity - stage.reserved);
    if (peak > stage.allocated_peak)
        add_reserve(stage, {"allocator slack", peak - stage.allocated_peak, cache_source(), MemoryMeasure::reserved, true});
}

void add_early_cache(StageMemory& stage, const Scenario& scenario) {
    Bytes held = stage.allocated_peak;
    for (const ReserveItem& item : stage.reserve)
        if (item.level != MemoryMeasure::device && !item.kept) held += item.bytes;
    if (const ReserveItem more = early_cache(scenario, held); more.bytes.count > 0 && scenario.runtime.reserved_gb < 0)
        add_reserve(stage, more);
}

// By what a user's own runs had more or less than predicted, by the law of sim/trust/beliefs.hpp.
void add_learned(StageMemory& stage, const LearnedConstants& learned) {
    const auto& mean = learned.memory->beliefs.mean;
    const double more = std::expm1(moving_share(stage) * mean[0] + mean[1]);
    add_reserve(stage, {"learned from own runs", Bytes{std::llround(more * static_cast<double>(stage.peak.count))},
                        "simrun learn: " + std::to_string(learned.memory->rows) + " measured", MemoryMeasure::allocated});
}

StageMemory stage_memory(const Plan& plan, const PlanMemory& walked, const Scenario& scenario, Bytes capacity, std::size_t i, bool cache) {
    StageMemory stage = walked.stages[i];
    stage.peak = stage.allocated_peak;
    for (const ReserveItem& item : reserve(plan, scenario, plan.programs[i])) add_reserve(stage, item);
    if (cache && scenario.cluster.device.vendor != "cpu") add_cache(stage, plan, plan.programs[i], scenario, capacity);
    if (scenario.cluster.device.vendor != "cpu") add_early_cache(stage, scenario);
    if (plan.apart)
        if (const ReserveItem messages = message_buffers(plan, scenario, stage.stage); messages.bytes.count > 0)
            add_reserve(stage, messages);
    const LearnedConstants* learned = learned_for(scenario);
    if (learned && learned->memory && scenario.runtime.reserved_gb < 0) add_learned(stage, *learned);
    return stage;
}

} // namespace

double moving_share(const StageMemory& stage) {
    if (stage.peak.count <= 0) return 0;
    double states = 0;
    for (const MemoryKind k : {MemoryKind::parameters, MemoryKind::gradients, MemoryKind::optimizer_states})
        states += static_cast<double>(stage.by_kind[k].count);
    return std::clamp(1 - states / static_cast<double>(stage.peak.count), 0.0, 1.0);
}

MemoryReport memory(const Plan& plan, const Scenario& scenario, CacheOf cache) { return memory(plan, walk(plan), scenario, cache); }

MemoryReport memory(const Plan& plan, const PlanMemory& walked, const Scenario& scenario, CacheOf cache) {
    MemoryReport report;
    report.capacity = scenario.cluster.device.memory;
    for (const OtherNodes& o : scenario.cluster.others)
        report.capacity = std::min(report.capacity, o.device.memory); // any stage may lie there
    for (std::size_t i = 0; i < plan.programs.size(); ++i) {
        report.stages.push_back(stage_memory(plan, walked, scenario, report.capacity, i, cache == CacheOf::all));
        report.fits = report.fits && report.stages.back().peak <= report.capacity;
    }
    if (cache == CacheOf::fullest && !report.stages.empty()) {
        const auto i = static_cast<std::size_t>(&fullest(report) - report.stages.data());
        report.stages[i] = stage_memory(plan, walked, scenario, report.capacity, i, true);
    }
    if (plan.served) {
        report.host = {server_memory(plan, scenario), scenario.cluster.host.memory + scenario.cluster.host.cxl};
        report.fits = report.fits && report.host.fits();
    }
    if (!offloads(scenario.strategy)) return report;
    const int together = std::max(1, scenario.cluster.devices_per_node);
    report.host = {memory_of_node(plan, report.stages, &StageMemory::host, together),
                   scenario.cluster.host.memory + scenario.cluster.host.cxl};
    report.disk = {memory_of_node(plan, report.stages, &StageMemory::disk, together), scenario.cluster.host.nvme};
    report.fits = report.fits && report.host.fits() && report.disk.fits();
    return report;
}

Bytes peak_as(const StageMemory& stage, MemoryMeasure measure) {
    Bytes sum = stage.allocated_peak;
    if (measure == MemoryMeasure::resident) {
        const auto& between = stage.timeline.back();
        sum = {std::accumulate(between.begin(), between.end(), std::int64_t{0})};
        measure = MemoryMeasure::allocated;
    }
    for (const ReserveItem& item : stage.reserve) {
        if (item.level <= measure) sum += item.bytes;
    }
    return sum;
}

const StageMemory& fullest(const MemoryReport& report) {
    return *std::max_element(report.stages.begin(), report.stages.end(),
                             [](const StageMemory& a, const StageMemory& b) { return a.peak < b.peak; });
}

} // namespace orrery
