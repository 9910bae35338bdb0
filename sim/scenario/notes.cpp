// Fields the user gave that change nothing here: the report names them, so that nobody reads a result into them.
#include "sim/scenario/resolve.hpp"

#include "sim/scenario/documents.hpp"
#include "sim/scenario/frameworks.hpp"
#include "sim/scenario/layers.hpp"
#include "sim/scenario/parameters.hpp"
#include "sim/scenario/perturb.hpp"
#include "sim/scenario/practice.hpp"
#include "sim/scenario/trainable.hpp"
#include "sim/scenario/whole_run_text.hpp"
#include "sim/schedules/schedule.hpp"
#include "topology/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace orrery {

namespace {

bool nothing_offloaded(const Offload& o) {
    return o.optimizer == Tier::none && o.parameters == Tier::none && o.gradients == Tier::none && o.activations == Tier::none;
}

// Whether InfiniBand's switches can reduce for the data-parallel groups, which are alike in size.
void note_sharp(Reading& reading) {
    Scenario& sc = reading.scenario;
    const Cluster& c = sc.cluster;
    if (sc.strategy.collective_algorithm != CollectiveAlgorithm::sharp || c.graph || c.nodes < 2) return;
    const int group = sc.strategy.replicas_of_worker() * sc.strategy.context_parallel, groups = group > 0 ? sc.world_size() / group : 1;
    if (c.inter.sharp.trees > 0 && groups > c.inter.sharp.trees)
        sc.notes.push_back("strategy.collective_algorithm = sharp has no effect on data-parallel reductions: " + std::to_string(groups) +
                           " groups reduce at the same time, and the switches hold " + std::to_string(c.inter.sharp.trees) +
                           " trees (cluster.inter_node.sharp.trees): rings serve them");
    if (bytes_per_element(sc.training.gradient_dtype) < 1.5)
        sc.notes.push_back("strategy.collective_algorithm = sharp has no effect on gradients of 8 bits: switches add 16 bits and more");
}

// Links that no byte takes. (Those of leaf switches and perturbed ones are known after the simulation alone: sim/report.)
void note_network(Reading& reading) {
    Scenario& sc = reading.scenario;
    const Cluster& c = sc.cluster;
    const Notes note(reading);
    const bool spans = c.intra.kind == IntraKind::torus && (c.inter.kind == InterKind::torus || c.inter.topology == InterTopology::torus);
    // A node's NICs are its way to storage too.
    const bool stores = (sc.run || sc.training.data) && c.storage.per_node.value <= 0;
    for (const char* field :
         {"kind", "fabric", "nics_per_node", "gbit_per_s", "latency_us", "topology", "oversubscription", "nodes_per_leaf", "hashed_routes",
          "routing", "queue_pairs", "dragonfly", "dimensions", "shape", "wrap", "planes", "ports_per_nic", "sharp", "down"}) {
        const std::string pointer = std::string("/cluster/inter_node/") + field;
        const std::string_view key(field);
        const bool shape = key == "kind" || key == "topology" || key == "dimensions" || key == "shape" || key == "wrap";
        if (c.graph)
            note(pointer, !shape && key != "fabric" && key != "hashed_routes" && key != "routing", "cluster.graph has links of its own");
        else if (c.nodes == 1 && (c.intra.kind != IntraKind::none || c.devices_per_node == 1))
            note(pointer, (!spans || !shape) && !(stores && (key == "nics_per_node" || key == "gbit_per_s")), "there is one node");
        else if (spans)
            note(pointer, !shape, "the torus inside the nodes goes on between them");
    }
    const InterNode& n = c.inter;
    const bool joined = c.nodes > 1 && !spans, dragonfly = n.topology == InterTopology::dragonfly;
    const bool torus = c.intra.kind == IntraKind::torus || n.topology == InterTopology::torus;
    note("/cluster/inter_node/topology", c.nodes > 1 && spans && n.kind == InterKind::torus && n.topology != InterTopology::torus,
         "inter_node.kind is torus");
    note("/cluster/inter_node/shape", !torus, "there is no torus");
    note("/cluster/inter_node/dimensions", !torus || !n.shape.empty(), torus ? "shape says them" : "there is no torus");
    note("/cluster/inter_node/wrap", !torus || n.shape.empty(), torus ? "it goes with shape" : "there is no torus");
    note("/cluster/inter_node/queue_pairs", joined && n.queue_pairs > 1 && (n.routing != Routing::ecmp || dragonfly),
         "flows are hashed with routing = ecmp alone");
    note("/cluster/inter_node/dragonfly", joined && !dragonfly, std::string("topology is ") + name(n.topology));
    note("/cluster/inter_node/oversubscription", joined && dragonfly && n.oversubscription != 1, "a dragonfly's own counts say it");
    note("/cluster/inter_node/routing", joined && dragonfly && n.routing == Routing::ecmp, "a dragonfly's shortest path is one");
    note("/cluster/inter_node/routing",
         joined && n.down.empty() &&
             (n.routing == Routing::planned || n.routing == Routing::spray || (n.routing == Routing::adaptive && !dragonfly)),
         "over paths that are up and of one rate it is even");
    note("/cluster/inter_node/routing", joined && !n.down.empty() && n.routing == Routing::spray, "it is even over the links that are up");
    note("/cluster/inter_node/planes", joined && dragonfly && n.planes > 1, "a dragonfly has one");
    const bool some_port = std::any_of(n.down.begin(), n.down.end(), [](const LinkDown& d) { return d.port >= 0; });
    note("/cluster/inter_node/ports_per_nic", joined && n.ports_per_nic > 1 && !some_port, "none of inter_node.down names a port");
    note("/cluster/inter_node/sharp", joined && sc.strategy.collective_algorithm != CollectiveAlgorithm::sharp,
         "strategy.collective_algorithm is not sharp");
    note_sharp(reading);
    note("/cluster/intra_node/domain_nodes", !c.graph && c.nodes == 1 && c.intra.domain_nodes > 1, "there is one node");
    for (const char* field : {"kind", "gb_per_s", "latency_us"})
        note(std::string("/cluster/intra_node/") + field, !c.graph && c.devices_per_node == 1 && c.intra.kind != IntraKind::torus,
             "a node has one device");
    // Where switches reduce, another wish than auto keeps NCCL from that.
    const bool rings = c.nodes == 1 && !c.graph && c.device.architecture != "hopper" && c.device.architecture != "blackwell";
    note("/strategy/collective_algorithm", rings && sc.strategy.collective_algorithm == CollectiveAlgorithm::hierarchical,
         "there is one node: NCCL's rings serve it");
    note("/strategy/collective_algorithm", rings && sc.strategy.collective_algorithm == CollectiveAlgorithm::tree,
         "inside a node NCCL's trees are its rings");
    note("/strategy/collective_algorithm", sc.world_size() == 1 && sc.strategy.collective_algorithm != CollectiveAlgorithm::automatic,
         "there is one rank");
}

// A preset's node with another number of devices keeps all else that it has.
void note_part_of_a_node(Reading& reading) {
    Scenario& sc = reading.scenario;
    const Cluster& c = sc.cluster;
    if (!reading.has("/cluster/devices_per_node") || reading.has("/cluster/inter_node/nics_per_node") || c.graph || c.nodes < 2) return;
    const std::optional<Cluster> preset = find_cluster(c.name);
    if (!preset || preset->devices_per_node == c.devices_per_node || preset->inter.nics_per_node != c.inter.nics_per_node) return;
    if (c.inter.kind == InterKind::none || c.inter.kind == InterKind::torus) return;
    const bool draws = c.power_w_per_node > 0 && !reading.has("/cluster/power_w_per_node");
    sc.notes.push_back(fmt::format("cluster.devices_per_node = {} instead of {}'s {}: a node keeps {} network ports, {:.3g} a device, its "
                                   "host{}; inter_node.nics_per_node{} and host say otherwise",
                                   c.devices_per_node, c.name, preset->devices_per_node, c.inter.nics_per_node,
                                   static_cast<double>(c.inter.nics_per_node) / c.devices_per_node,
                                   draws ? fmt::format(" and the {:g} W that it draws besides", c.power_w_per_node) : "",
                                   draws ? ", power_w_per_node" : ""));
}

void note_model(Reading& reading) {
    Scenario& sc = reading.scenario;
    const Model& m = sc.model;
    const Notes note(reading);
    const bool latent = m.attention.kind == AttentionSpec::Kind::mla, rope = m.position == PositionKind::rope;
    note("/model/norm_epsilon", true, "time and memory do not depend on it");
    note("/model/max_positions", m.position != PositionKind::learned, "the model has no learned positions");
    const std::string unread = rope || latent ? "time and memory do not depend on it" : "the model has no rotary positions";
    note("/model/rope_base", true, unread);
    // Where a fused rotation knows no scale, a scaled one is not fused.
    const bool scales = !sc.runtime.fused_rope || practice_of(sc).fused_rope_scales;
    note("/model/rope_scale", scales || m.rope_scale == 1 || latent || !rope, unread);
    note("/model/rope_fraction", true, latent ? "model.attention.kind is mla, whose rotated parts have a width of their own" : unread);
    note("/model/parallel_norms", !m.parallel_block, "model.parallel_block is false");
    note("/model/norm_bias", m.norm == NormKind::rmsnorm, "model.norm is rmsnorm, which has none");
    note("/model/attention/qk_norm_across", !latent && !m.attention.qk_norm, "model.attention.qk_norm is false");
    note("/model/embedding_scale", m.embedding_scale != 1 && sc.strategy.fused, "compiled code multiplies in the lookup's kernel");
    note("/model/attention/score_cap", m.attention.score_cap > 0 && sc.runtime.attention_kernel != AttentionKernel::unfused,
         "a fused kernel caps scores on its way, and that is not timed");
    for (const char* field : {"/model/attention/qk_norm", "/model/attention/qk_norm_across", "/model/attention/qkv_bias"})
        note(field, latent, "model.attention.kind is mla, whose latents have norms of their own and no biases");
    note("/model/attention/sliding_window", m.attention.sliding_window > 0 && sc.runtime.attention_kernel == AttentionKernel::unfused,
         "unfused attention makes all scores and masks them");
    note("/model/attention/full_every", m.attention.sliding_window == 0, "the model has no sliding window");
    for (const char* field : {"kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"})
        note(std::string("/model/attention/") + field, !latent, "model.attention.kind is not mla");
    note("/model/moe/pad_to_capacity", m.moe && m.moe->capacity_factor <= 0, "model.moe.capacity_factor is 0: nothing is dropped");
    if (m.moe)
        note("/model/moe/stacked_weights", !practice_of(sc).separate_linears || !practice_of(sc).separate_experts,
             "the software neither goes over the experts in a loop nor multiplies by gate and up apart");
    note("/model/activation_clamp", !m.moe || !m.gated(), "it is of experts with a gated activation");
    note("/model/trainable/lora/alpha", true, "time and memory do not depend on it");
    for (const ModelPart part : m.trainable.frozen) {
        Model without = m;
        std::erase(without.trainable.frozen, part);
        if (trained_parameters(without).value_or(parameter_count(without)) == trained_parameters(m))
            sc.notes.push_back(std::string("model.trainable.frozen: \"") + name(part) +
                               "\" has no effect: the model has no such parameters, or others leave none of them to train");
    }
}

// Whether a step has host times that the scenario does not state: those follow the host's speed.
bool has_host_times(const Reading& reading) {
    const Scenario& sc = reading.scenario;
    const Runtime& r = sc.runtime;
    const Device& device = sc.cluster.device;
    const Practice practice = practice_of(sc);
    const bool stated = reading.has("/runtime/launch_us") || device.launch_us >= 0;
    const bool launches = !stated || r.launch_blocking || (r.cuda_graphs && r.launch_us > 0),
               calls = device.kernels.empty() && (practice.module_calls || practice.module_hooks),
               exchanges = sc.strategy.pipeline_parallel > 1 && !sc.strategy.overlap.pipeline && device.architecture != "cpu",
               lists = practice.collectives_on_lists && sc.strategy.zero_stage == 3,
               hands = r.batch_us > 0 && !reading.has("/runtime/batch_us");
    return launches || calls || exchanges || lists || hands;
}

// The rates of a host that no byte of a step or of a save meets. (Experts' counts of tokens are copied to it.)
void note_hosts(Reading& reading) {
    Scenario& sc = reading.scenario;
    const Cluster& c = sc.cluster;
    const Offload& o = sc.strategy.offload;
    const Notes note(reading);
    const bool outer = sc.strategy.diloco() && sc.strategy.synchronization.outer_on_host;
    const bool spared = nothing_offloaded(o) && !sc.strategy.served() && !outer, copied = !spared || sc.model.moe;
    note("/cluster/host/cxl_gb", !copied && !sc.run, "nothing is offloaded");
    note("/cluster/host/cxl_gb_per_s", !copied, "nothing is offloaded");
    note("/cluster/host/memory_gb", spared && !sc.run && (!copied || c.host.cxl.count == 0),
         "nothing is offloaded"); // copies of a run's saves lie there
    note("/cluster/host/memory_gb_per_s", !copied && !sc.run, "nothing is offloaded");
    note("/cluster/host/adam_gparams_per_s", o.optimizer == Tier::none && !sc.strategy.served(), "no optimizer runs on the host");
    note("/cluster/host/speed", !has_host_times(reading),
         "all times of the host are stated (launch_us), and stated times stay as they are");
    // Bytes cross a node's PCIe to its host, to its NICs, and between devices that nothing else joins.
    const bool crossed = c.nodes > 1 || c.graph || c.intra.kind == IntraKind::pcie || copied;
    const std::string why = "there is one node, its devices have links of their own, and nothing is offloaded";
    note("/cluster/host/pcie_gb_per_s", !crossed && !sc.run, why);
    const PcieTree& tree = c.intra.tree;
    const bool laid = tree.devices_per_switch > 0, tells = c.intra.kind == IntraKind::pcie || c.host.pcie_bandwidth.value > 0;
    if (c.graph) return;
    const bool one_socket =
        reading.has("/cluster/intra_node/pcie_tree/sockets") && c.intra.kind == IntraKind::pcie && c.devices_per_node > 4;
    note("/cluster/intra_node/pcie_tree", (!laid && !one_socket) || !tells || !crossed,
         !laid    ? "devices_per_switch is 0"
         : !tells ? "the node says no PCIe rate: host.pcie_gb_per_s sets it"
                  : why);
    note("/cluster/intra_node/pcie_tree/near_nics", laid && crossed && c.nodes == 1, "there is one node");
}

// A device's figures that change nothing, and one that goes with another.
void note_device(Reading& reading) {
    Scenario& sc = reading.scenario;
    const Cluster& c = sc.cluster;
    if (reading.has("/cluster/device/l2_mib"))
        sc.notes.push_back("cluster.device.l2_mib has no effect: in training a product finds none of its operands in the cache");
    const Notes note(reading);
    note("/cluster/device/memory_gb", reading.has("/cluster/device/memory_mib"), "cluster.device.memory_mib says it");
    note("/cluster/device/launch_us", reading.has("/runtime/launch_us"), "runtime.launch_us says it");
    note("/cluster/device/power_w", c.device.power_limit_w > c.device.power_w,
         fmt::format("the board's own limit is {:g} W, and it draws no more", c.device.power_w));
    const bool rate = reading.has("/cluster/device/scale_up_gb_per_s") && !c.graph,
               processors = reading.has("/cluster/device/processors") && !reading.has("/cluster/device/peak_tflops");
    if (!rate && !processors) return;
    const std::optional<Device> made = find_device(c.device.name);
    // Protocols of collectives are chosen by the links a device is made with (sim/cost): where the catalogue lacks it, by this rate.
    const bool chooses = !made && c.device.scale_up_kind == c.intra.kind, one = c.devices_per_node == 1 && c.intra.kind == IntraKind::none;
    if (rate && (one || (c.device.scale_up.value != c.intra.bandwidth.value && !chooses)))
        sc.notes.push_back(std::string("cluster.device.scale_up_gb_per_s has no effect: ") +
                           (one ? "a node has one device" : "the node's own rate counts: intra_node.gb_per_s"));
    if (processors && made && made->processors != c.device.processors)
        sc.notes.push_back(fmt::format(
            "cluster.device.processors = {} instead of {}: peak_tflops is of all of them and stays, so that each is "
            "{}; a device with {} processors has a {} cluster.device.peak_tflops, too",
            c.device.processors, made->processors, c.device.processors > made->processors ? "slower" : "faster",
            c.device.processors > made->processors ? "more" : "fewer", c.device.processors > made->processors ? "higher" : "lower"));
}

// ZeRO and buckets are of ranks that have the same parameters: of replicas, of context ranks, of experts' replicas, and of pipelines that
// run both ways.
void note_sharding(Reading& reading) {
    Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    const Notes note(reading);
    const bool all_here = nothing_offloaded(s.offload);
    const ScheduleInfo* schedule = find_schedule(s.schedule);
    const bool both_ways = schedule && schedule->directions > 1,
               experts_apart = sc.model.moe && sc.world_size() > s.pipeline_parallel * s.expert_parallel * s.expert_tensor_parallel;
    const bool alone = s.data_parallel * s.context_parallel == 1 && !both_ways && !experts_apart;
    const Practice practice = practice_of(sc);
    // The stage of ZeRO says more than what is divided: whether layers wait for each other, and in some software the layers themselves.
    const bool layerwise = s.pipeline_parallel == 1 && (s.zero_stage == 3 || (s.zero_stage == 2 && practice.fully_sharded())),
               says_more = sc.world_size() > 1 && (layerwise || practice.tensors_have_owners || s.framework == Framework::te);
    note("/strategy/zero_stage", s.zero_stage > 0 && alone && all_here && !says_more && s.framework != Framework::deepspeed,
         sc.world_size() == 1 ? "there is one rank" : "data_parallel x context_parallel is 1: there are no ranks to divide states among");
    const bool held = practice.reduce_buffers > 0 && sc.runtime.reserved_gb < 0 && !sc.runtime.plan_allocator; // buffers of this size
    note("/strategy/bucket_bytes", alone && all_here && !held, "there is one data-parallel rank");
    const bool muon = sc.training.optimizer == Optimizer::muon, in_parts = s.tensor_parallel > 1 || s.expert_tensor_parallel > 1;
    note("/training/muon_matrices", !muon || !in_parts, muon ? "there is one tensor-parallel rank" : "training.optimizer is not muon");
    const bool unit = s.zero_stage >= 2 && practice.sharding != Sharding::compiler && // whose large weights go alone
                      !(practice.sharding == Sharding::per_parameter && s.pipeline_parallel > 1);
    note("/strategy/bucket_bytes", !alone && unit && all_here && !held && s.synchronization.kind == Synchronization::Kind::synchronous,
         "with zero_stage 2 and 3 the gradients of a layer travel together, however many they are");
}

// NVMe holds offloaded states and saves of some kinds. Saves are read from it only where it is the nearest place that has them.
void note_nvme(Reading& reading) {
    Scenario& sc = reading.scenario;
    const Host& host = sc.cluster.host;
    const Offload& o = sc.strategy.offload;
    const Notes note(reading);
    const bool states = std::ranges::any_of(std::array{o.optimizer, o.parameters, o.gradients, o.activations},
                                            [](Tier tier) { return tier == Tier::nvme; });
    const bool local = sc.run && sc.run->checkpoint.kind == CheckpointKind::local,
               saves = local || (sc.run && sc.run->checkpoint.kind == CheckpointKind::tiers);
    const bool told = sc.run && sc.run->restart.load_s >= 0, reads = states || (local && !told);
    for (const char* field : {"/cluster/host/nvme_gb", "/cluster/host/nvme_gb_per_s", "/cluster/host/nvme_write_gb_per_s"})
        note(field, !states && !saves, "nothing lies on NVMe");
    note("/cluster/host/nvme_read_gb_per_s", !reads,
         !saves  ? "nothing lies on NVMe"
         : local ? "run.restart.load_s says how long a save is read"
                 : "saves are read from other nodes' memory, or from storage");
    if (states || saves)
        note("/cluster/host/nvme_gb_per_s", host.nvme_write.value > 0 && (host.nvme_read.value > 0 || !reads),
             reads ? "nvme_read_gb_per_s and nvme_write_gb_per_s say the rates of both directions"
                   : "nvme_write_gb_per_s says the rate of writes, and nothing is read");
}

// Options of Transformer Engine's modules: parameters of 8 bits, user buffers, graphs.
void note_modules(Reading& reading) {
    Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    const Notes note(reading);
    const bool core = megatron_core(s.framework), eight = sc.training.precision == DType::fp8 || sc.training.precision == DType::mxfp8;
    const Practice practice = practice_of(sc);
    note("/runtime/fp8_parameters", !practice.may_have_low_parameters,
         sc.training.precision == DType::nvfp4   ? "weights of 4 bits stay parameters of 16 bits"
         : !eight                                ? "precision has 16 bits or more"
         : !core && s.framework != Framework::te ? "parameters of 8 bits are Megatron-Core's and Transformer Engine's"
         : s.zero_stage > 1 && (s.zero_stage > 2 || !core)
             ? "weights are sharded: runtime.fp8_all_gather says what they are gathered in"
             : "it is not modelled with states on the host or a model that is trained in part");
    note("/runtime/tensor_parallel_maxima", !practice.reduces_maxima,
         sc.training.precision != DType::fp8               ? "precision is not fp8"
         : sc.runtime.fp8_recipe != ScalingRecipe::delayed ? "runtime.fp8_recipe is not delayed: no maxima are kept for later"
         : !core && s.framework != Framework::te           ? "reductions of maxima are Transformer Engine's"
                                                           : "before 2024 maxima were reduced beside the next pass");
    const bool low = eight || sc.training.precision == DType::nvfp4;
    note("/runtime/attention_dtype", sc.runtime.attention_dtype == AttentionPrecision::fp8 && !practice.low_attention,
         !low                                    ? "precision has 16 bits or more"
         : !core && s.framework != Framework::te ? "attention in 8 bits is Megatron-Core's and Transformer Engine's"
         : sc.runtime.attention_kernel != AttentionKernel::cudnn
             ? "runtime.attention_kernel is not cudnn, and no other kernel trains in 8 bits"
             : "what context-parallel ranks exchange is not modelled in 8 bits");
    note("/runtime/attention_dtype", sc.runtime.attention_dtype == AttentionPrecision::activations && !low,
         "precision has 16 bits or more");
    if (core && sc.runtime.cuda_graphs && reading.has("/runtime/cuda_graphs"))
        sc.notes.push_back(
            "runtime.cuda_graphs: all that can be captured is; a recipe's narrower scope (cuda_graph_scope: attn, moe_router, "
            "..) launches the rest kernel by kernel, and its step lies between those with true and false");
    if (sc.runtime.attention_kernel == AttentionKernel::flex && (core || s.framework == Framework::te))
        sc.notes.push_back(
            "runtime.attention_kernel = flex: Transformer Engine, whose attention this framework calls, has no FlexAttention; it "
            "is timed all the same");
    if (practice.gathers_heads)
        sc.notes.push_back("strategy.tensor_parallel = " + std::to_string(s.tensor_parallel) +
                           " is more than model.kv_heads = " + std::to_string(sc.model.kv_heads) +
                           ": Megatron-Core gathers the queries, keys and values of all ranks in every layer, and sums their gradients");
    note("/runtime/tensor_parallel_buffers", !practice.may_have_user_buffers,
         !core                        ? "user buffers are Megatron-Core's"
         : s.tensor_parallel == 1     ? "tensor_parallel is 1"
         : !s.overlap.tensor_parallel ? "strategy.overlap.tensor_parallel is false"
         : !s.sequence_parallel       ? "strategy.sequence_parallel is false: nothing is gathered"
                                      : "they are mapped into the devices of one node");
}

void note_deferred(Reading& reading) {
    const Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    if (s.deferred_output_gradients == 0 || deferred_output_gradients(sc) > 0) return;
    const ScheduleInfo* schedule = find_schedule(s.schedule);
    const char* why = s.pipeline_parallel == 1                 ? "pipeline_parallel is 1: no stage drains"
                      : sc.runtime.loss == LossKind::chunked   ? "a chunked loss makes these gradients with its logits"
                      : !trains(sc.model, ModelPart::head, -1) ? "the output layer is not trained"
                      : schedule && schedule->asynchronous     ? "steps flow into each other, and no stage drains"
                                                               : "the schedule moves all weight gradients itself";
    const Notes note(reading);
    note("/strategy/deferred_output_gradients", true, why);
}

} // namespace

