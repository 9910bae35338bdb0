#include "sim/advise/changes.hpp"

#include "sim/scenario/abilities.hpp"
#include "sim/scenario/homes.hpp"
#include "sim/scenario/layers.hpp"
#include "sim/scenario/practice.hpp"
#include "sim/schedules/schedule.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace orrery {
namespace {

bool mixture(const Scenario& s) { return s.model.moe.has_value(); }

std::string number(std::int64_t n) { return std::to_string(n); }

std::string degrees_words(const Degrees& d) {
    std::string text;
    const auto add = [&](const char* what, int n) {
        if (n > 0) text += fmt::format("{}{} {}", text.empty() ? "" : " x ", what, n);
    };
    add("tensor", d.tensor);
    add("context", d.context);
    add("pipeline", d.pipeline);
    add("expert", d.expert);
    return text;
}

// Degree doubled and halved.
void twice_and_half(std::vector<StrategyChange>& out, const Scenario& s, int degree, int Degrees::*of) {
    for (const int n : {degree * 2, degree / 2}) {
        if (n < 1 || (degree % 2 != 0 && n < degree)) continue;
        Degrees d;
        d.*of = n;
        out.push_back(set_degrees(s, d));
    }
}

// Each kind of communication that the job has and does not overlap, and all of them together.
void overlaps(std::vector<StrategyChange>& out, const Scenario& s) {
    const Strategy& g = s.strategy;
    struct Switch {
        const char *words, *pointer;
        bool on, useful;
    };
    const bool replicas = static_cast<std::int64_t>(g.data_parallel) * g.context_parallel > 1;
    const Switch switches[] = {
        {"reductions of gradients", "/strategy/overlap/grad_reduce", g.overlap.grad_reduce, replicas},
        {"gathers of parameters", "/strategy/overlap/param_gather", g.overlap.param_gather, replicas && g.zero_stage > 0},
        {"tensor-parallel communication", "/strategy/overlap/tensor_parallel", g.overlap.tensor_parallel,
         g.tensor_parallel > 1 && may_overlap_tensor_parallel(s)},
        {"transfers between stages", "/strategy/overlap/pipeline", g.overlap.pipeline, g.pipeline_parallel > 1},
        {"exchanges of tokens", "/strategy/overlap/expert_parallel", g.overlap.expert_parallel,
         g.expert_parallel > 1 && !g.overlap.shared_experts},
        {"copies to and from the host", "/strategy/overlap/offload", g.overlap.offload, g.offload != Offload{}},
    };
    StrategyChange all{"all communication overlapped", {}};
    for (const Switch& w : switches) {
        if (w.on || !w.useful) continue;
        out.push_back(set_field(fmt::format("{} overlapped", w.words), w.pointer, "true"));
        all.fields.push_back({w.pointer, "true"});
    }
    if (all.fields.size() > 1) out.push_back(std::move(all));
    // (Not with that of the exchanges.)
    if (s.model.moe && s.model.moe->shared_experts > 0 && g.expert_parallel > 1 && !g.overlap.expert_parallel && !g.overlap.shared_experts)
        out.push_back(set_field("shared experts beside the exchanges of tokens", "/strategy/overlap/shared_experts", "true"));
}

// The words on layers where a change gives up a split that is not the usual one; nothing where it is the usual one.
const char* layers_then(const Scenario& s, bool virtual_stages) {
    if (s.strategy.layers_per_chunk == usual_split(s)) return "";
    return practice_of(s).stages_by_cost && !virtual_stages ? "layers by their cost" : "layers evenly";
}

// What predicts further tokens is in the usual chunk.
void mtp_anywhere(StrategyChange& change, const Strategy& s) {
    if (s.mtp_chunk >= 0) change.fields.push_back({"/strategy/mtp_chunk", ""});
}

void usual_chunks(StrategyChange& change, const Strategy& s) {
    change.fields.push_back({"/strategy/layer_split", ""});
    mtp_anywhere(change, s);
}

// None, twice and half as many, where each stage has as many layers then.
void virtual_stages(std::vector<StrategyChange>& out, const Scenario& s) {
    const Strategy& g = s.strategy;
    const std::string layers = layers_then(s, true);
    if (g.virtual_pipeline > 1)
        out.push_back({"1f1b without virtual stages", {{"/strategy/virtual_pipeline", ""}, {"/strategy/schedule", "\"1f1b\""}}});
    for (const int chunks : {g.virtual_pipeline * 2, g.virtual_pipeline / 2})
        if (chunks > 1 && s.model.layers % (chunks * g.pipeline_parallel) == 0)
            out.push_back({fmt::format("interleaved-1f1b with {} virtual stages{}", chunks, layers.empty() ? "" : " (" + layers + ")"),
                           {{"/strategy/virtual_pipeline", number(chunks)},
                            {"/strategy/schedule", "\"interleaved-1f1b\""},
                            {"/strategy/layer_split", ""}}});
    for (StrategyChange& c : out)
        if (c.fields.front().pointer == "/strategy/virtual_pipeline") mtp_anywhere(c, g);
}

// With what else it sets, in brackets.
StrategyChange renamed(StrategyChange change, const std::string& words) {
    const std::size_t aside = change.words.find(" (");
    change.words = words + (aside == std::string::npos ? "" : change.words.substr(aside));
    return change;
}

} // namespace

