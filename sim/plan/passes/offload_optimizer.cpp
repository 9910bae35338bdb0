// Optimizer states in the host's memory, updated by its processors (ZeRO-Offload, arXiv:2101.06840; its ratio: Twin-Flow; Megatron-Core's
// HybridDeviceOptimizer). Gradients go to the host once they are whole and clipped, parameters come back after the step; the rest of the
// states, where a fraction stays, is updated on the device at the same time.
//
// On NVMe states come to the host a sub-group at a time, are updated there and go back (ZeRO-Infinity, arXiv:2104.07857): one sub-group's
// way after the other's, or, pipelined, the next one's way there beside the update.
//
// After it: every optimizer step that works on the host reads and writes the host's buffers alone, and copies bring its gradients and take
// back what it made. With overlap.offload it works bucket by bucket, so that copies both ways run beside it; else all gradients come first,
// and parameters leave when all are done.
#include "sim/plan/passes/bucket_blocks.hpp"
#include "sim/plan/passes/passes.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace orrery {
namespace {

// The operands of one step: gradients and weights in the same order, states of all of them one after the other.
struct Operands {
    std::vector<BufferId> gradients, weights, states;
    std::int64_t elements = 0;
};

std::int64_t elements_of(const Buffer& b) {
    std::int64_t n = 1;
    for (std::int64_t d : b.shape) n *= d;
    return n;
}

class HostStep {
  public:
    HostStep(Lowering& l, Block& block, std::size_t step) : l_(l), block_(block), at_(step), device_(block.ops[step]) {}
    void run();

  private:
    const Buffer& of(BufferId b) const { return l_.plan.buffers[static_cast<std::size_t>(b)]; }
    Operands operands(const Op& op) const;
    void divide(const Operands& all);
    std::vector<Operands> groups() const;
    BufferId on_host(BufferId b);
    std::vector<BufferId> host_states(const Operands& group, std::size_t index);
    void copy(const std::string& name, BufferId from, BufferId to, CopyKind kind);
    std::vector<BufferId> from_disk(const std::vector<BufferId>& states);
    void step_on_host(const Operands& group, std::size_t index, bool several);
    void keep_on_device();
    void drop_room_for_moments();
    bool on_disk() const { return l_.scenario.strategy.offload.optimizer == Tier::nvme; }

