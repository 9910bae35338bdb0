// Optimizer states in the host's memory, updated by its processors (ZeRO-Offload, arXiv:2101.06840; its ratio: Twin-Flow; Megatron-Core's
// HybridDeviceOptimizer). Gradients go to the host once they are whole and clipped, parameters come back after the step; the rest of the
// states, where a fraction stays, is updated on the device at the same time.
//
// On NVMe states come to the host a sub-group at a time, are updated there and go back (ZeRO-Infinity, arXiv:2104.07857): one sub-group's
// way after the other's, or, pipelined, the next one's way there beside the update. So do gradients and parameters that live on NVMe.
//
// Delayed (ZeRO-Offload's one-step delayed parameter update): the host updates with the gradients of the step before while the device
// computes; what it made goes to the device at the step's end, when the step's own gradients have left. A step's weights are one update
// behind what its gradients will be added to.
//
// In the backward pass (training.optimizer_in_backward), a bucket's gradients go to the host, are used there and gone as soon as they are
// complete, beside the rest of the pass (SuperOffload, arXiv:2509.21271; without clipping, or with a norm that is checked afterwards).
//
// Workers meet with slices of what the optimizer steps on (meeting_slices), each with an fp32 copy of its own: groups are these slices.
//
// After it: every optimizer step that works on the host reads and writes the host's buffers alone, and copies bring its gradients and take
// back what it made. With overlap.offload it works bucket by bucket, so that copies both ways run beside it; else all gradients come first,
// and parameters leave when all are done.
#include "sim/plan/passes/bucket_blocks.hpp"
#include "sim/plan/passes/offload_ends.hpp"
#include "sim/plan/passes/offload_homes.hpp"
#include "sim/plan/passes/offload_undo.hpp"
#include "sim/plan/passes/passes.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace orrery {
namespace {

// The operands of one step: gradients and weights in the same order, states of all of them one after the other.
struct Operands {
    std::vector<BufferId> gradients, weights, states;
    std::int64_t elements = 0;
};

class HostStep {
  public:
    HostStep(Lowering& l, std::int32_t block, std::size_t step, const GroupClip& clip)
        : l_(l), block_(l.plan.blocks[block]), at_(step), clip_(clip), device_(block_.ops[step]) {}
    // Delayed, the updates that begin the step; else none: they stand in the block.
    std::vector<Op> run();

  private:
    const Buffer& of(BufferId b) const { return l_.plan.buffers[b]; }
    Operands operands(const Op& op) const;
    void divide(const Operands& all);
    std::vector<Operands> groups() const;
    std::vector<Operands> groups_of_meetings() const;
    BufferId on_host(BufferId b);
    BufferId arriving(BufferId gradient);
    std::vector<BufferId> host_states(const Operands& group, std::size_t index, bool several);
    void send(BufferId gradient, BufferId home);
    std::vector<BufferId> room_for(const std::vector<BufferId>& states);
    void step_on_host(const Operands& group, std::size_t index, bool several);
    Op wait_for(const std::string& name, std::vector<BufferId> buffers) const;
    void run_step(Op step, const std::vector<std::pair<BufferId, BufferId>>& on_disk);
    std::vector<Op> take_turns();
    bool sends_masters(const std::vector<BufferId>& states) const;
    void take_back(const Operands& group, const Op& step, const std::vector<BufferId>& states, const std::string& suffix);
    void take_back_master(BufferId home, const std::vector<BufferId>& weights, const std::string& suffix);
    void keep_on_device();
    void drop_room_for_moments();
    bool states_on_disk() const { return l_.scenario.strategy.offload.optimizer == Tier::nvme; }
    bool in_groups() const { return states_on_disk() || !l_.disks.empty(); }
    bool delayed() const { return l_.scenario.strategy.offload.delayed_update; }
    bool in_backward() const { return l_.scenario.training.optimizer_in_backward; } // the block is a bucket's

