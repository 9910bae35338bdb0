// A fluid network for tests and benches: flows arrive, share links max-min fairly, and end when their bytes are through.
#pragma once

#include "sim/engine/sharing.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <limits>
#include <numeric>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace orrery::fluid {

struct Flow {
    std::vector<Sharing::Use> uses;
    double bytes = 0, start = 0;
    double cap = std::numeric_limits<double>::infinity();
};

// The smallest of many numbers that change in bulk: minima of blocks, brought up to date only where something was written.
class Soonest {
  public:
    void set(std::size_t i, double value) {
        if (i >= values_.size()) {
            values_.resize((i / block + 1) * block, never);
            minima_.resize(values_.size() / block, never);
            stale_.resize(minima_.size(), false);
        }
        values_[i] = value;
        stale_[i / block] = true;
    }
    std::size_t index() {
        for (std::size_t b = 0; b < minima_.size(); ++b) {
            if (!stale_[b]) continue;
            const auto first = values_.begin() + static_cast<std::ptrdiff_t>(b * block);
            minima_[b] = *std::min_element(first, first + block);
            stale_[b] = false;
        }
        if (minima_.empty()) return 0;
        const auto b = static_cast<std::size_t>(std::min_element(minima_.begin(), minima_.end()) - minima_.begin());
        std::size_t i = b * block;
        while (values_[i] != minima_[b]) ++i;
        return i;
    }
    double value(std::size_t i) const { return i < values_.size() ? values_[i] : never; }

  private:
    static constexpr std::size_t block = 32;
    static constexpr double never = std::numeric_limits<double>::infinity();
    std::vector<double> values_, minima_;
    std::vector<char> stale_;
};

// When each flow ends.
inline std::vector<double> completions(std::span<const double> capacities, std::span<const Flow> flows) {
    struct Active {
        std::size_t flow = 0;
        double left = 0, rate = 0, since = 0;
    };
    std::vector<std::size_t> arrivals(flows.size());
    std::iota(arrivals.begin(), arrivals.end(), std::size_t{0});
    std::stable_sort(arrivals.begin(), arrivals.end(), [&](std::size_t a, std::size_t b) { return flows[a].start < flows[b].start; });

    Sharing sharing(capacities);
    std::vector<Active> active;
    std::vector<double> ends(flows.size());
    Soonest ending;
    std::size_t arrived = 0, ended = 0;
    while (ended < flows.size()) {
        const std::size_t soonest = ending.index();
        const double arrival = arrived < flows.size() ? flows[arrivals[arrived]].start : std::numeric_limits<double>::infinity();
        const double now = std::min(arrival, ending.value(soonest));
        if (now == arrival) {
            for (; arrived < flows.size() && flows[arrivals[arrived]].start == now; ++arrived) {
                const Flow& flow = flows[arrivals[arrived]];
                const auto id = static_cast<std::size_t>(sharing.add(flow.uses, flow.cap));
                if (id >= active.size()) active.resize(id + 1);
                active[id] = {arrivals[arrived], flow.bytes, 0, now};
            }
        } else {
            ends[active[soonest].flow] = now;
            ending.set(soonest, std::numeric_limits<double>::infinity());
            sharing.remove(static_cast<std::int32_t>(soonest));
            ++ended;
        }
        for (std::int32_t id : sharing.update()) {
            Active& a = active[id];
            a.left -= a.rate * (now - a.since);
            a.since = now;
            a.rate = sharing.rate(id);
            ending.set(static_cast<std::size_t>(id), a.rate > 0 ? now + a.left / a.rate : std::numeric_limits<double>::infinity());
        }
    }
    return ends;
}

// The recorded cases of data/: 512 hosts, 16 to a leaf, 32 leaves, 8 spines; see data/README.md.
struct Recorded {
    std::vector<double> capacities;
    std::vector<Flow> flows;
    std::vector<double> ends;
};

inline Recorded load_recorded(const std::string& path) {
    constexpr int hosts = 512, per_leaf = 16, leaves = hosts / per_leaf, spines = 8;
    Recorded r;
    r.capacities.assign(2 * hosts + 2 * leaves * spines, 25e9);
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read " + path);
    for (std::string line; std::getline(file, line);) {
        if (line.empty() || line[0] == '#') continue;
        std::istringstream in(line);
        int src = 0, dst = 0;
        double bytes = 0, start_ns = 0, end = 0;
        if (!(in >> src >> dst >> bytes >> start_ns >> end)) throw std::runtime_error("bad line in " + path + ": " + line);
        Flow flow{{{src, 1}, {hosts + dst, 1}}, bytes, start_ns * 1e-9};
        if (src / per_leaf != dst / per_leaf) {
            const int spine = dst % spines;
            flow.uses.push_back({2 * hosts + src / per_leaf * spines + spine, 1});
            flow.uses.push_back({2 * hosts + leaves * spines + dst / per_leaf * spines + spine, 1});
        }
        r.flows.push_back(std::move(flow));
        r.ends.push_back(end);
    }
    return r;
}

} // namespace orrery::fluid
