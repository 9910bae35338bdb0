// When replicas meet: combinations that cannot be.
#include "sim/scenario/resolve.hpp"
#include "sim/scenario/suggest.hpp"
#include "sim/schedules/schedule.hpp"

#include <algorithm>

namespace orrery {
namespace {

// Fragments of streaming DiLoCo: there is a layer for each, and one is back before the next goes.
void check_fragments(Reading& reading) {
    const Strategy& s = reading.scenario.strategy;
    const Synchronization& how = s.synchronization;
    if (!s.streaming()) return;
    const auto refuse = [&](bool broken, const char* field, const std::string& what) {
        if (broken) reading.problem(std::string("/strategy/synchronization/") + field, "strategy.synchronization." + what);
    };
    std::vector<std::int64_t> layers(static_cast<std::size_t>(s.pipeline_parallel), 0);
    for (std::size_t c = 0; c < s.layers_per_chunk.size(); ++c) layers[c % layers.size()] += s.layers_per_chunk[c];
    const std::int64_t least = *std::min_element(layers.begin(), layers.end()), apart = how.inner_steps / std::max(1, how.fragments);
    refuse(how.fragments > least, "fragments",
           eq("fragments", how.fragments) + " is more than the " + std::to_string(least) + " layers of a stage: try " +
               std::to_string(least));
    refuse(how.fragments > how.inner_steps, "fragments",
           eq("fragments", how.fragments) + " is more than inner_steps = " + std::to_string(how.inner_steps) +
               ", and each is sent after another step: raise inner_steps");
    refuse(how.overlap_steps >= apart && how.overlap_steps > 0, "overlap_steps",
           eq("overlap_steps", how.overlap_steps) + " reaches the next fragment, " + std::to_string(apart) +
               " steps on (inner_steps / fragments): try " + std::to_string(std::max<std::int64_t>(0, apart - 1)));
    refuse(reading.scenario.model.tied_embeddings && s.pipeline_parallel > 1, "kind",
           "kind = streaming_diloco is not modelled with tied embeddings on two stages, whose fragments are not sent together: set "
           "model.tied_embeddings = false");
    const Optimizer o = reading.scenario.training.optimizer;
    refuse(o == Optimizer::lamb || o == Optimizer::lars, "kind",
           std::string("kind = streaming_diloco is not modelled with training.optimizer = ") + name(o) + ": try adamw");
}

// Workers of several replicas.
void check_workers(Reading& reading) {
    const Strategy& s = reading.scenario.strategy;
    const int workers = s.synchronization.workers;
    const std::string is = eq("strategy.synchronization.workers", workers);
    if (workers == 0 || workers == s.data_parallel || s.synchronization.kind == Synchronization::Kind::synchronous) return;
    if (s.synchronization.kind >= Synchronization::Kind::parameter_server)
        return reading.problem("/strategy/synchronization/workers",
                               is + " is not modelled with strategy.synchronization.kind = " + name(s.synchronization.kind) +
                                   ", where every replica is a worker: leave it out");
    if (!s.workers()) return;
    if (s.data_parallel % workers != 0)
        reading.problem("/strategy/synchronization/workers",
                        is + " must divide " + eq("data_parallel", s.data_parallel) + ": try " + join(common_divisors(s.data_parallel, 0)));
}

// Replicas that meet outside the plan: each sends whole parameters, or gradients to servers.
void check_loose(Reading& reading, const std::string& local) {
    const Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    const Synchronization& how = s.synchronization;
    if (!s.loose() || !sound(reading, {"/cluster"})) return;
    const auto refuse = [&](bool broken, const char* pointer, const std::string& what) {
        if (broken) reading.problem(pointer, what);
    };
    refuse(how.servers > sc.cluster.nodes, "/strategy/synchronization/servers",
           eq("strategy.synchronization.servers", how.servers) + " is more than the " + std::to_string(sc.cluster.nodes) +
               " nodes whose hosts could serve: try " + std::to_string(sc.cluster.nodes));
    refuse(how.degree >= s.data_parallel, "/strategy/synchronization/degree",
           eq("strategy.synchronization.degree", how.degree) + " is more than the " + std::to_string(s.data_parallel - 1) +
               " other replicas: lower it");
    refuse(s.data_parallel > 1024, "/strategy/data_parallel",
           eq("strategy.data_parallel", s.data_parallel) + " is more replicas than are followed one by one with " + local +
               ": at most 1024");
    const std::int64_t servers = how.servers > 0 ? how.servers : sc.cluster.nodes;
    constexpr std::int64_t most_ways = 1'000'000;
    refuse(s.served() && servers * sc.world_size() > most_ways, "/strategy/synchronization/servers",
           std::to_string(servers) + " servers of " + std::to_string(sc.world_size()) + " ranks have more than " +
               std::to_string(most_ways) + " ways between them, which are followed one by one: try fewer servers");
    refuse(s.gradient_compression != GradientCompression::none, "/strategy/gradient_compression",
           std::string("strategy.gradient_compression = ") + name(s.gradient_compression) + " is not modelled with " + local +
               (s.served() ? ": set synchronization.payload_dtype" : ": leave it out"));
    const Optimizer o = sc.training.optimizer;
    refuse(s.served() && (o == Optimizer::lamb || o == Optimizer::lars), "/training/optimizer",
           std::string("training.optimizer = ") + name(o) + " needs norms of whole tensors, of which servers have parts: try adamw");
    refuse(sc.cluster.graph && s.served(), "/strategy/synchronization/kind",
           local + " is not modelled on a graph of one's own, which does not say where hosts are: describe nodes by intra_node and "
                   "inter_node");
    refuse(!sc.cluster.others.empty(), "/strategy/synchronization/kind",
           local + " is not modelled on unlike nodes: perturb has slow nodes");
}

} // namespace

// Replicas that train parameters of their own share nothing of a step.
void check_synchronization(Reading& reading) {
    const Strategy& s = reading.scenario.strategy;
    if (!sound(reading, {"/strategy", "/model", "/training"})) return;
    check_workers(reading);
    if (!s.workers()) return;
    const ScheduleInfo* schedule = find_schedule(s.schedule);
    const auto refuse = [&](bool broken, const char* pointer, const std::string& what) {
        if (broken) reading.problem(pointer, what);
    };
    const std::string local = std::string("strategy.synchronization.kind = ") + name(s.synchronization.kind);
    const auto clients = static_cast<std::int64_t>(s.synchronization.samples.size());
    refuse(s.synchronization.kind == Synchronization::Kind::fedavg && clients > 0 && clients != s.worker_count(),
           "/strategy/synchronization/samples",
           "strategy.synchronization.samples has " + std::to_string(clients) + " numbers for " + std::to_string(s.worker_count()) +
               " workers: give each one");
    check_fragments(reading);
    check_loose(reading, local);
    const bool alone = s.replicas_of_worker() * s.context_parallel == 1;
    const bool steps_alone = s.synchronization.kind == Synchronization::Kind::synchronous; // 0/1 Adam's local steps
    const bool compressed =
        s.gradient_compression != GradientCompression::none && !of_signs(s.gradient_compression); // those of signs: check_travel.cpp
    refuse(compressed && alone && !s.loose() && !steps_alone, "/strategy/gradient_compression",
           std::string("strategy.gradient_compression = ") + name(s.gradient_compression) + " has no gradients to compress: with " + local +
               " each worker is one replica and keeps its own: leave it out, or set synchronization.payload_dtype under diloco");
    refuse(s.zero_stage > 0 && (alone || s.loose()), "/strategy/zero_stage",
           eq("strategy.zero_stage", s.zero_stage) + " divides optimizer states among replicas, and with " +
               (steps_alone ? std::string("strategy.gradient_compression = ") + name(s.compresses()) : local) +
               " each has its own: set zero_stage = 0" +
               (s.loose() || steps_alone ? "" : ", or synchronization.workers to the number of groups of replicas that share theirs"));
    refuse(reading.scenario.model.moe.has_value() && s.loose(), "/strategy/synchronization/kind",
           local + " is not modelled with a mixture of experts (model.moe): set kind = synchronous or diloco");
    refuse(schedule && schedule->directions > 1, "/strategy/schedule",
           "strategy.schedule = " + s.schedule + " sums the gradients of its copies of the model across replicas, which " + local +
               " does not: try zb-v or 1f1b");
    refuse(s.post_validation, "/strategy/optimizer_sync",
           "strategy.optimizer_sync = post-validation is not modelled with " + local + ": use global");
    refuse(reading.scenario.training.master_remainders, "/training/master_remainders",
           "training.master_remainders is not modelled with " + local + ", which averages whole master weights: set it to false");
}

} // namespace orrery
