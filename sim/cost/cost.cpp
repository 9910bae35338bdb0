// The implementation of cost.hpp: selects the calibration of this scenario, and lists its sources.
#include "sim/cost/data.hpp"

#include "sim/model/expert_load.hpp"
#include "sim/plan/lowering.hpp"
#include "sim/scenario/parameters.hpp"
#include "sim/scenario/stage3.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace orrery {

namespace {

// Expected maximum of n standard normals, by Gumbel's limit: 1.52 of 8, 3.28 of 1024.
double expected_maximum(double n) {
    const double b = std::sqrt(2 * std::log(n));
    return b + (0.5772 - 0.5 * (std::log(std::log(n)) + std::log(4 * 3.14159265))) / b;
}

// Devices differ, and a synchronous step waits for the slowest of all. What the sustained clock was fitted to are mostly single nodes.
// Where weights are gathered layer by layer (with a pipeline, once a step), every layer waits for whoever is slow at that one.
double slowest_of(double devices, const PointwiseTable& t, const Strategy& s, const Practice& practice) {
    const bool layerwise = s.pipeline_parallel == 1 && (s.zero_stage == 3 || (s.zero_stage == 2 && practice.fully_sharded()));
    const double spread = layerwise ? t.spread_layerwise : t.spread;
    return devices > t.spread_from ? 1 + spread * (expected_maximum(devices) - expected_maximum(t.spread_from)) : 1;
}

// Padded capacities, DeepEP's and HybridEP's permutations and kernels for all experts at once need no padded copies.
bool pads_experts(const Scenario& s, const Practice& practice) {
    return practice.pads_expert_rows && host_waits_for_counts(s) && s.runtime.token_dispatcher == TokenDispatcher::alltoall;
}

// Bytes of a rank's larger tensors, in the order of its layers, where each belongs to one rank. (Tensor-parallel gathers of activations
// would look like those of parameters: the software that has owners had none.)
std::vector<std::int64_t> owned_tensors(const Scenario& s, const Practice& practice) {
    if (!practice.tensors_have_owners || s.strategy.zero_stage != 1 || s.strategy.sequence_parallel) return {};
    const Model& m = s.model;
    const std::int64_t h = m.hidden_size, f = m.ffn_size, d = m.head_dim, tp = s.strategy.tensor_parallel;
    std::vector<std::int64_t> out{m.vocab_size * h};
    for (int layer = 0; layer < m.layers; ++layer) {
        out.insert(out.end(), {h * (m.attention_heads + 2 * m.kv_heads) * d, m.attention_heads * d * h});
        out.insert(out.end(), m.gated() ? 3 : 2, h * f);
    }
    if (!m.tied_embeddings) out.push_back(m.vocab_size * h);
    for (std::int64_t& elements : out) elements = 2 * elements / tp;
    return out;
}

LossSteps loss_steps_of(const Scenario& s, const Practice& p) {
    const bool over_logits = p.loss_in_place && p.compiles_loss && s.runtime.fused_loss && !s.runtime.compiled_loss,
               wide = is_wide(s.training.precision);
    const LossKernels eager = p.autocast                               ? LossKernels::autocast
                              : p.narrow_loss                          ? LossKernels::narrow
                              : over_logits && !wide                   ? LossKernels::over_logits
                              : p.torch_loss && !divides_vocabulary(s) ? LossKernels::whole
                                                                       : LossKernels::divided;
    const bool whole = eager == LossKernels::whole, compiled = s.strategy.fused;
    return {eager, (whole && !wide) || (eager == LossKernels::autocast && !compiled),
            whole && p.hands_logits_out && s.runtime.loss != LossKind::chunked, compiled};
}

// Of software that calls PyTorch's own layers and does not compile them, where PyTorch's kernels are known.
bool calls_torch_norms(const Scenario& s, const Practice& p, const PointwiseTable& t) {
    return !s.strategy.fused && (p.looks_types_up || p.rotates_halves) && t.strided.elements.contains(s.cluster.device.architecture);
}

// Each expert's share of the rows on the fullest rank.
void note_loads(std::vector<std::vector<double>>& lists, std::vector<int>& by_layer, const Scenario& s) {
    if (!s.model.moe || s.model.moe->pads() || s.model.moe->even()) return;
    const int mixtures = static_cast<int>(std::max<std::size_t>(1, s.model.moe->imbalance_loads.size()));
    for (int i = 0; i < mixtures; ++i) lists.push_back(shares_of_fullest(*s.model.moe, s.strategy.expert_parallel, i));
    if (mixtures == 1) return;
    for (int layer = 0; layer < s.model.layers + s.model.mtp_layers; ++layer) by_layer.push_back(mixture_layers(s.model, layer));
}

} // namespace

