// Small plans by hand: compute ops last the nanoseconds they say, communications cost what the network says.
#pragma once

#include "sim/engine/machine.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace orrery::engine_test {

inline constexpr std::int64_t ns = 1000; // ps

// Devices with one port each way at `port` bytes/s, node uplinks shared by all devices of a node. A transfer or a ring takes every
// port and uplink on its way. Links: device out, device in, node out, node in.
struct Network {
    int ranks = 1, devices_per_node = 8, nics = 1;
    double port = 1e9, nic = 1e9, trunk = 0; // trunk > 0: one up and one down link a leaf of two nodes
    std::int64_t latency_ns = 0;
    double compute_slowdown = 0, communication_slowdown = 0;
    std::int64_t launch_ns = 0;
    std::vector<std::pair<int, double>> degraded = {}; // link, factor
    std::vector<double> slowness = {};
    bool copies_by_port = false; // copies to the host and back share the devices' ports
    double copy_rate = 1e12;
    double nic_eta = 1; // of an uplink's rate, what protocols reach

    int node(int r) const { return r / devices_per_node; }
    int nodes() const { return (ranks + devices_per_node - 1) / devices_per_node; }
    int leaves() const { return (nodes() + 1) / 2; }
    int port_out(int r) const { return r; }
    int port_in(int r) const { return ranks + r; }
    int nic_of(int r) const { return node(r) * nics + r % devices_per_node * nics / devices_per_node; }
    int nic_out(int r) const { return 2 * ranks + nic_of(r); }
    int nic_in(int r) const { return 2 * ranks + nodes() * nics + nic_of(r); }
    int trunk_up(int r) const { return 2 * ranks + 2 * nodes() * nics + node(r) / 2; }
    int trunk_down(int r) const { return trunk_up(r) + leaves(); }

    std::vector<LinkLoad> route(int a, int b) const {
        std::vector<LinkLoad> loads{{port_out(a), 1}, {port_in(b), 1}};
        if (node(a) == node(b)) return loads;
        loads.push_back({nic_out(a), 1, nic_eta});
        loads.push_back({nic_in(b), 1, nic_eta});
        if (trunk > 0 && node(a) / 2 != node(b) / 2) {
            loads.push_back({trunk_up(a), 1});
            loads.push_back({trunk_down(b), 1});
        }
        return loads;
    }

    Wires wires() const {
        Wires w;
        auto fill = [&](int n, double c) { w.capacity.push_back(c, static_cast<std::size_t>(n)); };
        fill(2 * ranks, port);
        fill(2 * nodes() * nics, nic);
        if (trunk > 0) fill(2 * leaves(), trunk);
        for (auto [link, factor] : degraded)
            w.capacity.change([&](std::size_t l, double c) { return static_cast<LinkId>(l) == link ? c / factor : c; });
        w.slowness = slowness;
        return w;
    }

    Costs costs() const {
        Network net = *this;
        Costs c;
        c.compute = [](const Op& op) {
            const auto* work = std::get_if<HostWork>(&op.work);
            return ComputeCost{work ? work->duration : Time{}, 1};
        };
        c.collective = [net](const Collective& work, std::span<const int>) {
            CommCost cost;
            cost.latency = {net.latency_ns * ns};
            cost.payload = static_cast<double>(work.bytes.count);
            cost.cap = {1e12};
            cost.algorithm = "ring";
            return cost;
        };
        c.loads = [net](const Collective&, const CommCost&, std::span<const int> members) {
            std::vector<LinkLoad> all;
            for (std::size_t i = 0; i < members.size(); ++i)
                for (const LinkLoad& l : net.route(members[i], members[(i + 1) % members.size()])) all.push_back(l);
            return all;
        };
        c.transfer = [net](Bytes bytes, int, int) {
            CommCost cost;
            cost.latency = {net.latency_ns * ns};
            cost.payload = static_cast<double>(bytes.count);
            cost.cap = {1e12};
            return cost;
        };
        c.transfer_loads = [net](int a, int b) { return net.route(a, b); };
        if (copies_by_port) {
            c.copy = [net](const Op& op, int) {
                CommCost cost;
                cost.latency = {net.latency_ns * ns};
                cost.payload = static_cast<double>(std::get<Copy>(op.work).bytes.count);
                cost.cap = {net.copy_rate};
                return cost;
            };
            c.copy_loads = [net](const Op& op, int rank) {
                const bool out = std::get<Copy>(op.work).kind == CopyKind::device_to_host;
                return std::vector<LinkLoad>{{out ? net.port_out(rank) : net.port_in(rank), 1}};
            };
        }
        c.interference = {compute_slowdown, communication_slowdown};
        c.launch = {launch_ns * ns};
        return c;
    }
};

// Ops are added to the block being built, blocks to plans as actions.
struct Builder {
    Plan plan;

