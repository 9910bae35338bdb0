#include "sim/plan/lowering.hpp"

#include <algorithm>

namespace orrery {

DType activation_dtype(const Scenario& s) {
    switch (s.training.precision) {
    case DType::fp32:
    case DType::tf32:
        return DType::fp32;
    case DType::fp16:
        return DType::fp16;
    default:
        return DType::bf16;
    }
}

std::uint8_t modules_of(const Lowering& l, const Node& n) {
    if (!l.practice.separate_linears) return 1;
    if (n.part == LinearPart::adapter_down || n.part == LinearPart::adapter_up) return n.adapts;
    const bool of_each = l.practice.separate_experts && n.part == LinearPart::expert_fc1 && !l.scenario.model.moe->stacked_weights;
    const bool gated = l.scenario.model.gated() && (of_each || n.part == LinearPart::fc1 || n.part == LinearPart::shared_fc1);
    return n.part == LinearPart::qkv ? 3 : gated ? 2 : 1;
}

CommId Lowering::add_communicator(std::string name, AxisMask axes, std::vector<std::int16_t> stages) {
    if (const auto it = comm_ids.find(name); it != comm_ids.end()) return it->second;
    const CommId id = static_cast<CommId>(plan.communicators.size());
    comm_ids[name] = id;
    plan.communicators.push_back({std::move(name), axes, std::move(stages)});
    return id;
}

TensorId Lowering::tensor(const Value& parameter) {
    const auto [it, fresh] = tensor_ids.try_emplace(parameter.name, static_cast<TensorId>(plan.tensors.size()));
    if (fresh) plan.tensors.push_back({parameter.name, parameter.use, parameter.initial, parameter.trained});
    return it->second;
}

CommId Lowering::add_expert_communicator(std::string name, AxisMask axes) {
    const CommId id = add_communicator(std::move(name), axes);
    plan.communicators[id].expert = true;
    return id;
}

std::vector<int> Lowering::chunks_in_model_order() const {
    std::vector<int> order;
    const int length = static_cast<int>(chunks.size()) / plan.directions;
    for (int c = 0; c < length; ++c)
        for (int direction = 0; direction < plan.directions; ++direction) order.push_back(direction * length + c);
    return order;
}

std::vector<std::int16_t> stages_of_embedding(const Lowering& l) {
    std::vector<std::int16_t> stages;
    if (l.plan.directions > 1) return stages;
    for (std::int16_t stage = 0; stage < l.plan.stages; ++stage)
        if (std::any_of(l.parameters[stage].begin(), l.parameters[stage].end(),
                        [&](const Parameter& p) { return l.plan.tensors[p.tensor].use == TensorUse::embedding; }))
            stages.push_back(stage);
    if (stages.size() < 2) stages.clear();
    return stages;
}

void set_dtype(Buffer& b, DType dtype) {
    b.dtype = dtype;
    b.bytes = bytes(b.shape, dtype);
}

std::int64_t elements_of(const Buffer& b) {
    std::int64_t n = 1;
    for (std::int64_t d : b.shape) n *= d;
    return n;
}

std::int64_t elements_of(const Lowering& l, const std::vector<BufferId>& buffers) {
    std::int64_t sum = 0;
    for (BufferId b : buffers) sum += elements_of(l.plan.buffers[b]);
    return sum;
}

} // namespace orrery
