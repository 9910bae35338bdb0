#include "sim/plan/passes/offload_ends.hpp"

#include "sim/plan/passes/bucket_blocks.hpp"
#include "sim/plan/passes/offload_homes.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace orrery {
namespace {

Op on_host(std::string name, Work work, std::vector<BufferId> in, std::vector<BufferId> out) {
    Op op;
    op.name = std::move(name);
    op.work = std::move(work);
    op.queue = host_queue;
    op.phase = Phase::offload;
    op.in = std::move(in);
    op.out = std::move(out);
    return op;
}

class Clip {
  public:
    Clip(Lowering& l, std::int32_t block) : l_(l), block_(block) {}
    GroupClip run();

  private:
    BufferId at_home(BufferId b) const {
        const auto home = l_.homes.find(b);
        return home == l_.homes.end() ? b : home->second;
    }
    bool on_disk(const Op& op) const {
        return std::any_of(op.in.begin(), op.in.end(), [&](BufferId b) { return l_.disks.contains(at_home(b)); });
    }
    BufferId twin(BufferId b) {
        Buffer x = l_.buffer(b);
        x.name = "host." + x.name;
        x.space = Space::host;
        x.storage = -1;
        return l_.add(std::move(x));
    }
    void norm(Op op);
    void norm_of_passing(const Op& op, BufferId sum);
    void insert_norm(BufferId home, BufferId part);
    void clip(Op op);

    Lowering& l_;
    std::int32_t block_;
    std::vector<Op> ops_;
    GroupClip groups_;
};

// Before the gradient's way from the host to NVMe: its part of the norm.
void Clip::insert_norm(BufferId home, BufferId part) {
    for (std::int32_t b = 0; b < l_.plan.blocks.next_id(); ++b) {
        auto& ops = l_.plan.blocks[b].ops;
        const auto leaves = std::find_if(ops.begin(), ops.end(), [&](const Op& op) {
            const auto* c = std::get_if<Copy>(&op.work);
            return c && c->kind == CopyKind::host_to_nvme && op.in[0] == home;
        });
        if (leaves == ops.end()) continue;
        ops.insert(leaves, on_host("norm." + l_.buffer(home).name, GradientNorm{elements_of(l_.buffer(home)), true}, {home}, {part}));
        run_whole(l_, b);
        return;
    }
}

void Clip::norm_of_passing(const Op& op, BufferId sum) {
    for (std::size_t i = 0; i < op.in.size(); ++i) {
        BufferId part = sum;
        if (i > 0) {
            Buffer x = l_.buffer(sum);
            x.name += fmt::format(".{}", i);
            part = l_.add(std::move(x));
            ops_.push_back(
                on_host(fmt::format("{}.{}", op.name, i), Pointwise{PointwiseKind::add, Direction::forward, 1, true}, {part, sum}, {sum}));
        }
        insert_norm(at_home(op.in[i]), part);
    }
}

void Clip::norm(Op op) {
    const BufferId device = op.out[0], host = twin(device);
    if (on_disk(op)) {
        norm_of_passing(op, host);
    } else {
        for (BufferId& b : op.in) b = at_home(b);
        op.out[0] = host;
        op.queue = host_queue;
        op.phase = Phase::offload;
        ops_.push_back(std::move(op));
    }
    ops_.push_back(copy_op(l_, host, device));
}

void Clip::clip(Op op) {
    const bool later = on_disk(op);
    const BufferId total = op.in[0], host = twin(total);
    l_.buffer(op.out[0]).space = Space::host; // the factor
    ops_.push_back(copy_op(l_, total, host));
    if (later) {
        groups_ = {host, op.out[0]};
        return;
    }
    for (auto* list : {&op.in, &op.out})
        for (BufferId& b : *list) b = at_home(b);
    op.in[0] = host;
    op.queue = host_queue;
    op.phase = Phase::offload;
    ops_.push_back(std::move(op));
}

GroupClip Clip::run() {
    std::vector<Op> before = std::move(l_.plan.blocks[block_].ops);
    for (Op& op : before) {
        const auto* p = std::get_if<Pointwise>(&op.work);
        if (std::holds_alternative<GradientNorm>(op.work))
            norm(std::move(op));
        else if (p && p->kind == PointwiseKind::clip)
            clip(std::move(op));
        else
            ops_.push_back(std::move(op));
    }
    l_.plan.blocks[block_].ops = Indexed<std::int32_t, Op>(std::move(ops_));
    return groups_;
}

} // namespace

