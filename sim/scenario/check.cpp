// Combinations that cannot be. Each rule names the fields it needs; where one of them is already a problem the rule is silent.
#include "sim/scenario/resolve.hpp"
#include "sim/scenario/whole_run_text.hpp"

#include "sim/scenario/abilities.hpp"
#include "sim/scenario/frameworks.hpp"
#include "sim/scenario/layers.hpp"
#include "sim/scenario/perturb.hpp"
#include "sim/scenario/practice.hpp"
#include "sim/scenario/suggest.hpp"
#include "sim/schedules/schedule.hpp"

#include <algorithm>
#include <numeric>

namespace orrery {
namespace {

// "A = 6 must divide B = 64: try 1, 2, 4, 8". `also`: the other numbers the degree must divide too, so that what is offered works.
void must_divide(Reading& reading, const char* pointer, std::int64_t degree, const char* what, std::int64_t number, std::int64_t also,
                 const std::string& other = {}) {
    if (degree > 0 && number % degree == 0) return;
    reading.problem(pointer, eq(dotted(pointer).c_str(), degree) + " must divide " + eq(what, number) + ": try " +
                                 join(common_divisors(number, also)) + other);
}

void check_world(Reading& reading) {
    if (!sound(reading, {"/cluster", "/strategy/tensor_parallel", "/strategy/pipeline_parallel", "/strategy/context_parallel",
                         "/strategy/data_parallel"}))
        return;
    const Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    const std::int64_t devices = static_cast<std::int64_t>(sc.cluster.nodes) * sc.cluster.devices_per_node;
    const std::int64_t model = static_cast<std::int64_t>(s.tensor_parallel) * s.context_parallel * s.pipeline_parallel;
    const std::string product = "tensor_parallel x context_parallel x pipeline_parallel = " + std::to_string(s.tensor_parallel) + " x " +
                                std::to_string(s.context_parallel) + " x " + std::to_string(s.pipeline_parallel) + " = " +
                                std::to_string(model);
    const std::string have = "nodes x devices_per_node = " + std::to_string(devices);
    if (model > devices) {
        // A machine of a few devices is more likely described too small than to have others beside it.
        const bool one_machine = sc.cluster.nodes == 1 && sc.cluster.devices_per_node < 8;
        const std::int64_t nodes = (model + sc.cluster.devices_per_node - 1) / sc.cluster.devices_per_node;
        return reading.problem("/strategy", "strategy." + product + " ranks are more than cluster." + have + ": lower a degree, or set " +
                                                (one_machine ? "cluster.devices_per_node = " + std::to_string(model)
                                                             : "nodes = " + std::to_string(nodes) + " or more"));
    }
    if (!reading.has("/strategy/data_parallel")) {
        if (devices % model != 0)
            reading.problem("/strategy", "strategy." + product + " must divide cluster." + have + ": change a degree or nodes");
        return;
    }
    if (model * s.data_parallel == devices) return;
    std::string way_out = "lower a degree or change nodes";
    if (devices % model == 0)
        way_out = "try data_parallel = " + std::to_string(devices / model) + ", or leave it out";
    else if ((model * s.data_parallel) % sc.cluster.devices_per_node == 0)
        way_out = "that many devices are nodes = " + std::to_string(model * s.data_parallel / sc.cluster.devices_per_node);
    reading.problem("/strategy/data_parallel", eq("strategy.data_parallel", s.data_parallel) + " x " + product + " makes " +
                                                   std::to_string(model * s.data_parallel) + " ranks, but cluster." + have + ": " +
                                                   way_out);
}

// Whether ranks divide the key heads, or several share one where the software gathers heads; if not it is said.
bool key_heads_divide(Reading& reading, std::int64_t all) {
    const Scenario& sc = reading.scenario;
    const std::int64_t tp = sc.strategy.tensor_parallel, keys = sc.model.kv_heads;
    if (keys % tp == 0 || sc.model.attention.kind != AttentionSpec::Kind::full) return true;
    const std::int64_t columns = (sc.model.attention_heads + 2 * keys) * sc.model.head_dim;
    const bool gathers = practice_of(sc).gathers_heads;
    if (gathers && columns % tp == 0) return true;
    if (gathers) {
        reading.problem("/strategy/tensor_parallel", eq("strategy.tensor_parallel", tp) +
                                                         " must divide the columns of queries, keys and values, " +
                                                         std::to_string(columns) + ": try " + join(common_divisors(keys, all)));
        return false;
    }
    std::string other;
    if (tp > keys && tp % keys == 0 && megatron_core(sc.strategy.framework))
        other = ", or runtime.year = 2025, whose Megatron-Core has several ranks share a key head";
    else if (megatron_core(sc.strategy.framework) && sc.runtime.year >= 2025)
        other = ", or a multiple of kv_heads";
    must_divide(reading, "/strategy/tensor_parallel", tp, "kv_heads", keys, all, other);
    return false;
}

void check_tensor_parallel(Reading& reading) {
    if (!sound(reading, {"/model", "/strategy/tensor_parallel"})) return;
    const Model& m = reading.scenario.model;
    const std::int64_t tp = reading.scenario.strategy.tensor_parallel;
    const std::int64_t all = std::gcd(std::gcd<std::int64_t>(m.attention_heads, m.kv_heads), m.ffn_size);
    // One message: the first rule broken, with degrees that satisfy all of them.
    if (m.attention_heads % tp != 0)
        must_divide(reading, "/strategy/tensor_parallel", tp, "attention_heads", m.attention_heads, all);
    else if (key_heads_divide(reading, all) && m.ffn_size % tp != 0)
        must_divide(reading, "/strategy/tensor_parallel", tp, "ffn_size", m.ffn_size, all);
}

void check_sequence(Reading& reading) {
    if (!sound(reading, {"/training/sequence_length", "/strategy/tensor_parallel", "/strategy/context_parallel",
                         "/strategy/sequence_parallel", "/model"}))
        return;
    const Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    const std::int64_t seq = sc.training.sequence_length;
    const bool halves = s.context_parallel > 1 && s.context_parallel_kind != ContextKind::ulysses;
    const std::int64_t parts =
        static_cast<std::int64_t>(s.context_parallel) * (halves ? 2 : 1) * (s.sequence_parallel ? s.tensor_parallel : 1);
    if (seq % parts != 0) {
        std::string factors = halves                   ? "2 x context_parallel = " + std::to_string(2 * s.context_parallel)
                              : s.context_parallel > 1 ? "context_parallel = " + std::to_string(s.context_parallel)
                                                       : "";
        if (s.sequence_parallel && s.tensor_parallel > 1)
            factors += (factors.empty() ? "" : " x ") + std::string("tensor_parallel = ") + std::to_string(s.tensor_parallel);
        reading.problem("/training/sequence_length", eq("training.sequence_length", seq) + " must be a multiple of " + factors + ": try " +
                                                         std::to_string((seq / parts + 1) * parts));
    }
    if (s.context_parallel > 1 && s.context_parallel_kind == ContextKind::ulysses) {
        const std::int64_t heads = sc.model.attention_heads / s.tensor_parallel;
        if (heads % s.context_parallel != 0)
            reading.problem("/strategy/context_parallel", eq("strategy.context_parallel", s.context_parallel) +
                                                              " must divide attention_heads / tensor_parallel = " + std::to_string(heads) +
                                                              " (ulysses splits heads): try " + join(common_divisors(heads)) +
                                                              ", or context_parallel_kind = ring");
    }
    if (sc.model.position == PositionKind::learned && sc.model.max_positions < seq)
        reading.problem("/training/sequence_length",
                        eq("training.sequence_length", seq) + " is longer than the table of learned positions, " +
                            eq("model.max_positions", sc.model.max_positions) + ": shorten it or set model.max_positions");
}

void check_batch(Reading& reading) {
    if (!sound(reading, {"/training/global_batch_size", "/training/micro_batch_size", "/strategy/data_parallel", "/strategy", "/cluster"}))
        return;
    const Scenario& sc = reading.scenario;
    const Training& t = sc.training;
    const std::int64_t ranks_batch = t.micro_batch_size * sc.strategy.data_parallel;
    if (t.global_batch_size % ranks_batch == 0) return;
    const std::int64_t below = t.global_batch_size / ranks_batch * ranks_batch, above = below + ranks_batch;
    reading.problem("/training/global_batch_size",
                    eq("training.global_batch_size", t.global_batch_size) +
                        " must be a multiple of data_parallel x micro_batch_size = " + std::to_string(sc.strategy.data_parallel) + " x " +
                        std::to_string(t.micro_batch_size) + " = " + std::to_string(ranks_batch) + ": try " +
                        (below > 0 ? std::to_string(below) + " or " : std::string()) + std::to_string(above));
}

void report_unknown_schedule(Reading& reading) {
    const std::string& asked = reading.scenario.strategy.schedule;
    const auto near = nearest(asked, schedule_names());
    reading.problem("/strategy/schedule", "strategy.schedule = \"" + asked + "\" is not known" +
                                              (near ? ": did you mean \"" + *near + "\"?" : ".") + " It is one of " +
                                              join(schedule_names()));
}

// A count of a shape and the field that says it. Microbatches follow from the batch: the way out is a batch.
void report_shape(Reading& reading, const ShapeProblem& problem) {
    const Scenario& sc = reading.scenario;
    const std::string what = "strategy.schedule = " + problem.what;
    if (problem.count == ShapeCount::stages) return reading.problem("/strategy/pipeline_parallel", what);
    if (problem.count == ShapeCount::chunks_per_stage) return reading.problem("/strategy/virtual_pipeline", what);
    if (problem.count == ShapeCount::group) return reading.problem("/strategy/microbatch_group_size", what);
    if (!sound(reading, {"/strategy", "/training", "/cluster"}) || sc.strategy.data_parallel == 0) return;
    const std::int64_t ranks_batch = sc.strategy.data_parallel * sc.training.micro_batch_size;
    if (ranks_batch <= 0 || sc.training.global_batch_size % ranks_batch != 0) return; // check_batch() says it
    const std::int64_t batch = problem.instead * sc.strategy.data_parallel * sc.training.micro_batch_size;
    reading.problem("/training/global_batch_size", what + "; microbatches = global_batch_size / (data_parallel x micro_batch_size)" +
                                                       (batch > 0 ? ": try global_batch_size = " + std::to_string(batch) : std::string()));
}

void check_schedule(Reading& reading) {
    if (!sound(reading, {"/strategy/schedule", "/strategy/pipeline_parallel", "/strategy/virtual_pipeline"})) return;
    const Strategy& s = reading.scenario.strategy;
    const ScheduleInfo* schedule = find_schedule(s.schedule);
    if (!schedule) return report_unknown_schedule(reading);
    ScheduleShape shape = shape_of(s);
    const bool counted = sound(reading, {"/strategy", "/training", "/cluster"}) && s.data_parallel > 0;
    if (counted) shape.microbatches = reading.scenario.microbatches();
    for (const ShapeProblem& problem : schedule->check(shape))
        if (counted || problem.count != ShapeCount::microbatches) report_shape(reading, problem);
    if (schedule->directions > 1 && s.zero_stage >= 2 && sound(reading, {"/strategy/zero_stage"}))
        reading.problem("/strategy/zero_stage", eq("strategy.zero_stage", s.zero_stage) +
                                                    " is not modelled with strategy.schedule = " + s.schedule +
                                                    ", which sums the gradients of its copies of the model once a step: try 1");
}

void check_sharding(Reading& reading) {
    const Strategy& s = reading.scenario.strategy;
    if (sound(reading, {"/strategy/zero_stage", "/strategy/framework", "/strategy/pipeline_parallel"})) {
        const std::string is = eq("strategy.zero_stage", s.zero_stage);
        if (s.framework == Framework::horovod && s.zero_stage > 0)
            reading.problem("/strategy/zero_stage", is + " is not what framework = horovod does: try 0, or framework = deepspeed");
        if (s.framework == Framework::ddp && s.zero_stage > 1)
            reading.problem("/strategy/zero_stage",
                            is + " is not what framework = ddp does: try 0, 1 (ZeroRedundancyOptimizer), or framework = fsdp");
        if (s.framework == Framework::deepspeed && s.zero_stage > 1 && s.pipeline_parallel > 1)
            reading.problem("/strategy/zero_stage",
                            is + " with pipeline_parallel = " + std::to_string(s.pipeline_parallel) +
                                " is refused by DeepSpeed's pipeline engine: try zero_stage = 1, or framework = fsdp");
    }
    if (s.gradient_sync == GradientSync::no_sync && sound(reading, {"/strategy", "/training"})) {
        const char* is = "strategy.gradient_sync = no_sync";
        if (!practice_of(reading.scenario).fully_sharded() || s.zero_stage < 2)
            reading.problem("/strategy/gradient_sync", std::string(is) +
                                                           " is what FSDP has where it shards gradients: leave it out, or set "
                                                           "framework = fsdp or fsdp2 and zero_stage = 2 or 3");
        if (s.offload.gradients != Tier::none)
            reading.problem("/strategy/gradient_sync",
                            std::string(is) + " keeps whole gradients on the device: set offload.gradients to none, or leave it out");
        if (reading.scenario.training.optimizer_in_backward)
            reading.problem("/strategy/gradient_sync", std::string(is) + " keeps gradients that training.optimizer_in_backward frees: "
                                                                         "leave one of the two out");
    }
    if (s.shard_group_size > 0 && sound(reading, {"/strategy", "/cluster"})) {
        const std::int64_t group = static_cast<std::int64_t>(s.replicas_of_worker()) * s.context_parallel;
        if (group % s.shard_group_size != 0)
            must_divide(reading, "/strategy/shard_group_size", s.shard_group_size,
                        s.worker_count() > 1 ? "data_parallel / workers x context_parallel" : "data_parallel x context_parallel", group, 0);
        else if (s.shard_group_size % s.context_parallel != 0)
            reading.problem("/strategy/shard_group_size",
                            eq("strategy.shard_group_size", s.shard_group_size) +
                                " must be a multiple of context_parallel = " + std::to_string(s.context_parallel) +
                                ": shards lie on all context ranks: try " + std::to_string(s.context_parallel));
    }
}

void check_token_processors(Reading& reading) {
    const Device& device = reading.scenario.cluster.device;
    const int given = reading.scenario.runtime.token_dispatcher_sms;
    if (!reading.has("/runtime/token_dispatcher_sms") || !sound(reading, {"/cluster", "/runtime/token_dispatcher_sms"})) return;
    if (device.processors > 0 && given > device.processors)
        reading.problem("/runtime/token_dispatcher_sms", "runtime.token_dispatcher_sms = " + std::to_string(given) + ", but the device (" +
                                                             device.name + ") has " + std::to_string(device.processors) +
                                                             " processors: try 20 or 24 for deepep, 16 for hybridep");
}

// Of Megatron-Core, which keeps whole gradients in its buckets until the step ends.
void check_deferred_gradients(Reading& reading) {
    const Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    const char* at = "/strategy/deferred_output_gradients";
    if (!sound(reading, {"/strategy", "/training", "/runtime", "/model"}) || deferred_output_gradients(sc) == 0) return;
    const std::string is = eq("strategy.deferred_output_gradients", s.deferred_output_gradients);
    const auto refuse = [&](bool broken, const char* why) {
        if (broken) reading.problem(at, is + why);
    };
    refuse(!megatron_core(s.framework), " is Megatron-Core's (strategy.framework = megatron or nemo): leave it out");
    refuse(s.zero_stage >= 2, " needs whole gradients until the step ends, which strategy.zero_stage = 2 and 3 do not keep: use 1");
    refuse(sc.training.optimizer_in_backward, " is not modelled with training.optimizer_in_backward: leave it out");
    refuse(
        s.overlap.expert_parallel && s.expert_parallel > 1,
        " is not modelled with strategy.overlap.expert_parallel, which joins backward steps with forward steps: switch one of the two off");
}

void check_overlap_of_experts(Reading& reading) {
    const Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    if (!sound(reading, {"/strategy/overlap", "/strategy/recompute", "/model"})) return;
    if (s.overlap.shared_experts && sc.runtime.token_dispatcher != TokenDispatcher::alltoall)
        reading.problem(
            "/strategy/overlap/shared_experts",
            "strategy.overlap.shared_experts works with runtime.token_dispatcher = alltoall alone, as in Megatron-Core: set it to "
            "false, or the dispatcher to alltoall");
    if (s.overlap.shared_experts && s.overlap.expert_parallel)
        reading.problem("/strategy/overlap/shared_experts",
                        "strategy.overlap.shared_experts and overlap.expert_parallel exclude each other: under the second, shared experts "
                        "are computed beside the other microbatch's exchanges already. Set one of them to false");
    if (s.overlap.shared_experts && s.recompute == RecomputeKind::list &&
        std::ranges::find(s.recompute_ops, RecomputeOp::shared_experts) != s.recompute_ops.end())
        reading.problem("/strategy/overlap/shared_experts",
                        "strategy.overlap.shared_experts runs the two linears of shared experts apart, and strategy.recompute names "
                        "shared_experts, which are made again as one: set it to false, or take them off the list");
    if (sc.model.moe && sc.model.moe->capacity_factor > 0 && !sc.model.moe->pad_to_capacity && practice_of(sc).masked_dispatch)
        reading.problem("/model/moe/pad_to_capacity",
                        std::string("model.moe.pad_to_capacity = false: products with one-hot masks, by which ") + name(s.framework) +
                            " sends tokens to experts, give every expert the slots of its capacity: leave it out");
}

void check_experts(Reading& reading) {
    const Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    if (!sound(reading, {"/model", "/strategy/expert_parallel", "/strategy/expert_tensor_parallel"})) return;
    if (!sc.model.moe) {
        if (s.expert_parallel > 1)
            reading.problem("/strategy/expert_parallel",
                            eq("strategy.expert_parallel", s.expert_parallel) +
                                " needs experts: the model has no moe. Leave it out, or choose a mixture of experts");
        return;
    }
    const MoeSpec& e = *sc.model.moe;
    must_divide(reading, "/strategy/expert_parallel", s.expert_parallel, "moe.experts", e.experts, 0);
    must_divide(reading, "/strategy/expert_tensor_parallel", s.expert_tensor_parallel, "moe.expert_ffn_size", e.expert_ffn_size, 0);
    if (!sound(reading, {"/strategy", "/cluster"})) return;
    const std::int64_t ranks = static_cast<std::int64_t>(s.tensor_parallel) * s.context_parallel * s.replicas_of_worker();
    const std::int64_t experts = static_cast<std::int64_t>(s.expert_parallel) * s.expert_tensor_parallel;
    if (ranks % experts != 0)
        reading.problem("/strategy/expert_parallel",
                        "strategy.expert_parallel x expert_tensor_parallel = " + std::to_string(s.expert_parallel) + " x " +
                            std::to_string(s.expert_tensor_parallel) + " = " + std::to_string(experts) +
                            " must divide tensor_parallel x context_parallel x data_parallel" +
                            (s.worker_count() > 1 ? " / workers = " : " = ") + std::to_string(ranks) +
                            ": experts lie inside a pipeline stage" +
                            (s.worker_count() > 1 ? " of a worker (synchronization.workers)" : ""));
}

// Experts' workers are those of all other weights where all that a worker is made of comes before dp.
void check_order_of_workers(Reading& reading, const std::vector<std::string>& words, const std::string& is) {
    const Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    if (!sc.model.moe || !s.workers()) return;
    const auto dp = std::find(words.begin(), words.end(), "dp");
    for (const auto& [axis, degree] : {std::pair{"cp", s.context_parallel}, {"ep", s.expert_parallel}})
        if (degree > 1 && std::find(dp, words.end(), axis) != words.end())
            return reading.problem("/strategy/rank_order", is + " has " + axis +
                                                               " after dp: experts would have other workers than the rest of " +
                                                               "the model; put dp after " + axis);
}

// A shorter order ("tp-pp-dp") is filled up with the axes it leaves out, after tp, if they are 1 wide.
void resolve_rank_order(Reading& reading) {
    Strategy& s = reading.scenario.strategy;
    const std::string& order = reading.rank_order;
    if (!sound(reading, {"/strategy/rank_order"})) return;
    std::vector<std::string> words;
    for (std::size_t at = 0; at <= order.size();) {
        const std::size_t dash = std::min(order.find('-', at), order.size());
        words.push_back(order.substr(at, dash - at));
        at = dash + 1;
    }
    const std::string is = "strategy.rank_order = \"" + order + "\"";
    for (const std::string& word : words) {
        if (word != "tp" && word != "cp" && word != "ep" && word != "dp" && word != "pp")
            return reading.problem("/strategy/rank_order",
                                   is + " has \"" + word + "\": it is tp, cp, ep, dp, pp in some order, joined by '-'");
        if (std::count(words.begin(), words.end(), word) > 1)
            return reading.problem("/strategy/rank_order", is + " names " + word + " twice");
    }
    for (const auto& [axis, degree] : {std::pair{"pp", s.pipeline_parallel},
                                       {"dp", s.data_parallel},
                                       {"ep", s.expert_parallel},
                                       {"cp", s.context_parallel},
                                       {"tp", s.tensor_parallel}}) {
        if (std::find(words.begin(), words.end(), axis) != words.end()) continue;
        if (degree > 1)
            return reading.problem("/strategy/rank_order", is + " leaves out " + axis + ", which is " + std::to_string(degree) + " wide");
        const auto tp = std::find(words.begin(), words.end(), "tp");
        words.insert(tp == words.end() ? words.begin() : tp + 1, axis);
    }
    check_order_of_workers(reading, words, is);
    s.rank_order = parse_rank_order(join(words, "-"));
}

// mxfp8 and nvfp4 are a precision and its recipe in one; fp8 goes with those that have a format of 8 bits, as far as the device has them.
void check_scaling(Reading& reading) {
    const Scenario& sc = reading.scenario;
    const DType precision = sc.training.precision;
    const ScalingRecipe recipe = sc.runtime.fp8_recipe;
    if (!reading.has("/runtime/fp8_recipe") || !sound(reading, {"/runtime/fp8_recipe"})) return;
    const std::string is = std::string("runtime.fp8_recipe = ") + name(recipe), of = std::string("training.precision = ") + name(precision);
    const bool own = precision == DType::mxfp8 || precision == DType::nvfp4;
    if (own && recipe != (precision == DType::mxfp8 ? ScalingRecipe::mxfp8 : ScalingRecipe::nvfp4))
        reading.problem("/runtime/fp8_recipe",
                        is + " contradicts " + of + ", which is a recipe of its own: leave fp8_recipe out, or set precision = fp8");
    if (precision == DType::fp8 && recipe == ScalingRecipe::nvfp4)
        reading.problem("/runtime/fp8_recipe", is + " is of 4 bits, and " + of + " of 8: set precision = nvfp4");
    if (precision == DType::fp8 && recipe == ScalingRecipe::mxfp8 && !sc.cluster.device.peak.contains("mxfp8"))
        reading.problem("/runtime/fp8_recipe", is + " needs a device that computes in mxfp8, which the " + sc.cluster.device.name +
                                                   " does not: try current or blockwise");
}

void check_device(Reading& reading) {
    if (!sound(reading, {"/cluster", "/training/precision"})) return;
    const Scenario& sc = reading.scenario;
    const Device& d = sc.cluster.device;
    check_scaling(reading);
    if (!d.peak.contains(name(sc.training.precision))) {
        std::vector<std::string> has;
        for (const auto& [precision, unused] : d.peak) has.push_back(precision);
        reading.problem("/training/precision", std::string("training.precision = ") + name(sc.training.precision) + " is not one the " +
                                                   d.name + " computes in: it has " + join(has));
    }
    if (!sound(reading, {"/strategy/flash_attention", "/runtime/attention_kernel", "/strategy/collective_algorithm"})) return;
    const AttentionKernel kernel = sc.runtime.attention_kernel;
    if (sc.strategy.flash_attention != (kernel != AttentionKernel::unfused))
        reading.problem("/runtime/attention_kernel",
                        std::string("runtime.attention_kernel = ") + (kernel == AttentionKernel::unfused ? "unfused" : "a fused one") +
                            " contradicts strategy.flash_attention = " + (sc.strategy.flash_attention ? "true" : "false") +
                            ": give one of the two");
    if (kernel == AttentionKernel::flash3 && d.architecture != "hopper")
        reading.problem("/runtime/attention_kernel",
                        "runtime.attention_kernel = flash-3 runs on Hopper alone, not on " + d.name + ": try flash-2 or cudnn");
    if (sc.model.attention.score_cap > 0 && (kernel == AttentionKernel::flash1 || kernel == AttentionKernel::cudnn))
        reading.problem("/runtime/attention_kernel", std::string("runtime.attention_kernel = ") + name(kernel) +
                                                         " has no cap of scores (model.attention.score_cap): try flash-2");
    if (kernel != AttentionKernel::unfused && d.architecture == "volta")
        reading.problem("/strategy/flash_attention", "strategy.flash_attention has no kernels for " + d.name + ": set it to false");
    if (sc.strategy.collective_algorithm == CollectiveAlgorithm::nvls &&
        (sc.cluster.intra.kind != IntraKind::nvswitch || (d.architecture != "hopper" && d.architecture != "blackwell")))
        reading.problem("/strategy/collective_algorithm", "strategy.collective_algorithm = nvls needs NVSwitch and Hopper or later, not " +
                                                              (sc.cluster.intra.kind != IntraKind::nvswitch
                                                                   ? std::string("cluster.intra_node.kind = ") + name(sc.cluster.intra.kind)
                                                                   : d.name) +
                                                              ": try auto or ring");
    const bool torus = sc.cluster.intra.kind == IntraKind::torus;
    const CollectiveAlgorithm wish = sc.strategy.collective_algorithm;
    if (wish == CollectiveAlgorithm::sharp && !sc.cluster.graph && (sc.cluster.inter.kind != InterKind::infiniband || torus) &&
        (sc.cluster.nodes > 1 || torus))
        reading.problem("/strategy/collective_algorithm",
                        std::string("strategy.collective_algorithm = sharp is done by InfiniBand's switches, not by ") +
                            (torus ? "a torus" : std::string("cluster.inter_node.kind = ") + name(sc.cluster.inter.kind)) +
                            ": try auto or ring");
    else if (torus && (wish == CollectiveAlgorithm::tree || wish == CollectiveAlgorithm::hierarchical))
        reading.problem("/strategy/collective_algorithm", std::string("strategy.collective_algorithm = ") + name(wish) +
                                                              " is one of NCCL's, and a torus has rings alone: try auto or ring");
}

void check_torus(Reading& reading) {
    if (!sound(reading, {"/cluster"}) || reading.scenario.cluster.graph || reading.scenario.cluster.inter.shape.empty()) return;
    for (const std::string& problem : cluster_problems(reading.scenario.cluster))
        if (problem.find("shape") != std::string::npos) reading.problem("/cluster/inter_node/shape", "cluster." + problem);
}

bool has_precision(const Device& d, DType precision) { return d.peak.contains(name(precision)); }

// Checks nodes that share a switch, PCIe trees, links that are down, and unlike nodes.
void check_network(Reading& reading) {
    if (!sound(reading, {"/cluster"})) return;
    const Scenario& sc = reading.scenario;
    const Cluster& c = sc.cluster;
    if (c.intra.domain_nodes > 1 && c.intra.kind != IntraKind::nvswitch)
        reading.problem("/cluster/intra_node/domain_nodes", std::string("cluster.intra_node.domain_nodes = ") +
                                                                std::to_string(c.intra.domain_nodes) + " is of kind nvswitch, not " +
                                                                name(c.intra.kind) + ": leave one of the two out");
    const PcieTree& t = c.intra.tree;
    if (t.devices_per_switch > 0 && c.devices_per_node % t.devices_per_switch != 0)
        reading.problem("/cluster/intra_node/pcie_tree/devices_per_switch",
                        "cluster.intra_node.pcie_tree.devices_per_switch = " + std::to_string(t.devices_per_switch) +
                            " must divide devices_per_node = " + std::to_string(c.devices_per_node));
    else if (const int switches = t.devices_per_switch > 0 ? c.devices_per_node / t.devices_per_switch : 1;
             t.devices_per_switch > 0 && switches % t.sockets != 0)
        reading.problem("/cluster/intra_node/pcie_tree/sockets", "cluster.intra_node.pcie_tree.sockets = " + std::to_string(t.sockets) +
                                                                     " must divide the node's PCIe switches = " + std::to_string(switches));
    if (c.inter.topology == InterTopology::dual_plane && reading.has("/cluster/inter_node/planes") && c.inter.planes < 2)
        reading.problem("/cluster/inter_node/planes", "cluster.inter_node.planes = 1 contradicts topology = dual-plane: leave it out");
    if (c.graph) {
        if (!c.others.empty() || !c.inter.down.empty())
            reading.problem("/cluster/graph", "cluster.graph has no unlike nodes and no list of links that are down: give its edges the "
                                              "rates they have, and leave others and inter_node.down out");
        return;
    }
    for (std::size_t i = 0; i < c.others.size(); ++i)
        if (!has_precision(c.others[i].device, sc.training.precision) && has_precision(c.device, sc.training.precision))
            reading.problem("/cluster/others/" + std::to_string(i) + "/device",
                            "cluster.others[" + std::to_string(i) + "].device = " + c.others[i].device.name + " does not compute in " +
                                name(sc.training.precision) + ", the training's precision");
    const Host& host = c.host;
    if ((host.cxl.count > 0) != (host.cxl_bandwidth.value > 0) || (host.cxl.count > 0 && host.memory.count == 0))
        reading.problem("/cluster/host/cxl_gb",
                        "cluster.host.cxl_gb, cxl_gb_per_s and memory_gb go together: what is offloaded lies in both "
                        "kinds of memory by their capacities; state all three, or neither of the first two");
    if (c.inter.down.empty() && c.others.empty()) return;
    for (const std::string& problem : cluster_problems(c))
        reading.problem(problem.starts_with("others") ? "/cluster/others" : "/cluster/inter_node/down", "cluster." + problem);
}

// Frameworks of CUDA's and ROCm's world, which have no build for TPUs.
void check_framework(Reading& reading) {
    if (!sound(reading, {"/cluster", "/strategy/framework", "/strategy/tensor_parallel", "/strategy/pipeline_parallel",
                         "/strategy/context_parallel", "/strategy/expert_parallel"}))
        return;
    const Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    if (sc.cluster.device.vendor == "google" && !runs_on_tpus(s.framework))
        reading.problem("/strategy/framework", std::string("strategy.framework = ") + name(s.framework) + " does not run on " +
                                                   sc.cluster.device.name + ": try jax, or fsdp, fsdp2 or ddp (PyTorch/XLA)");
    if (s.overlap.tensor_parallel && s.tensor_parallel > 1 && !may_overlap_tensor_parallel(sc))
        reading.problem("/strategy/overlap/tensor_parallel",
                        "strategy.overlap.tensor_parallel = true is asynchronous tensor parallelism, which framework = torchtitan has in "
                        "compiled code alone: try false, or strategy.fused = true");
    if (s.framework != Framework::horovod) return;
    for (const auto& [field, degree] : {std::pair{"tensor_parallel", s.tensor_parallel},
                                        {"pipeline_parallel", s.pipeline_parallel},
                                        {"context_parallel", s.context_parallel},
                                        {"expert_parallel", s.expert_parallel}})
        if (degree > 1)
            reading.problem(std::string("/strategy/") + field, eq((std::string("strategy.") + field).c_str(), degree) +
                                                                   " is not what framework = horovod does, which is data-parallel "
                                                                   "alone: try 1, or framework = megatron");
}

// Links are known once the cluster is: names are its own.
void check_perturbed_links(Reading& reading) {
    const std::vector<Perturbation>& all = reading.scenario.perturb;
    if (std::none_of(all.begin(), all.end(), [](const Perturbation& p) { return !p.link.empty(); })) return;
    const Fabric fabric(reading.scenario.cluster);
    for (std::size_t i = 0; i < all.size(); ++i)
        if (const std::string unknown = unknown_link(all[i], fabric); !unknown.empty())
            reading.problem("/perturb/" + std::to_string(i) + "/link", "perturb[" + std::to_string(i) + "].link = " + unknown);
}

void check_perturbations(Reading& reading) {
    if (!sound(reading, {"/perturb", "/cluster"})) return;
    const Cluster& c = reading.scenario.cluster;
    for (std::size_t i = 0; i < reading.scenario.perturb.size(); ++i) {
        const Perturbation& p = reading.scenario.perturb[i];
        const bool rank = p.kind == Perturbation::Kind::slow_rank, node = p.kind == Perturbation::Kind::slow_node;
        const int most = rank ? c.devices() : c.nodes;
        if ((!rank && !node) || p.index < most) continue;
        const std::string at = "/perturb/" + std::to_string(i) + (rank ? "/rank" : "/node");
        reading.problem(at, dotted(at) + " = " + std::to_string(p.index) + " is beyond the last, " + std::to_string(most - 1));
    }
    check_perturbed_links(reading);
}

} // namespace

bool sound(const Reading& reading, std::initializer_list<const char*> pointers) {
    return std::none_of(reading.problems.begin(), reading.problems.end(), [&](const Problem& p) {
        return std::any_of(pointers.begin(), pointers.end(), [&](const std::string_view pointer) {
            if (!p.where.starts_with(pointer)) return pointer.starts_with(p.where + "/");
            return p.where.size() == pointer.size() || p.where[pointer.size()] == '/';
        });
    });
}

void check_combinations(Reading& reading) {
    check_world(reading);
    check_tensor_parallel(reading);
    check_sequence(reading);
    check_schedule(reading);
    check_batch(reading);
    check_sharding(reading);
    check_travel(reading);
    check_trainable(reading);
    check_in_backward(reading);
    check_muon(reading);
    check_asynchronous(reading);
    check_federated(reading);
    check_synchronization(reading);
    check_offload(reading);
    check_experts(reading);
    check_token_processors(reading);
    check_overlap_of_experts(reading);
    check_deferred_gradients(reading);
    check_device(reading);
    check_framework(reading);
    check_torus(reading);
    check_bounds(reading);
    check_whole_run(reading);
    check_network(reading);
    check_perturbations(reading); // makes the cluster's links: within their bounds
    resolve_rank_order(reading);
}

} // namespace orrery
