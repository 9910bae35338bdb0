// The cost model behind cost.hpp: which table times which op on this scenario's device, and collectives as fluid bundles.
#include "sim/cost/cost.hpp"

#include "sim/cost/attention.hpp"
#include "sim/cost/collectives.hpp"
#include "sim/cost/gemm.hpp"
#include "sim/cost/pointwise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <tuple>
#include <unordered_map>

namespace orrery {
namespace {

[[noreturn]] void impossible(std::string_view what) {
    fmt::print(stderr, "orrery: cost: {}\n", what);
    std::abort();
}

struct GemmKey {
    std::int64_t m, n, k, batch;
    std::uint8_t dtype, out;
    bool accumulate;
    bool operator==(const GemmKey&) const = default;
};

struct GemmKeyHash {
    std::size_t operator()(const GemmKey& key) const {
        std::uint64_t h = 0x9e3779b97f4a7c15u;
        for (std::int64_t v : {key.m, key.n, key.k, key.batch, static_cast<std::int64_t>(key.dtype) * 512 + key.out * 2 + (key.accumulate ? 1 : 0)})
            h = (h ^ static_cast<std::uint64_t>(v)) * 0xff51afd7ed558ccdu, h ^= h >> 32;
        return h;
    }
};

// A group of ranks met before, and how much of S a second its links let pass, by kind and algorithm (0: not worked out yet).
struct KnownGroup {
    std::vector<int> ranks;
    Group group;
    double link_rate[5][8] = {};
};

std::uint64_t hash_of(std::span<const int> ranks) {
    std::uint64_t h = 1469598103934665603u;
    for (int r : ranks) h = (h ^ static_cast<std::uint64_t>(r)) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    return h;
}

// What stands in where a device has no units for a precision: the next wider one that it has.
std::vector<std::string> precisions_for(DType t, const std::string& recipe) {
    switch (t) {
    case DType::nvfp4: return {"nvfp4", "mxfp8", "fp8", "bf16", "fp16", "fp32"};
    case DType::mxfp8: return {"mxfp8", "fp8", "bf16", "fp16", "fp32"};
    case DType::fp8:
        if (recipe == "blockwise") return {"fp8_block", "fp8", "bf16", "fp16", "fp32"};
        if (recipe == "mxfp8") return {"mxfp8", "fp8", "bf16", "fp16", "fp32"};
        return {"fp8", "bf16", "fp16", "fp32"};
    case DType::bf16: return {"bf16", "fp32", "fp16"};
    case DType::fp16: return {"fp16", "bf16", "fp32"};
    case DType::tf32: return {"tf32", "fp32", "bf16", "fp16"};
    default: return {"fp32", "tf32", "bf16", "fp16"};
    }
}

const char* kernel_name(AttentionKernel k) {
    switch (k) {
    case AttentionKernel::unfused:
    case AttentionKernel::flash2: return "flash-2";
    case AttentionKernel::flash1: return "flash-1";
    case AttentionKernel::flash3: return "flash-3";
    case AttentionKernel::cudnn: return "cudnn";
    }
    return "flash-2";
}

double element_bytes(const Plan& plan, BufferId b) { return bytes_per_element(plan.buffers[static_cast<std::size_t>(b)].dtype); }

struct Rate { const GemmTable* table; double peak, clock; std::string name; };   // peak in flops/us

} // namespace

struct CostModel::Data {
    Device device;
    Strategy strategy;
    Runtime runtime;
    Training training;
    int nodes = 1, devices_per_node = 1;
    const Fabric* fabric = nullptr;
    KernelTables kernels;
    PointwiseTable pointwise;
    LinkTable links;
    FabricTable between;
    Domain domain;
    bool multicast = false;
    double bandwidth = 1, peak_16 = 1, power = 1;            // bytes/us, flops/us; power: clock factor of a limit below the board's
    double host_memory = 1, pcie = 1, nvme = 1;              // bytes/us, of one device
    mutable std::unordered_map<GemmKey, double, GemmKeyHash> gemms;
    mutable std::unordered_map<std::uint64_t, KnownGroup> groups;