void run_whole(Lowering& l, std::int32_t block) {
    for (Draft& draft : l.drafts)
        for (DraftAction& a : draft.actions)
            if (a.run.block == block) a.run.last = static_cast<std::int32_t>(l.plan.blocks[block].ops.size());
}

void spare_zeros(Lowering& l, int stage) {
    for (std::int32_t id = 0; id < l.plan.blocks.next_id(); ++id) {
        Block& block = l.plan.blocks[id];
        if (block.kind != BlockKind::other || block.stage != stage) continue;
        bool spared = false;
        for (Op& op : block.ops) {
            auto* p = std::get_if<Pointwise>(&op.work);
            if (!p || p->kind != PointwiseKind::zero) continue;
            if (std::erase_if(op.out, [&](BufferId b) { return l.homes.contains(b); }) == 0) continue;
            p->elements = 0;
            for (BufferId b : op.out) p->elements += elements_of(l.buffer(b));
            spared = spared || op.out.empty();
        }
        if (!spared) continue;
        std::erase_if(block.ops, [](const Op& op) {
            const auto* p = std::get_if<Pointwise>(&op.work);
            return p && p->kind == PointwiseKind::zero && op.out.empty();
        });
        run_whole(l, id);
        if (block.ops.empty()) std::erase_if(l.drafts[stage].actions, [&](const DraftAction& a) { return a.run.block == id; });
    }
}

void send_once(Lowering& l, std::int32_t block) {
    auto& ops = l.plan.blocks[block].ops;
    const auto uses = [&](const Op& op) {
        return std::holds_alternative<GradientNorm>(op.work) || std::holds_alternative<OptimizerStep>(op.work);
    };
    const auto first = static_cast<std::size_t>(std::find_if(ops.begin(), ops.end(), uses) - ops.begin());
    const auto step = std::find_if(ops.begin(), ops.end(), [](const Op& op) { return std::holds_alternative<OptimizerStep>(op.work); });
    if (step == ops.end()) return;
    std::vector<Op> leaves;
    for (BufferId g : std::vector<BufferId>(step->in)) {
        if (l.buffer(g).kind != MemoryKind::gradients || l.homes.contains(g)) continue;
        Buffer x = as_on_host(l, l.buffer(g));
        x.scope = Scope::step;
        const BufferId home = l.homes[g] = l.add(std::move(x));
        for (Op& op : to_home(l, g, home)) leaves.push_back(std::move(op));
    }
    ops.insert(ops.begin() + static_cast<std::ptrdiff_t>(first), std::make_move_iterator(leaves.begin()),
               std::make_move_iterator(leaves.end()));
}

GroupClip clip_on_host(Lowering& l, std::int32_t block) { return Clip(l, block).run(); }

Op clip_group(const Lowering& l, const GroupClip& clip, const Op& step) {
    std::vector<BufferId> in{clip.total}, out{clip.factor};
    std::int64_t elements = 0;
    for (BufferId b : step.in)
        if (l.plan.buffers[b].kind == MemoryKind::gradients) {
            in.push_back(b);
            out.push_back(b);
            elements += elements_of(l.plan.buffers[b]);
        }
    return on_host("clip." + step.name, Pointwise{PointwiseKind::clip, Direction::forward, elements, true}, std::move(in), std::move(out));
}

} // namespace orrery