StrategyChange set_field(const std::string& words, const std::string& pointer, const std::string& value) {
    return {words, {{pointer, value}}};
}

StrategyChange set_degrees(const Scenario& s, const Degrees& d) {
    const Strategy& g = s.strategy;
    StrategyChange c{degrees_words(d), {{"/strategy/data_parallel", ""}}};
    const int tensor = d.tensor ? d.tensor : g.tensor_parallel, pipeline = d.pipeline ? d.pipeline : g.pipeline_parallel;
    std::string aside; // what whoever makes the change by hand must set too
    const auto beside = [&](const char* words) { aside += (aside.empty() ? " (" : ", ") + std::string(words); };
    if (d.tensor) {
        c.fields.push_back({"/strategy/tensor_parallel", number(d.tensor)});
        if (tensor == 1 || g.tensor_parallel == 1) c.fields.push_back({"/strategy/sequence_parallel", tensor > 1 ? "true" : "false"});
        if (tensor > 1 && g.tensor_parallel == 1 && !g.sequence_parallel) beside("sequence parallel");
    }
    if (d.context) c.fields.push_back({"/strategy/context_parallel", number(d.context)});
    if (d.expert) c.fields.push_back({"/strategy/expert_parallel", number(d.expert)});
    if (pipeline > 1 && g.schedule == "none") {
        c.fields.push_back({"/strategy/schedule", "\"1f1b\""});
        beside("1f1b");
    }
    if (d.pipeline) c.fields.push_back({"/strategy/pipeline_parallel", number(d.pipeline)});
    if (pipeline != g.pipeline_parallel) {
        if (const char* layers = layers_then(s, false); *layers && pipeline > 1) beside(layers);
        usual_chunks(c, g);
        if (g.microbatch_group_size > 0) c.fields.push_back({"/strategy/microbatch_group_size", ""});
        if (!g.recompute_layers.empty()) {
            c.fields.push_back({"/strategy/recompute_layers", ""});
            beside("recompute of all layers");
        }
        if (g.virtual_pipeline > 1 && (pipeline == 1 || s.model.layers % (pipeline * g.virtual_pipeline) != 0)) {
            c.fields.push_back({"/strategy/virtual_pipeline", ""});
            c.fields.push_back({"/strategy/schedule", pipeline == 1 ? "" : "\"1f1b\""});
            if (pipeline > 1) beside("1f1b without virtual stages");
        }
    }
    if (!aside.empty()) c.words += aside + ")";
    return c;
}

StrategyChange set_nodes(int nodes) {
    return {fmt::format("{} node{}", nodes, nodes == 1 ? "" : "s"), {{"/cluster/nodes", number(nodes)}, {"/strategy/data_parallel", ""}}};
}

