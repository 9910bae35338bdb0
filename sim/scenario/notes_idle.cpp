// Families of given fields that change nothing: what one other field, or a part that is not there, makes idle. (notes.cpp has single
// fields, check_whole_run.cpp those of runs.)
#include "sim/scenario/resolve.hpp"

#include "sim/scenario/documents.hpp"
#include "sim/scenario/perturb.hpp"
#include "sim/scenario/practice.hpp"
#include "sim/schedules/schedule.hpp"

#include <algorithm>
#include <array>

namespace orrery {

namespace {

const char* const unread = "time and memory do not depend on it";

void note_idle_network(const Scenario& sc, const Notes& note) {
    const Cluster& c = sc.cluster;
    const InterNode& n = c.inter;
    if (!c.graph && c.nodes > 1) {
        const bool dragonfly = n.topology == InterTopology::dragonfly, torus = n.topology == InterTopology::torus;
        note("/cluster/inter_node/nodes_per_leaf", dragonfly, "dragonfly.nodes_per_switch says how many nodes stand at a switch");
        note("/cluster/inter_node/nodes_per_leaf", n.topology == InterTopology::single_switch, "there is one switch");
        note("/cluster/inter_node/kind", torus && c.intra.kind == IntraKind::torus, "the torus inside the nodes goes on between them");
    }
    const auto unknown = [](const Device& d) { return d.power_w <= 0 && d.power_limit_w <= 0; };
    note("/cluster/power_w_per_node",
         unknown(c.device) && std::ranges::all_of(c.others, [&](const OtherNodes& other) { return unknown(other.device); }),
         "what a device draws is not known, and no energy is told: device.power_w says it");
}

// Requests in flight limit a node where their number and their latency are both there; steps alone write nothing.
void note_idle_storage(const Scenario& sc, const Notes& note) {
    if (!sc.run && !sc.training.data) return; // a note on all of it says so
    const Storage& storage = sc.cluster.storage;
    const bool waits = storage.latency.ps > 0, counted = storage.requests_per_node > 0;
    note("/cluster/storage/latency_us", !counted, "requests_per_node is 0: as many are in flight as it takes");
    note("/cluster/storage/requests_per_node", !waits, "latency_us is 0");
    note("/cluster/storage/request_mb", !waits || !counted, waits ? "requests_per_node is 0" : "latency_us is 0");
    note("/cluster/storage/write_gb_per_s", !sc.run, "training.data is read alone: without \"run\" nothing is saved");
}

void note_idle_experts(const Scenario& sc, const Notes& note) {
    if (!sc.model.moe) return;
    const MoeSpec& e = *sc.model.moe;
    note("/model/moe/scoring", true, unread);
    note("/model/moe/shared_expert_ffn_size", e.shared_experts == 0, "the model has no shared experts");
    const TokenDispatcher how = sc.runtime.token_dispatcher;
    const bool one_by_one = how == TokenDispatcher::alltoall || how == TokenDispatcher::allgather;
    note("/model/moe/groups", e.group_limit >= e.groups || one_by_one,
         e.group_limit >= e.groups ? "group_limit is as many: a token may use all of them"
                                   : "alltoall and allgather send every copy of a token on its own");
}

// Processors that no kernel of a dispatcher takes, or whose pace there was not measured.
void note_token_processors(const Scenario& sc, const Notes& note) {
    const TokenDispatcher how = sc.runtime.token_dispatcher;
    const bool one_by_one = how == TokenDispatcher::alltoall || how == TokenDispatcher::allgather;
    const bool stay = sc.strategy.expert_parallel * sc.strategy.expert_tensor_parallel == 1;
    note("/runtime/token_dispatcher_sms", !sc.model.moe || one_by_one || stay || sc.cluster.device.vendor != "nvidia",
         !sc.model.moe ? "the model has no experts"
         : one_by_one  ? "it is of deepep and hybridep (runtime.token_dispatcher)"
         : stay        ? "every rank has all experts"
                       : "their kernels were measured on NVIDIA's devices alone");
}

// Sizes that no layer has.
void note_idle_sizes(const Scenario& sc, const Notes& note) {
    const Model& m = sc.model;
    // Sizes count all the same where they decide which layers a stage has, or which rank owns a tensor.
    const Practice practice = practice_of(sc);
    if (practice.stages_by_cost || practice.tensors_have_owners) return;
    const bool mixtures = m.moe && m.moe->first_dense_layers == 0 && m.moe->layer_frequency == 1,
               own = m.moe && m.moe->expert_ffn_size != m.ffn_size; // else it may be the experts' default
    note("/model/ffn_size", mixtures && own, "all layers are mixtures, whose experts have model.moe.expert_ffn_size");
    const bool latent = m.attention.kind == AttentionSpec::Kind::mla;
    const char* const of_latents = "model.attention.kind is mla, whose heads have widths of their own";
    note("/model/kv_heads", latent, "model.attention.kind is mla, whose heads have keys and values of their own");
    note("/model/head_dim", latent && (m.head_dim % 8 == 0 || sc.strategy.flash_attention), of_latents);
    const std::int64_t document = sc.training.document_tokens, longest = document > 0 ? document : sc.training.sequence_length;
    const bool covers = m.attention.sliding_window >= std::min(longest, sc.training.sequence_length) &&
                        sc.runtime.attention_kernel != AttentionKernel::unfused; // of which another note speaks
    note("/model/attention/sliding_window", covers, "no sequence or document is longer");
    note("/model/attention/full_every", covers, "the window is no shorter than a sequence or document");
}

// However workers merge what they were sent, the same bytes move.
void note_idle_meetings(const Scenario& sc, const Notes& note) {
    const Strategy& s = sc.strategy;
    const Synchronization& how = s.synchronization;
    if (s.diloco()) {
        note("/strategy/synchronization/outer_learning_rate", how.outer_optimizer != OuterOptimizer::none, unread);
        note("/strategy/synchronization/outer_momentum", how.outer_optimizer == OuterOptimizer::nesterov, unread);
    }
    note("/strategy/synchronization/mixing", s.streaming() && how.overlap_steps > 0, unread);
    const bool alike = !sc.model.moe && !sc.model.trainable.partial() &&
                       sc.model.layers % (static_cast<std::int64_t>(s.pipeline_parallel) * how.fragments) == 0;
    note("/strategy/synchronization/fragment_order", s.streaming() && alike, "all fragments have as many layers, which are alike");
    note("/training/moment_dtype", s.served(), "servers keep the moments");
    const bool drawn = how.kind == Synchronization::Kind::async_average || (s.served() && how.staleness_bound != 0);
    note("/training/seed", s.workers() && !(s.loose() && drawn) && !has_jitter(sc.perturb) && !sc.run && !sc.federated,
         "nothing of these workers' steps and meetings is drawn by chance");
}

// Groups, orders and buckets of what there is one of, or none.
void note_idle_groups(const Scenario& sc, const Notes& note) {
    const Strategy& s = sc.strategy;
    const std::int64_t ranks = static_cast<std::int64_t>(s.replicas_of_worker()) * s.context_parallel;
    note("/strategy/shard_group_size", s.zero_stage > 0 && s.shard_group_size == ranks && !sc.model.moe,
         "it is all ranks that share each step, as without it");
    const std::array degrees{s.tensor_parallel, s.context_parallel, s.data_parallel, s.pipeline_parallel};
    note("/strategy/rank_order",
         std::ranges::count_if(degrees, [](int d) { return d > 1; }) <= 1 && s.expert_parallel * s.expert_tensor_parallel == 1,
         "the ranks lie along one axis");
    const ScheduleInfo* schedule = find_schedule(s.schedule);
    const bool both_ways = schedule && schedule->directions > 1;
    const bool apart = (s.streaming() || s.loose()) && s.replicas_of_worker() * s.context_parallel == 1 && !sc.model.moe && !both_ways;
    note("/strategy/bucket_bytes", apart && s.offload == Offload{}, "each worker is one replica, and no step reduces gradients");
    note("/strategy/gradient_compression/start_step",
         s.gradient_compression != GradientCompression::none && !sc.run && !sc.training.convergence,
         "the step is predicted that gradient_compression.phase says");
}

// Sub-groups of states that pass through the host from NVMe say what is copied and updated together.
void note_idle_offload(const Scenario& sc, const Notes& note) {
    const Strategy& s = sc.strategy;
    const Offload& o = s.offload;
    const bool one = s.data_parallel * s.context_parallel == 1; // its units' copies overlap as offload says
    if (o.optimizer != Tier::nvme || (one && (o.parameters != Tier::none || o.gradients != Tier::none))) return;
    const char* const sub_groups = "optimizer states come from NVMe in sub-groups (offload.sub_group_size, offload.pipelined)";
    note("/strategy/overlap/offload", o.activations == Tier::none, sub_groups);
    const bool unit = s.zero_stage >= 2 && s.pipeline_parallel == 1 && practice_of(sc).sharding != Sharding::compiler;
    const bool held = practice_of(sc).reduce_buffers > 0;
    note("/strategy/bucket_bytes", !held && (one ? !sc.model.moe : unit), sub_groups); // a unit's gradients travel together
}

} // namespace

void note_idle(Reading& reading) {
    const Scenario& sc = reading.scenario;
    const Notes note(reading);
    note_idle_network(sc, note);
    note_idle_storage(sc, note);
    note_idle_experts(sc, note);
    note_token_processors(sc, note);
    note_idle_sizes(sc, note);
    note_idle_meetings(sc, note);
    note_idle_groups(sc, note);
    note_idle_offload(sc, note);
}

} // namespace orrery
