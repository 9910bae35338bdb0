// Traces made up for tests and benchmarks: like 1F1B on ranks with a compute and a communication queue each, of any number of slices.
#pragma once

#include "sim/trace/trace.hpp"

#include <cstdint>
#include <string>
#ifndef Q_MOC_RUN // Qt 6.4's moc cannot read this header of C++20
#include <random>
#endif

namespace orrery::synthetic {

struct Shape {
    int lanes = 32, stages = 4;
    std::int64_t slices = 100000; // of all lanes, about
    int queues = 2;
    std::uint64_t seed = 1;
    double communication = 0.2; // busy share of the communication queues
    bool waits = true;
};

inline std::vector<TraceOp> ops() {
    std::vector<TraceOp> out;
    for (int layer = 0; layer < 16; ++layer) {
        const std::string l = "l" + std::to_string(layer);
        const auto i = static_cast<std::int16_t>(layer);
        out.push_back({l + ".qkv.fwd", "linear", "forward", i, 1e9, 0});
        out.push_back({l + ".qkv.dgrad", "linear", "backward", i, 1e9, 0});
        out.push_back({l + ".qkv.wgrad", "linear", "weight-gradient", i, 1e9, 0});
        out.push_back({l + ".reduce", "all-reduce", "forward", i, 0, 1 << 20});
    }
    return out;
}

inline void fill_queue(Lane& lane, std::int16_t queue, std::int64_t slices, std::mt19937_64& random, const Shape& shape) {
    std::uniform_int_distribution<std::int64_t> length(20'000, 400'000'000);
    std::int64_t now = static_cast<std::int64_t>(lane.stage) * 50'000'000;
    for (std::int64_t i = 0; i < slices; ++i) {
        Span s;
        const std::int64_t d = length(random) >> (random() % 6);
        s.queue = queue;
        s.microbatch = static_cast<std::int32_t>(i / 64 % 64);
        s.op = static_cast<std::int32_t>(random() % 16 * 4 + (queue == 0 ? random() % 3 : 3));
        s.begin = {now};
        s.end = {now + d};
        if (queue == 0 && shape.waits && random() % 4 == 0) {
            s.op = -1;
            s.kind = SpanKind::wait;
            s.cause = random() % 2 ? WaitCause::receive : WaitCause::warm_up;
        }
        lane.spans.push_back(s);
        now += d;
        if (queue != 0)
            now += static_cast<std::int64_t>(static_cast<double>(d) * (1 / shape.communication - 1));
        else if (random() % 3 == 0)
            now += d / 3;
    }
}

inline Trace trace(const Shape& shape = {}) {
    Trace t;
    t.name = "synthetic";
    t.source = "simulated";
    t.queues = {"compute", "tp", "dp", "pp"};
    t.queues.resize(shape.queues);
    t.ops = ops();
    std::mt19937_64 random(shape.seed);
    const double weight = 1 + (shape.queues - 1) * shape.communication;
    for (int l = 0; l < shape.lanes; ++l) {
        Lane lane;
        lane.rank = l;
        lane.stage = static_cast<std::int16_t>(l * shape.stages / shape.lanes);
        const double each = static_cast<double>(shape.slices) / shape.lanes / weight;
        lane.spans.reserve(static_cast<std::size_t>(each * weight) + 8);
        for (int q = 0; q < shape.queues; ++q)
            fill_queue(lane, static_cast<std::int16_t>(q), static_cast<std::int64_t>(q == 0 ? each : each * shape.communication), random,
                       shape);
        for (const Span& s : lane.spans) t.end = std::max(t.end, s.end);
        t.lanes.push_back(std::move(lane));
    }
    return t;
}

} // namespace orrery::synthetic