CostModel::CostModel(const Scenario& scenario, const Fabric& fabric) : data_(std::make_unique<Data>()) {
    Data& d = *data_;
    const Cluster& c = scenario.cluster;
    d.device = c.device;
    d.strategy = scenario.strategy;
    d.runtime = scenario.runtime;
    d.training = scenario.training;
    d.practice = practice_of(scenario);
    d.nodes = fabric.nodes();
    d.devices_per_node = std::max(1, c.devices_per_node);
    d.fabric = &fabric;
    if (scenario.model.moe) d.apart = hosts_apart(c, scenario.runtime);
    if (scenario.model.moe) d.tokens = tokens_of(c.device, scenario.runtime);
    d.slowest_link = 1e30;
    fabric.links().each_run([&](const Link& l, LinkId) {
        if (l.kind != LinkKind::copy) d.slowest_link = std::min(d.slowest_link, l.capacity.value * 1e-6);
    });
    d.kernels = kernel_tables(c.device, d.practice.releases, scenario.constants.get());
    d.pointwise = pointwise_table();
    d.host_speed = c.host.speed;
    take_host_speed(d.pointwise, d.host_speed);
    if (d.practice.collectives_on_lists && d.strategy.zero_stage == 3) d.list_copy_us = d.pointwise.list_copy;
    d.owned = owned_tensors(scenario, d.practice);
    d.slowest = slowest_of(static_cast<double>(fabric.devices()), d.pointwise, d.strategy, d.practice);
    d.quantizer = quantizer(d.pointwise.quantize, d.runtime.fp8_recipe, c.device.architecture, d.practice, d.strategy.fused);
    const auto& of_architecture = d.practice.translated_casts ? d.pointwise.quantize.translated : d.pointwise.quantize.ported;
    const auto ported = of_architecture.find(c.device.architecture);
    if (d.practice.ported_casts && ported != of_architecture.end())
        d.pointwise.quantize.phi = ported->second;
    else if (d.practice.early_casts && d.pointwise.quantize.has_earlier(d.runtime.fp8_recipe))
        d.pointwise.quantize.phi /= d.pointwise.quantize.earlier;
    d.modules_overlap = d.strategy.overlap.tensor_parallel && d.strategy.tensor_parallel > 1 && d.practice.issues_within_linears;
    d.hidden = scenario.model.hidden_size;
    d.joined_below = stage3::sizes_of(scenario).prefetch_bucket_size;
    if (scenario.model.trainable.lora) d.adapter_rank = scenario.model.trainable.rank;
    d.ragged_heads = scenario.model.head_dim % 8 != 0;
    d.quantizer.pads_experts = pads_experts(scenario, d.practice);
    d.autocast = d.practice.autocast;
    d.experts = scenario.model.moe.has_value();
    d.looped = d.experts && d.practice.loops_over_experts ? scenario.model.moe->experts : 0;
    d.stacked = d.looped > 0 && scenario.model.moe->stacked_weights;
    d.regions = scenario.runtime.cuda_graphs && host_waits_for_counts(scenario);
    // (Models with an activation of one linear, GPT-2 and GPT-NeoX, have one for queries, keys and values in all software.)
    if (d.practice.separate_linears && scenario.model.gated())
        d.keys_share = static_cast<double>(scenario.model.kv_heads) / (scenario.model.attention_heads + 2.0 * scenario.model.kv_heads);
    // A sequence's tokens, or a rank's, against the slots that these have with all experts.
    if (d.experts && scenario.model.moe->capacity_factor > 0 && d.practice.masked_dispatch) {
        const Training& t = scenario.training;
        const std::int64_t parts = d.practice.keeps_masks && d.strategy.sequence_parallel ? d.strategy.tensor_parallel : 1;
        d.dispatch_depth = t.sequence_length / d.strategy.context_parallel * (d.practice.keeps_masks ? t.micro_batch_size : 1) / parts;
    }
    // (A padded capacity gives each expert rows of its own.)
    d.shared_tiles = d.experts && !scenario.model.moe->pads() && d.kernels.systolic.group_rows > 0;
    note_loads(d.expert_loads, d.load_of, scenario);
    d.engine_norms = d.practice.engine_norms;
    d.loss_steps = loss_steps_of(scenario, d.practice);
    if (d.practice.foreach_temporaries) d.pointwise.optimizer["adam"][0] = d.pointwise.foreach_adam * d.pointwise.optimizer["adam"][1];
    d.torch_norms = calls_torch_norms(scenario, d.practice, d.pointwise);
    d.joins_gradients = !d.strategy.fused && !scenario.model.gated() && (d.practice.looks_types_up || d.practice.rotates_halves);
    d.optimizer_apart = d.training.precision == DType::fp16 && d.training.gradient_dtype == DType::fp16 && d.training.master_weights &&
                        d.practice.copies_half_gradients;
    d.gated_halves = scenario.model.gated() && !d.runtime.fused_activation && d.practice.megatrons_layers;
    d.head_norms = scenario.model.attention.qk_norm;
    if (d.gated_halves)
        for (const char* gated : {"swiglu", "geglu"}) d.pointwise.ops[gated] = d.pointwise.ops.at("gated-halves");
    d.custom_graph = c.graph.has_value();
    d.sharp = c.inter.sharp;
    d.intra_latency = c.intra.latency;
    d.inter_latency = c.inter.latency;
    Cluster inside; // a custom graph says with its edges what a device can send
    inside.device = c.device;
    inside.intra = c.intra;
    if (d.custom_graph) inside.intra.bandwidth = fabric.scale_up_bandwidth(0);
    d.links = link_table(inside);
    d.domain = domain_of(c);
    if (d.nodes > 1) d.between = fabric_table(c, scenario.constants.get()); // a torus has one, too: unused
    d.multicast = d.links.has_nvls && c.intra.kind == IntraKind::nvswitch &&
                  (c.device.architecture == "hopper" || c.device.architecture == "blackwell");
    d.bandwidth = c.device.memory_bandwidth.value * 1e-6;
    for (const char* p : {"bf16", "fp16", "fp32"})
        if (d.peak_of(p) > 0) {
            d.peak_16 = d.peak_of(p);
            break;
        }
    if (c.device.power_limit_w > 0 && c.device.power_limit_w < c.device.power_w)
        d.power = std::sqrt(c.device.power_limit_w / c.device.power_w);
    auto known = [](double mine, double otherwise) { return mine > 0 ? mine * 1e-6 : otherwise; };
    const double host = memory_rate(c.host, {d.pointwise.host_memory * 1e6}).value * 1e-6;
    d.host_memory = host * d.pointwise.host_share / d.devices_per_node;
    d.pcie = std::min(known(c.host.pcie_bandwidth.value, d.pointwise.pcie) * d.pointwise.pcie_share, host / d.devices_per_node);
    if (c.intra.tree.devices_per_switch > 0 || c.graph) d.pcie = std::min(d.pcie, copy_rate(fabric, d.pointwise.pcie_share));
    d.host_adam = c.host.adam_rate * 1e-6 / d.devices_per_node;
    const double disk = known(c.host.nvme_bandwidth.value, d.pointwise.nvme);
    d.nvme_read = known(c.host.nvme_read.value, disk) / d.devices_per_node;
    d.nvme_write = known(c.host.nvme_write.value, disk) / d.devices_per_node;
    if (c.others.empty()) return;
    for (int node = 0; node < c.nodes; ++node) d.kind_of_node.push_back(c.kind_of_node(node));
    Scenario alike = scenario;
    for (int kind = 0; kind < c.kinds_of_nodes(); ++kind) {
        alike.cluster = as_of_kind(c, kind);
        d.kinds.emplace_back(alike, fabric);
    }
}

