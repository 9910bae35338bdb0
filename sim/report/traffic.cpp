#include "sim/report/traffic.hpp"

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

void add_copies(Traffic& t, const Plan& plan, const std::vector<Program>& programs, double times) {
    for (const Program& program : programs)
        for (const Action& action : program.actions)
            for (std::int32_t i = action.first; i < action.last; ++i)
                if (const Op& op = plan.blocks[action.block].ops[i]; std::holds_alternative<Copy>(op.work))
                    of_kind(t, std::get<Copy>(op.work).kind) += times * static_cast<double>(std::get<Copy>(op.work).bytes.count);
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
    double steps = static_cast<double>(plan.repeat);
    for (const PlanPhase& phase : plan.further) steps += phase.steps ? static_cast<double>(phase.repeat) : 0;
    const double ranks = static_cast<double>(plan.mesh.ranks()) / plan.stages, each = ranks / (steps * static_cast<double>(plan.steps));
    Traffic t;
    add_copies(t, plan, plan.programs, steps * each);
    for (const PlanPhase& phase : plan.further)
        if (!phase.steps) add_copies(t, plan, phase.programs, static_cast<double>(phase.repeat) * each);
    t.between_nodes = between_nodes(fabric, simulation);
    return t;
}

} // namespace orrery
