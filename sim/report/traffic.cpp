#include "sim/report/traffic.hpp"

#include "sim/plan/rounds.hpp"

#include <fmt/format.h>

#include <cmath>

namespace orrery {
namespace {

double between_nodes(const Fabric& fabric, const Simulation& simulation) {
    double bytes = 0;
    for (const LinkUse& use : simulation.links)
        if (fabric.links()[use.link].kind == LinkKind::nic) bytes += use.bytes * use.twins / 2;
    return bytes;
}

double& of_kind(Traffic& t, CopyKind kind) {
    switch (kind) {
    case CopyKind::host_to_device:
        return t.from_host;
    case CopyKind::device_to_host:
        return t.to_host;
    case CopyKind::nvme_to_host:
        return t.from_disk;
    case CopyKind::host_to_nvme:
        return t.to_disk;
    }
    throw std::logic_error("a copy has one of four kinds");
}

struct CopyOp {
    std::int32_t op;
    CopyKind kind;
    double bytes; // in the mean of all steps: of some only where an update is undone
};
using CopiesByBlock = std::vector<std::vector<CopyOp>>; // a block runs many times, and most have none

CopiesByBlock copies_of(const Plan& plan) {
    CopiesByBlock copies;
    for (const Block& block : plan.blocks) {
        std::vector<CopyOp>& own = copies.emplace_back();
        std::int32_t i = 0;
        for (const Op& op : block.ops) {
            if (const auto* copy = std::get_if<Copy>(&op.work))
                own.push_back({i, copy->kind, op.share * static_cast<double>(copy->bytes.count)});
            ++i;
        }
    }
    return copies;
}

void add_copies(Traffic& t, const CopiesByBlock& copies, const std::vector<Program>& programs, double times) {
    for (const Program& program : programs)
        for (const Action& action : program.actions)
            for (const CopyOp& copy : copies[static_cast<std::size_t>(action.block)])
                if (copy.op >= action.first && copy.op < action.last) of_kind(t, copy.kind) += times * copy.bytes;
}

} // namespace

double between_nodes(const Fabric& fabric, std::span<const double> by_link) {
    const Links& links = fabric.links();
    double bytes = 0;
    for (std::size_t i = 0; i < by_link.size(); ++i)
        if (by_link[i] > 0 && links[static_cast<LinkId>(i)].kind == LinkKind::nic) bytes += by_link[i] / 2;
    return bytes;
}

Traffic traffic_of(const Plan& plan, const Fabric& fabric, const Simulation& simulation) {
    const double runs = static_cast<double>(runs_of_round(plan));
    const double ranks = static_cast<double>(plan.mesh.ranks()) / plan.stages, each = ranks / (runs * static_cast<double>(plan.steps));
    const CopiesByBlock copies = copies_of(plan);
    Traffic t;
    add_copies(t, copies, plan.programs, runs * each);
    for (const PlanPhase& phase : plan.further)
        if (!phase.steps) add_copies(t, copies, phase.programs, static_cast<double>(phase.repeat) * each);
    t.between_nodes = between_nodes(fabric, simulation);
    return t;
}

Away away_of(const Plan& plan) {
    Away away;
    double all = 0;
    std::vector<char> runs(plan.blocks.size());
    for (const Program& program : plan.programs)
        for (const Action& action : program.actions) runs[static_cast<std::size_t>(action.block)] = 1;
    for (std::size_t b = 0; b < runs.size(); ++b) {
        if (!runs[b]) continue;
        for (const Op& op : plan.blocks[b].ops) {
            if (const auto* step = std::get_if<OptimizerStep>(&op.work);
                step && (step->part == OptimizerStep::Part::whole || step->part == OptimizerStep::Part::apply)) {
                all += static_cast<double>(step->elements);
                if (step->on_host) away.updated += static_cast<double>(step->elements);
            }
            const auto* copy = std::get_if<Copy>(&op.work);
            away.activations = away.activations || (copy && copy->kind == CopyKind::device_to_host && op.phase == Phase::offload &&
                                                    plan.buffers[op.in[0]].kind == MemoryKind::activations);
        }
    }
    if (all > 0) away.updated /= all;
    return away;
}

void note_away(Report& r, const Scenario& s) {
    constexpr double close = 0.05; // what is divided by whole operands comes so near as a rule
    const Offload& o = s.strategy.offload;
    if (o.optimizer != Tier::none && r.away.updated == 0)
        r.notes.push_back(fmt::format("strategy.offload.optimizer = {} moves nothing: optimizer_fraction = {:g} is less than half of the "
                                      "smallest tensor or shard that could go",
                                      name(o.optimizer), o.optimizer_fraction));
    else if (o.optimizer != Tier::none && std::abs(r.away.updated - o.optimizer_fraction) > close)
        r.notes.push_back(
            fmt::format("strategy.offload.optimizer_fraction = {:g} moves {:.3g} % of the optimizer: tensors or shards go as a "
                        "whole",
                        o.optimizer_fraction, 100 * r.away.updated));
    if (o.activations != Tier::none && !r.away.activations)
        r.notes.push_back(fmt::format("strategy.offload.activations = {} moves nothing: {}", name(o.activations),
                                      o.activation_layers == 0 ? "activation_layers is 0" : "nothing that is saved is of activation_ops"));
}

} // namespace orrery
