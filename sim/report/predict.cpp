// The pipeline from a parsed scenario to its report.
#include "sim/memory/samples.hpp"
#include "sim/plan/lower.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/input_pipeline.hpp"
#include "sim/report/loose.hpp"
#include "sim/report/report.hpp"
#include "sim/report/traffic.hpp"
#include "sim/scenario/perturb.hpp"
#include "topology/check.hpp"
#include "topology/input_error.hpp"

#include <limits>
#include <stdexcept>

namespace orrery {

namespace {

// Fields about links that carried nothing: an oversubscribed leaf under which all nodes stand, a slow link that no traffic takes.
void note_idle_links(Report& r, const Scenario& s, const Fabric& fabric, const Simulation& simulation) {
    const Links& links = fabric.links();
    const auto used = [&](auto&& meant) {
        for (std::size_t i = 0; i < links.size() && i < simulation.link_class.size(); ++i)
            if (simulation.link_class[i] >= 0 && simulation.links[simulation.link_class[i]].bytes > 0 && meant(static_cast<LinkId>(i)))
                return true;
        return false;
    };
    const InterNode& n = s.cluster.inter;
    // (Where the torus inside nodes goes on between them, sim/scenario/notes.cpp names such fields.)
    const bool spans = s.cluster.intra.kind == IntraKind::torus && (n.kind == InterKind::torus || n.topology == InterTopology::torus);
    const bool hashed = n.routing == Routing::ecmp, several = s.cluster.nodes > 1 && !s.cluster.graph && !spans;
    const bool planes = n.planes > 1 && n.topology != InterTopology::dragonfly;
    if (several && (n.oversubscription != 1 || hashed || planes) && !used([&](LinkId l) { return links[l].kind == LinkKind::trunk; }))
        for (const auto& [field, given] : {std::pair{"oversubscription", n.oversubscription != 1}, {"routing", hashed}, {"planes", planes}})
            if (given)
                r.notes.push_back(std::string("cluster.inter_node.") + field +
                                  " has no effect: no traffic leaves a leaf switch for another (nodes_per_leaf says how many nodes stand "
                                  "under one)");
    for (std::size_t i = 0; i < s.perturb.size(); ++i) {
        const Perturbation& p = s.perturb[i];
        // The cluster's own rates may count where no byte of a step passes: they decide how collectives go, and NICs lead to storage. A
        // single node's NICs count for nothing else.
        const bool unseen = p.in_cluster && (p.link != "nic" || s.cluster.nodes > 1 || s.run || s.training.data);
        if (!p.link.empty() && !unseen && !used([&](LinkId l) { return means(p, fabric, l); }))
            r.notes.push_back("perturb[" + std::to_string(i) + "] has no effect: no traffic takes " + p.link);
    }
}

// The step is a maximum of sums of durations: where a host that is slower still changes nothing, neither did this one.
void note_idle_host(Report& r, const Scenario& s, const Simulation& simulation, const CostModel& cost) {
    if (s.cluster.host.speed < 1 && cost.host_only_issues() && simulation.slower[CostGroup::host].ps == simulation.step_time.ps)
        r.notes.push_back("cluster.host.speed has no effect: no device waits for its host");
}

} // namespace

Prediction predict(const Scenario& scenario, const PredictOptions& options) {
    return predict(scenario, options.verify ? verified_plan(scenario) : lower(scenario), options);
}

Prediction predict(const Scenario& scenario, const Plan& plan, const PredictOptions& options) {
    const MemoryReport bytes =
        options.walked ? memory(plan, *options.walked, scenario, options.cache) : memory(plan, scenario, options.cache);
    const Fabric fabric(scenario.cluster);
    const CostModel cost(scenario, fabric);
    Prediction p;
    p.too_big = options.only_if_fits && !bytes.fits;
    require(p.too_big || options.bound, "the plan has no dependencies: it was asked for as one that does not fit");
    const bool loose = scenario.strategy.loose();
    SimulateOptions how = options.simulate;
    how.memo = options.memo;
    how.slower_up_to = options.shares ? std::numeric_limits<std::uint64_t>::max() : options.shares_up_to;
    if (!p.too_big) p.simulation = simulate(plan, loose ? with_equal_workers(scenario) : scenario, fabric, cost, how);
    if (p.simulation.deadlock) {
        std::string why = to_text(*p.simulation.deadlock);
        if (scenario.runtime.launch_blocking && scenario.strategy.overlap.pipeline)
            why += "\nWith runtime.launch_blocking a host that waits for an exchange posts nothing else, and strategy.overlap.pipeline "
                   "posts one by one: set one of them to false.";
        throw CannotRun(why);
    }
    if (p.simulation.trace) sample_memory(*p.simulation.trace, plan, bytes);
    p.report = report(scenario, plan, p.simulation, bytes, cost);
    const bool draws = p.simulation.stats.events + p.simulation.stats.replayed_ops < options.shares_up_to;
    if (!p.too_big) p.report.traffic = traffic_of(plan, fabric, p.simulation);
    if (!p.too_big && options.meetings) count_meetings(p.report, scenario, plan, fabric, cost, options.simulate);
    if (!p.too_big) follow_workers(p.report, scenario, plan, fabric, cost, options.simulate);
    const bool longer = draws && loose && !p.too_big; // than the step that the report's interval was drawn for
    if (longer || (!draws && p.report.shares != CostShares{})) {
        if (longer) p.report.configuration = configuration_of(scenario, p.report);
        if (!draws) p.report.configuration.shares = {}; // asked for, but the interval does not depend on them
        p.report.error_bar = error_bar(p.report.configuration, validated_rows());
    }
    set_bars_by_learned(p.report, scenario);
    if (!p.too_big) wait_for_input(p.report, scenario);
    if (!p.too_big) note_idle_links(p.report, scenario, fabric, p.simulation);
    if (!p.too_big && !loose) note_idle_host(p.report, scenario, p.simulation, cost);
    return p;
}

} // namespace orrery
