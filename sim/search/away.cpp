// Time and room of what lives elsewhere than on the devices, from below.
#include "sim/scenario/parameters.hpp"
#include "sim/scenario/practice.hpp"
#include "sim/search/parts.hpp"
#include "sim/search/sharing.hpp"

#include <algorithm>

namespace orrery {

namespace {

constexpr double narrow = 2; // bytes of a gradient or a parameter on its way, at least
constexpr double sample = 1e9;

// Elements that a rank updates of what a stage has: each gradient goes to the host and each parameter comes back, once a step at least.
double updated(const Scenario& s, const Elements& e, int directions) {
    const Elements shards = shards_of(s, directions);
    const bool sharded = s.strategy.zero_stage >= 1;
    return e.dense / (sharded ? shards.dense : 1) + e.experts / (sharded ? shards.experts : 1);
}

// Nothing is said of a part, of states on servers, or of adapters.
bool counted(const Scenario& s) {
    const Strategy& t = s.strategy;
    return t.offload.optimizer != Tier::none && t.offload.optimizer_fraction >= 1 && !s.model.trainable.partial() && !t.served() &&
           !t.workers() && s.cluster.others.empty();
}

// Seconds of one more, beside what an op takes however small it is.
template <class Seconds> double each(const Seconds& of) {
    const auto n = static_cast<std::int64_t>(sample);
    return (of(2 * n) - of(n)) / sample;
}

double on(Tier tier, Tier wanted, double bytes) { return tier == wanted ? bytes : 0; }

// Bytes of a parameter's states that live where the optimizer's do, at least: its master lies with the parameters where these have fp32 at
// home.
double states_of(const Scenario& s) {
    constexpr double master = 4;
    return std::max(0.0, optimizer_state_bytes(s.training) - (practice_of(s).fp32_homes ? master : 0));
}

} // namespace

SharedWire::HostRates SharedWire::rates_of_host(const Scenario& s) {
    const CostModel& cost = cost_of(s);
    const auto copy = [&](CopyKind kind) {
        return each([&](std::int64_t n) {
            Op op;
            op.work = Copy{kind, Bytes{n}};
            op.queue = d2h_queue; // computation's own copies take longer
            return cost.compute(Plan{}, op).duration.seconds();
        });
    };
    // States are read and written, gradients read. (A 16-bit copy of parameters that is written, too, is not everywhere.)
    const double update = each([&](std::int64_t n) {
        Plan plan;
        Buffer b;
        b.bytes = Bytes{static_cast<std::int64_t>(static_cast<double>(n) * (2 * optimizer_state_bytes(s.training) + narrow))};
        plan.buffers.push_back(b);
        Op op;
        const Optimizer kind = s.training.optimizer;
        op.work = OptimizerStep{kind == Optimizer::sgd        ? OptimizerKind::sgd
                                : kind == Optimizer::momentum ? OptimizerKind::momentum
                                                              : OptimizerKind::adam,
                                n, true, true};
        op.queue = host_queue;
        op.in = {0};
        return cost.compute(plan, op).duration.seconds();
    });
    return {copy(CopyKind::device_to_host), copy(CopyKind::host_to_device), copy(CopyKind::nvme_to_host), copy(CopyKind::host_to_nvme),
            update};
}

AwayTime SharedWire::away(const Scenario& s, const Elements& e, int directions) {
    if (!counted(s)) return {};
    if (!host_) host_ = rates_of_host(s);
    const Offload& o = s.strategy.offload;
    const double n = updated(s, e, directions), states = states_of(s);
    const double read = on(o.optimizer, Tier::nvme, states) + on(o.gradients, Tier::nvme, narrow) + on(o.parameters, Tier::nvme, narrow);
    AwayTime t;
    t.update = n * host_->update;
    t.busiest =
        std::max({t.update, n * narrow * host_->to_host, n * narrow * host_->from_host, n * read * host_->read, n * read * host_->write});
    t.after = !s.strategy.overlap.offload && !s.training.optimizer_in_backward && o.optimizer == Tier::cpu && o.gradients != Tier::nvme &&
              o.parameters != Tier::nvme;
    return t;
}

// A node holds at least its ranks times what a rank of the emptiest stage has.
double over_at_home(const Scenario& s, const std::vector<Elements>& of_stage, int directions) {
    if (!counted(s)) return 0;
    double least = updated(s, of_stage.front(), directions);
    for (const Elements& e : of_stage) least = std::min(least, updated(s, e, directions));
    const Offload& o = s.strategy.offload;
    const auto room = [&](Tier tier) {
        const double each = on(o.optimizer, tier, states_of(s)) + on(o.gradients, tier, narrow) + on(o.parameters, tier, narrow);
        return least * each * std::max(1, s.cluster.devices_per_node);
    };
    const auto over = [](double bytes, Bytes capacity) {
        return capacity.count > 0 ? std::max(0.0, bytes - static_cast<double>(capacity.count)) : 0;
    };
    return std::max(over(room(Tier::cpu), s.cluster.host.memory + s.cluster.host.cxl), over(room(Tier::nvme), s.cluster.host.nvme));
}

} // namespace orrery