    double peak_of(const std::string& precision) const;
    Rate rate(DType t) const;
    double gemm(DType dtype, DType out, GemmShape shape, std::int64_t batch, bool accumulate) const;
    bool whole_loss = false;                                 // the framework's own loss over an undivided vocabulary
    double buffer_bytes(const Plan& plan, const Op& op) const;
    KernelTime time(const Plan& plan, const Op& op) const;
    KernelTime copy(const Copy& c) const;
    const KnownGroup& known(std::span<const int> ranks) const;
    double link_rate(const KnownGroup& g, CollectiveKind kind, Algorithm a) const;
    CommCost bundle(const CollectiveTime& t, double bytes, double limit, std::string algorithm) const;
};

double CostModel::Data::peak_of(const std::string& precision) const {
    auto find = [&](const char* name) { const auto at = device.peak.find(name); return at == device.peak.end() ? 0.0 : at->second.value * 1e-6; };
    if (precision == "fp8_block") return find("fp8");
    if (precision == "fp32" && find("fp32") == 0 && find("bf16") > 0) return find("bf16") / 6;   // six 16-bit passes make one of 32 bits
    return find(precision.c_str());
}

Rate CostModel::Data::rate(DType t) const {
    for (const std::string& p : precisions_for(t, runtime.fp8_recipe)) {
        const double peak = peak_of(p);
        if (peak <= 0) continue;
        const bool eight = p == "fp8" || p == "fp8_block" || p == "mxfp8" || p == "nvfp4", sixteen = p == "bf16" || p == "fp16";
        const double clock = power * (eight ? kernels.sustained_8 : sixteen ? kernels.sustained_16 : kernels.sustained_other);
        for (const std::string& table : {p, std::string(eight ? "fp8" : "bf16"), std::string("bf16"), std::string("fp32")})
            if (const auto at = kernels.gemm.find(table); at != kernels.gemm.end()) return {&at->second, peak, clock, p};
    }
    impossible(fmt::format("device {} has no peak for any precision of {}", device.name, name(t)));
}

double CostModel::Data::gemm(DType dtype, DType out, GemmShape shape, std::int64_t batch, bool accumulate) const {
    const GemmKey key{shape.m, shape.n, shape.k, batch, static_cast<std::uint8_t>(dtype), static_cast<std::uint8_t>(out), accumulate};
    if (const auto at = gemms.find(key); at != gemms.end()) return at->second;
    const Rate r = rate(dtype);
    GemmDevice d;
    d.processors = std::max(1, device.processors);
    d.peak = r.peak;
    d.peak_16 = peak_16;
    d.bandwidth = bandwidth;
    d.l2 = static_cast<double>(device.l2_cache.count);
    d.clock = r.clock;
    GemmProblem p{static_cast<double>(shape.m), static_cast<double>(shape.n), static_cast<double>(shape.k), static_cast<double>(batch),
                  bytes_per_element(dtype), bytes_per_element(out), accumulate};
    const double us = gemm_us(*r.table, d, p);
    gemms.emplace(key, us);
    return us;
}


double CostModel::Data::buffer_bytes(const Plan& plan, const Op& op) const {
    double sum = 0;
    for (const auto* list : {&op.in, &op.out})
        for (BufferId b : *list) sum += static_cast<double>(plan.buffers[static_cast<std::size_t>(b)].bytes.count);
    return sum;
}

KernelTime CostModel::Data::copy(const Copy& c) const {
    const bool disk = c.kind == CopyKind::host_to_nvme || c.kind == CopyKind::nvme_to_host;
    return {pointwise.copy_us + static_cast<double>(c.bytes.count) / (disk ? nvme : pcie), 1};
}

namespace {

template <class... F> struct Overloaded : F... { using F::operator()...; };
template <class... F> Overloaded(F...) -> Overloaded<F...>;

} // namespace

KernelTime CostModel::Data::time(const Plan& plan, const Op& op) const {
    const MemoryDevice memory{bandwidth};
    auto buffers = [&] { return buffer_bytes(plan, op); };
    return std::visit(Overloaded{
        [&](const Linear& w) -> KernelTime { return {gemm(w.dtype, w.out_dtype, gemm_shape(w), w.groups, w.accumulate), 1}; },
        [&](const Matmul& w) -> KernelTime {
            // Forward is one product; backward has one for each operand, of the same size.
            const GemmShape left{w.m, w.k, w.n}, right{w.k, w.n, w.m};
            if (w.direction == Direction::forward) return {gemm(w.dtype, w.dtype, {w.m, w.n, w.k}, w.batch, false), 1};
            if (w.direction == Direction::input_gradient) return {gemm(w.dtype, w.dtype, left, w.batch, false), 1};
            if (w.direction == Direction::weight_gradient) return {gemm(w.dtype, w.dtype, right, w.batch, false), 1};
            return {gemm(w.dtype, w.dtype, left, w.batch, false) + gemm(w.dtype, w.dtype, right, w.batch, false), 2};
        },
        [&](const Attention& w) -> KernelTime {
            const AttentionTable& table = kernels.attention.at(kernel_name(w.kernel));
            const AttentionDevice d{static_cast<double>(std::max(1, device.processors)), peak_16 * 1e-6, bandwidth, power * kernels.sustained_16};
            return {attention_us(kernels, table, d, w), w.direction == Direction::forward ? 1 : 3};
        },
        [&](const Softmax& w) { return memory_time(pointwise, kernels, memory, w, buffers()); },
        [&](const Norm& w) { return memory_time(pointwise, kernels, memory, w, buffers()); },
        [&](const Pointwise& w) { return memory_time(pointwise, kernels, memory, w, buffers()); },
        [&](const Embedding& w) {
            const bool forward = w.direction == Direction::forward, wide = !forward && !op.out.empty() && element_bytes(plan, op.out.front()) > 2;
            const double activation = forward && !op.out.empty() ? element_bytes(plan, op.out.front()) : std::min(4.0, std::max(2.0, bytes_per_element(training.precision)));
            return memory_time(pointwise, kernels, memory, w, activation, wide);
        },
        [&](const CrossEntropy& w) { return memory_time(pointwise, kernels, memory, w, whole_loss); },
        [&](const OptimizerStep& w) -> KernelTime {
            if (w.on_host) return {pointwise.copy_us + optimizer_bytes(pointwise, w, buffers()) / host_memory, 1};
            return memory_time(pointwise, kernels, memory, w, buffers());
        },
        [&](const GradientNorm& w) { return memory_time(pointwise, kernels, memory, w, buffers()); },
        [&](const Copy& w) { return copy(w); },
        [&](const HostSync&) -> KernelTime { return {0, 0}; },
        [&](const HostWork& w) -> KernelTime { return {w.duration.seconds() * 1e6, 0}; },
        [&](const auto&) -> KernelTime { impossible(fmt::format("op {} is not one of compute, a copy or host work", op.name)); },
    }, op.work);
}

const KnownGroup& CostModel::Data::known(std::span<const int> ranks) const {
    for (std::uint64_t key = hash_of(ranks);; ++key) {
        const auto [at, fresh] = groups.try_emplace(key);
        KnownGroup& g = at->second;
        if (fresh) {
            g.ranks.assign(ranks.begin(), ranks.end());
            g.group = group_of(*fabric, domain, ranks);
            return g;
        }
        if (std::equal(g.ranks.begin(), g.ranks.end(), ranks.begin(), ranks.end())) return g;
    }
}

double CostModel::Data::link_rate(const KnownGroup& g, CollectiveKind kind, Algorithm a) const {
    double& rate = const_cast<KnownGroup&>(g).link_rate[static_cast<std::size_t>(kind)][static_cast<std::size_t>(a)];
    if (rate > 0) return rate;
    rate = 1e30;
    for (const LoadShare& l : link_loads(*fabric, domain, g.group, kind, a))
        rate = std::min(rate, fabric->links()[static_cast<std::size_t>(l.link)].capacity.value * 1e-6 / l.load);
    return rate;
}

// latency + payload / cap is T where the links let the algorithm have its rate, and longer by what they hold back where not.
CommCost CostModel::Data::bundle(const CollectiveTime& t, double bytes, double limit, std::string algorithm) const {
    CommCost c;
    c.latency = Time::microseconds(std::max(0.0, t.us - bytes / t.rate));
    c.payload = bytes;
    c.cap = {std::min(t.rate, limit) * 1e6};
    c.algorithm = std::move(algorithm);
    return c;
}

CostModel::CostModel(const Scenario& scenario, const Fabric& fabric) : data_(std::make_unique<Data>()) {
    Data& d = *data_;
    const Cluster& c = scenario.cluster;
    d.device = c.device;
    d.strategy = scenario.strategy;
    d.runtime = scenario.runtime;
    d.training = scenario.training;
    d.nodes = fabric.nodes();
    d.devices_per_node = std::max(1, c.devices_per_node);
    d.fabric = &fabric;
    d.kernels = kernel_tables(c.device);
    d.pointwise = pointwise_table();
    const auto& whole = d.pointwise.whole_loss_frameworks;
    d.whole_loss = scenario.strategy.tensor_parallel == 1 && std::find(whole.begin(), whole.end(), scenario.strategy.framework) != whole.end();
    d.links = link_table(c);
    d.domain = domain_of(c);
    if (d.nodes > 1) d.between = fabric_table(c);   // a torus has one, too: unused
    d.multicast = d.links.has_nvls && c.intra.kind == IntraKind::nvswitch && (c.device.architecture == "hopper" || c.device.architecture == "blackwell");
    d.bandwidth = c.device.memory_bandwidth.value * 1e-6;
    for (const char* p : {"bf16", "fp16", "fp32"})
        if (d.peak_of(p) > 0) { d.peak_16 = d.peak_of(p); break; }
    if (c.device.power_limit_w > 0 && c.device.power_limit_w < c.device.power_w) d.power = std::sqrt(c.device.power_limit_w / c.device.power_w);
    auto known = [](double mine, double otherwise) { return mine > 0 ? mine * 1e-6 : otherwise; };
    d.host_memory = known(c.host.memory_bandwidth.value, d.pointwise.host_memory) * d.pointwise.host_share / d.devices_per_node;
    d.pcie = known(c.host.pcie_bandwidth.value, d.pointwise.pcie) * d.pointwise.pcie_share;
    d.nvme = known(c.host.nvme_bandwidth.value, d.pointwise.nvme) / d.devices_per_node;
}

CostModel::~CostModel() = default;
CostModel::CostModel(CostModel&&) noexcept = default;

ComputeCost CostModel::compute(const Plan& plan, const Op& op) const {
    const KernelTime t = data_->time(plan, op);
    return {Time::microseconds(t.us), t.kernels};
}

CommCost CostModel::collective(const Collective& c, std::span<const int> ranks) const {
    const Data& d = *data_;
    if (ranks.size() < 2) return {Time{}, 0, {1e15}, "none", 0};
    const KnownGroup& g = d.known(ranks);
    const double bytes = static_cast<double>(c.bytes.count);
    const bool one_byte = bytes_per_element(c.dtype) < 1.5;
    const std::string& wish = d.strategy.collective_algorithm;
    LinkTable scaled;
    if (g.group.reach < 1) {
        scaled = d.links;
        scale_rates(scaled, g.group.reach);
    }
    const LinkTable& links = g.group.reach < 1 ? scaled : d.links;
    const CollectiveTime t = g.group.nodes == 1 ? single_node(links, c.kind, g.group.n, bytes, one_byte, d.multicast, wish)
                                                : multi_node(links, d.between, g.group, c.kind, bytes, one_byte, d.multicast, wish);
    return d.bundle(t, bytes, d.link_rate(g, c.kind, t.algorithm), name(t.algorithm, t.protocol));
}

std::vector<LinkLoad> CostModel::loads(const Collective& c, const CommCost& cost, std::span<const int> ranks) const {
    std::vector<LinkLoad> out;
    if (ranks.size() < 2) return out;
    const std::vector<LoadShare> shares = link_loads(*data_->fabric, data_->domain, group_of(*data_->fabric, data_->domain, ranks), c.kind, parse_algorithm(cost.algorithm));
    out.reserve(shares.size());
    for (const LoadShare& s : shares) out.push_back({s.link, s.load});
    return out;
}

CommCost CostModel::transfer(Bytes bytes, int from, int to) const {
    const Data& d = *data_;
    if (from == to) return {Time{}, 0, {1e15}, "none", 0};
    const double size = static_cast<double>(bytes.count), narrowest = d.fabric->narrowest(from, to).value * 1e-6;
    if (d.domain.spans_nodes || d.fabric->node_of(from) == d.fabric->node_of(to)) {
        // A pair that has less than a device's whole bandwidth reaches the same share of it.
        return d.bundle(send_time(d.links, size), size, narrowest * std::min(1.0, d.links.direct_rate / d.links.link_rate), "p2p");
    }
    const FabricTable& f = d.between;
    // One message uses one NIC, of the sender and of the receiver.
    const double nic = std::min(d.fabric->nic_bandwidth(from).value, d.fabric->nic_bandwidth(to).value) * 1e-6 * d.fabric->devices_per_nic();
    const double rate = f.p2p_eta * (nic > 0 ? nic : narrowest);
    const double us = f.p2p_base + (size >= 65536 ? f.p2p_rendezvous : 0) + size / rate;
    return d.bundle({us, rate, Algorithm::direct, Protocol::simple}, size, narrowest, "p2p");
}

std::vector<LinkLoad> CostModel::transfer_loads(int from, int to) const {
    std::vector<LinkLoad> out;
    for (const LinkShare& s : data_->fabric->route(from, to)) out.push_back({s.link, s.share});
    return out;
}

Interference CostModel::interference() const { return {data_->pointwise.compute_slowdown, data_->pointwise.communication_slowdown}; }

Time CostModel::launch() const {
    const Runtime& r = data_->runtime;
    if (r.launch_us > 0) return Time::microseconds(r.launch_us);
    if (r.launch_blocking) return Time::microseconds(data_->pointwise.launch_blocking);
    return Time::microseconds(r.cuda_graphs ? data_->pointwise.launch_graph : data_->pointwise.launch_eager);
}

std::vector<std::string> CostModel::provenance() const {
    const Data& d = *data_;
    std::vector<std::string> out;
    auto line = [&](const std::string& what, const Source& s) { out.push_back(fmt::format("{}: {}: {}", what, s.kind, s.text)); };
    const Rate r = d.rate(d.training.precision);
    line("gemm " + r.name, r.table->source);
    if (r.name != name(d.training.precision))
        out.push_back(fmt::format("gemm {}: assumed: {} has no units of its own for it, timed as {}", name(d.training.precision), d.device.name, r.name));
    if (d.strategy.flash_attention && d.runtime.attention_kernel != AttentionKernel::unfused) {
        const char* kernel = kernel_name(d.runtime.attention_kernel);
        line(std::string("attention ") + kernel, d.kernels.attention.at(kernel).source);
    }
    line("sustained clock", d.kernels.sustained_source);
    line("memory-bound kernels", d.kernels.memory_source);
    line("memory-bound traffic", d.pointwise.source);
    line("loss", d.pointwise.loss_source);
    line("embedding", d.pointwise.embedding_source);
    line("optimizer", d.pointwise.optimizer_source);
    line("launch", d.runtime.launch_us > 0 ? Source{"stated", "by the scenario"} : d.pointwise.launch_source);
    line("interference", d.pointwise.interference_source);
    if (d.fabric->devices() > d.nodes) line("links " + d.links.name, d.links.source);
    if (d.nodes > 1) line("fabric " + d.between.name, d.between.source);
    return out;
}

} // namespace orrery