StrategyChange recompute_of(const std::vector<int>& layers) {
    std::string where;
    for (std::size_t i = 0; i < layers.size();) {
        std::size_t end = i + 1;
        while (end < layers.size() && layers[end] == layers[i]) ++end;
        if (layers[i] > 0)
            where += fmt::format("{}{} layer{} on {}", where.empty() ? "" : ", ", layers[i], layers[i] == 1 ? "" : "s",
                                 end == i + 1 ? fmt::format("stage {}", i) : fmt::format("stages {}-{}", i, end - 1));
        i = end;
    }
    return {"full recompute of " + where,
            {{"/strategy/recompute", "\"full\""}, {"/strategy/recompute_layers", fmt::format("[{}]", fmt::join(layers, ", "))}}};
}

std::vector<StrategyChange> neighbours(const Scenario& s) {
    const Strategy& g = s.strategy;
    std::vector<StrategyChange> out;
    twice_and_half(out, s, g.tensor_parallel, &Degrees::tensor);
    twice_and_half(out, s, g.pipeline_parallel, &Degrees::pipeline);
    twice_and_half(out, s, g.context_parallel, &Degrees::context);
    if (mixture(s)) twice_and_half(out, s, g.expert_parallel, &Degrees::expert);
    if (g.pipeline_parallel % 2 == 0) out.push_back(set_degrees(s, {g.tensor_parallel * 2, g.pipeline_parallel / 2}));
    if (g.tensor_parallel % 2 == 0) out.push_back(set_degrees(s, {g.tensor_parallel / 2, g.pipeline_parallel * 2}));
    for (const std::int64_t n : {s.training.micro_batch_size * 2, s.training.micro_batch_size / 2, std::int64_t{1}})
        if (n >= 1 && n != s.training.micro_batch_size && (n != 1 || s.training.micro_batch_size > 2))
            out.push_back(set_field(fmt::format("microbatches of {}", n), "/training/micro_batch_size", number(n)));
    static constexpr std::pair<RecomputeKind, const char*> recomputes[] = {
        {RecomputeKind::none, "none"}, {RecomputeKind::selective, "selective"}, {RecomputeKind::full, "full"}};
    for (const auto& [kind, name] : recomputes) {
        if (kind == g.recompute && !g.recomputes_some()) continue;
        StrategyChange c = set_field(kind == RecomputeKind::none ? "no recompute" : std::string(name) + " recompute", "/strategy/recompute",
                                     '"' + std::string(name) + '"');
        c.fields.push_back({"/strategy/recompute_layers", ""});
        out.push_back(std::move(c));
    }
    for (int z = 0; z <= 3; ++z)
        if (z != g.zero_stage && g.data_parallel > 1)
            out.push_back(set_field(z == 0 ? "no ZeRO" : fmt::format("ZeRO {}", z), "/strategy/zero_stage", number(z)));
    if (g.pipeline_parallel > 1) virtual_stages(out, s);
    if (g.tensor_parallel > 1)
        out.push_back(set_field(g.sequence_parallel ? "no sequence parallelism" : "sequence parallelism", "/strategy/sequence_parallel",
                                g.sequence_parallel ? "false" : "true"));
    overlaps(out, s);
    return out;
}

