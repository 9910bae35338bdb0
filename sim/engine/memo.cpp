#include "sim/engine/memo.hpp"

#include "topology/mix.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <unordered_map>

namespace orrery {

namespace {

bool same_lane(const MachineLane& a, const MachineLane& b) {
    return a.ranks == b.ranks && a.program == b.program && a.kind == b.kind && a.slowness == b.slowness && a.queues == b.queues;
}

bool same_link(const MachineLink& a, const MachineLink& b) { return a.twins == b.twins && a.capacity == b.capacity && a.group == b.group; }

bool same_ops(const Machine& a, const Machine& b) {
    return a.window == b.window && a.ops == b.ops && a.durations_of_kind == b.durations_of_kind && a.deps == b.deps &&
           a.action_deps == b.action_deps && a.transfers == b.transfers && a.segments == b.segments && a.programs == b.programs;
}

bool same_devices(const Machine& a, const Machine& b) {
    return std::equal(a.lanes.begin(), a.lanes.end(), b.lanes.begin(), b.lanes.end(), same_lane) && a.lane_comms == b.lane_comms &&
           a.interference == b.interference && a.jitter == 0 && b.jitter == 0; // with jitter each rank is its own
}

// All of a cost but which links of the machine it loads.
bool same_times(const BundleCost& a, const BundleCost& b) {
    BundleCost loads_as_b = a;
    loads_as_b.uses_begin = b.uses_begin, loads_as_b.uses_end = b.uses_end;
    return loads_as_b == b;
}

// All that decides how long communication takes. Links that never hold any back may be others.
bool same_communication(const Machine& a, const Machine& b) {
    return a.bundles == b.bundles && a.members == b.members && a.shared == b.shared && a.shared_capacity == b.shared_capacity &&
           std::equal(a.bundle_costs.begin(), a.bundle_costs.end(), b.bundle_costs.begin(), b.bundle_costs.end(), same_times);
}

bool same_links(const Machine& a, const Machine& b) {
    return a.bundle_costs == b.bundle_costs && a.own_limits == b.own_limits && a.uses == b.uses &&
           std::equal(a.links.begin(), a.links.end(), b.links.begin(), b.links.end(), same_link);
}

bool same_operand(const Buffer& a, const Buffer& b) {
    return a.bytes.count == b.bytes.count && a.dtype == b.dtype && a.kind == b.kind && a.space == b.space && a.scope == b.scope &&
           a.role == b.role && a.expert == b.expert && a.ahead == b.ahead && a.shape == b.shape && a.placement == b.placement;
}

bool same_transfer(const Transfer& a, const Transfer& b) { return a.comm == b.comm && a.send == b.send && a.bytes.count == b.bytes.count; }

// Byte by byte: what differs in padding alone is asked for twice.
template <class W> bool same_work(const W& a, const W& b) {
    if constexpr (std::is_same_v<W, Exchange>)
        return std::equal(a.transfers.begin(), a.transfers.end(), b.transfers.begin(), b.transfers.end(), same_transfer);
    else {
        static_assert(std::is_trivially_copyable_v<W>);
        return std::memcmp(&a, &b, sizeof(W)) == 0;
    }
}

struct AlikeOp {
    const Plan& plan;
    const Op& op;

    bool same_operands(const std::vector<BufferId>& a, const std::vector<BufferId>& b) const {
        return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                          [&](BufferId x, BufferId y) { return x == y || same_operand(plan.buffers[x], plan.buffers[y]); });
    }
    bool as(const Op& o) const {
        if (op.work.index() != o.work.index() || op.queue != o.queue || op.phase != o.phase || op.pieces != o.pieces ||
            op.modules != o.modules || op.of_adapter != o.of_adapter || op.share != o.share || op.eager != o.eager ||
            op.mlp_border != o.mlp_border)
            return false;
        const bool work = std::visit([&](const auto& w) { return same_work(w, std::get<std::decay_t<decltype(w)>>(o.work)); }, op.work);
        return work && same_operands(op.in, o.in) && same_operands(op.out, o.out);
    }
    // Equal for those that are alike.
    std::uint64_t hash() const {
        std::uint64_t h = mix(op.work.index(), static_cast<std::uint64_t>(op.queue) << 8 | static_cast<std::uint64_t>(op.phase));
        for (const auto* list : {&op.in, &op.out})
            for (const BufferId b : *list) h = mix(h, static_cast<std::uint64_t>(plan.buffers[b].bytes.count));
        return h;
    }
};

} // namespace

