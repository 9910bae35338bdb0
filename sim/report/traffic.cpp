#include "sim/report/traffic.hpp"

#include "sim/plan/rounds.hpp"

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
    Copy copy;
};
using CopiesByBlock = std::vector<std::vector<CopyOp>>; // a block runs many times, and most have none

CopiesByBlock copies_of(const Plan& plan) {
    CopiesByBlock copies;
    for (const Block& block : plan.blocks) {
        std::vector<CopyOp>& own = copies.emplace_back();
        std::int32_t i = 0;
        for (const Op& op : block.ops) {
            if (const auto* copy = std::get_if<Copy>(&op.work)) own.push_back({i, *copy});
            ++i;
        }
    }
    return copies;
}

void add_copies(Traffic& t, const CopiesByBlock& copies, const std::vector<Program>& programs, double times) {
    for (const Program& program : programs)
        for (const Action& action : program.actions)
            for (const auto& [op, copy] : copies[static_cast<std::size_t>(action.block)])
                if (op >= action.first && op < action.last) of_kind(t, copy.kind) += times * static_cast<double>(copy.bytes.count);
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

} // namespace orrery
