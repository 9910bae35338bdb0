// How a forward pass comes by its microbatch where the software's get_batch makes it wait for the host.
//
// Megatron-LM broadcast a microbatch's sizes over the tensor-parallel ranks and read them back on the host, on every stage and in every
// forward pass: the host, else far ahead of the device, came into step with it, then unpacked tokens, mask and positions before it launched
// anything else. Where a pipeline engine loads the batch, the first and the last stage alone do so (Practice::batch_at_ends_only).
#include "sim/plan/emitter.hpp"

namespace orrery {

BufferId Emitter::fetch_batch() {
    const Runtime& r = s().runtime;
    const bool end = g.input < 0 || g.output < 0;
    if (r.batch_us <= 0 || g.nodes.empty() || (l.practice.batch_at_ends_only && !end)) return -1;
    set_place(g.nodes.front());
    layer = -1;
    Value few; // sizes of what there is to unpack
    few.shape = {8};
    few.dtype = DType::fp32;
    const BufferId sizes = make("batch.sizes", few, few.dtype), handed = make("batch", few, few.dtype);
    emit("batch.sizes", Pointwise{PointwiseKind::zero, Direction::forward, 8, true}, {}, {sizes});
    Op host = make_op("batch.unpack", HostWork{Time::microseconds(r.batch_us)}, {sizes}, {handed});
    host.queue = host_queue;
    push(std::move(host));
    return handed;
}

} // namespace orrery
