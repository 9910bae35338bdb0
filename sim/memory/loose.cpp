#include "sim/memory/loose.hpp"

#include "sim/plan/lowering.hpp"

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

Bytes message_buffers(const Plan& plan, const Scenario& s, int stage) {
    const Synchronization& how = s.strategy.synchronization;
    const std::int64_t n = trained_elements(plan, stage);
    const double own = bytes_per_element(activation_dtype(s));
    if (how.kind == Synchronization::Kind::gossip) // of each step under way: its peers' messages, and what it sent where it has moved on
        return of(n, own * static_cast<double>(how.degree * (how.overlap_steps + 1) + how.overlap_steps));
    if (how.kind == Synchronization::Kind::async_average) return of(n, own * 2);
    return how.payload_dtype == s.training.gradient_dtype ? Bytes{} : of(n, bytes_per_element(how.payload_dtype));
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