namespace {

// Schedules that the framework has, each with as many chunks as it usually has. Not those whose weights are older than the step: they train
// otherwise. Not interleaved-1f1b and 1f1b where virtual_stages() has them.
void other_schedules(std::vector<StrategyChange>& out, const Scenario& s) {
    const Strategy& g = s.strategy;
    for (const std::string& name : abilities_of(s).all_schedules()) {
        const ScheduleInfo& info = *find_schedule(name);
        if (name == "none" || name == g.schedule) continue;
        const bool interleaved = name == "interleaved-1f1b";
        if (name == "1f1b" && g.virtual_pipeline > 1) continue;
        if (interleaved && (g.virtual_pipeline == 1 || s.model.layers % (g.virtual_pipeline * g.pipeline_parallel) != 0)) continue;
        const int chunks = interleaved ? g.virtual_pipeline : info.usual_chunks;
        StrategyChange c = set_field("the schedule " + name, "/strategy/schedule", '"' + name + '"');
        c.fields.push_back({"/strategy/virtual_pipeline", chunks == 1 ? "" : number(chunks)});
        if (g.microbatch_group_size > 0) c.fields.push_back({"/strategy/microbatch_group_size", ""});
        if (chunks != g.virtual_pipeline || info.stage_of != find_schedule(g.schedule)->stage_of) {
            if (const char* layers = layers_then(s, chunks > 1); *layers) c.words += fmt::format(" ({})", layers);
            usual_chunks(c, g);
        }
        out.push_back(std::move(c));
    }
}

// Megatron-LM's two orders of ranks: its own, and that of --use-tp-pp-dp-mapping.
StrategyChange other_order(const Scenario& s) {
    const RankOrder& own = s.strategy.rank_order;
    const bool stages_last = std::ranges::find(own, Axis::dp) < std::ranges::find(own, Axis::pp);
    const std::string order = stages_last ? "tp-cp-ep-pp-dp" : "tp-cp-ep-dp-pp";
    return set_field("ranks in the order " + order, "/strategy/rank_order", '"' + order + '"');
}

} // namespace

std::vector<StrategyChange> other_kinds(const Scenario& s) {
    const Strategy& g = s.strategy;
    const Abilities can = abilities_of(s);
    std::vector<StrategyChange> out;
    if (g.expert_parallel > 1)
        for (const TokenDispatcher d : values<TokenDispatcher>())
            if (d != s.runtime.token_dispatcher && may_dispatch(s, d))
                out.push_back(set_field(fmt::format("tokens to experts by {}", name(d)), "/runtime/token_dispatcher",
                                        fmt::format("\"{}\"", name(d))));
    if (g.context_parallel > 1)
        for (const ContextKind k : values<ContextKind>())
            if (k != g.context_parallel_kind && can.has(k))
                out.push_back(set_field(fmt::format("context parallelism by {}", name(k)), "/strategy/context_parallel_kind",
                                        fmt::format("\"{}\"", name(k))));
    if (g.pipeline_parallel > 1) other_schedules(out, s);
    if (g.pipeline_parallel > 1 && g.data_parallel > 1 && s.cluster.nodes > 1) out.push_back(other_order(s));
    return out;
}

namespace {

StrategyChange set_meeting(const std::string& words, const char* field, const std::string& value) {
    return set_field(words, std::string("/strategy/synchronization/") + field, value);
}

// Workers that meet every inner_steps steps: rounds of four times, twice and half as many.
void other_rounds(std::vector<StrategyChange>& out, const Synchronization& how) {
    for (const std::int64_t steps : {how.inner_steps * 4, how.inner_steps * 2, how.inner_steps / 2})
        if (steps >= 1 && steps <= 10000)
            out.push_back(set_meeting(fmt::format("meetings every {} steps", steps), "inner_steps", number(steps)));
}

// Each dtype in which less is sent than now.
void smaller_payloads(std::vector<StrategyChange>& out, const Synchronization& how) {
    for (const DType t : {DType::bf16, DType::int8, DType::int4})
        if (bytes_per_element(t) < bytes_per_element(how.payload_dtype))
            out.push_back(set_meeting(fmt::format("payloads in {}", name(t)), "payload_dtype", fmt::format("\"{}\"", name(t))));
}

// Streaming DiLoCo's fragments of three layers, each a step on its way (arXiv:2501.18512).
int usual_fragments(const Scenario& s, std::int64_t steps, std::int64_t sending) {
    return static_cast<int>(
        std::clamp<std::int64_t>(s.model.layers / s.strategy.pipeline_parallel / 3, 1, std::max<std::int64_t>(1, steps / (sending + 1))));
}

// When and what workers of their own send: the levers of such a job.
void other_meetings(std::vector<StrategyChange>& out, const Scenario& s) {
    const Strategy& g = s.strategy;
    const Synchronization& how = g.synchronization;
    if (!g.loose()) other_rounds(out, how);
    if (g.diloco() || g.served()) smaller_payloads(out, how);
    if (g.diloco() && !g.streaming()) {
        const int fragments = usual_fragments(s, how.inner_steps, 1);
        StrategyChange c = set_meeting(fmt::format("{} fragments that are sent one after another, a step on their way each", fragments),
                                       "kind", "\"streaming_diloco\"");
        c.fields.push_back({"/strategy/synchronization/fragments", number(fragments)});
        c.fields.push_back({"/strategy/synchronization/overlap_steps", "1"});
        out.push_back(std::move(c));
    }
    if (g.streaming())
        for (const int n : {how.fragments * 2, how.fragments / 2})
            if (n >= 1) out.push_back(set_meeting(fmt::format("{} fragments", n), "fragments", number(n)));
    if (g.streaming() || how.kind == Synchronization::Kind::gossip) {
        const std::int64_t on_their_way = std::max<std::int64_t>(1, how.overlap_steps * 2);
        out.push_back(set_meeting(fmt::format("messages {} step{} on their way", on_their_way, on_their_way == 1 ? "" : "s"),
                                  "overlap_steps", number(on_their_way)));
    }
}

} // namespace

