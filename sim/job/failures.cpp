// Failures at constant rates are one Poisson process of all nodes' rates together; which kind each is follows their weights. Weibull: the
// next failure of each node waits in a heap.
#include "sim/job/failures.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace orrery {
namespace {

constexpr double day = 86400, hour = 3600, never = std::numeric_limits<double>::infinity();

bool of_software(FailingPart p) { return p == FailingPart::software || p == FailingPart::hang; }

} // namespace

FailureStream::FailureStream(const TrainingJob& job, int number)
    : job_(job), random_(job.seed * 0x2545f4914f6cdd1du + static_cast<std::uint64_t>(number) * 0x9e3779b97f4a7c15u + 1) {
    const WholeRun& r = job.run;
    const WholeRun::Failures& f = r.failures;
    const auto groups = [&](const WholeRun::Groups& g) { return g.nodes > 0 ? g.per_day * job.nodes / g.nodes : 0; };
    const bool trace = f.distribution == FailureLaw::trace, weibull = f.distribution == FailureLaw::weibull;
    const double nodes = job.nodes;
    // The rate of all failures stays, whatever share of them begins a burst.
    const double rates[] = {trace || weibull ? 0 : f.per_node_day * nodes / f.burst_size,
                            trace ? 0 : groups(f.racks) + groups(f.switches),
                            f.planned_per_day,
                            r.slow_node.per_node_day * nodes,
                            r.slow_link.per_node_day * nodes,
                            r.lost_nic.per_node_day * nodes};
    double sum = 0;
    for (std::size_t i = 0; i < 6; ++i) rates_[i] = sum += rates[i] / day;
    mean_s_ = 1 / sum;
    std::partial_sum(f.by.begin(), f.by.end(), parts_.begin());
    for (double& p : parts_) p /= parts_.back() > 0 ? parts_.back() : 1;
    if (parts_.back() > 0) parts_.back() = 1;
    for (std::size_t i = 0, part = 0; i < part_from_.size(); ++i) {
        while (part + 1 < failing_parts && parts_[part] <= static_cast<double>(i) / 256) ++part;
        part_from_[i] = static_cast<std::uint8_t>(part);
    }
    if (r.repair.days.size() == 9) {
        double inside = 0;
        for (std::size_t i = 0; i < 9; ++i) inside += (r.repair.days[i] + (i > 0 ? r.repair.days[i - 1] : 0)) / 20;
        tail_days_ = r.repair.mean_days > 0 ? std::max(0.0, (r.repair.mean_days - inside) * 10 - r.repair.days[8]) : 0;
    }
    if (weibull && f.per_node_day > 0) // nodes that have been in use: the rate is the stated one from the first day on
        for (int slot = 0; slot < job.nodes; ++slot) waiting_.push({random_.weibull_left(f.shape) * day / f.per_node_day, slot});
    if (trace && std::ranges::any_of(f.trace, [&](const WholeRun::Outage& o) { return o.node < job.nodes + job.spares; })) {
        trace_length_s_ = std::ranges::max(f.trace, {}, &WholeRun::Outage::end_s).end_s;
        trace_length_s_ = std::max(trace_length_s_, f.trace.back().begin_s + 1);
        // The first seed sees the trace as it is, the others from other moments on.
        trace_from_s_ = number == 0 ? 0 : -random_.share() * trace_length_s_;
    }
    pop();
}

inline double FailureStream::repair_s(JobRandom& random) const {
    const WholeRun::Repair& r = job_.run.repair;
    if (r.days.size() != 9) return random.exponential() * r.mean_days * day;
    const double x = random.share() * 10;
    const auto i = static_cast<std::size_t>(x);
    if (i == 9) return (r.days[8] + tail_days_ * random.exponential()) * day;
    const double low = i > 0 ? r.days[i - 1] : 0;
    return (low + (r.days[i] - low) * (x - static_cast<double>(i))) * day;
}

inline void FailureStream::fill(MachineEvent& event, JobRandom& random) const {
    const double x = random.share();
    std::size_t part = part_from_[x * 256];
    while (part + 1 < failing_parts && parts_[part] <= x) ++part;
    event.part = static_cast<FailingPart>(part);
    event.repaired = !of_software(event.part) && random.share() >= job_.run.failures.transient;
    if (event.repaired) event.repair_s = repair_s(random);
}

