#include "sim/memory/reserve.hpp"

#include "sim/memory/graphs.hpp"
#include "sim/plan/lowering.hpp"
#include "sim/scenario/practice.hpp"
#include "topology/catalog.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <numeric>
#include <set>

namespace orrery {

std::span<const EmbeddedFile> reserve_files(); // generated from scenarios/calibration/memory

namespace {

using Json = nlohmann::json;

const Json& figures() {
    static const Json parsed = Json::parse(reserve_files().front().text);
    return parsed;
}

double of(const Json& table, const std::string& key) {
    return table.contains(key) ? table.at(key).get<double>() : table.at("default").get<double>();
}

// The ranks of a communicator that one rank of the stage belongs to, and whether they are on more than one node.
struct Group {
    std::vector<int> ranks;
    bool across = false;
};

int first_rank(const Plan& plan, int stage) {
    Coordinates c{};
    c[Axis::pp] = stage;
    return plan.mesh.rank_of(c);
}

Group group_of(const Plan& plan, CommId comm, int rank, int devices_per_node) {
    if (const int all = plan.mesh.ranks(); size(plan, comm) == all) { // in order: whose buffers they share is all that is asked
        Group g{std::vector<int>(static_cast<std::size_t>(all)), all > devices_per_node};
        std::iota(g.ranks.begin(), g.ranks.end(), 0);
        return g;
    }
    Group g{members(plan, comm, rank), false};
    for (int r : g.ranks) g.across = g.across || r / devices_per_node != g.ranks.front() / devices_per_node;
    return g;
}

std::vector<std::int32_t> blocks_of(const Program& program) {
    std::vector<char> runs;
    for (const Action& a : program.actions) {
        const auto block = static_cast<std::size_t>(a.block);
        if (block >= runs.size()) runs.resize(block + 1);
        runs[block] = 1;
    }
    std::vector<std::int32_t> blocks;
    for (std::size_t b = 0; b < runs.size(); ++b)
        if (runs[b]) blocks.push_back(static_cast<std::int32_t>(b));
    return blocks;
}

// The communicators of the stage's program: trainers make one NCCL communicator per set of ranks, whatever it is used for.
struct Uses {
    std::set<CommId> collectives, exchanges;
};
Uses uses_of(const Plan& plan, const Program& program) {
    Uses uses;
    for (std::int32_t b : blocks_of(program)) {
        for (const Op& op : plan.blocks[b].ops) {
            if (const auto* c = std::get_if<Collective>(&op.work)) uses.collectives.insert(c->comm);
            if (const auto* x = std::get_if<Exchange>(&op.work)) {
                for (const Transfer& t : x->transfers) uses.exchanges.insert(t.comm);
            }
        }
    }
    return uses;
}

double collective_mib(const Json& f, std::size_t ranks, bool across, const Cluster& cluster) {
    double channels = of(f.at("channels"), cluster.device.architecture);
    if (across) channels = std::min(channels, f.at("channels_per_nic").get<double>() * cluster.inter.nics_per_node);
    if (channels <= 0) return 0;
    const char* per_channel = ranks == 2 ? "mib_per_channel_pair" : "mib_per_channel";
    return f.at("fixed_mib").get<double>() + channels * f.at(per_channel).get<double>();
}

// Whether a communicator has the same ranks whatever the replicas and stages are: those of its axes lie next to each other. Experts lie on
// the ranks of replicas too, which stages part where they come first.
bool innermost(const Plan& plan, const Communicator& c) {
    constexpr AxisMask replicas = mask(Axis::dp) | mask(Axis::dpr) | mask(Axis::dpw), outer = replicas | mask(Axis::pp);
    if ((c.axes & outer) != 0) return false;
    AxisMask met = 0; // outer axes
    for (const Axis axis : plan.mesh.order) {
        if ((mask(axis) & outer) == 0 && met != 0) return false;
        if ((mask(axis) & replicas) != 0 && (met & mask(Axis::pp)) != 0 && c.expert) return false;
        met |= mask(axis) & outer;
    }
    return true;
}

// MiB of process groups of the framework's that have the ranks of others.
double further_groups(const Plan& plan, const Scenario& scenario, const Program& program, int devices_per_node) {
    const Practice practice = practice_of(scenario);
    const Json& f = figures().at("communicator");
    double mib = 0;
    const auto add = [&](bool there, std::initializer_list<Axis> axes) {
        std::size_t ranks = 1;
        int first = first_rank(plan, program.stage), beyond = 0; // how far the group's last rank is from its first
        for (const Axis a : axes) {
            ranks *= static_cast<std::size_t>(plan.mesh.extent(a));
            beyond += (plan.mesh.extent(a) - 1) * plan.mesh.stride(a);
            if (a == Axis::pp) first -= program.stage * plan.mesh.stride(a);
        }
        const bool across = first / devices_per_node != (first + beyond) / devices_per_node;
        if (there && ranks > 1) mib += collective_mib(f, ranks, across, scenario.cluster);
    };
    add(practice.world_communicator, {Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::dpr, Axis::dpw, Axis::pp});
    add(practice.norm_communicator && plan.stages == 1, {Axis::tp}); // several stages have one for the norm alone
    add(practice.loss_communicator, {Axis::dp, Axis::dpr, Axis::dpw});
    return mib;
}

// of_any: of any plan that has more replicas and stages, wherever these lie.
Bytes communication(const Plan& plan, const Scenario& scenario, const Program& program, bool of_any) {
    const Json& f = figures();
    const auto buffers = [&](const Group& g, CommId c) {
        const auto mib = [&](bool across) { return collective_mib(f.at("communicator"), g.ranks.size(), across, scenario.cluster); };
        if (!of_any || scenario.cluster.nodes == 1 || innermost(plan, plan.communicators[c])) return mib(g.across);
        return std::min(mib(true), mib(false));
    };
    const int rank = first_rank(plan, program.stage);
    const int per_node = std::max(1, scenario.cluster.devices_per_node);
    const Uses uses = uses_of(plan, program);
    double mib = 0;
    std::set<std::vector<int>> seen;
    const bool world_sums =
        !of_any && practice_of(scenario).world_communicator && scenario.strategy.zero_stage > 0 && scenario.strategy.data_parallel > 1;
    for (CommId c : uses.collectives) {
        if (world_sums && plan.communicators[c].name == "norm") continue; // in the communicator of all ranks
        Group g = group_of(plan, c, rank, per_node);
        if (g.ranks.size() < 2) continue;
        const double own = buffers(g, c);
        if (!std::is_sorted(g.ranks.begin(), g.ranks.end())) std::sort(g.ranks.begin(), g.ranks.end());
        if (seen.insert(std::move(g.ranks)).second) mib += own;
    }
    if (!of_any) mib += further_groups(plan, scenario, program, per_node);
    std::set<int> peers;
    for (CommId c : uses.exchanges) {
        for (int r : group_of(plan, c, rank, per_node).ranks) {
            if (r != rank) peers.insert(r);
        }
    }
    bool shared = false; // the buffer of the peers across nodes
    for (int r : peers) {
        const bool across = r / per_node != rank / per_node;
        if (across && shared) continue;
        shared = shared || across;
        mib += of(f.at("peer").at(across ? "mib_across_nodes" : "mib_in_node"), scenario.cluster.device.architecture);
    }
    return Bytes::mebibytes(mib);
}

// Elements of the parameters that the program updates on the device. (A layer-wise optimizer has a pass ahead, for norms of tensors.)
std::int64_t stepped(const Plan& plan, const Program& program) {
    std::int64_t sum = 0;
    for (std::int32_t b : blocks_of(program))
        for (const Op& op : plan.blocks[b].ops)
            if (const auto* step = std::get_if<OptimizerStep>(&op.work);
                step && !step->on_host && (step->part == OptimizerStep::Part::whole || step->part == OptimizerStep::Part::apply))
                sum += step->elements;
    return sum;
}

// Trained parameters that a rank of the stage holds throughout, in their own dtype: those with a gradient on the stage.
Bytes trained_of(const Plan& plan, int stage) {
    std::set<TensorId> trained;
    for (const Buffer& b : plan.buffers)
        if (b.stage == stage && b.kind == MemoryKind::gradients && b.tensor >= 0) trained.insert(b.tensor);
    const auto is_trained = [&](const Buffer& b) {
        if (b.tensor >= 0 || b.bucket < 0) return trained.contains(b.tensor);
        return std::ranges::any_of(plan.buckets[b.bucket].tensors, [&](const BucketTensor& t) { return trained.contains(t.tensor); });
    };
    Bytes sum;
    for (const Buffer& b : plan.buffers)
        if (b.stage == stage && b.kind == MemoryKind::parameters && b.scope == Scope::run && b.storage < 0 && is_trained(b)) sum += b.bytes;
    return sum;
}

// Gradients of the stage, in their own dtype.
Bytes gradients_of(const Plan& plan, int stage) {
    Bytes sum;
    for (const Buffer& b : plan.buffers)
        if (b.stage == stage && b.kind == MemoryKind::gradients && b.storage < 0) sum += b.bytes;
    return sum;
}

// The buffer that is kept for the scores of unfused attention: one, as large as a layer's.
Bytes kept_scores(const Scenario& s, const Practice& practice) {
    if (!practice.keeps_scores || s.runtime.attention_kernel != AttentionKernel::unfused) return {};
    const std::int64_t rows = s.training.micro_batch_size * s.training.sequence_length / s.strategy.context_parallel;
    return Bytes{2 * rows * s.training.sequence_length * s.model.attention_heads / s.strategy.tensor_parallel};
}

// Logits of the microbatches whose loss has been taken, where the last stage keeps them, in the dtype the model gives them in. All but the
// last one's, which the plan has.
Bytes kept_outputs(const Plan& plan, const Scenario& s, const Practice& practice, const Program& program) {
    if (!practice.keeps_outputs) return {};
    const double element = bytes_per_element(activation_dtype(s));
    const std::int64_t kept = plan.microbatches / plan.steps / plan.directions - 1;
    for (std::int32_t b : blocks_of(program))
        for (const Op& op : plan.blocks[b].ops)
            if (const auto* loss = std::get_if<CrossEntropy>(&op.work); loss && loss->part != CrossEntropy::Part::gradient) {
                const Buffer& logits = plan.buffers[op.in.front()]; // of them, or of a wider copy of as many elements
                return Bytes{std::llround(static_cast<double>(kept * logits.bytes.count) * element / bytes_per_element(logits.dtype))};
            }
    return {};
}

// The streams on which experts' products run side by side; an executor that plans its memory has no such streams.
Bytes grouped_workspace(const Scenario& s, const Practice& practice) {
    const Json& f = figures().at("grouped_workspace");
    return practice.grouped_workspaces && s.model.moe && !s.runtime.fused_experts && !s.runtime.plan_allocator
               ? Bytes::mebibytes(of(f.at("mib"), s.cluster.device.architecture))
               : Bytes{};
}

// Where weight gradients are added to the main gradient inside their products, autograd is handed a placeholder instead, one for each shape
// of weight, which is kept.
Bytes placeholders(const Plan& plan, const Scenario& s, const Practice& practice, const Program& program) {
    if (!practice.gradient_placeholders || !s.runtime.fused_weight_gradient_accumulation) return {};
    std::set<std::pair<std::int64_t, std::int64_t>> shapes;
    for (std::int32_t b : blocks_of(program))
        for (const Op& op : plan.blocks[b].ops)
            if (const auto* w = std::get_if<Linear>(&op.work); w && w->direction == Direction::weight_gradient && w->accumulate)
                shapes.insert({w->n, w->k});
    Bytes sum;
    for (const auto& [n, k] : shapes) sum += Bytes{2 * n * k};
    return sum;
}

// Bytes of a weight that products of 8 or 4 bits read, in all its layouts. With one scale a tensor it is turned where products read both
// operands along what they sum over alone (Hopper and Ada; Transformer Engine's is_non_tn_fp8_gemm_supported). Scales of blocks run along
// rows and columns, so that it is there twice (Float8BlockwiseQTensor, MXFP8Tensor, NVFP4Tensor: rowwise and columnwise data).
double low_bytes(DType dtype, const Scenario& s) {
    const ScalingRecipe recipe = s.runtime.fp8_recipe;
    const bool by_tensor = dtype == DType::fp8 && (recipe == ScalingRecipe::delayed || recipe == ScalingRecipe::current);
    const std::string& architecture = s.cluster.device.architecture;
    if (by_tensor) return architecture == "hopper" || architecture == "ada" ? 2 : 1;
    return 2 * bytes_per_element(dtype == DType::fp8 && recipe == ScalingRecipe::mxfp8 ? DType::mxfp8 : dtype);
}

// Low-precision copies of weights: beside 16-bit parameters the whole copy, beside 8-bit parameters only what the plan's buffers lack.
Bytes low_weights(const Plan& plan, const Scenario& s, const Practice& practice, const Program& program) {
    if (!(practice.keeps_low_weights || practice.low_parameters) || s.runtime.plan_allocator) return {};
    std::map<BufferId, DType> weights;
    for (std::int32_t b : blocks_of(program))
        for (const Op& op : plan.blocks[b].ops)
            if (const auto* w = std::get_if<Linear>(&op.work); w && w->direction == Direction::forward && bytes_per_element(w->dtype) < 2)
                for (const BufferId in : op.in)
                    if (plan.buffers[in].kind == MemoryKind::parameters) weights[in] = w->dtype;
    double sum = 0;
    for (const auto& [weight, dtype] : weights) {
        const Buffer& buffer = plan.buffers[weight];
        const double held = bytes_per_element(buffer.dtype), more = low_bytes(dtype, s) - (practice.low_parameters ? held : 0);
        sum += std::max(0.0, more) * static_cast<double>(buffer.bytes.count) / held;
    }
    return Bytes{std::llround(sum)};
}

// Transformer Engine makes a buffer of all tokens of a tensor-parallel group for each of ten gathers and reductions of a layer; six have 8
// bits where linears have.
Bytes user_buffers(const Scenario& s, const Practice& practice) {
    if (!practice.user_buffers || s.runtime.plan_allocator) return {};
    const Json& f = figures().at("user_buffers");
    const std::int64_t rows = s.training.micro_batch_size * s.training.sequence_length / s.strategy.context_parallel;
    const bool eight = s.training.precision == DType::fp8 || s.training.precision == DType::mxfp8;
    const int low = eight ? f.at("low").get<int>() : 0, all = f.at("buffers").get<int>();
    const double element = bytes_per_element(activation_dtype(s));
    return Bytes{std::llround(static_cast<double>(rows * s.model.hidden_size) * (low + (all - low) * element))};
}

// Buffers of DeepSpeed's reductions. BF16_Optimizer's is freed after each reduction: only the allocator keeps it.
ReserveItem reduce_buckets(const Scenario& s, const Practice& practice) {
    return {"reduce buckets", s.strategy.bucket_bytes * practice.reduce_buffers,
            figures().at("reduce_buckets").at("source").get<std::string>(),
            practice.keeps_narrow_gradients ? MemoryMeasure::reserved : MemoryMeasure::allocated};
}

// Bytes an element: gradients as they are, and again in fp32 where masters are wider.
std::int64_t flattened_bytes(const Training& t) {
    const auto own = static_cast<std::int64_t>(bytes_per_element(t.gradient_dtype));
    return own + (t.master_weights && own < 4 ? 4 : 0);
}

// The source of an item's figures; some items have one for each vendor.
std::string source_of(const char* item, const std::string& vendor) {
    const Json& text = figures().at(item).at("source");
    return (text.is_string() ? text : text.at(text.contains(vendor) ? vendor : "default")).get<std::string>();
}

} // namespace

std::vector<ReserveItem> reserve(const Plan& plan, const Scenario& scenario, const Program& program) {
    if (scenario.runtime.reserved_gb >= 0) {
        return {{"runtime.reserved_gb", Bytes::gigabytes(scenario.runtime.reserved_gb), "the scenario", MemoryMeasure::device}};
    }
    const Json& f = figures();
    const Device& device = scenario.cluster.device;
    const Practice practice = practice_of(scenario);
    const auto source = [&](const char* item) { return source_of(item, device.vendor); };
    const Bytes context = Bytes::mebibytes(of(f.at("context").at(practice.lazy_loading ? "mib_lazy" : "mib_eager"), device.vendor));
    std::vector<ReserveItem> items;
    items.push_back({"matmul workspace", Bytes::mebibytes(of(f.at("cublas_workspace").at("mib"), device.architecture)),
                     source("cublas_workspace"), MemoryMeasure::allocated});
    items.push_back(
        {"experts' matmul workspaces", grouped_workspace(scenario, practice), source("grouped_workspace"), MemoryMeasure::allocated});
    if (practice.copies_to_buckets && !scenario.runtime.plan_allocator)
        items.push_back({"gradient buckets", gradients_of(plan, program.stage), source("buckets"), MemoryMeasure::allocated});
    items.push_back(
        {"weights in low precision", low_weights(plan, scenario, practice, program), source("low_weights"), MemoryMeasure::allocated});
    items.push_back({"kept outputs", kept_outputs(plan, scenario, practice, program), source("kept_outputs"), MemoryMeasure::allocated});
    items.push_back({"kept scores", kept_scores(scenario, practice), source("kept_scores"), MemoryMeasure::allocated});
    items.push_back(
        {"gradient placeholders", placeholders(plan, scenario, practice, program), source("placeholders"), MemoryMeasure::allocated});
    if (scenario.runtime.expandable_segments)
        items.push_back({"allocator pages", Bytes::mebibytes(f.at("expandable_segments").at("mib").get<double>()),
                         source("expandable_segments"), MemoryMeasure::reserved, true});
    if (!scenario.runtime.plan_allocator) items.push_back(reduce_buckets(scenario, practice));
    if (practice.keeps_narrow_gradients) {
        const Bytes trained = trained_of(plan, program.stage);
        items.push_back({"16-bit gradients", trained, source("narrow_gradients"), MemoryMeasure::allocated});
        items.push_back({"flat copies", trained, source("narrow_gradients"), MemoryMeasure::reserved});
    }
    if (practice.flat_step_gradients && scenario.strategy.offload.optimizer != Tier::none) // elsewhere the plan has them
        items.push_back({"the step's gradients", Bytes{flattened_bytes(scenario.training) * stepped(plan, program)},
                         source("step_gradients"), MemoryMeasure::reserved});
    items.push_back({"graphs' pools", scenario.runtime.plan_allocator ? Bytes{} : graph_pools(plan, practice, program),
                     source("graph_pools"), MemoryMeasure::reserved});
    items.push_back({"user buffers", user_buffers(scenario, practice), source("user_buffers"), MemoryMeasure::device});
    items.push_back({"communicator buffers", communication(plan, scenario, program, false), source("communicator") + "; " + source("peer"),
                     MemoryMeasure::device});
    items.push_back({"device context", context, source("context"), MemoryMeasure::device});
    std::erase_if(items, [](const ReserveItem& i) { return i.bytes.count == 0; });
    return items;
}

ReserveItem early_cache(const Scenario& scenario, Bytes held) {
    const Json& f = figures().at("early_allocator");
    const double share = practice_of(scenario).early_allocator && !scenario.runtime.plan_allocator ? f.at("share").get<double>() : 0;
    return {"early allocator", Bytes{std::llround(share * static_cast<double>(held.count))}, f.at("source").get<std::string>(),
            MemoryMeasure::reserved};
}

std::string cache_source() { return source_of("caching_allocator", "default"); }

Bytes least_communicator_buffers(const Plan& plan, const Scenario& scenario, const Program& program) {
    return communication(plan, scenario, program, true);
}

Bytes communicator_buffers(std::span<const int> ranks, const Cluster& cluster) {
    const int per_node = std::max(1, cluster.devices_per_node);
    const bool across = std::ranges::any_of(ranks, [&](int r) { return r / per_node != ranks.front() / per_node; });
    return Bytes::mebibytes(collective_mib(figures().at("communicator"), ranks.size(), across, cluster));
}

} // namespace orrery