    Lowering& l_;
    Block& block_;
    std::size_t at_; // of the step in the block
    Op device_;      // the step as it was
    Operands here_, host_;
    std::vector<BufferId> states_;      // of all: what the host's states are like
    std::vector<Op> ops_, back_;        // to the host and there; from it
    std::vector<std::int32_t> written_; // by sub-group: the op (index in ops_) that ends its way back to the disk
};

Op disk_copy(const Buffer& x, CopyKind kind, BufferId from, BufferId to) {
    const bool reads = kind == CopyKind::nvme_to_host;
    Op op;
    op.name = (reads ? "from_disk." : "to_disk.") + x.name;
    op.work = Copy{kind, x.bytes};
    op.queue = reads ? from_disk_queue : to_disk_queue;
    op.phase = Phase::offload;
    op.in = {from};
    op.out = {to};
    return op;
}

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
    if (!l_.scenario.strategy.overlap.offload && !on_disk()) return {host_};
    std::vector<Operands> groups;
    Bytes bytes;
    for (std::size_t i = 0; i < host_.gradients.size(); ++i) {
        const bool full = groups.empty() || (on_disk() ? groups.back().elements + elements_of(of(host_.gradients[i])) >
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

// Its home, or the pinned memory through which it passes: kept from step to step.
BufferId HostStep::on_host(BufferId b) {
    if (const auto home = l_.homes.find(b); home != l_.homes.end()) return home->second;
    Buffer x = of(b);
    x.name = "host." + x.name;
    x.space = Space::host;
    x.scope = Scope::run;
    x.storage = -1;
    return l_.add(std::move(x));
}

std::vector<BufferId> HostStep::host_states(const Operands& group, std::size_t index) {
    std::vector<BufferId> states;
    for (BufferId s : states_) {
        Buffer x = of(s);
        x.space = Space::host;
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

void HostStep::copy(const std::string& name, BufferId from, BufferId to, CopyKind kind) {
    Op op;
    op.name = name;
    op.work = Copy{kind, of(from).bytes};
    op.queue = kind == CopyKind::device_to_host ? d2h_queue : h2d_queue;
    op.phase = Phase::offload;
    op.in = {from};
    op.out = {to};
    (kind == CopyKind::device_to_host ? ops_ : back_).push_back(std::move(op));
}

// The states' places in the host's memory, with their way there; `states` stay on the disk from now on. Where sub-groups take turns, the
// way begins when the one before has gone back; pipelined, when the one before that has.
std::vector<BufferId> HostStep::from_disk(const std::vector<BufferId>& states) {
    std::vector<BufferId> here;
    std::vector<Op> reads;
    for (BufferId s : states) {
        Buffer x = of(s);
        l_.buffer(s).space = Space::nvme;
        l_.buffer(s).name = "disk." + x.name;
        x.scope = Scope::action;
        here.push_back(l_.add(x));
        reads.push_back(disk_copy(x, CopyKind::nvme_to_host, s, here.back()));
    }
    const std::size_t apart = l_.scenario.strategy.offload.pipelined ? 2 : 1;
    if (written_.size() >= apart) reads.front().deps.push_back(static_cast<std::int32_t>(at_) + written_[written_.size() - apart]);
    for (BufferId b : here) ops_.push_back(memory_op(Alloc{b}, Phase::offload));
    ops_.insert(ops_.end(), std::make_move_iterator(reads.begin()), std::make_move_iterator(reads.end()));
    return here;
}

void HostStep::step_on_host(const Operands& group, std::size_t index, bool several) {
    const std::string suffix = several ? fmt::format(".{}", index) : "";
    Op step = device_;
    step.name = "optimizer.host" + suffix;
    auto& work = std::get<OptimizerStep>(step.work);
    work.elements = group.elements;
    work.on_host = true;
    step.queue = host_queue;
    step.phase = Phase::offload;
    step.in.clear();
    step.out.clear();
    for (BufferId g : group.gradients) {
        step.in.push_back(on_host(g));
        if (!l_.homes.contains(g)) copy("to_host." + of(g).name, g, step.in.back(), CopyKind::device_to_host);
    }
    for (BufferId w : group.weights) step.out.push_back(on_host(w));
    const std::vector<BufferId> homes = host_states(group, index), states = on_disk() ? from_disk(homes) : homes;
    step.in.insert(step.in.end(), states.begin(), states.end());
    step.out.insert(step.out.end(), states.begin(), states.end());
    const bool mastered = !states.empty() && of(states.front()).role == Role::master;
    if (mastered && l_.practice.keeps_master_on_device && l_.homes.empty() && !on_disk()) {
        Buffer kept = of(states.front());
        kept.name = "opt.master.device" + suffix;
        kept.role = Role::master_copy;
        kept.space = Space::device;
        const BufferId master = l_.add(std::move(kept));
        copy("from_host.master" + suffix, states.front(), master, CopyKind::host_to_device);
        Op cast;
        cast.name = "cast.master" + suffix;
        cast.work = Pointwise{PointwiseKind::cast, Direction::forward, group.elements, true};
        cast.phase = Phase::optimizer;
        cast.in = {master};
        cast.out = group.weights;
        back_.push_back(std::move(cast));
    } else {
        for (std::size_t i = 0; i < group.weights.size(); ++i)
            if (!l_.homes.contains(group.weights[i]))
                copy("from_host." + of(group.weights[i]).name, step.out[i], group.weights[i], CopyKind::host_to_device);
    }
    ops_.push_back(std::move(step));
    if (!on_disk()) return;
    for (std::size_t i = 0; i < states.size(); ++i) ops_.push_back(disk_copy(of(states[i]), CopyKind::host_to_nvme, states[i], homes[i]));
    written_.push_back(static_cast<std::int32_t>(ops_.size()) - 1);
    for (BufferId b : states) ops_.push_back(memory_op(Free{b}, Phase::offload));
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

void HostStep::run() {
    divide(operands(device_));
    if (host_.gradients.empty()) return;
    if (here_.gradients.empty()) drop_room_for_moments();
    const std::vector<Operands> all = groups();
    for (std::size_t i = 0; i < all.size(); ++i) step_on_host(all[i], i, all.size() > 1);
    keep_on_device();
    const auto at = block_.ops.begin() + static_cast<std::ptrdiff_t>(at_);
    auto next = block_.ops.erase(at);
    if (!here_.gradients.empty()) ops_.push_back(device_);
    ops_.insert(ops_.end(), std::make_move_iterator(back_.begin()), std::make_move_iterator(back_.end()));
    block_.ops.insert(next, std::make_move_iterator(ops_.begin()), std::make_move_iterator(ops_.end()));
}

// The norm and the clipping of gradients that live on the host: there, with a number's way to the device where ranks add theirs.
void clip_on_host(Lowering& l, Block& block) {
    const auto at_home = [&](BufferId b) {
        const auto home = l.homes.find(b);
        return home == l.homes.end() ? b : home->second;
    };
    const auto copy = [&](BufferId from, BufferId to, bool leaves) {
        Op op;
        op.name = (leaves ? "to_host." : "from_host.") + l.buffer(leaves ? from : to).name;
        op.work = Copy{leaves ? CopyKind::device_to_host : CopyKind::host_to_device, l.buffer(from).bytes};
        op.queue = leaves ? d2h_queue : h2d_queue;
        op.phase = Phase::offload;
        op.in = {from};
        op.out = {to};
        return op;
    };
    const auto twin = [&](BufferId b) {
        Buffer x = l.buffer(b);
        x.name = "host." + x.name;
        x.space = Space::host;
        x.storage = -1;
        return l.add(std::move(x));
    };
    std::vector<Op> ops;
    for (Op& op : block.ops) {
        const auto* p = std::get_if<Pointwise>(&op.work);
        const bool norm = std::holds_alternative<GradientNorm>(op.work), clip = p && p->kind == PointwiseKind::clip;
        if (!norm && !clip) {
            ops.push_back(std::move(op));
            continue;
        }
        for (auto* list : {&op.in, &op.out})
            for (BufferId& b : *list) b = at_home(b);
        op.queue = host_queue;
        op.phase = Phase::offload;
        if (norm) {
            const BufferId device = op.out[0];
            op.out[0] = twin(device);
            const BufferId host = op.out[0];
            ops.push_back(std::move(op));
            ops.push_back(copy(host, device, false));
            continue;
        }
        const BufferId total = op.in[0];
        op.in[0] = twin(total);
        l.buffer(op.out[0]).space = Space::host; // the factor
        ops.push_back(copy(total, op.in[0], true));
        ops.push_back(std::move(op));
    }
    block.ops = std::move(ops);
}

// Sums that several runs add to begin as zero; the device has none of them.
void zero_on_host(Lowering& l, int stage) {
    Block block;
    block.name = fmt::format("begin_host:{}", stage);
    block.stage = static_cast<std::int16_t>(stage);
    Op zero;
    zero.name = "zero_gradients.host";
    std::int64_t elements = 0;
    for (const auto& of_chunk : l.data_parallel.buckets)
        for (const Bucket& b : of_chunk) {
            if (b.stage != stage || !b.accumulates) continue;
            std::vector<BufferId> gradients{b.gradient_shard};
            if (b.gradient_shard < 0) {
                gradients.clear();
                for (std::int32_t i : b.parameters)
                    gradients.push_back(l.parameters[static_cast<std::size_t>(stage)][static_cast<std::size_t>(i)].gradient);
            }
            for (BufferId g : gradients)
                if (const auto home = l.homes.find(g); home != l.homes.end()) {
                    zero.out.push_back(home->second);
                    elements += elements_of(l.buffer(g));
                }
        }
    for (Block& other : l.plan.blocks)
        if (other.kind == BlockKind::other && other.stage == stage)
            for (Op& op : other.ops)
                if (const auto* p = std::get_if<Pointwise>(&op.work); p && p->kind == PointwiseKind::zero)
                    std::erase_if(op.out, [&](BufferId b) { return l.homes.contains(b); });
    if (zero.out.empty()) return;
    zero.work = Pointwise{PointwiseKind::zero, Direction::forward, elements, true};
    zero.queue = host_queue;
    zero.phase = Phase::offload;
    block.ops.push_back(std::move(zero));
    const std::int32_t id = l.add(std::move(block));
    Draft& draft = l.drafts[static_cast<std::size_t>(stage)];
    draft.actions.insert(draft.actions.begin(), run_of(l.plan, draft, id));
}

} // namespace

void offload_optimizer(Lowering& l) {
    if (l.scenario.strategy.offload.optimizer == Tier::none) return;
    const bool gradients_away = l.scenario.strategy.offload.gradients == Tier::cpu;
    for (int stage = 0; stage < l.plan.stages && gradients_away; ++stage) zero_on_host(l, stage);
    for (std::size_t b = 0; b < l.plan.blocks.size(); ++b) {
        Block& block = l.plan.blocks[b];
        if (block.kind != BlockKind::optimizer) continue;
        const bool steps =
            std::any_of(block.ops.begin(), block.ops.end(), [](const Op& op) { return std::holds_alternative<OptimizerStep>(op.work); });
        if (!steps) continue;
        if (gradients_away) clip_on_host(l, block);
        const auto step =
            std::find_if(block.ops.begin(), block.ops.end(), [](const Op& op) { return std::holds_alternative<OptimizerStep>(op.work); });
        HostStep(l, block, static_cast<std::size_t>(step - block.ops.begin())).run();
        for (Draft& draft : l.drafts)
            for (DraftAction& a : draft.actions)
                if (a.run.block == static_cast<std::int32_t>(b)) a.run.last = static_cast<std::int32_t>(block.ops.size());
    }
}

} // namespace orrery
