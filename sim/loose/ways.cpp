// A scenario's workers: what each sends, over which links, and how long servers and devices take with it.
#include "sim/loose/loose.hpp"

#include "sim/engine/machine.hpp"
#include "sim/plan/lowering.hpp"
#include "topology/at.hpp"

#include <algorithm>
#include <map>

namespace orrery {
namespace {

// Trained parameters that a rank of each stage holds.
std::vector<std::int64_t> elements_of_stages(const Plan& plan) {
    std::vector<std::int64_t> elements(at(plan.stages), 0);
    for (const Buffer& b : plan.buffers) {
        if (b.role != Role::parameter || !plan.tensors[b.tensor].trained) continue;
        std::int64_t n = 1;
        for (std::int64_t d : b.shape) n *= d;
        elements[at(b.stage)] += n;
    }
    return elements;
}

struct WorkerRanks {
    std::vector<std::vector<int>> ranks; // by worker, in an order that is the same for all
    std::vector<std::int64_t> elements;  // by place in that order
    std::vector<bool> sends;             // the others of a context-parallel group have the same
};

WorkerRanks ranks_of(const Plan& plan) {
    const std::vector<std::int64_t> of_stage = elements_of_stages(plan);
    WorkerRanks all;
    all.ranks.resize(at(plan.mesh.size[Axis::dpw]));
    for (int r = 0; r < plan.mesh.ranks(); ++r) {
        const Coordinates c = plan.mesh.coordinates(r);
        const int worker = c[Axis::dpw];
        all.ranks[at(worker)].push_back(r);
        if (worker > 0) continue;
        all.elements.push_back(of_stage[at(c[Axis::pp])]);
        all.sends.push_back(c[Axis::cp] == 0);
    }
    return all;
}

void add_flow(LooseWay& way, double bytes, const CommCost& alone, const std::vector<LinkLoad>& loads) {
    if (bytes <= 0) return;
    way.latency_s = std::max(way.latency_s, alone.latency.seconds());
    LooseFlow flow{bytes, alone.cap.value};
    for (const LinkLoad& l : loads) flow.uses.push_back({l.link, l.load}), flow.loads.push_back(l.load);
    way.flows.push_back(std::move(flow));
}

// The nodes that serve, spread over the cluster.
std::vector<int> server_nodes(const Scenario& s) {
    const int n = s.strategy.synchronization.servers > 0 ? s.strategy.synchronization.servers : s.cluster.nodes;
    std::vector<int> nodes;
    for (int i = 0; i < n; ++i) nodes.push_back(static_cast<int>(std::int64_t{i} * s.cluster.nodes / n));
    return nodes;
}

// A rank's part for a server on `node`: over the network by the NIC of that node's device that lies as the rank does, or to the host
// beside it.
void add_part(LooseWay& way, const Scenario& s, const Fabric& fabric, const CostModel& cost, int rank, int node, double part, bool push) {
    const Bytes size{static_cast<std::int64_t>(part)};
    if (fabric.node_of(rank) == node) {
        std::vector<LinkLoad> loads;
        for (const LinkShare& l : fabric.copy_route(rank, push)) loads.push_back({l.link, l.share});
        Op copy;
        copy.work = Copy{push ? CopyKind::device_to_host : CopyKind::host_to_device, size};
        copy.queue = push ? d2h_queue : h2d_queue;
        const double seconds = cost.compute({}, copy).duration.seconds();
        return add_flow(way, part, CommCost{Time{}, part, BytesPerSecond{seconds > 0 ? part / seconds : 1e15}, "copy", 1}, loads);
    }
    const int there = node * s.cluster.devices_per_node + fabric.local_index(rank);
    const int from = push ? rank : there, to = push ? there : rank;
    add_flow(way, part, cost.transfer(size, from, to), cost.transfer_loads(from, to));
}

double moment_count(Optimizer o) {
    if (o == Optimizer::sgd) return 0;
    return o == Optimizer::momentum || o == Optimizer::lars ? 1 : 2;
}

// A server's step on its part of the model, with all of its host's memory bandwidth.
double update_seconds(const Scenario& s, const CostModel& cost, double elements) {
    const auto n = static_cast<std::int64_t>(elements);
    Plan plan;
    Op step;
    const Optimizer o = s.training.optimizer;
    const OptimizerKind kind = o == Optimizer::sgd        ? OptimizerKind::sgd
                               : o == Optimizer::momentum ? OptimizerKind::momentum
                                                          : OptimizerKind::adam;
    step.work = OptimizerStep{kind, n, true, true};
    step.queue = host_queue;
    const auto add = [&](DType dtype, bool reads, bool writes) {
        Buffer b;
        b.shape = {n};
        b.dtype = dtype;
        b.bytes = bytes(b.shape, dtype);
        plan.buffers.push_back(b);
        const auto id = static_cast<BufferId>(plan.buffers.size() - 1);
        if (reads) step.in.push_back(id);
        if (writes) step.out.push_back(id);
    };
    add(s.strategy.synchronization.payload_dtype, true, false);
    add(DType::fp32, true, true);
    for (int i = 0; i < static_cast<int>(moment_count(o)); ++i) add(DType::fp32, true, true);
    if (activation_dtype(s) != DType::fp32) add(activation_dtype(s), false, true);
    return cost.compute(plan, step).duration.seconds() / std::max(1, s.cluster.devices_per_node);
}

// Reads its own and the message, writes its own; or writes what is sent, in another type.
double pointwise_seconds(const CostModel& cost, std::int64_t n, DType from, DType to, int reads) {
    Plan plan;
    Op op;
    op.work = Pointwise{reads > 1 ? PointwiseKind::add : PointwiseKind::cast, Direction::forward, n, true};
    for (int i = 0; i <= reads; ++i) {
        Buffer b;
        b.shape = {n};
        b.dtype = i < reads ? from : to;
        b.bytes = bytes(b.shape, b.dtype);
        plan.buffers.push_back(b);
        (i < reads ? op.in : op.out).push_back(static_cast<BufferId>(i));
    }
    return cost.compute(plan, op).duration.seconds();
}

// By worker: how many times as long its slowest rank computes.
std::vector<double> slowness_of(const WorkerRanks& workers, const Wires& wires) {
    std::vector<double> slow(workers.ranks.size(), 1);
    for (std::size_t w = 0; w < slow.size() && !wires.slowness.empty(); ++w)
        for (int r : workers.ranks[w]) slow[w] = std::max(slow[w], wires.slowness[at(r)]);
    return slow;
}

// The step of a worker all of whose devices are so slow.
double slowed_step(const Scenario& s, const Plan& plan, const Fabric& fabric, const CostModel& cost, double factor,
                   const SimulateOptions& options) {
    Scenario slow = with_equal_workers(s);
    for (int node = 0; node < s.cluster.nodes; ++node) {
        Perturbation p;
        p.kind = Perturbation::Kind::slow_node;
        p.factor = factor;
        p.index = node;
        slow.perturb.push_back(p);
    }
    SimulateOptions how = options;
    how.trace = false;
    return simulate(plan, slow, fabric, cost, how).step_time.seconds();
}

} // namespace

Scenario with_equal_workers(const Scenario& scenario) {
    Scenario equal = scenario;
    std::erase_if(equal.perturb,
                  [](const Perturbation& p) { return p.kind == Perturbation::Kind::slow_rank || p.kind == Perturbation::Kind::slow_node; });
    return equal;
}

LooseWork loose_work(const Scenario& s, const Plan& plan, const Fabric& fabric, const CostModel& cost, double step_s,
                     const SimulateOptions& options) {
    const Wires wires = wires_of(s, fabric);
    const WorkerRanks workers = ranks_of(plan);
    LooseWork work;
    work.how = s.strategy.synchronization;
    work.capacity = wires.capacity.all();
    work.seed = s.training.seed;
    const DType own = activation_dtype(s), payload = work.how.payload_dtype;
    const std::int64_t most = *std::max_element(workers.elements.begin(), workers.elements.end());
    const bool packs = s.strategy.served() && payload != s.training.gradient_dtype;
    const double pack_s = packs ? pointwise_seconds(cost, most, s.training.gradient_dtype, payload, 1) : 0;
    std::map<double, double> steps{{1, step_s}};
    for (const double slow : slowness_of(workers, wires)) {
        const auto [found, fresh] = steps.try_emplace(slow);
        if (fresh) found->second = slowed_step(s, plan, fabric, cost, slow, options);
        work.step_s.push_back(found->second + pack_s);
    }
    if (!s.strategy.served()) {
        work.mix_s = pointwise_seconds(cost, most, own, own, 2);
        const double sends = cost.transfer(Bytes::mebibytes(1), workers.ranks.front()[0], workers.ranks.back()[0]).slows;
        work.slowdown = sends >= 0 ? sends : cost.interference().compute_slowdown;
        work.send = [workers, own, &cost](int from, int to) {
            LooseWay way;
            for (std::size_t k = 0; k < workers.elements.size(); ++k) {
                const double size = static_cast<double>(workers.elements[k]) * bytes_per_element(own);
                const int a = workers.ranks[at(from)][k], b = workers.ranks[at(to)][k];
                add_flow(way, size, cost.transfer(Bytes{static_cast<std::int64_t>(size)}, a, b), cost.transfer_loads(a, b));
            }
            return way;
        };
        return work;
    }
    double whole = 0;
    for (std::size_t k = 0; k < workers.elements.size(); ++k) whole += workers.sends[k] ? static_cast<double>(workers.elements[k]) : 0;
    const std::vector<int> nodes = server_nodes(s);
    work.servers = static_cast<int>(nodes.size());
    work.update_s = update_seconds(s, cost, whole / work.servers);
    const auto parts = [workers, nodes, &s, &fabric, &cost](int worker, int server, DType type, bool push) {
        LooseWay way;
        for (std::size_t k = 0; k < workers.elements.size(); ++k) {
            if (push && !workers.sends[k]) continue;
            const double part = static_cast<double>(workers.elements[k]) * bytes_per_element(type) / static_cast<double>(nodes.size());
            add_part(way, s, fabric, cost, workers.ranks[at(worker)][k], nodes[at(server)], part, push);
        }
        return way;
    };
    work.push = [parts, payload](int worker, int server) { return parts(worker, server, payload, true); };
    work.pull = [parts, own](int worker, int server) { return parts(worker, server, own, false); };
    return work;
}

} // namespace orrery