CostModel::~CostModel() = default;
CostModel::CostModel(CostModel&&) noexcept = default;

Interference CostModel::interference() const { return {data_->pointwise.compute_slowdown, data_->pointwise.communication_slowdown}; }

Time CostModel::exchange_sync() const {
    const bool apart = data_->device.architecture != "cpu"; // from its host
    return Time::microseconds(apart && !data_->strategy.overlap.pipeline ? data_->pointwise.exchange_sync : 0);
}

bool CostModel::host_only_issues() const {
    const Data& d = *data_;
    const bool exchanges = d.strategy.pipeline_parallel > 1 && exchange_sync().ps > 0, loops = d.experts && d.practice.loops_over_experts;
    return !exchanges && !loops && d.list_copy_us == 0 && d.runtime.batch_us <= 0;
}

double CostModel::Data::launch_us() const {
    // The software's default launch time says nothing about graphs or about launches that wait.
    const double own = device.launch_us >= 0 ? device.launch_us : pointwise.launch_eager;
    const double eager = runtime.launch_us >= 0 ? runtime.launch_us : own;
    return runtime.launch_blocking ? std::max(eager, pointwise.launch_blocking) : eager;
}

Time CostModel::launch_eager() const { return Time::microseconds(data_->launch_us()); }

Time CostModel::launch() const {
    const Time eager = launch_eager();
    return data_->runtime.cuda_graphs && !data_->runtime.launch_blocking
               ? std::min(eager, Time::microseconds(data_->pointwise.launch_graph))
               : eager;
}

