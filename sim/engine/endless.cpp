// Refuses steps that are longer than the clock (clock.hpp) and says what takes so long.
#include "sim/engine/clock.hpp"
#include "sim/engine/compile.hpp"

#include "sim/engine/machine.hpp"
#include "topology/at.hpp"
#include "topology/input_error.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery {
namespace {

std::string days(double ps) {
    if (!(ps < static_cast<double>(clock_end))) return "more than 46 days";
    return ps < 2 * 86400e12 ? fmt::format("{:.4g} s", ps * 1e-12) : fmt::format("{:.0f} days", ps * 1e-12 / 86400);
}

const std::string& name_of(const Machine& m, const Segment& s, std::int32_t op) {
    return m.plan->blocks[at(s.block)].ops[at(m.ops[at(op)].source)].name;
}

struct Longest {
    double ps = -1;
    std::string what;
    void offer(double candidate, const auto& say) {
        if (!(candidate > ps)) return;
        ps = candidate;
        what = say();
    }
};

Longest longest_of(const Machine& m) {
    Longest l;
    for (const Segment& s : m.segments)
        for (std::int32_t i = s.begin; i < s.end; ++i) {
            const CompiledOp& op = m.ops[at(i)];
            l.offer(static_cast<double>(op.duration), [&] {
                return "the computation of " + name_of(m, s, i) +
                       " (check cluster.device: peak_tflops, memory_gb_per_s, kernels; and the batch, the sequence and the model)";
            });
            l.offer(static_cast<double>(op.host), [&] {
                return "the host's launches of " + name_of(m, s, i) +
                       " (check runtime.launch_us, cluster.device.launch_us and cluster.host.speed)";
            });
        }
    for (const BundleClass& b : m.bundles) {
        const std::size_t end = &b == &m.bundles.back() ? m.bundle_costs.size() : at((&b + 1)->costs);
        for (std::size_t c = at(b.costs); c < end; ++c) {
            const BundleCost& cost = m.bundle_costs[c];
            const double moving = cost.payload > 0 ? cost.payload / cost.limit * 1e12 : 0;
            l.offer(static_cast<double>(cost.latency) + moving, [&] {
                return fmt::format(
                    "a communication on {} of {:.4g} GB at {:.4g} GB/s (check the rates and latencies of the cluster's links, "
                    "and perturb)",
                    cost.kind == copy_kind ? name_of(*m.plan, b.comm) : m.plan->communicators[at(b.comm)].name, cost.payload * 1e-9,
                    cost.limit * 1e-9);
            });
        }
    }
    return l;
}

[[noreturn]] void refuse(const Machine& m, const std::string& what) {
    const Longest l = longest_of(m);
    throw InputError(what + (l.ps > 0 ? ". The longest part of it is " + l.what + ", " + days(l.ps) : ""));
}

} // namespace

void check_computation(const Machine& m) {
    std::vector<double> of_segment;
    for (const Segment& s : m.segments) {
        double sum = 0;
        for (std::int32_t i = s.begin; i < s.end; ++i) sum += static_cast<double>(m.ops[at(i)].duration);
        of_segment.push_back(sum);
    }
    for (const CompiledProgram& p : m.programs) {
        double sum = 0;
        for (const CompiledAction& a : p.actions) sum += of_segment[at(a.segment)];
        if (!(sum < static_cast<double>(clock_end)))
            refuse(m, fmt::format("stage {} would compute for {:.4g} days a step: the simulator's clock holds 46", p.stage,
                                  sum * 1e-12 / 86400));
    }
}

void refuse_endless(const Machine& m) { refuse(m, "a step would take more than the 46 days that the simulator's clock holds"); }

} // namespace orrery
