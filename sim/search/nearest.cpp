#include "sim/search/nearest.hpp"

#include <algorithm>
#include <tuple>

namespace orrery {

namespace {

constexpr std::size_t kept = 8;

// Where bounds are equal, what shares more holds less. Recomputations stand from the least to the most.
auto rank(const Miss& m, bool of_node) {
    return std::tuple(of_node ? m.node : m.device, of_node ? m.device : m.node, -m.zero_stage, m.alive, -m.id.recompute, m.id);
}

void keep(std::vector<Miss>& misses, const Miss& miss, bool of_node) {
    const auto less = [&](const Miss& a, const Miss& b) { return rank(a, of_node) < rank(b, of_node); };
    const auto same = std::ranges::find_if(misses, [&](const Miss& m) { return m.id.form == miss.id.form; });
    if (same != misses.end()) {
        if (!less(miss, *same)) return;
        misses.erase(same);
    }
    misses.insert(std::ranges::upper_bound(misses, miss, less), miss);
    if (misses.size() > kept) misses.pop_back();
}

} // namespace

Miss miss_of(const Scenario& s, const PointId& id, double device_bytes, double node) {
    const Strategy& t = s.strategy;
    const double shares = static_cast<double>(t.context_parallel) * (t.sequence_parallel ? t.tensor_parallel : 1);
    Miss miss;
    miss.device = std::max(0.0, device_bytes - static_cast<double>(s.cluster.device.memory.count));
    miss.node = node;
    miss.alive = static_cast<double>(s.training.micro_batch_size) * static_cast<double>(s.training.sequence_length) / shares;
    miss.zero_stage = t.zero_stage;
    miss.id = id;
    return miss;
}

void Misses::add(const Miss& miss) {
    keep(by_device_, miss, false);
    keep(by_node_, miss, true);
}

void Misses::add(const Misses& others) {
    for (const Miss& miss : others.by_device_) keep(by_device_, miss, false);
    for (const Miss& miss : others.by_node_) keep(by_node_, miss, true);
}

std::vector<Miss> Misses::all() const {
    std::vector<Miss> out = by_device_;
    for (const Miss& miss : by_node_)
        if (std::ranges::none_of(out, [&](const Miss& m) { return m.id == miss.id && m.whole == miss.whole; })) out.push_back(miss);
    return out;
}

} // namespace orrery
