#include "sim/trace/of_plan.hpp"

namespace orrery {

TraceOp trace_op(const Op& op) {
    TraceOp t;
    t.name = op.name;
    t.kind = kind_name(op.work);
    t.phase = name(op.phase);
    t.layer = op.layer;
    t.flops = flops(op.work).count;
    if (const auto* c = std::get_if<Collective>(&op.work)) t.bytes = c->bytes.count * c->times, t.calls = c->times;
    if (const auto* x = std::get_if<Exchange>(&op.work))
        for (const Transfer& part : x->transfers) t.bytes += part.send ? part.bytes.count : 0;
    return t;
}

std::vector<std::string> queue_names(const Plan& plan) {
    std::vector<std::string> names{"compute", "device to host", "host to device", "host", "disk to host", "host to disk"};
    for (const Communicator& c : plan.communicators) names.push_back(c.name);
    return names;
}

} // namespace orrery