std::vector<StrategyChange> other_trainings(const Scenario& s) {
    const Strategy& g = s.strategy;
    std::vector<StrategyChange> out;
    if (g.workers()) other_meetings(out, s);
    if (g.data_parallel == 1 || s.cluster.nodes == 1 || g.synchronization.kind != Synchronization::Kind::synchronous) return out;
    constexpr int steps = 100, sending = 1; // Streaming DiLoCo's usual round
    const int most = std::gcd(g.data_parallel, s.cluster.nodes), fragments = usual_fragments(s, steps, sending);
    const auto add = [&](StrategyChange c, int workers) {
        if (workers == g.data_parallel && g.zero_stage > 0) { // a worker of one replica has nobody to share states with
            c.words += " (no ZeRO)";
            c.fields.push_back({"/strategy/zero_stage", "0"});
        }
        out.push_back(std::move(c));
    };
    for (const int workers : std::set<int>{std::gcd(most, 2), most}) {
        if (workers == 1) continue;
        const std::string round = fmt::format(R"("inner_steps": {}, "workers": {})", steps, workers),
                          words = fmt::format("between {} workers that meet every {} steps", workers, steps);
        add(set_field("DiLoCo " + words, "/strategy/synchronization", fmt::format(R"({{"kind": "diloco", {}}})", round)), workers);
        add(set_field(
                "streaming DiLoCo " + words, "/strategy/synchronization",
                fmt::format(R"({{"kind": "streaming_diloco", {}, "fragments": {}, "overlap_steps": {}}})", round, fragments, sending)),
            workers);
    }
    const Abilities can = abilities_of(s);
    if (g.gradient_compression == GradientCompression::none && !can.all)
        for (const char* word : Spelling<GradientCompression>::all)
            if (const GradientCompression k = *named<GradientCompression>(word);
                k != GradientCompression::none && can.has(k) && (g.zero_stage == 0 || !of_signs(k)))
                out.push_back(set_field(fmt::format("gradients sent as {}", word), "/strategy/gradient_compression",
                                        fmt::format(R"({{"kind": "{}"}})", word)));
    return out;
}