    explicit Builder(int tp, int dp, int pp) {
        plan.mesh.size = {tp, 1, 1, dp, 1, 1, pp};
        plan.mesh.order = {Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::dpr, Axis::dpw, Axis::pp};
        plan.stages = pp;
        plan.programs.resize(pp);
        for (int s = 0; s < pp; ++s) plan.programs[s].stage = static_cast<std::int16_t>(s);
    }

    CommId comm(std::string name, AxisMask axes, std::vector<std::int16_t> stages = {}) {
        plan.communicators.push_back({std::move(name), axes, std::move(stages)});
        return static_cast<CommId>(plan.communicators.size() - 1);
    }

    std::int32_t block(int stage, std::string name) {
        Block b;
        b.name = std::move(name);
        b.stage = static_cast<std::int16_t>(stage);
        plan.blocks.push_back(std::move(b));
        return static_cast<std::int32_t>(plan.blocks.size() - 1);
    }

    std::int32_t add(Op op, std::vector<std::int32_t> deps) {
        auto& ops = plan.blocks.back().ops;
        if (op.name.empty()) op.name = plan.blocks.back().name + "." + std::to_string(ops.size());
        op.deps = std::move(deps);
        ops.push_back(std::move(op));
        return static_cast<std::int32_t>(ops.size() - 1);
    }

    std::int32_t compute(std::int64_t nanoseconds, std::vector<std::int32_t> deps = {}, Phase phase = Phase::forward) {
        Op op;
        op.work = HostWork{Time{nanoseconds * ns}};
        op.queue = compute_queue;
        op.phase = phase;
        return add(std::move(op), std::move(deps));
    }

    std::int32_t collective(CommId c, std::int64_t bytes, std::vector<std::int32_t> deps = {}, Phase phase = Phase::forward,
                            CollectiveKind kind = CollectiveKind::all_reduce) {
        Op op;
        op.work = Collective{kind, c, Bytes{bytes}, DType::bf16};
        op.queue = queue_of(c);
        op.phase = phase;
        return add(std::move(op), std::move(deps));
    }

    std::int32_t copy(CopyKind kind, std::int64_t bytes, std::vector<std::int32_t> deps = {}) {
        Op op;
        op.work = Copy{kind, Bytes{bytes}};
        op.queue = kind == CopyKind::device_to_host ? d2h_queue : h2d_queue;
        op.phase = Phase::offload;
        return add(std::move(op), std::move(deps));
    }

    struct Side {
        CommId comm;
        bool send;
        std::int64_t bytes;
    };
    std::int32_t exchange(std::vector<Side> sides, std::vector<std::int32_t> deps = {}) {
        Exchange x;
        for (const Side& s : sides) x.transfers.push_back({s.comm, s.send, Bytes{s.bytes}, -1, 0});
        Op op;
        op.queue = queue_of(sides[0].comm);
        op.work = std::move(x);
        op.phase = Phase::exchange;
        return add(std::move(op), std::move(deps));
    }

    std::int32_t sync(std::vector<std::int32_t> deps) {
        Op op;
        op.work = HostSync{};
        return add(std::move(op), std::move(deps));
    }

    // Returns the action's index in its program.
    std::int32_t act(std::int32_t b, std::vector<ActionDep> deps = {}, std::int32_t microbatch = 0) {
        const Block& of = plan.blocks[b];
        Program& p = plan.programs[of.stage];
        Action a;
        a.block = b;
        a.last = static_cast<std::int32_t>(of.ops.size());
        a.microbatch[0] = microbatch;
        a.deps_begin = static_cast<std::int32_t>(p.deps.size());
        p.deps.insert(p.deps.end(), deps.begin(), deps.end());
        a.deps_end = static_cast<std::int32_t>(p.deps.size());
        p.actions.push_back(a);
        return static_cast<std::int32_t>(p.actions.size() - 1);
    }
};

inline Simulation simulate(const Plan& plan, const Network& net, SimulateOptions options = {}, bool launch_blocking = false) {
    return run(compile(plan, net.costs(), net.wires(), {options.fold, launch_blocking}), options);
}

// A 1F1B pipeline: forward f ns, backward b ns, activations of `bytes`; then, where dp > 1, a gradient all-reduce of grad bytes
// that overlaps nothing, and an optimizer step. TP > 1: an all-reduce of tp_bytes in the middle of each forward and backward.
struct PipelineShape {
    int tp = 1, dp = 1, pp = 2;
    std::int64_t microbatches = 4, forward = 1000, backward = 2000, bytes = 0, tp_bytes = 0, grad_bytes = 0, optimizer = 0;
    int layers = 1,
        ops = 2; // TP > 1: layers of a block, and compute ops of each around its all-reduce; forward and backward time are a layer's
    bool overlap_grads = false; // the all-reduce of each microbatch's gradients runs behind its backward
};

