#include "sim/memory/loose.hpp"

#include "sim/plan/lowering.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery {
namespace {

std::int64_t trained_elements(const Plan& plan, int stage) {
    std::int64_t sum = 0;
    for (const Buffer& b : plan.buffers) {
        if (b.stage != stage || b.role != Role::parameter || !plan.tensors[b.tensor].trained) continue;
        std::int64_t n = 1;
        for (std::int64_t d : b.shape) n *= d;
        sum += n;
    }
    return sum;
}

Bytes of(std::int64_t elements, double each) { return Bytes{static_cast<std::int64_t>(static_cast<double>(elements) * each)}; }

} // namespace

ReserveItem message_buffers(const Plan& plan, const Scenario& s, int stage) {
    const Synchronization& how = s.strategy.synchronization;
    const std::int64_t n = trained_elements(plan, stage);
    const double own = bytes_per_element(activation_dtype(s));
    ReserveItem item{"messages of workers", Bytes{}, "", MemoryMeasure::allocated};
    if (how.kind == Synchronization::Kind::gossip) { // of each step under way: its peers' messages, and what it sent where it has moved on
        const std::int64_t came = how.degree * (how.overlap_steps + 1);
        item.bytes = of(n, own * static_cast<double>(came + how.overlap_steps));
        item.source = fmt::format("trained parameters in {}: {} of peers", name(activation_dtype(s)), came);
        if (how.overlap_steps > 0) item.source += fmt::format(", {} own that are still sent", how.overlap_steps);
    } else if (how.kind == Synchronization::Kind::async_average) {
        item.bytes = of(n, own * 2);
        item.source = fmt::format("trained parameters in {}: a peer's, and the own as they are sent", name(activation_dtype(s)));
    } else if (how.payload_dtype != s.training.gradient_dtype) { // else they go as they lie
        item.bytes = of(n, bytes_per_element(how.payload_dtype));
        item.source = fmt::format("the gradients once more, in {} as servers get them", name(how.payload_dtype));
    }
    return item;
}

TierMemory server_memory(const Plan& plan, const Scenario& s) {
    std::int64_t whole = 0;
    for (int stage = 0; stage < plan.stages; ++stage) whole += trained_elements(plan, stage) * s.strategy.tensor_parallel;
    const int servers = s.strategy.synchronization.servers > 0 ? s.strategy.synchronization.servers : s.cluster.nodes;
    const std::int64_t part = (whole + servers - 1) / servers;
    const Optimizer o = s.training.optimizer;
    const int moments = o == Optimizer::sgd ? 0 : o == Optimizer::momentum ? 1 : 2;
    const bool copies = activation_dtype(s) != DType::fp32;
    TierMemory memory;
    memory.by_kind[MemoryKind::parameters] = of(part, 4 + (copies ? bytes_per_element(activation_dtype(s)) : 0));
    memory.by_kind[MemoryKind::optimizer_states] = of(part, 4 * moments);
    for (const Bytes b : memory.by_kind) memory.peak += b;
    return memory;
}

} // namespace orrery