namespace {

// States or activations elsewhere, the nearer homes first. Gradients and parameters leave where ranks share them: with ZeRO 3 then.
std::vector<StrategyChange> other_homes(const Scenario& s) {
    std::vector<StrategyChange> out;
    if (s.strategy.offload != Offload{}) return out;
    Scenario sharing = s;
    sharing.strategy.zero_stage = 3;
    std::vector<std::string> known;
    for (const Scenario* from : std::initializer_list<const Scenario*>{&s, &sharing})
        for (const Home& home : homes_of(*from)) {
            const bool both_kinds = home.words.find("activations") != std::string::npos && home.words.find("states") != std::string::npos;
            if (home.reach == Reach::devices || both_kinds || std::find(known.begin(), known.end(), home.words) != known.end()) continue;
            known.push_back(home.words);
            StrategyChange c{home.words, {}};
            for (const auto& [pointer, value] : home.fields) c.fields.push_back({pointer, value});
            if (from == &sharing) c = both(set_field("ZeRO 3", "/strategy/zero_stage", "3"), c);
            out.push_back(std::move(c));
        }
    return out;
}

} // namespace

std::vector<StrategyChange> memory_savers(const Scenario& s) {
    std::vector<StrategyChange> out = other_homes(s);
    if (s.runtime.loss != LossKind::chunked) out.push_back(set_field("the loss in chunks", "/runtime/loss", "\"chunked\""));
    return out;
}

std::vector<StrategyChange> colleagues_questions(const Scenario& s) {
    const Strategy& g = s.strategy;
    const int node = s.cluster.devices_per_node;
    std::vector<StrategyChange> out;
    const auto zero3 = set_field("", "/strategy/zero_stage", "3");
    const Degrees plain{1, 1, 0, mixture(s) ? 1 : 0};
    if (g.tensor_parallel * g.pipeline_parallel > 1 || g.zero_stage < 3)
        out.push_back(renamed(both(set_degrees(s, plain), zero3), "ZeRO 3 without tensor and pipeline parallelism"));
    if (mixture(s)) {
        int most = std::min(s.model.moe->experts, node); // in a node, and a divisor of the experts and of the ranks of a stage
        while (s.model.moe->experts % most != 0 || s.cluster.devices() / g.pipeline_parallel % most != 0) --most;
        if (g.expert_parallel != most || g.tensor_parallel > 1)
            out.push_back(renamed(set_degrees(s, {1, 0, 0, most}), fmt::format("expert parallel {} without tensor parallelism", most)));
    }
    if (g.pipeline_parallel > 1)
        out.push_back(renamed(set_degrees(s, {node, 1}), fmt::format("tensor {} alone, without a pipeline", node)));
    if (g.tensor_parallel > 1)
        out.push_back(renamed(set_degrees(s, {1, g.tensor_parallel * g.pipeline_parallel}),
                              fmt::format("pipeline {} alone, without tensor parallelism", g.tensor_parallel * g.pipeline_parallel)));
    if (g.tensor_parallel == 1 && g.pipeline_parallel == 1) {
        out.push_back(renamed(set_degrees(s, {node, 0}), fmt::format("tensor {} within each node", node)));
        out.push_back(renamed(set_degrees(s, {0, 4}), "a pipeline of 4 stages"));
    }
    const std::int64_t more = s.training.micro_batch_size * 2;
    if (g.recompute != RecomputeKind::full || g.recomputes_some())
        out.push_back(
            renamed(both(set_field("", "/training/micro_batch_size", number(more)), set_field("", "/strategy/recompute", "\"full\"")),
                    fmt::format("microbatches of {} with full recompute", more)));
    out.push_back(set_field(fmt::format("microbatches of {}", more), "/training/micro_batch_size", number(more)));
    if (g.offload != Offload{}) out.push_back(set_field("nothing on the host", "/strategy/offload", ""));
    const bool recomputes = g.recompute != RecomputeKind::none;
    out.push_back({recomputes ? "no recompute" : "full recompute",
                   {{"/strategy/recompute", recomputes ? "\"none\"" : "\"full\""}, {"/strategy/recompute_layers", ""}}});
    return out;
}