namespace {

void add_attention(const KernelTables& tables, AttentionKernel fused, bool low, std::vector<Provenance>& out) {
    const Source& source = tables.attention.at(kernel_name(fused)).source;
    out.push_back({std::string("attention ") + kernel_name(fused), source.kind, source.text});
    if (low)
        out.push_back(
            {"attention in 8 bits", "assumed",
             "as near to the 8-bit peak as in 16 bits to the 16-bit one: its softmax, which stays in 32 bits, is not charged apart"});
}

// Kernels of PyTorch's own operators. apart: none are compiled into one.
void add_own_operators(const PointwiseTable& t, const std::string& architecture, bool looks_up, bool apart, bool norms,
                       std::vector<Provenance>& out) {
    const auto line = [&](bool there, const char* what, const Source& s) {
        if (there) out.push_back({what, s.kind, s.text});
    };
    line((looks_up || apart) && t.unlike.elements.contains(architecture), "operands of unlike types", t.unlike.source);
    line(apart && t.strided.elements.contains(architecture), "strided operands", t.strided.source);
    line(norms, "PyTorch's norms", t.torch_norms.source);
    line(apart, "sums of columns", t.column_sums_source);
}

} // namespace

std::vector<Provenance> CostModel::provenance() const {
    const Data& d = *data_;
    std::vector<Provenance> out;
    auto line = [&](const std::string& what, const Source& s) { out.push_back({what, s.kind, s.text}); };
    if (!d.device.kernels.empty())
        out.push_back(
            {"kernels", "measured",
             fmt::format("laws of {} kinds of op given with the device; what follows serves the others", d.device.kernels.size())});
    const GemmRate r = d.rate(d.training.precision);
    line("gemm " + r.name, r.table->source);
    if (r.name != name(d.training.precision))
        out.push_back({fmt::format("gemm {}", name(d.training.precision)), "assumed",
                       fmt::format("{} has no units of its own for it, timed as {}", d.device.name, r.name)});
    if (d.kernels.unaligned.batched < 1 && d.ragged_heads && !d.strategy.flash_attention)
        line("products of rows that are no whole vectors", d.kernels.unaligned.source);
    if (d.strategy.flash_attention && d.runtime.attention_kernel != AttentionKernel::unfused)
        add_attention(d.kernels, d.runtime.attention_kernel, d.practice.low_attention, out);
    if (!d.kernels.systolic.source.kind.empty()) line("arrays, lanes, rows of experts", d.kernels.systolic.source);
    line("sustained clock", d.kernels.sustained_source);
    line("clock of long products", d.pointwise.throttle_source);
    if (d.slowest > 1) line("devices that differ", d.pointwise.spread_source);
    line("memory-bound kernels", d.kernels.memory_source);
    line("memory-bound traffic", d.pointwise.source);
    add_own_operators(d.pointwise, d.device.architecture, d.practice.looks_types_up,
                      !d.strategy.fused && d.practice.sharding != Sharding::compiler, d.torch_norms, out);
    if (d.gated_halves) line("gated activations in steps", d.pointwise.gated_halves_source);
    if (d.engine_norms && d.head_norms) line("norms of heads", d.pointwise.head_norms_source);
    if (r.name.starts_with("fp8") || r.name == "mxfp8" || r.name == "nvfp4") line("quantising", d.pointwise.quantize.source);
    line("loss", d.pointwise.loss_source);
    line("embedding", d.pointwise.embedding_source);
    line("optimizer", d.pointwise.optimizer_source);
    line("launch", d.runtime.launch_blocking ? d.pointwise.blocking_source : d.pointwise.launch_source);
    if (d.runtime.fused_experts) line("epilogues of experts' products", d.pointwise.epilogue_source);
    if (const double speed = d.host_speed; speed != 1)
        out.push_back(
            {"host's speed", "given", fmt::format("cluster.host.speed = {:g}: the times of launches, calls and hooks over it", speed)});
    if (d.makes_calls()) line("calls", d.pointwise.calls.source);
    if (d.runs_hooks()) line("hooks", d.pointwise.calls.hook.source);
    if (d.regions && d.makes_calls()) line("regions of graphs", d.pointwise.calls.region_source);
    if (d.tokens && d.strategy.expert_parallel * d.strategy.expert_tensor_parallel > 1) {
        line("processors that send tokens", d.tokens->source);
        if (d.nodes > 1 || d.apart) line("tokens handed on inside nodes", d.tokens->between_source);
        line("start of a dispatch", d.tokens->first_source);
    }
    if (d.experts && d.practice.expert_rows != ExpertRows::kernels) line("rows by index", d.pointwise.by_index_source);
    if (d.experts && d.practice.expert_rows != ExpertRows::kernels && d.kernels.torch_groups > 0)
        line("products of experts in one kernel", d.kernels.torch_groups_source);
    if (d.experts && d.practice.loops_over_experts) line("loop over experts", d.pointwise.expert_loop_source);
    if (d.strategy.pipeline_parallel > 1 && exchange_sync().ps > 0) line("exchanges", d.pointwise.exchange_source);
    if (d.list_copy_us > 0) line("collectives on lists", d.pointwise.list_source);
    if (!d.owned.empty())
        out.push_back({"owners' turns", "assumed",
                       "a chunk of 512 KiB (NCCL's 4 MiB buffer in 8 steps) passes every member before the next owner's does "
                       "(InternLM's training at 8 to 1,024 A100, fitted to nothing: 7 % off at 1,024 with it, 40 % without)"});
    if (d.strategy.offload.optimizer != Tier::none || d.strategy.offload.activations != Tier::none) {
        if (d.host_adam > 0) out.push_back({"host's optimizer", "given", "cluster.host.adam_gparams_per_s"});
        line("host", d.pointwise.host_source);
    }
    line("interference", d.pointwise.interference_source);
    if (d.fabric->devices() > d.nodes) line("links " + d.links.name, d.links.source);
    if (d.nodes > 1) line("fabric " + d.between.name, d.between.source);
    for (std::size_t kind = 1; kind < d.kinds.size(); ++kind)
        for (Provenance p : d.kinds[kind].provenance()) {
            if (std::find(out.begin(), out.end(), p) != out.end()) continue;
            p.what = d.kinds[kind].data_->device.name + ": " + p.what;
            out.push_back(std::move(p));
        }
    return out;
}

} // namespace orrery