inline Plan pipeline(const PipelineShape& shape) {
    Builder b(shape.tp, shape.dp, shape.pp);
    b.plan.name = "pipeline";
    b.plan.microbatches = shape.microbatches;
    CommId tp = shape.tp > 1 ? b.comm("tp", mask(Axis::tp)) : CommId{-1};
    CommId dp = shape.dp > 1 ? b.comm("dp", mask(Axis::dp)) : CommId{-1};
    std::vector<CommId> up, down;
    for (int s = 0; s + 1 < shape.pp; ++s) {
        std::vector<std::int16_t> pair{static_cast<std::int16_t>(s), static_cast<std::int16_t>(s + 1)};
        up.push_back(b.comm("pp.up." + std::to_string(s), mask(Axis::pp), pair));
        down.push_back(b.comm("pp.down." + std::to_string(s), mask(Axis::pp), pair));
    }
    auto half = [&](std::int64_t length, Phase phase) {
        if (shape.tp == 1) {
            b.compute(length, {}, phase);
            return;
        }
        for (int layer = 0; layer < shape.layers; ++layer) {
            std::int32_t last = -1;
            for (int k = 0; k < shape.ops / 2; ++k) last = b.compute(length / shape.ops, {}, phase);
            last = b.collective(tp, shape.tp_bytes, {last}, phase);
            for (int k = shape.ops / 2; k < shape.ops; ++k) {
                std::int64_t share = k + 1 < shape.ops ? length / shape.ops : length - length / shape.ops * (shape.ops - 1);
                b.compute(share, last < 0 ? std::vector<std::int32_t>{} : std::vector<std::int32_t>{last}, phase);
                last = -1;
            }
        }
    };
    for (int s = 0; s < shape.pp; ++s) {
        bool first = s == 0, last = s + 1 == shape.pp;
        std::int32_t F = b.block(s, "F");
        half(shape.forward, Phase::forward);
        auto f_last = static_cast<std::int32_t>(b.plan.blocks.back().ops.size() - 1);
        std::int32_t B = b.block(s, "B");
        half(shape.backward, Phase::backward_input);
        auto b_last = static_cast<std::int32_t>(b.plan.blocks.back().ops.size() - 1);
        std::int32_t grads = -1;
        if (dp >= 0 && shape.overlap_grads) b.collective(dp, shape.grad_bytes, {b_last}, Phase::gradient_reduce);
        std::int32_t rf = -1, sf = -1, rb = -1, sb = -1;
        if (!first) {
            rf = b.block(s, "X:recv");
            b.exchange({{up[s - 1], false, shape.bytes}});
        }
        if (!last) {
            sf = b.block(s, "X:send");
            b.exchange({{up[s], true, shape.bytes}});
        }
        if (!last) {
            rb = b.block(s, "X:recv_grad");
            b.exchange({{down[s], false, shape.bytes}});
        }
        if (!first) {
            sb = b.block(s, "X:send_grad");
            b.exchange({{down[s - 1], true, shape.bytes}});
        }
        auto forward = [&](std::int32_t mb) {
            std::vector<ActionDep> deps;
            if (!first) deps.push_back({0, b.act(rf, {}, mb), 0});
            std::int32_t a = b.act(F, deps, mb);
            if (!last) b.act(sf, {{0, a, f_last}}, mb);
        };
        auto backward = [&](std::int32_t mb) {
            std::vector<ActionDep> deps;
            if (!last) deps.push_back({0, b.act(rb, {}, mb), 0});
            std::int32_t a = b.act(B, deps, mb);
            if (!first) b.act(sb, {{0, a, b_last}}, mb);
            return a;
        };
        auto m = static_cast<std::int32_t>(shape.microbatches);
        std::int32_t warm = std::min(m, shape.pp - 1 - s), f = 0, done = 0;
        for (; f < warm; ++f) forward(f);
        std::int32_t last_backward = -1;
        for (; f < m; ++f) {
            forward(f);
            last_backward = backward(done++);
        }
        while (done < m) last_backward = backward(done++);
        std::vector<ActionDep> after;
        if (dp >= 0 && !shape.overlap_grads) {
            grads = b.block(s, "reduce");
            b.collective(dp, shape.grad_bytes, {}, Phase::gradient_reduce);
            after.push_back({0, b.act(grads, {{0, last_backward, b_last}}), 0});
        } else if (dp >= 0)
            after.push_back({0, last_backward, b_last + 1});
        if (shape.optimizer > 0) {
            std::int32_t O = b.block(s, "optimizer");
            b.compute(shape.optimizer, {}, Phase::optimizer);
            b.act(O, after);
        }
    }
    return b.plan;
}

} // namespace orrery::engine_test