    // A sub-group: what brings its operands to the host, and its update, with their ways back to the disk.
    struct Turn {
        std::vector<Op> before, update;
        std::int32_t read = 0, written = -1; // in `before`: the first that reads from the disk; in `update`: the last that writes there
    };

    Lowering& l_;
    Block& block_;
    std::size_t at_; // of the step in the block
    GroupClip clip_;
    Op device_; // the step as it was
    Operands here_, host_;
    std::vector<BufferId> states_; // of all: what the host's states are like
    std::vector<Turn> turns_;
    std::vector<Op> leaving_;    // delayed: gradients to the host, for the next step
    std::vector<BufferId> held_; // delayed: sums of this step on the host, each before the place where the next one's update looks
    std::vector<Op> back_;       // from the host: a group's until it has its turn; delayed, all
};

Operands HostStep::operands(const Op& op) const {
    Operands all;
    for (BufferId b : op.in) {
        if (of(b).kind == MemoryKind::gradients) all.gradients.push_back(b);
        if (of(b).kind == MemoryKind::optimizer_states) all.states.push_back(b);
    }
    for (BufferId b : op.out)
        if (of(b).kind == MemoryKind::parameters) all.weights.push_back(b);
    return all;
}

// The first operands go to the host, until the next would be more than half beyond the fraction.
void HostStep::divide(const Operands& all) {
    std::int64_t total = 0;
    for (BufferId g : all.gradients) total += elements_of(of(g));
    const double wanted = l_.scenario.strategy.offload.optimizer_fraction * static_cast<double>(total);
    for (std::size_t i = 0; i < all.gradients.size(); ++i) {
        const std::int64_t n = elements_of(of(all.gradients[i]));
        Operands& side = static_cast<double>(host_.elements) + static_cast<double>(n) / 2 <= wanted ? host_ : here_;
        side.gradients.push_back(all.gradients[i]);
        side.weights.push_back(all.weights[i]);
        side.elements += n;
    }
    states_ = all.states;
}

// One, or one for about each bucket's bytes; on disk as many operands as a sub-group may have elements, at least one.
std::vector<Operands> HostStep::groups() const {
    if (!l_.scenario.strategy.overlap.offload && !in_groups()) return {host_};
    if (l_.plan.workers != 0) return groups_of_meetings();
    std::vector<Operands> groups;
    Bytes bytes;
    for (std::size_t i = 0; i < host_.gradients.size(); ++i) {
        const bool full = groups.empty() || (in_groups() ? groups.back().elements + elements_of(of(host_.gradients[i])) >
                                                               l_.scenario.strategy.offload.sub_group_size
                                                         : bytes >= l_.scenario.strategy.bucket_bytes);
        if (full) {
            groups.emplace_back();
            bytes = {};
        }
        groups.back().gradients.push_back(host_.gradients[i]);
        groups.back().weights.push_back(host_.weights[i]);
        groups.back().elements += elements_of(of(host_.gradients[i]));
        bytes += of(host_.gradients[i]).bytes;
    }
    return groups;
}

std::vector<Operands> HostStep::groups_of_meetings() const {
    std::vector<Operands> groups;
    std::size_t next = 0;
    for (const std::vector<BufferId>& slice : meeting_slices(l_, host_.weights)) {
        Operands& group = groups.emplace_back();
        group.weights = slice;
        for (std::size_t i = 0; i < slice.size(); ++i) group.gradients.push_back(host_.gradients[next++]);
        group.elements = elements_of(l_, slice);
    }
    return groups;
}

// Its home, or the pinned memory through which it passes: kept from step to step.
BufferId HostStep::on_host(BufferId b) {
    if (const auto home = l_.homes.find(b); home != l_.homes.end()) return home->second;
    Buffer x = as_on_host(l_, of(b));
    x.scope = Scope::run;
    if (x.kind == MemoryKind::parameters) x.dtype = of(b).dtype, x.bytes = of(b).bytes; // it is no home
    return l_.add(std::move(x));
}

// Where a gradient comes to on the host, for the update. Delayed, one that lives there must stay until the next step has used it, while
// that sums up its own: there are two, which exchange their places.
BufferId HostStep::arriving(BufferId gradient) {
    const BufferId home = on_host(gradient);
    if (!delayed() || !l_.homes.contains(gradient)) return home;
    Buffer x = of(home);
    x.name += ".held";
    x.scope = Scope::run;
    const BufferId held = l_.add(std::move(x));
    held_.insert(held_.end(), {home, held});
    return held;
}

std::vector<BufferId> HostStep::host_states(const Operands& group, std::size_t index, bool several) {
    std::vector<BufferId> states;
    const auto is_master = [&](BufferId s) { return of(s).role == Role::master; };
    const bool by_slice = std::count_if(states_.begin(), states_.end(), is_master) > 1; // masters; moments are of all slices
    std::size_t slice = 0;
    for (BufferId s : states_) {
        Buffer x = of(s);
        x.space = Space::host;
        if (by_slice && is_master(s)) {
            if (++slice; several && slice != index + 1) continue;
            l_.buffer(s) = x;
            states.push_back(s);
            continue;
        }
        x.shape = {group.elements};
        x.bytes = bytes(x.shape, x.dtype);
        if (here_.gradients.empty() && index == 0) { // none stays: these move themselves
            l_.buffer(s) = x;
            states.push_back(s);
            continue;
        }
        x.name += fmt::format(".host{}", index);
        states.push_back(l_.add(std::move(x)));
    }
    return states;
}

void HostStep::send(BufferId gradient, BufferId home) {
    std::vector<Op>& ways = delayed() ? leaving_ : turns_.back().before;
    for (Op& op : to_home(l_, gradient, home)) ways.push_back(std::move(op));
}

// The states' places in the host's memory for a while; `states` stay on the disk from now on.
std::vector<BufferId> HostStep::room_for(const std::vector<BufferId>& states) {
    std::vector<BufferId> here;
    for (BufferId s : states) {
        Buffer x = of(s);
        l_.buffer(s).space = Space::nvme;
        l_.buffer(s).name = "disk." + x.name;
        x.scope = Scope::action;
        here.push_back(l_.add(std::move(x)));
    }
    return here;
}

// The host issues nothing until these are written.
Op HostStep::wait_for(const std::string& name, std::vector<BufferId> buffers) const {
    Op op;
    op.name = name;
    op.work = HostSync{}; // on no queue itself: as if on the device's, so that what the host's threads wrote counts as another's
    op.queue = compute_queue;
    op.phase = Phase::offload;
    op.in = std::move(buffers);
    return op;
}

// The ways of what lies on the disk, and the step on the host between them: {place on the host, place on the disk}.
void HostStep::run_step(Op step, const std::vector<std::pair<BufferId, BufferId>>& on_disk) {
    const auto is = [&](BufferId b, MemoryKind kind) { return of(b).kind == kind; };
    const bool reads_weights = std::none_of(step.in.begin(), step.in.end(), [&](BufferId b) { return of(b).role == Role::master; });
    Turn& turn = turns_.back();
    const auto read = [&](const std::pair<BufferId, BufferId>& x) { return !is(x.first, MemoryKind::parameters) || reads_weights; };
    for (const auto& x : on_disk)
        if (read(x)) turn.before.push_back(memory_op(Alloc{x.first}, Phase::offload));
    turn.read = static_cast<std::int32_t>(turn.before.size());
    for (const auto& x : on_disk)
        if (read(x)) turn.before.push_back(copy_op(l_, x.second, x.first));
    for (const auto& x : on_disk)
        if (!read(x)) turn.update.push_back(memory_op(Alloc{x.first}, Phase::offload));
    if (clip_.total >= 0) turn.update.push_back(clip_group(l_, clip_, step));
    const std::vector<BufferId> updated = step.out;
    std::vector<BufferId> gradients;
    for (BufferId b : step.in)
        if (is(b, MemoryKind::gradients)) {
            const auto disk = l_.disks.find(b); // what passes from there is written there
            gradients.push_back(disk == l_.disks.end() ? b : disk->second);
        }
    // Sub-groups take their turns in the optimizer's step, which begins when the pass has brought the gradients.
    if (states_on_disk() && turns_.size() == 1 && !in_backward() && !delayed())
        turn.before.insert(turn.before.begin() + turn.read++, wait_for("optimizer.gradients.wait", gradients));
    turn.update.push_back(std::move(step));
    std::vector<BufferId> back;
    for (const auto& [here, disk] : on_disk)
        if (!is(here, MemoryKind::gradients)) turn.update.push_back(copy_op(l_, here, disk)), back.push_back(disk);
    if (!on_disk.empty()) turn.written = static_cast<std::int32_t>(turn.update.size()) - 1;
    if (!in_backward() && !delayed()) // the thread that launches kernels does it
        turn.update.push_back(wait_for("optimizer.host.wait", back.empty() || l_.scenario.strategy.offload.pipelined ? updated : back));
    for (const auto& [here, disk] : on_disk) turn.update.push_back(memory_op(Free{here}, Phase::offload));
}

// Gradients leave for the host all at once. Where sub-groups take turns, one's way from the disk begins when the one before has gone back;
// pipelined, some have room on the host at a time, and it begins when the first of these has gone back.
std::vector<Op> HostStep::take_turns() {
    const Offload& o = l_.scenario.strategy.offload;
    const bool on_disk = std::any_of(turns_.begin(), turns_.end(), [](const Turn& t) { return t.written >= 0; });
    const std::size_t apart = !on_disk ? turns_.size() : o.pipelined ? static_cast<std::size_t>(o.sub_groups) : 1;
    std::vector<Op> ops;
    std::vector<std::int32_t> written; // by turn: the op that ends its way back to the disk
    const auto append = [&](std::vector<Op>& list) {
        ops.insert(ops.end(), std::make_move_iterator(list.begin()), std::make_move_iterator(list.end()));
    };
    std::size_t next = 0;
    for (std::size_t i = 0; i < turns_.size(); ++i) {
        for (; next < turns_.size() && next < i + apart; ++next) {
            Turn& t = turns_[next];
            const auto first = static_cast<std::size_t>(t.read);
            if (next >= apart && first < t.before.size() && written[next - apart] >= 0)
                t.before[first].deps.push_back(written[next - apart]);
            append(t.before);
        }
        written.push_back(turns_[i].written < 0 ? -1 : turns_[i].written + static_cast<std::int32_t>(ops.size()));
        append(turns_[i].update);
    }
    return ops;
}

// Whether fp32 masters go to the device, to be cast there, and not 16-bit parameters.
bool HostStep::sends_masters(const std::vector<BufferId>& states) const {
    const bool mastered = !states.empty() && of(states.front()).role == Role::master;
    if (!mastered || states_on_disk()) return false;
    return l_.practice.keeps_master_on_device ? l_.homes.empty() : l_.practice.crosses_in_fp32 || l_.practice.fp32_homes;
}

// Parameters on the device, from the host's: copied, or cast there from a copy of the masters, which goes again unless it is kept.
void HostStep::take_back(const Operands& group, const Op& step, const std::vector<BufferId>& states, const std::string& suffix) {
    if (!sends_masters(states)) {
        for (std::size_t i = 0; i < group.weights.size(); ++i)
            if (!l_.homes.contains(group.weights[i])) back_.push_back(copy_op(l_, step.out[i], group.weights[i]));
        return;
    }
    const std::vector<std::vector<BufferId>> slices = meeting_slices(l_, group.weights);
    for (std::size_t i = 0; i < slices.size(); ++i)
        take_back_master(states[i], slices[i], slices.size() > 1 ? fmt::format("{}.b{}", suffix, i) : suffix);
}

void HostStep::take_back_master(BufferId home, const std::vector<BufferId>& weights, const std::string& suffix) {
    const bool keeps = l_.practice.keeps_master_on_device;
    Buffer there = of(home);
    there.name = "opt.master.device" + suffix;
    there.role = Role::master_copy;
    there.space = Space::device;
    if (!keeps) {
        there.kind = MemoryKind::communication;
        there.scope = Scope::action;
    }
    const BufferId master = l_.add(std::move(there));
    if (!keeps) back_.push_back(memory_op(Alloc{master}, Phase::offload));
    back_.push_back(copy_op(l_, home, master));
    back_.back().name = "from_host.master" + suffix;
    back_.push_back(
        pointwise_op("cast.master" + suffix, PointwiseKind::cast, elements_of(l_, weights), Phase::optimizer, {master}, weights));
    if (!keeps) back_.push_back(memory_op(Free{master}, Phase::offload));
}

void HostStep::step_on_host(const Operands& group, std::size_t index, bool several) {
    turns_.emplace_back();
    const std::string bucket = in_backward() ? "." + block_.name.substr(block_.name.find(':') + 1) : "",
                      suffix = several ? fmt::format("{}.{}", bucket, index) : bucket;
    Op step = device_;
    step.name = "optimizer.host" + suffix;
    auto& work = std::get<OptimizerStep>(step.work);
    work.elements = group.elements;
    work.on_host = true;
    work.delayed = delayed();
    // Beside the device's computation, it has threads of its own: what else the host does for a step does not wait for it. They are a queue
    // as those of communicators are, and nobody else's.
    step.queue = delayed() || in_backward() ? queue_of(l_.add_communicator("host.update", 0)) : host_queue;
    step.phase = Phase::offload;
    step.in.clear();
    step.out.clear();
    std::vector<std::pair<BufferId, BufferId>> on_disk;
    const auto passing = [&](BufferId here) {
        if (const auto disk = l_.disks.find(here); disk != l_.disks.end()) on_disk.emplace_back(here, disk->second);
        return here;
    };
    for (BufferId g : group.gradients) {
        step.in.push_back(passing(arriving(g)));
        if (!l_.homes.contains(g)) send(g, step.in.back());
    }
    const std::vector<BufferId> homes = host_states(group, index, several), states = states_on_disk() ? room_for(homes) : homes;
    if (l_.practice.keeps_master_on_device || !sends_masters(states)) // else the host has the masters alone
        for (BufferId w : group.weights) step.out.push_back(passing(on_host(w)));
    for (std::size_t i = 0; states_on_disk() && i < states.size(); ++i) on_disk.emplace_back(states[i], homes[i]);
    step.in.insert(step.in.end(), states.begin(), states.end());
    if (states.empty() || of(states.front()).role != Role::master) // parameters are what it steps on: read, too
        step.in.insert(step.in.end(), step.out.begin(), step.out.end());
    step.out.insert(step.out.end(), states.begin(), states.end());
    take_back(group, step, states, suffix);
    run_step(std::move(step), on_disk);
    if (delayed()) return;
    std::vector<Op>& update = turns_.back().update; // under the next group's update
    update.insert(update.end(), std::make_move_iterator(back_.begin()), std::make_move_iterator(back_.end()));
    back_.clear();
}

// The device's step on what is left to it; it has none where all went.
void HostStep::keep_on_device() {
    if (here_.gradients.empty()) return;
    for (BufferId s : states_) {
        Buffer& x = l_.buffer(s);
        x.shape = {here_.elements};
        x.bytes = bytes(x.shape, x.dtype);
    }
    const auto gone = [&](BufferId b, const std::vector<BufferId>& list) { return std::find(list.begin(), list.end(), b) != list.end(); };
    std::erase_if(device_.in, [&](BufferId b) { return gone(b, host_.gradients); });
    std::erase_if(device_.out, [&](BufferId b) { return gone(b, host_.weights); });
    std::get<OptimizerStep>(device_.work).elements = here_.elements;
}

// The device needs no room to widen moments in where it takes no step.
void HostStep::drop_room_for_moments() {
    const auto wide = [&](BufferId b) { return of(b).role == Role::wide_moments; };
    for (std::size_t i = block_.ops.size(); i-- > 0;) {
        const Op& op = block_.ops[i];
        const auto* alloc = std::get_if<Alloc>(&op.work);
        const auto* release = std::get_if<Free>(&op.work);
        const bool fills = !op.out.empty() && wide(op.out.front());
        if (!fills && !(alloc && wide(alloc->buffer)) && !(release && wide(release->buffer))) continue;
        block_.ops.erase(block_.ops.begin() + static_cast<std::ptrdiff_t>(i));
        if (i < at_) --at_;
    }
}

std::vector<Op> HostStep::run() {
    divide(operands(device_));
    if (host_.gradients.empty()) return {};
    if (here_.gradients.empty()) drop_room_for_moments();
    const std::vector<Operands> all = groups();
    for (std::size_t i = 0; i < all.size(); ++i) step_on_host(all[i], i, all.size() > 1);
    keep_on_device();
    auto next = block_.ops.erase(block_.ops.begin() + static_cast<std::ptrdiff_t>(at_));
    std::vector<Op> early = take_turns(), here = delayed() ? std::move(leaving_) : std::exchange(early, {});
    const bool on_device = !here_.gradients.empty(); // before the host, which does nothing else while it updates
    for (Op& op : here)
        for (std::int32_t& d : op.deps) d += static_cast<std::int32_t>(at_) + on_device;
    if (on_device) here.insert(here.begin(), device_);
    if (!held_.empty()) {
        here.push_back(pointwise_op("hold_gradients", PointwiseKind::swap, host_.elements, Phase::offload, held_, held_));
        here.back().queue = host_queue;
    }
    here.insert(here.end(), std::make_move_iterator(back_.begin()), std::make_move_iterator(back_.end()));
    block_.ops.insert(next, std::make_move_iterator(here.begin()), std::make_move_iterator(here.end()));
    return early;
}

// Behind what zeroes gradients and loads data, before all that computes.
void begin_with(Lowering& l, int stage, std::vector<Op> updates) {
    if (updates.empty()) return;
    Block block;
    block.name = fmt::format("optimizer.delayed:{}", stage);
    block.kind = BlockKind::optimizer;
    block.stage = static_cast<std::int16_t>(stage);
    block.ops = Indexed<std::int32_t, Op>(std::move(updates));
    const std::int32_t id = l.add(std::move(block));
    Draft& draft = l.drafts[stage];
    auto at = draft.actions.begin();
    while (at != draft.actions.end() && at->parts.empty() && at->transfers.empty() && l.plan.blocks[at->run.block].kind == BlockKind::other)
        ++at;
    draft.actions.insert(at, run_of(l.plan, draft, id));
}

void leave_device(Lowering& l, std::int32_t b) {
    const auto steps = [](const Op& op) { return std::holds_alternative<OptimizerStep>(op.work); };
    const auto& ops = l.plan.blocks[b].ops;
    if (std::none_of(ops.begin(), ops.end(), steps)) return;
    GroupClip clip;
    if (l.scenario.strategy.offload.gradients != Tier::none) {
        if (!l.data_parallel.sends && !l.data_parallel.reduces_each_run()) send_once(l, b);
        clip = clip_on_host(l, b);
    }
    const auto step = std::find_if(ops.begin(), ops.end(), steps);
    std::vector<Op> early = HostStep(l, b, static_cast<std::size_t>(step - ops.begin()), clip).run();
    run_whole(l, b);
    begin_with(l, l.plan.blocks[b].stage, std::move(early));
}

} // namespace

void offload_optimizer(Lowering& l) {
    const Offload& o = l.scenario.strategy.offload;
    if (o.optimizer == Tier::none) return;
    for (int stage = 0; stage < l.plan.stages && o.gradients != Tier::none; ++stage) spare_zeros(l, stage);
    for (std::int32_t b = 0, end = l.plan.blocks.next_id(); b < end; ++b)
        if (l.plan.blocks[b].kind == BlockKind::optimizer) leave_device(l, b);
    for (int stage = 0; stage < l.plan.stages; ++stage) undo_steps(l, stage);
}

} // namespace orrery