AlikeOps alike_ops(const Plan& plan, const Machine& machine) {
    AlikeOps out;
    out.of.resize(machine.ops.size());
    std::vector<const Op*> first;                                     // by number
    std::unordered_map<std::uint64_t, std::vector<std::int32_t>> met; // numbers by hash
    for (const Segment& s : machine.segments)
        for (std::int32_t o = s.begin; o < s.end; ++o) {
            const Op& op = plan.blocks[s.block].ops[machine.ops[at(o)].source];
            std::vector<std::int32_t>& near = met[AlikeOp{plan, op}.hash()];
            const auto known = std::find_if(near.begin(), near.end(), [&](std::int32_t n) { return AlikeOp{plan, *first[at(n)]}.as(op); });
            const std::int32_t number = known != near.end() ? *known : out.count++;
            if (known == near.end()) near.push_back(number), first.push_back(&op);
            out.of[at(o)] = {number, op.layer};
        }
    return out;
}

// Programs of another number of kinds of nodes have other lists of durations.
bool RunMemo::has_programs_for(const Costs& costs, bool blocking) const {
    return whole_ && blocking == launch_blocking_ && machine.durations_of_kind.size() == costs.compute_of_kind.size();
}

Machine RunMemo::compile(const Plan& plan, const Costs& costs, const Wires& wires, const CompileOptions& options) {
    Compilation c{plan, costs, {}, {}};
    stop_if(options.stop);
    const bool again = has_programs_for(costs, options.launch_blocking);
    if (again) {
        c.comms = std::move(comms_);
        Machine& m = c.machine;
        m.window = machine.window;
        m.ops = std::move(machine.ops);
        m.durations_of_kind = std::move(machine.durations_of_kind);
        m.deps = std::move(machine.deps);
        m.action_deps = std::move(machine.action_deps);
        m.transfers = std::move(machine.transfers);
        m.segments = std::move(machine.segments);
        m.programs = std::move(machine.programs);
    }
    whole_ = false;
    begin_machine(c, wires);
    if (again) {
        if (costs.layers && alike_.of.empty()) alike_ = alike_ops(plan, c.machine);
        ops_ = price_programs(c, alike_) ? Ops::priced_otherwise : Ops::priced_alike;
    } else {
        compile_programs(c, options.launch_blocking);
        alike_ = {};
        ops_ = Ops::compiled;
    }
    stop_if(options.stop);
    compile_bundles(c, wires, options.fold);
    stop_if(options.stop);
    comms_ = std::move(c.comms);
    launch_blocking_ = options.launch_blocking;
    return std::move(c.machine);
}

std::optional<Simulation> RunMemo::known(Machine& now, const SimulateOptions& options) {
    if (options.trace || !options.replay || options.max_steps != max_steps || options.slower_up_to != slower_up_to || machine.lanes.empty())
        return std::nullopt;
    if (ops_ == Ops::priced_otherwise || !same_communication(machine, now) || !same_devices(machine, now)) return std::nullopt;
    if (ops_ == Ops::compiled && !same_ops(machine, now)) return std::nullopt;
    const bool links = same_links(machine, now);
    if (!links && slower_up_to > 0) return std::nullopt; // with slower links others may decide
    if (!links) result.links = link_uses(now, completions);
    Simulation s = result;
    for (std::size_t l = 0; l < s.lanes.size(); ++l) s.lanes[l].rank = now.lanes[l].rank;
    for (std::size_t l = 0; l < s.links.size(); ++l) s.links[l].link = now.links[l].link;
    s.lane_of_rank = std::move(now.lane_of_rank);
    s.link_class = std::move(now.link_class);
    machine = std::move(now);
    keep_programs();
    return s;
}

void RunMemo::keep(Machine&& ran, const Simulation& gave, std::vector<std::int64_t> times, const SimulateOptions& options) {
    if (options.trace || !options.replay || gave.deadlock) return;
    machine = std::move(ran);
    result = gave;
    completions = std::move(times);
    max_steps = options.max_steps;
    slower_up_to = options.slower_up_to;
    keep_programs();
}

// (What a copy to the host asks of its queue is one of the plan's ops, and a plan that is copied has others.)
void RunMemo::keep_programs() {
    const auto copies = [](const CommUse& use) {
        return std::any_of(use.patterns.begin(), use.patterns.end(), [](const CommPattern& p) { return p.copy != nullptr; });
    };
    whole_ = std::none_of(comms_.begin(), comms_.end(), copies);
}

} // namespace orrery