namespace {

StrategyChange zero(int stage) { return set_field(fmt::format("ZeRO {}", stage), "/strategy/zero_stage", number(stage)); }
StrategyChange full_recompute() { return {"full recompute", {{"/strategy/recompute", "\"full\""}, {"/strategy/recompute_layers", ""}}}; }
StrategyChange states_on_hosts() { return {"optimizer states on the host", {{"/strategy/offload", R"({"optimizer": "cpu"})"}}}; }
StrategyChange at_home(const Scenario& s) {
    return {s.strategy.offload != Offload{} ? "nothing on the host" : "", {{"/strategy/offload", ""}}};
}

} // namespace

std::vector<StrategyChange> guide(const Scenario& s) {
    const Strategy& g = s.strategy;
    const int node = std::max(1, s.cluster.devices_per_node), devices = s.cluster.devices();
    const bool recomputes = g.recompute != RecomputeKind::none;
    const StrategyChange zero1 = zero(1), home = at_home(s), full = full_recompute(), host = states_on_hosts(),
                         none{recomputes ? "no recompute" : "", {{"/strategy/recompute", "\"none\""}, {"/strategy/recompute_layers", ""}}};
    std::vector<StrategyChange> simple{
        renamed(both(set_degrees(s, {1, 1, 0, mixture(s) ? 1 : 0}), set_field("", "/strategy/zero_stage", "0")), "data parallel alone")};
    if (mixture(s)) {
        for (int e = 2; e <= std::min(devices, s.model.moe->experts); e *= 2) {
            for (int p = 1; p * e <= devices && p <= s.model.layers && p <= 16; p *= 4)
                if (e >= std::min(node, s.model.moe->experts) || p == 1) simple.push_back(both(set_degrees(s, {1, p, 0, e}), zero1));
        }
    } else {
        for (int m = 2; m <= devices && m / node <= s.model.layers; m *= 2)
            simple.push_back(both(set_degrees(s, {std::min(m, node), std::max(1, m / node)}), zero1));
    }
    std::vector<StrategyChange> out;
    for (const StrategyChange& more : {both(home, none), both(home, full), both(host, full)})
        for (const StrategyChange& c : simple) out.push_back(both(c, more));
    return out;
}

std::vector<StrategyChange> least_memory(const Scenario& s, int nodes, bool on_hosts) {
    const int node = std::max(1, s.cluster.devices_per_node), experts = mixture(s) ? s.model.moe->experts : 0;
    StrategyChange rest = both(full_recompute(), on_hosts ? states_on_hosts() : at_home(s));
    if (s.training.micro_batch_size > 1) rest = both(rest, set_field("microbatches of 1", "/training/micro_batch_size", "1"));
    std::vector<StrategyChange> out{both(both(set_degrees(s, {1, 1, 0, mixture(s) ? 1 : 0}), zero(3)), rest)};
    for (int stages = 1; stages <= std::min(nodes, s.model.layers); ++stages) {
        if (nodes % stages != 0) continue;
        const int devices = nodes / stages * node; // of a stage
        std::set<std::pair<int, int>> degrees;     // context and expert parallelism, 0: as they are
        int context = 1;
        while (s.training.sequence_length / context > 16384 && nodes / stages % (context * 2) == 0) context *= 2;
        for (const int c : {0, context > 1 ? context : 0}) {
            degrees.insert({c, std::min(experts, node)});
            for (int e = std::min(experts, node); e > 0 && e * 2 <= std::min(experts, devices); e *= 2) degrees.insert({c, e * 2});
        }
        for (const auto& [c, e] : degrees) {
            StrategyChange change = set_degrees(s, {experts > 0 ? 1 : node, stages, c, e});
            if (experts == 0 && node > 1 && s.strategy.tensor_parallel > 1 && !s.strategy.sequence_parallel)
                change = both(change, set_field("sequence parallelism", "/strategy/sequence_parallel", "true"));
            out.push_back(both(both(change, zero(1)), rest));
        }
    }
    out.push_back(rest);
    if (const std::int64_t deeper = std::int64_t{s.strategy.pipeline_parallel} * nodes; deeper % s.cluster.nodes == 0)
        out.push_back(both(set_degrees(s, {0, static_cast<int>(deeper / s.cluster.nodes)}), rest));
    return out;
}

} // namespace orrery