void note_without_effect(Reading& reading) {
    note_deferred(reading);
    Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    const Notes note(reading);
    note("/training/learning_rate", true, "time and memory do not depend on it");
    note("/training/warmup_steps", true, "time and memory do not depend on it");
    note("/training/seed", !has_jitter(sc.perturb) && !sc.run && !sc.federated && !s.workers(), // of workers: notes_idle.cpp
         "a simulated step draws nothing by chance without jitter (perturb)");
    note("/strategy/sequence_parallel", s.sequence_parallel && s.tensor_parallel == 1, "tensor_parallel is 1");
    note("/strategy/overlap/tensor_parallel", s.overlap.tensor_parallel && s.tensor_parallel == 1, "tensor_parallel is 1");
    note("/strategy/overlap/pipeline", s.overlap.pipeline && s.pipeline_parallel == 1, "pipeline_parallel is 1");
    note("/strategy/synchronization/kind", s.synchronization.kind != Synchronization::Kind::synchronous && !s.workers(),
         s.data_parallel == 1 ? "there is one data-parallel rank" : "synchronization.workers is 1");
    note("/strategy/synchronization/workers", s.synchronization.kind == Synchronization::Kind::synchronous || s.data_parallel == 1,
         s.data_parallel == 1 ? "there is one data-parallel rank" : "synchronization.kind is synchronous");
    for (const char* of_meetings : {"inner_steps", "payload_dtype", "samples", "fragments", "overlap_steps", "outer_optimizer",
                                    "outer_learning_rate", "outer_momentum", "outer_device"})
        note(std::string("/strategy/synchronization/") + of_meetings,
             s.synchronization.kind != Synchronization::Kind::synchronous && !s.workers(), "there is one worker");
    const bool streaming = s.synchronization.kind == Synchronization::Kind::streaming_diloco,
               diloco = s.synchronization.kind == Synchronization::Kind::diloco || streaming, one_rank = s.data_parallel == 1;
    const auto gossip = s.synchronization.kind == Synchronization::Kind::gossip,
               served = s.synchronization.kind == Synchronization::Kind::parameter_server;
    for (const char* outer : {"outer_optimizer", "outer_learning_rate", "outer_momentum", "outer_device"})
        note(std::string("/strategy/synchronization/") + outer, !diloco, "synchronization.kind is not diloco");
    note("/strategy/synchronization/payload_dtype", !diloco && !served, "synchronization.kind is neither diloco nor parameter_server");
    for (const char* fragment : {"fragments", "fragment_order", "mixing"})
        note(std::string("/strategy/synchronization/") + fragment, !streaming, "synchronization.kind is not streaming_diloco");
    note("/strategy/synchronization/overlap_steps", !streaming && !gossip, "synchronization.kind is neither streaming_diloco nor gossip");
    note("/strategy/synchronization/samples", s.synchronization.kind != Synchronization::Kind::fedavg,
         "synchronization.kind is not fedavg");
    note("/strategy/synchronization/servers", !served, "synchronization.kind is not parameter_server");
    note("/strategy/synchronization/staleness_bound", !served, "synchronization.kind is not parameter_server");
    note("/strategy/synchronization/degree", !gossip, "synchronization.kind is not gossip");
    note("/strategy/synchronization/mixing", streaming && s.synchronization.overlap_steps == 0, "overlap_steps is 0");
    note("/strategy/synchronization/outer_learning_rate", diloco && s.synchronization.outer_optimizer == OuterOptimizer::none,
         "outer_optimizer is none");
    note("/strategy/synchronization/outer_momentum", diloco && s.synchronization.outer_optimizer != OuterOptimizer::nesterov,
         "outer_optimizer is not nesterov");
    note("/strategy/quantized_weights", s.quantized_weights != QuantizedWeights::none && one_rank, "there is one data-parallel rank");
    note("/strategy/quantized_gradients", s.quantized_gradients != QuantizedGradients::none && one_rank, "there is one data-parallel rank");
    note("/strategy/secondary_shard_size", s.secondary_shard_size > 1 && s.secondary_shard_size == s.replicas_of_worker(),
         "the weights are divided among no more ranks than that");
    note("/strategy/gradient_sync", s.shard_group_size == 0 && s.gradient_sync == GradientSync::boundary,
         "there are no copies of shards (shard_group_size)");
    note("/strategy/gradient_sync",
         s.gradient_sync == GradientSync::no_sync && (sc.microbatches() < 2 || one_rank || s.pipeline_parallel > 1),
         sc.microbatches() < 2 ? "there is one microbatch"
         : one_rank            ? "there is one data-parallel rank"
                               : "a stage of a pipeline reduces its gradients once a step as it is");
    note("/strategy/synchronization/inner_steps", s.synchronization.kind == Synchronization::Kind::synchronous,
         "synchronization.kind is synchronous");
    note("/strategy/synchronization/inner_steps", s.synchronization.kind >= Synchronization::Kind::parameter_server,
         "replicas meet every step");
    note("/strategy/overlap/grad_reduce", s.overlap.grad_reduce && s.data_parallel * s.context_parallel == 1,
         "there is one data-parallel rank");
    note("/strategy/overlap/param_gather", s.overlap.param_gather && (s.zero_stage == 0 || s.data_parallel * s.context_parallel == 1),
         "no parameters are gathered");
    const bool in_units = practice_of(sc).sharding == Sharding::flat_units || practice_of(sc).copies_with_collectives;
    note("/strategy/overlap/backward_prefetch", !in_units || one_rank || !s.overlap.param_gather || s.zero_stage != 3,
         !in_units           ? "it is of FullyShardedDataParallel's units and of DeepSpeed's ZeRO-3"
         : one_rank          ? "there is one data-parallel rank"
         : s.zero_stage == 3 ? "overlap.param_gather is false"
                             : "no parameters are gathered for the backward pass");
    const ScheduleInfo* schedule = find_schedule(s.schedule);
    note("/strategy/overlap/expert_parallel",
         s.overlap.expert_parallel && s.expert_parallel == 1 && !(schedule && schedule->joins_without_experts), "expert_parallel is 1");
    const bool shared = sc.model.moe && sc.model.moe->shared_experts > 0;
    note("/strategy/overlap/shared_experts", s.overlap.shared_experts && (!shared || s.expert_parallel * s.expert_tensor_parallel == 1),
         shared ? "no tokens are exchanged: expert_parallel and expert_tensor_parallel are 1" : "the model has no shared experts");
    const bool flows = schedule && schedule->asynchronous;
    note("/strategy/weight_versions", !flows, "the schedule drains at the end of each step");
    note("/strategy/flush_every", !flows, "the schedule drains at the end of each step");
    for (const char* field : {"/strategy/weight_versions", "/strategy/flush_every"})
        note(field, flows && s.pipeline_parallel == 1, "pipeline_parallel is 1: no weights are stale");
    note("/strategy/overlap/grad_reduce", flows && s.overlap.grad_reduce && s.data_parallel > 1,
         "a stage reduces its gradients behind the last backward pass of a step, under what runs of the next");
    const Offload& o = s.offload;
    const bool all_here = nothing_offloaded(o);
    note("/strategy/overlap/offload", s.overlap.offload && all_here, "nothing is offloaded");
    if (practice_of(sc).computation_copies_checkpoints && reading.has("/strategy/overlap/offload"))
        sc.notes.push_back("strategy.overlap.offload has no effect on activations: computation stops for their copies");
    else if (!s.overlap.offload && o.activations != Tier::none && reading.has("/strategy/overlap/offload"))
        sc.notes.push_back("strategy.overlap.offload has no effect on activations: their copies run beside the next unit's computation");
    note("/strategy/offload/optimizer_fraction", o.optimizer == Tier::none, "offload.optimizer is none");
    const bool streams = o.optimizer == Tier::nvme || o.parameters == Tier::nvme || o.gradients == Tier::nvme;
    note("/strategy/offload/undone_steps", !sc.undoes_steps(), "no update is made before the norm is known");
    const Practice practice = practice_of(sc);
    const bool in_groups = practice.step_group > 0 && practice.flat_step_gradients && o.optimizer == Tier::none;
    note("/strategy/offload/sub_group_size", !streams && !in_groups, "no optimizer states, parameters or gradients lie on NVMe");
    note("/strategy/offload/pipelined", !streams, "no optimizer states, parameters or gradients lie on NVMe");
    note("/strategy/offload/sub_groups", !streams || !o.pipelined, "sub-groups take turns (offload.pipelined)");
    note("/strategy/offload/buffers", o.parameters != Tier::nvme, "no parameters come from NVMe");
    note("/strategy/offload/activation_ops", o.activations == Tier::none, "offload.activations is none");
    note("/strategy/offload/activation_layers", o.activations == Tier::none, "offload.activations is none");
    const GradientCompression sent = s.gradient_compression;
    // Signs come with a clipping that is off, on one rank too.
    const bool unclipped = of_signs(sent) && !reading.has("/training/gradient_clipping");
    note("/strategy/gradient_compression", sent != GradientCompression::none && !unclipped && s.data_parallel * s.context_parallel == 1,
         "there is one data-parallel rank");
    if (unclipped && s.data_parallel * s.context_parallel == 1)
        sc.notes.push_back(
            fmt::format("strategy.gradient_compression = {}: there is one data-parallel rank and nothing is sent; what differs "
                        "is training.gradient_clipping, which is 0 by default with it",
                        name(sent)));
    const bool factors = sent == GradientCompression::powersgd, largest = sent == GradientCompression::top_k, signs = of_signs(sent);
    const std::string is = std::string("gradient_compression is ") + name(sent);
    for (const char* field : {"rank", "min_ratio"}) note(std::string("/strategy/gradient_compression/") + field, !factors, is);
    note("/strategy/gradient_compression/density", !largest, is);
    note("/strategy/gradient_compression/error_feedback", !factors && !largest && !signs, is);
    note("/strategy/gradient_compression/start_step", sent == GradientCompression::none, is);
    if (sent != GradientCompression::none && s.compression.start_step > 0 && (sc.run || sc.training.convergence))
        sc.notes.push_back(fmt::format("strategy.gradient_compression.start_step has no effect on the times of a run and to a target: all "
                                       "their steps count as predicted here ({}), though the first {} are of the other kind",
                                       name(s.compression.phase), s.compression.start_step));
    note("/strategy/gradient_compression/phase", sent == GradientCompression::none, is);
    note("/strategy/gradient_compression/local_steps", sent != GradientCompression::zero_one_adam, is);
    note("/strategy/gradient_compression/hierarchical", s.compression.hierarchical && sc.cluster.devices_per_node / s.tensor_parallel <= 1,
         "a node has one rank of each gradient");
    note("/strategy/gradient_compression",
         s.data_parallel * s.context_parallel > 1 && std::string(name(s.gradient_compression)) == name(sc.training.gradient_dtype),
         "training.gradient_dtype is that already");
    note("/strategy/context_parallel_kind", s.context_parallel == 1 && s.context_parallel_kind != ContextKind::ring,
         "context_parallel is 1");
    note("/strategy/expert_tensor_parallel", !sc.model.moe && s.expert_tensor_parallel > 1, "the model has no experts");
    note("/strategy/shard_group_size", s.zero_stage == 0, "zero_stage is 0, nothing is sharded");
    note("/strategy/recompute_layers", s.recompute == RecomputeKind::none, "recompute is none");
    note("/strategy/microbatch_group_size", !(schedule && schedule->groups_microbatches), "the schedule has no groups of microbatches");
    note("/strategy/mtp_chunk", sc.model.mtp_layers == 0, "the model predicts no further tokens");
    if (s.recompute == RecomputeKind::list && sc.model.position != PositionKind::rope &&
        std::count(s.recompute_ops.begin(), s.recompute_ops.end(), RecomputeOp::rope) > 0)
        sc.notes.push_back("strategy.recompute: \"rope\" has no effect: the model has no rotary positions");
    if (s.recompute == RecomputeKind::list && !shared &&
        std::count(s.recompute_ops.begin(), s.recompute_ops.end(), RecomputeOp::shared_experts) > 0)
        sc.notes.push_back("strategy.recompute: \"shared_experts\" has no effect: the model has no shared experts");
    if (s.framework == Framework::deepspeed && s.zero_stage == 0 && s.data_parallel > 1 && sc.training.precision == DType::bf16)
        sc.notes.push_back("strategy.zero_stage = 0: DeepSpeed's BF16_Optimizer divides its states among the data-parallel ranks without "
                           "ZeRO too; 1 says so");
    if (s.framework == Framework::torchtitan && !reading.has("/strategy/fused"))
        sc.notes.push_back(
            "strategy.fused = true is assumed: torchtitan compiles where compile.enable says so, and its own default is false; "
            "false has its eager layers, which take longer and more memory");
    const bool trainers = s.framework == Framework::deepspeed && sc.runtime.year >= 2020 && sc.runtime.year < 2025 && !s.fused;
    if (trainers && !reading.has("/strategy/fused"))
        sc.notes.push_back(
            "strategy.fused = false is assumed: DeepSpeed without tensor and pipeline parallelism, of a model with RMSNorm or a gated MLP, "
            "is taken for Hugging Face's Trainer and its eager layers; true has Megatron-DeepSpeed's");
    note("/runtime/fused_weight_gradient_accumulation", sc.runtime.fused_weight_gradient_accumulation && practice_of(sc).fully_sharded(),
         "FullyShardedDataParallel and fully_shard reduce the gradients that autograd makes");
    const bool low = is_low(sc.training.precision);
    note("/runtime/fp8_recipe", !low, "precision has 16 bits or more");
    note("/runtime/fp8_dispatch", sc.runtime.fp8_dispatch && (!low || !sc.model.moe),
         low ? "the model has no experts" : "precision has 16 bits or more");
    note("/runtime/fp8_activation_input", sc.runtime.fp8_activation_input && s.recompute == RecomputeKind::full, "the input is recomputed");
    note_modules(reading);
    note("/runtime/fp8_all_gather", sc.runtime.fp8_all_gather && (sc.training.precision != DType::fp8 || s.zero_stage < 3),
         sc.training.precision != DType::fp8 ? "precision is not fp8" : "zero_stage is below 3: weights are not gathered layer by layer");
    note("/training/bf16_first_layers", sc.training.bf16_first_layers > 0 && !low, "precision has 16 bits or more");
    note("/training/bf16_last_layers", sc.training.bf16_last_layers > 0 && !low, "precision has 16 bits or more");
    note("/training/document_tokens", sc.training.document_tokens > 0 && sc.runtime.attention_kernel == AttentionKernel::unfused,
         "unfused attention makes all scores and masks them");
    note("/training/document_tokens", sc.training.document_tokens >= sc.training.sequence_length,
         "a sequence is no longer than a document");
    if (const std::int64_t given = sc.training.document_tokens, padded = padded_document(sc); 10 * (padded - given) >= given && padded > 0)
        sc.notes.push_back("training.document_tokens = " + std::to_string(given) + ": each document is padded to " +
                           std::to_string(padded) + " tokens, a multiple of 2 x context_parallel, so that all context ranks have a part");
    note("/runtime/token_dispatcher", !sc.model.moe, "the model has no experts");
    if (sc.runtime.token_dispatcher == TokenDispatcher::deepep && sc.model.moe && sc.cluster.devices_per_node > 8 &&
        sc.cluster.device.vendor == "nvidia")
        sc.notes.push_back("runtime.token_dispatcher = deepep is timed as if it sent over NVLink to all devices of a node, and it does so "
                           "to eight at most: hosts of a rack are nodes of their own with intra_node.domain_nodes");
    note("/model/moe/group_limit",
         sc.model.moe && sc.model.moe->group_limit < sc.model.moe->groups &&
             (sc.runtime.token_dispatcher == TokenDispatcher::alltoall || sc.runtime.token_dispatcher == TokenDispatcher::allgather),
         "alltoall and allgather send every copy of a token on its own; deepep sends one to a node");
    note("/runtime/permute_fusion", !sc.model.moe, "the model has no experts");
    note("/runtime/fused_experts", !sc.model.moe, "the model has no experts");
    note("/runtime/expert_room", true,
         !sc.model.moe          ? "the model has no experts"
         : sc.model.moe->pads() ? "model.moe.capacity_factor says how many rows experts take"
                                : "predictions are of software that takes memory for the rows that come; simexec run has the room");
    note("/runtime/fused_rope", sc.model.position != PositionKind::rope, "the model has no rotary positions");
    note("/runtime/compiled_loss", !sc.runtime.fused_loss || !(practice_of(sc).compiles_loss || practice_of(sc).loss_in_place),
         "it is of Megatron's fused loss (runtime.fused_loss)");
    note("/runtime/loss", sc.runtime.loss == LossKind::whole && s.tensor_parallel == 1, "tensor_parallel is 1: each rank has all logits");
    note("/runtime/loss_chunks", sc.runtime.loss != LossKind::chunked, "runtime.loss is not chunked");
    note("/runtime/loss_upcast", !sc.runtime.loss_upcast && !practice_of(sc).narrow_loss,
         "it changes a loss of 16-bit logits and an undivided vocabulary alone, and not that of autocast or of Megatron's layers");
    note("/runtime/fused_softmax", s.flash_attention, "attention is fused as a whole");
    note("/runtime/recompute_early_stop", sc.runtime.recompute_early_stop && s.recompute != RecomputeKind::full, "recompute is not full");
    note("/training/master_weights", sc.training.precision == DType::fp32 || sc.training.precision == DType::tf32,
         "parameters are fp32 themselves");
    const bool wide = practice_of(sc).fp32_parameters; // plans have no masters then
    note("/training/master_remainders",
         sc.training.master_remainders && (!sc.training.master_weights || sc.training.precision == DType::fp16 || wide),
         wide                         ? "autocast's parameters are fp32 themselves"
         : sc.training.master_weights ? "fp16 parameters are no part of an fp32 number"
                                      : "there is no fp32 copy");
    if (s.schedule == "zb-h2" && !s.post_validation)
        sc.notes.push_back("strategy.schedule = zb-h2 keeps zb-h1's bubble: with optimizer_sync = global the gradient norm is a barrier at "
                           "every step's end; post-validation has none");
    else if (s.schedule == "zb-h2" && sc.model.tied_embeddings && s.pipeline_parallel > 1)
        sc.notes.push_back(
            "strategy.schedule = zb-h2 keeps zb-h1's bubble: tied embeddings are summed over the first and the last stage at "
            "every step's end, a barrier; model.tied_embeddings = false has none");
    note_model(reading);
    note_sharding(reading);
    note_device(reading);
    note_hosts(reading);
    note_nvme(reading);
    note_network(reading);
    note_part_of_a_node(reading);
    note_whole_run(reading);
    note_idle(reading);
    if (sc.model.mtp_layers > 0) sc.notes.push_back("model.mtp_layers: multi-token-prediction layers are not counted among the parameters");
    if (sc.training.gradient_clipping > 0 && s.post_validation)
        sc.notes.push_back(
            sc.undoes_steps()
                ? fmt::format(
                      "strategy.optimizer_sync = post-validation: the gradient norm is checked after the step, as in SuperOffload; a "
                      "step that has to be clipped is undone and taken again: strategy.offload.undone_steps = {:g} of them",
                      sc.strategy.offload.undone_steps)
                : "strategy.optimizer_sync = post-validation: the gradient norm is checked after the step, as in the zero-bubble paper; a "
                  "step that has to be clipped is undone and taken again, which is not counted; simulated only");
}

} // namespace orrery
