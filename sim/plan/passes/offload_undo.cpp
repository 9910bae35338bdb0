// Updates in the backward pass that are made before the norm of all gradients is known (SuperOffload's speculation, arXiv:2509.21271). The
// gradients stay on the host until it is: where it is too large, each bucket's update is taken back by the optimizer's formulas in reverse,
// in the states' own place (DeepSpeed's ds_adam_rollback), its gradients are clipped, and it is made again. That needs no room; what comes
// of it differs by rounding from what an update that waits would have made.
//
// After it: a stage's last optimizer block has these ops for every bucket, those first that the next forward pass wants first. The runtime
// runs them in every step, and they do nothing where nothing is to be clipped; in the simulator they take their time in the share of steps
// that strategy.offload.undone_steps says.
#include "sim/plan/passes/offload_undo.hpp"

#include "sim/plan/passes/offload_ends.hpp"
#include "sim/plan/passes/offload_homes.hpp"

#include <algorithm>
#include <utility>

namespace orrery {
namespace {

class Undo {
  public:
    Undo(Lowering& l, std::int32_t block) : l_(l), block_(block) {}
    void run(int stage);

  private:
    BufferId norm() const;
    BufferId on_host(BufferId b, Role role);
    void take_again(const Block& update);
    void repeat(const Op& step);
    void push(Op op) {
        op.deps.clear();
        op.share = l_.scenario.strategy.offload.undone_steps;
        ops_.push_back(std::move(op));
    }

    Lowering& l_;
    std::int32_t block_;
    GroupClip clip_;
    std::vector<Op> ops_;
};

// Summed over ranks, or what the one rank has.
BufferId Undo::norm() const {
    for (const Op& op : l_.plan.blocks[block_].ops)
        if (std::holds_alternative<Collective>(op.work)) return op.out[0];
    return l_.data_parallel.norm;
}

BufferId Undo::on_host(BufferId b, Role role) {
    Buffer x = l_.buffer(b);
    x.name = role == Role::gradient_norm ? "host." + x.name : "opt.clip";
    x.role = role;
    x.space = Space::host;
    x.storage = -1;
    return l_.add(std::move(x));
}

void Undo::repeat(const Op& step) {
    const auto with = [&](OptimizerStep::Part part, const char* what, BufferId number) {
        Op op = step;
        op.name = what + op.name;
        std::get<OptimizerStep>(op.work).part = part;
        const auto states =
            std::find_if(op.in.begin(), op.in.end(), [&](BufferId b) { return l_.buffer(b).kind != MemoryKind::gradients; });
        op.in.insert(states, number);
        return op;
    };
    push(with(OptimizerStep::Part::undo, "undo.", clip_.total));
    push(clip_group(l_, clip_, step));
    push(with(OptimizerStep::Part::again, "again.", clip_.factor));
}

// The updates of a bucket, and what follows them on its way to the device.
void Undo::take_again(const Block& update) {
    bool updated = false;
    for (const Op& op : std::vector<Op>(update.ops.begin(), update.ops.end())) {
        const auto* copy = std::get_if<Copy>(&op.work);
        const auto* cast = std::get_if<Pointwise>(&op.work);
        if (std::holds_alternative<OptimizerStep>(op.work)) {
            repeat(op);
            updated = true;
        } else if (updated && ((copy && copy->kind == CopyKind::host_to_device) || (cast && cast->kind == PointwiseKind::cast))) {
            push(op);
        }
    }
}

void Undo::run(int stage) {
    const BufferId total = norm();
    clip_ = {on_host(total, Role::gradient_norm), on_host(total, Role::clipping_factor)};
    push(copy_op(l_, total, clip_.total));
    for (int c : l_.chunks_in_model_order()) {
        const auto& buckets = l_.data_parallel.buckets[c];
        for (std::size_t i = buckets.size(); i-- > 0;)
            if (buckets[i].stage == stage && buckets[i].update >= 0) take_again(l_.plan.blocks[buckets[i].update]);
    }
    for (Op& op : ops_) l_.plan.blocks[block_].ops.push_back(std::move(op));
    run_whole(l_, block_);
}

} // namespace

void undo_steps(Lowering& l, int stage) {
    if (l.data_parallel.norm < 0 || !l.scenario.undoes_steps()) return;
    for (std::int32_t b = 0; b < l.plan.blocks.next_id(); ++b) // a bucket's has a chunk
        if (const Block& block = l.plan.blocks[b]; block.kind == BlockKind::optimizer && block.stage == stage && block.chunk < 0)
            return Undo(l, b).run(stage);
}

} // namespace orrery
