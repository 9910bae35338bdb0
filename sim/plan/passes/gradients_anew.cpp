// Gradients as autograd makes them: where a parameter has none yet, what the first product leaves becomes its gradient, without a sum, and
// has its memory from that product on (AccumulateGrad, torch/csrc/autograd/functions/accumulate_grad.h: a gradient that nobody else holds
// is taken as it is).
//
// After it: such a gradient is allocated before the op that writes it first. Where that was the sum of a temporary and nothing, the product
// itself writes it or, of another dtype, a cast does.
#include "sim/plan/passes/gradients_anew.hpp"

#include "sim/plan/emit.hpp"
#include "sim/plan/passes/bucket_blocks.hpp"
#include "topology/check.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace orrery {
namespace {

bool names(const std::vector<BufferId>& list, BufferId b) { return std::find(list.begin(), list.end(), b) != list.end(); }

// The changes of one block.
class Remaking {
  public:
    Remaking(Lowering& l, Block& block) : l_(l), block_(block), moved_(block.ops.size(), -1), gone_(block.ops.size(), 0) {}

    // Op i is the first that writes the gradient.
    void begin_with(std::int32_t i, BufferId gradient);
    void apply();

  private:
    bool sums_a_temporary(const Op& op, BufferId gradient) const {
        const auto* p = std::get_if<Pointwise>(&op.work);
        return p && p->kind == PointwiseKind::add && p->direction == Direction::weight_gradient && op.in.size() == 2 &&
               op.in[1] == gradient && l_.plan.buffers[op.in[0]].role == Role::gradient_summand;
    }
    void write_directly(std::int32_t sum, BufferId temporary, BufferId gradient);

    Lowering& l_;
    Block& block_;
    std::vector<std::int32_t> moved_;                     // an op that is gone: the one that does its work; then: where each op went
    std::vector<char> gone_;                              // by op
    std::map<std::int32_t, std::vector<BufferId>> begin_; // gradients that are allocated before an op
};

// The product that made the temporary makes the gradient, and the gradient comes where the temporary came.
void Remaking::write_directly(std::int32_t sum, BufferId temporary, BufferId gradient) {
    gone_[sum] = 1;
    bool allocated = false;
    for (std::int32_t k = sum; k-- > 0 && !allocated;) {
        Op& op = block_.ops[k];
        if (auto* alloc = std::get_if<Alloc>(&op.work); alloc && alloc->buffer == temporary) {
            alloc->buffer = gradient;
            allocated = true;
        }
        if (!names(op.out, temporary)) continue;
        std::replace(op.out.begin(), op.out.end(), temporary, gradient);
        moved_[sum] = std::max(moved_[sum], k);
    }
    require(allocated, "a temporary of a weight gradient is made in another block than it is added up in");
    for (std::int32_t k = sum + 1; k < static_cast<std::int32_t>(block_.ops.size()); ++k)
        if (const auto* free = std::get_if<Free>(&block_.ops[k].work); free && free->buffer == temporary) {
            gone_[k] = 1;
            break;
        }
}

void Remaking::begin_with(std::int32_t i, BufferId gradient) {
    Op& op = block_.ops[i];
    if (!sums_a_temporary(op, gradient)) {
        begin_[i].push_back(gradient);
        return;
    }
    const BufferId temporary = op.in[0];
    if (l_.plan.buffers[temporary].dtype == l_.plan.buffers[gradient].dtype) return write_directly(i, temporary, gradient);
    begin_[i].push_back(gradient);
    const bool own_kernel = l_.practice.autocast && !l_.scenario.strategy.fused; // of PyTorch's, which looks the types up
    op.work = Pointwise{PointwiseKind::cast, Direction::backward, std::get<Pointwise>(op.work).elements, !own_kernel};
    op.in = {temporary};
    if (const std::size_t at = op.name.rfind(".accumulate"); at != std::string::npos) op.name.replace(at, std::string::npos, ".cast");
}

void Remaking::apply() {
    std::vector<Op> ops;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(block_.ops.size()); ++i) {
        Op& op = block_.ops[i];
        for (std::int32_t& d : op.deps) d = moved_[d];
        if (const auto here = begin_.find(i); here != begin_.end())
            for (BufferId gradient : here->second) ops.push_back(memory_op_beside(Alloc{gradient}, op));
        if (gone_[i]) { // a memory op, which nothing waits for, or a sum, whose product is there
            moved_[i] = moved_[i] < 0 ? -1 : moved_[moved_[i]];
            continue;
        }
        moved_[i] = static_cast<std::int32_t>(ops.size());
        ops.push_back(std::move(op));
    }
    block_.ops = Indexed<std::int32_t, Op>(std::move(ops));
    set_units(block_);
}

} // namespace

void make_gradients_anew(Lowering& l, int chunk, const std::vector<Bucket>& buckets) {
    if (std::none_of(buckets.begin(), buckets.end(), [](const Bucket& b) { return b.made_anew; })) return;
    std::vector<char> waits(l.plan.buffers.size(), 0);
    for (const Bucket& b : buckets) {
        if (!b.made_anew) continue;
        for (std::int32_t i : b.parameters) {
            const BufferId gradient = l.parameters[b.stage][i].gradient;
            waits[static_cast<std::size_t>(gradient)] = 1;
            if (!l.data_parallel.made_in_backward) l.buffer(gradient).scope = Scope::action; // else it stays until the next step begins
        }
    }
    Block& block = l.plan.blocks[l.chunks[chunk].backward]; // which is whole: see made_by_one_pass
    Remaking remaking(l, block);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(block.ops.size()); ++i)
        for (BufferId b : block.ops[i].out)
            if (std::exchange(waits[static_cast<std::size_t>(b)], 0)) remaking.begin_with(i, b);
    remaking.apply();
    require(std::none_of(waits.begin(), waits.end(), [](char w) { return w != 0; }), "a gradient is made anew that no op makes");
}

} // namespace orrery
