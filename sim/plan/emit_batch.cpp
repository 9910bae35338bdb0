// How a forward pass comes by its microbatch: the host loads it where tokens or labels are wanted (runtime.dataloader_us), and the
// software's get_batch may make the pass wait for the host (runtime.batch_us). Both are once a microbatch, for which each calls next() of
// its loader: get_batch_on_this_tp_rank (megatron/training/utils.py of NVIDIA/Megatron-LM), _exec_load_micro_batch
// (deepspeed/runtime/pipe/engine.py), train_step (torchtitan/train.py). The host is ahead of the device, so that microbatches are loaded
// beside what that computes.
//
// Megatron-LM broadcast a microbatch's sizes over the tensor-parallel ranks and read them back on the host, on every stage and in every
// forward pass: the host, else far ahead of the device, came into step with it, then unpacked tokens, mask and positions before it launched
// anything else. Where a pipeline engine loads the batch, the first and the last stage alone do so (Practice::batch_at_ends_only).
#include "sim/plan/emitter.hpp"

namespace orrery {

BufferId Emitter::fetch_batch() {
    const Runtime& r = s().runtime;
    if (g.nodes.empty()) return -1;
    const bool end = g.input < 0 || g.output < 0 || g.unit_kinds.back() == UnitKind::prediction; // tokens, labels, and tokens ahead
    const bool unpacks = r.batch_us > 0 && (end || !l.practice.batch_at_ends_only), loads = r.dataloader_us > 0 && end;
    if (!unpacks && !loads) return -1;
    set_place(g.nodes.front());
    layer = -1;
    Value few; // sizes of what there is to unpack
    few.shape = {8};
    few.dtype = DType::fp32;
    const auto on_host = [&](const char* name, double us, std::vector<BufferId> in, BufferId out) {
        Op host = make_op(name, HostWork{Time::microseconds(us)}, std::move(in), {out});
        host.queue = host_queue;
        push(std::move(host));
        return out;
    };
    std::vector<BufferId> needed;
    if (loads) needed.push_back(on_host("load_data", r.dataloader_us, {}, make("batch.loaded", few, few.dtype)));
    if (!unpacks) return needed.front();
    const BufferId sizes = make("batch.sizes", few, few.dtype), handed = make("batch", few, few.dtype);
    emit("batch.sizes", Pointwise{PointwiseKind::zero, Direction::forward, 8, true}, {}, {sizes});
    needed.insert(needed.begin(), sizes);
    return on_host("batch.unpack", r.batch_us, std::move(needed), handed);
}

} // namespace orrery