MachineEvent FailureStream::from_trace() {
    const std::vector<WholeRun::Outage>& trace = job_.run.failures.trace;
    MachineEvent event;
    event.time_s = never;
    if (trace_length_s_ <= 0) return event;
    if (trace_at_ == trace.size()) trace_at_ = 0, trace_from_s_ += trace_length_s_;
    while (trace_from_s_ + trace[trace_at_].end_s < 0 || trace[trace_at_].node >= job_.nodes + job_.spares)
        if (++trace_at_ == trace.size()) trace_at_ = 0, trace_from_s_ += trace_length_s_;
    const WholeRun::Outage& o = trace[trace_at_];
    event.kind = MachineEvent::Kind::failure;
    event.time_s = std::max(0.0, trace_from_s_ + o.begin_s);
    event.slot = o.node;
    event.part = FailingPart::host;
    event.repair_s = trace_from_s_ + o.end_s - event.time_s;
    return event;
}

// The next event of those with constant rates: one at that moment.
inline void FailureStream::draw_steady(MachineEvent& event, double at, JobRandom& random) {
    using Kind = MachineEvent::Kind;
    const WholeRun& r = job_.run;
    const double x = random.share() * rates_[5];
    std::size_t kind = 0;
    while (kind < 5 && rates_[kind] <= x) ++kind;
    event.kind = static_cast<Kind>(kind);
    event.slot = random.below(job_.nodes);
    if (event.kind == Kind::failure) {
        fill(event, random);
        if (r.failures.burst_size > 1) // the rest of its burst: as many as a geometric law of that mean says
            while (random.share() > 1 / r.failures.burst_size)
                waiting_.push({at += random.exponential() * r.failures.burst_hours * hour, random.below(job_.nodes)});
    } else if (event.kind == Kind::group) {
        const WholeRun::Failures& f = r.failures;
        const double racks = f.racks.nodes > 0 ? f.racks.per_day / f.racks.nodes : 0;
        const double switches = f.switches.nodes > 0 ? f.switches.per_day / f.switches.nodes : 0;
        const int size = random.share() * (racks + switches) < racks ? f.racks.nodes : f.switches.nodes;
        event.slot -= event.slot % size;
        event.slots = std::min(size, job_.nodes - event.slot);
        event.part = FailingPart::network;
        event.repaired = random.share() >= f.transient;
        if (event.repaired) event.repair_s = repair_s(random);
    } else if (event.kind != Kind::planned) {
        const WholeRun::Degraded& d = event.kind == Kind::slow_node   ? r.slow_node
                                      : event.kind == Kind::slow_link ? r.slow_link
                                                                      : r.lost_nic;
        event.lasts_s = random.exponential() * d.hours * hour;
    }
}

void FailureStream::draw(MachineEvent& event) {
    using Kind = MachineEvent::Kind;
    const WholeRun& r = job_.run;
    JobRandom random = random_; // in registers
    const double steady = rates_[5] > 0 ? time_s_ + random.exponential() * mean_s_ : never;
    event = {};
    if (r.failures.distribution == FailureLaw::trace) {
        const MachineEvent from = from_trace();
        if (from.time_s <= steady) {
            random_ = random;
            if (from.kind != Kind::none) ++trace_at_;
            if (from.kind != Kind::none) time_s_ = from.time_s;
            event = from; // what the steady rates bring is drawn again: they have no memory
            return;
        }
    }
    if (!waiting_.empty() && waiting_.top().time_s < steady) {
        const Later next = waiting_.top();
        event.kind = Kind::failure;
        event.time_s = time_s_ = next.time_s;
        event.slot = next.slot;
        waiting_.pop();
        if (r.failures.distribution == FailureLaw::weibull)
            waiting_.push({next.time_s + random.weibull(r.failures.shape) * day / r.failures.per_node_day, event.slot});
        fill(event, random);
    } else {
        event.time_s = time_s_ = steady;
        if (steady != never) draw_steady(event, steady, random);
    }
    random_ = random;
}

} // namespace orrery
