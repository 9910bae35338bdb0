#include "gui/placement/placement.hpp"

#include "sim/scenario/scenario.hpp"

#include <algorithm>
#include <map>

namespace orrery {
namespace {

// Layers of a chunk are those its forward block works on.
std::vector<ChunkLayers> chunks_of(const Plan& plan, int stage) {
    std::map<int, ChunkLayers> chunks;
    for (const Block& block : plan.blocks) {
        if (block.kind != BlockKind::forward || block.stage != stage || !block.parts.empty()) continue;
        ChunkLayers c{block.chunk, INT32_MAX, -1};
        for (const Op& op : block.ops) {
            if (op.layer >= 0) {
                c.first = std::min<int>(c.first, op.layer);
                c.last = std::max<int>(c.last, op.layer);
            }
            c.embedding |= std::holds_alternative<Embedding>(op.work);
            c.loss |= std::holds_alternative<CrossEntropy>(op.work);
        }
        chunks[block.chunk] = c;
    }
    std::vector<ChunkLayers> out;
    for (const auto& [number, c] : chunks) out.push_back(c);
    return out;
}

void add(Holding& holding, const Buffer& buffer, int& spread, const Mesh& mesh) {
    holding.bytes += buffer.bytes;
    AxisMask axes = 0;
    int parts = 1;
    for (int a = 0; a < axis_count; ++a) {
        const Axis axis = static_cast<Axis>(a);
        if (buffer.placement.on(axis) != PlacementKind::sharded || mesh.extent(axis) == 1) continue;
        axes |= mask(axis);
        parts *= mesh.extent(axis);
    }
    if (parts > spread) { // norms are small and whole everywhere: the finest split names the kind
        spread = parts;
        holding.axes = axes;
    }
}

StageHoldings holdings_of(const Plan& plan, int stage) {
    StageHoldings out;
    out.chunks = chunks_of(plan, stage);
    std::array<int, 4> spread{1, 1, 1, 1};
    for (const Buffer& b : plan.buffers) {
        if (b.stage != stage || b.storage >= 0 || b.space != Space::device || (b.scope != Scope::run && b.scope != Scope::step)) continue;
        const Mesh& mesh = b.expert ? plan.expert_mesh : plan.mesh;
        if (b.kind == MemoryKind::parameters && b.expert) add(out.expert_parameters, b, spread[0], mesh);
        if (b.kind == MemoryKind::parameters && !b.expert) add(out.parameters, b, spread[1], mesh);
        if (b.kind == MemoryKind::gradients) add(out.gradients, b, spread[2], mesh);
        if (b.kind == MemoryKind::optimizer_states) add(out.optimizer, b, spread[3], mesh);
    }
    return out;
}

} // namespace

int Placements::data_rank(const DevicePlace& d) const {
    return (d.at[at(Axis::dpw)] * mesh.extent(Axis::dpr) + d.at[at(Axis::dpr)]) * mesh.extent(Axis::dp) + d.at[at(Axis::dp)];
}

int Placements::experts_each() const { return experts / std::max(1, expert_mesh.extent(Axis::ep)); }

int Placements::first_expert(const DevicePlace& d) const { return d.expert_group * experts_each(); }

Placements placements(const Plan& plan, const Scenario& scenario) {
    Placements p;
    p.mesh = plan.mesh;
    p.expert_mesh = plan.expert_mesh;
    p.devices_per_node = std::max(1, scenario.cluster.devices_per_node);
    p.experts = scenario.model.moe ? scenario.model.moe->experts : 0;
    p.microbatches = plan.microbatches / plan.steps;
    p.micro_batch = scenario.training.micro_batch_size;
    for (int s = 0; s < plan.stages; ++s) p.stages.push_back(holdings_of(plan, s));
    for (int r = 0; r < plan.mesh.ranks(); ++r) {
        DevicePlace d{r, r / p.devices_per_node, r % p.devices_per_node, plan.mesh.coordinates(r)};
        // The experts' axes fold over the ranks of a stage, in their order.
        const int in_stage = stage_major(plan, r) % (plan.mesh.ranks() / plan.mesh.extent(Axis::pp));
        if (p.experts > 0) d.expert_group = in_stage / plan.expert_mesh.stride_in_stage(Axis::ep) % plan.expert_mesh.extent(Axis::ep);
        p.devices.push_back(d);
    }
    return p;
}

std::string layer_numbers(const StageHoldings& stage) {
    std::string out;
    int begin = -1, end = -1;
    const auto flush = [&] {
        if (begin < 0) return;
        out += (out.empty() ? "" : ", ") + std::to_string(begin) + (end > begin ? "-" + std::to_string(end) : "");
    };
    for (const ChunkLayers& c : stage.chunks) {
        if (c.first > c.last) continue;
        if (begin >= 0 && c.first == end + 1) {
            end = c.last;
            continue;
        }
        flush();
        begin = c.first;
        end = c.last;
    }
    flush();
    return out;
}

} // namespace orrery
