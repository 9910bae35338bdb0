// A scenario with nothing but hardware in it, and plans of one op: what the cost model needs.
#pragma once

#include "sim/cost/cost.hpp"
#include "topology/catalog.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>

namespace orrery::cost_test {

inline Scenario on_cluster(std::string_view preset, int nodes = 1) {
    Scenario s;
    const auto cluster = find_cluster(preset);
    EXPECT_TRUE(cluster) << preset;
    if (cluster) s.cluster = *cluster;
    s.cluster.nodes = nodes;
    return s;
}

// Devices of this kind in one node behind one switch.
inline Scenario on_device(std::string_view preset, int devices = 8) {
    Scenario s;
    const auto device = find_device(preset);
    EXPECT_TRUE(device) << preset;
    if (device) s.cluster.device = *device;
    s.cluster.devices_per_node = devices;
    s.cluster.intra = {IntraKind::nvswitch, s.cluster.device.scale_up, Time::microseconds(0.6)};
    s.cluster.inter.kind = InterKind::none;
    s.cluster.inter.nics_per_node = 0;
    return s;
}

inline double microseconds(Time t) { return t.seconds() * 1e6; }

// The cost model of a scenario with its fabric, which it refers to.
struct Costs {
    Scenario scenario;
    Fabric fabric;
    CostModel model;
    explicit Costs(Scenario s) : scenario(std::move(s)), fabric(scenario.cluster), model(scenario, fabric) {}

    double compute_us(Work work, double buffer_bytes = 0) const {
        Plan plan;
        Op op;
        op.work = std::move(work);
        op.name = "op";
        if (buffer_bytes > 0) {
            Buffer b;
            b.name = "x";
            b.bytes = {static_cast<std::int64_t>(buffer_bytes)};
            plan.buffers.push_back(b);
            op.in = {0};
        }
        return microseconds(model.compute(plan, op).duration);
    }

    CommCost collective(CollectiveKind kind, double bytes, std::span<const int> ranks, DType dtype = DType::bf16) const {
        return model.collective({kind, 0, {static_cast<std::int64_t>(bytes)}, dtype}, ranks);
    }
    std::vector<LinkLoad> loads(CollectiveKind kind, double bytes, const CommCost& cost, std::span<const int> ranks) const {
        return model.loads({kind, 0, {static_cast<std::int64_t>(bytes)}, DType::bf16}, cost, ranks);
    }
};

inline double alone_us(const CommCost& c) { return microseconds(c.latency) + (c.payload > 0 ? c.payload / c.cap.value * 1e6 : 0); }

inline std::vector<int> ranks(int n, int first = 0, int stride = 1) {
    std::vector<int> out(static_cast<std::size_t>(n));
    for (int i = 0; i < n; ++i) out[i] = first + i * stride;
    return out;
}

} // namespace orrery::cost_test
