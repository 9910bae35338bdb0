#include "sim/search/hints.hpp"

#include "sim/scenario/abilities.hpp"
#include "sim/scenario/homes.hpp"
#include "sim/search/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace orrery {

namespace {

std::int64_t odd_part(std::int64_t n) {
    while (n > 0 && n % 2 == 0) n /= 2;
    return n;
}

// The odd factor of the devices that the sequences of a step do not have: no number of replicas has it.
std::int64_t without_replicas(std::int64_t devices, std::int64_t sequences) { return odd_part(devices / std::gcd(devices, sequences)); }

// A rack of 72 devices and 128 sequences have 8 in common: nine stages, or contexts of nine parts, are what is left to choose.
std::string on_devices(const Scenario& s) {
    const std::int64_t nodes = s.cluster.nodes, a_node = s.cluster.devices_per_node, sequences = s.training.global_batch_size;
    const bool even = nodes * a_node == s.cluster.devices() && sequences > 0;
    const std::int64_t odd = even ? without_replicas(nodes * a_node, sequences) : 1;
    if (odd == 1) return {};
    std::int64_t fewer = a_node - 1;
    while (fewer > 0 && without_replicas(nodes * fewer, sequences) > 1) --fewer;
    std::string other;
    if (4 * fewer >= 3 * a_node) other = fmt::format(", or cluster.devices_per_node = {},", fewer);
    return fmt::format("{} devices have the factor {}, which {} sequences have not: stages, tensors or sequences are cut by it, not "
                       "replicas. A training.global_batch_size that is a multiple of {}{} may be faster a device.",
                       nodes * a_node, odd, sequences, odd, other);
}

std::string on_homes(const Scenario& s, const SweepRow& row) {
    const bool tight = !fits_surely(row), again = s.strategy.recompute == RecomputeKind::full;
    if ((!tight && !again) || homes_of(s).size() < 2) return {};
    return fmt::format(
        "The first {}, and plans with states or activations in the hosts' memory were not looked at: --allow offload compares "
        "them too.",
        tight ? "leaves little memory" : "makes whole layers again to save memory");
}

std::string on_replicas(const Scenario& s, double wait, const Unasked& unasked) {
    constexpr double much = 0.5;
    if (wait < much || !unasked.synchronization || s.strategy.workers()) return {};
    const bool smaller = unasked.compression && !abilities_of(s).all_compressions().empty();
    return fmt::format("{:.0f} % of the step is what replicas exchange. To exchange less changes the numbers of the training, so that it "
                       "was not tried: a space with \"/strategy/synchronization\" compares local steps and DiLoCo{}.",
                       wait * 100, smaller ? ", --allow compression smaller gradients" : "");
}

// A deadline that the slow end of the interval misses.
std::string on_time(const SweepRow& row, const Objective& objective) {
    const double seconds = objective.seconds_of_run(row), slow = seconds * (1 + row.step_time_interval.slower);
    if (!(slow > objective.within_s) || !row.step_time_interval.known()) return {};
    return fmt::format("The first ends in {:.3g} days, and at the slow end of its interval in {:.3g}, which is later than {:.3g}.",
                       seconds / 86400, slow / 86400, objective.within_s / 86400);
}

} // namespace

std::vector<std::string> hints(const Scenario& s, const SweepRow& row, double replicas_wait, const Unasked& unasked,
                               const Objective& objective) {
    std::vector<std::string> all{on_time(row, objective), unasked.homes ? on_homes(s, row) : "", on_replicas(s, replicas_wait, unasked),
                                 on_devices(s)};
    std::erase(all, std::string());
    return all;
}

} // namespace orrery
