#include "sim/advise/rules.hpp"

#include "sim/advise/changes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <thread>

namespace orrery {
namespace {

constexpr double rule_tie = 0.02;

// The text of a random job; strategies come later.
std::string random_job(std::mt19937_64& random) {
    const auto one_of = [&](const auto& values) { return values[random() % std::size(values)]; };
    static constexpr int hiddens[] = {2048, 4096, 5120, 6144, 8192}, layers[] = {16, 24, 32, 48, 64}, nodes[] = {1, 2, 4, 8, 16, 32};
    static constexpr int sequences[] = {2048, 4096, 8192, 32768}, batches[] = {2, 4, 8, 16};
    static constexpr const char* clusters[] = {"dgx-a100-80gb", "dgx-h100", "dgx-b200", "gb200-nvl72"};
    const int hidden = one_of(hiddens), n = one_of(nodes), sequence = one_of(sequences);
    const std::string cluster = one_of(clusters);
    const int per_node = cluster == "gb200-nvl72" ? 4 : 8;
    std::string moe;
    if (random() % 3 == 0)
        moe = fmt::format(R"(, "moe": {{"experts": {}, "top_k": {}, "expert_ffn_size": {}}})", random() % 2 ? 8 : 64, random() % 2 ? 2 : 4,
                          hidden);
    return fmt::format(
        R"({{"name": "random", "model": {{"layers": {}, "hidden_size": {}, "attention_heads": {}, "kv_heads": {}, "ffn_size": {}, "activation": "swiglu",
        "norm": "rmsnorm", "position": "rope", "tied_embeddings": false, "bias": false, "vocab_size": {}{}}},
        "cluster": {{"preset": "{}", "nodes": {}}},
        "training": {{"global_batch_size": {}, "micro_batch_size": 1, "sequence_length": {}, "precision": "bf16"}}, "strategy": {{}}}})",
        one_of(layers), hidden, hidden / 128, random() % 2 ? 8 : hidden / 128, hidden * 7 / 2 / 256 * 256, random() % 2 ? 32000 : 128256,
        moe, cluster, n, n * per_node * one_of(batches), sequence);
}

// A job with its strategy, and what changes of it come to; each is simulated once.
class Job {
  public:
    Job(std::string json, const TryOptions& trying) : json_(std::move(json)), trying_(trying) { base_ = &of({}); }
    const Trial& of(const StrategyChange& change) {
        const std::string text = with(json_, change);
        const auto it = known_.find(text);
        return it != known_.end() ? it->second : known_.emplace(text, try_one(json_, change, trying_)).first->second;
    }
    const Trial& base() const { return *base_; }
    const Scenario& scenario() const { return *base_->scenario; }

  private:
    std::string json_;
    const TryOptions& trying_;
    std::map<std::string, Trial> known_;
    const Trial* base_;
};

double seconds(const Trial& t) { return t.fits() ? t.report->step_time_s : 0; }

// Counts a claim that `right` is not slower than each of `others`; those that are not legal say nothing, those that do not fit lose.
void faster(RuleResult& r, const Trial& right, const std::vector<const Trial*>& others) {
    double best = 0;
    bool some = false;
    for (const Trial* t : others) {
        if (!t->report) continue;
        some = true;
        if (t->fits() && (best == 0 || seconds(*t) < best)) best = seconds(*t);
    }
    if (!some || !right.report || (!right.fits() && best == 0)) return;
    ++r.applies;
    const double effect = !right.fits() ? 0.5 : best == 0 ? 2 : best / seconds(right); // one that does not fit counts as twice as slow
    r.effects.push_back(effect);
    if (std::abs(effect - 1) <= rule_tie)
        ++r.ties;
    else if (effect > 1)
        ++r.holds;
}

StrategyChange no_model_parallel(const Scenario& s, int zero) {
    return both(set_degrees(s, {1, 1, 0, s.model.moe ? 1 : 0}), set_field("", "/strategy/zero_stage", std::to_string(zero)));
}

std::vector<RuleResult> claims() {
    static constexpr const char* text[] = {
        "1. A model that fits one device: data parallel alone",
        "2. One that does not: tensor, pipeline and ZeRO 1 (dense), expert parallel (mixtures), not ZeRO 3 alone",
        "3. Tensor parallelism stays inside a node",
        "4. Sequence parallelism whenever there is tensor parallelism",
        "5. Degrees by size: 1-10B tensor 2, 10-70B 4, 70-175B 8 x pipeline 4",
        "6. Mixtures: expert before tensor parallelism",
        "7. Context parallelism from 8,192 tokens on",
        "8. Microbatches of 1",
        "9. As much data parallelism as fits",
        "10. A pipeline wants virtual stages",
        "11. Selective recompute before full",
        "12. Out of memory: recompute or pipeline, not tensor",
        "13. Virtual stages save no memory",
        "14. Offload last: optimizer states on the host cost 1.9 times or more",
    };
    std::vector<RuleResult> out;
    for (const char* t : text) out.push_back({t, "step time of the alternative over the rule's", 0, 0, 0, {}});
    out[12].measure = "peak memory with them over without";
    out[13].measure = "step time with offload over without";
    return out;
}

// A rule about a figure that should be at least `bar`.
void at_least(RuleResult& r, double figure, double bar) {
    ++r.applies;
    r.effects.push_back(figure);
    if (figure >= bar)
        ++r.holds;
    else if (figure >= bar * (1 - rule_tie))
        ++r.ties;
}

void size_class(RuleResult& r, Job& job) {
    const double billions = job.base().report->parameters * 1e-9;
    if (billions < 1 || billions > 175 || job.scenario().model.moe) return;
    const Degrees d = billions < 10 ? Degrees{2, 1} : billions < 70 ? Degrees{4, 1} : Degrees{8, 4};
    const Scenario& s = job.scenario();
    std::vector<const Trial*> others{&job.base()};
    for (const Degrees& other : {Degrees{d.tensor / 2, d.pipeline}, Degrees{d.tensor * 2, d.pipeline}, Degrees{d.tensor, d.pipeline * 2}})
        others.push_back(&job.of(set_degrees(s, other)));
    faster(r, job.of(set_degrees(s, d)), others);
}

// A job with half the model parallelism, if that does not fit: three ways out.
void out_of_memory(RuleResult& r, Job& job) {
    const Scenario& s = job.scenario();
    const Strategy& g = s.strategy;
    Degrees less;
    if (g.pipeline_parallel > 1)
        less.pipeline = g.pipeline_parallel / 2;
    else if (g.tensor_parallel > 1)
        less.tensor = g.tensor_parallel / 2;
    else
        return;
    const StrategyChange smaller = set_degrees(s, less);
    const Trial& tight = job.of(smaller);
    if (!tight.report || tight.fits()) return;
    const Scenario& t = *tight.scenario;
    const Trial& recompute = job.of(both(smaller, set_field("", "/strategy/recompute", "\"full\"")));
    const Trial& pipeline = job.of(both(smaller, set_degrees(t, {0, t.strategy.pipeline_parallel * 2})));
    const Trial& tensor = job.of(both(smaller, set_degrees(t, {t.strategy.tensor_parallel * 2, 0})));
    const bool first = seconds(recompute) > 0 && (seconds(pipeline) == 0 || seconds(recompute) < seconds(pipeline));
    faster(r, first ? recompute : pipeline, {&tensor});
}

void rules_of_pipelines(std::vector<RuleResult>& r, Job& job) {
    const Scenario& s = job.scenario();
    const int pipeline = std::max(2, s.strategy.pipeline_parallel);
    if (s.model.layers % (2 * pipeline) != 0) return;
    const StrategyChange plain = set_degrees(s, {0, pipeline});
    const Trial& without = job.of(plain);
    const Trial& with_them =
        job.of(both(plain, {"", {{"/strategy/virtual_pipeline", "2"}, {"/strategy/schedule", "\"interleaved-1f1b\""}}}));
    faster(r[9], with_them, {&without});
    if (without.report && with_them.report) at_least(r[12], with_them.peak() / without.peak(), 1);
}

void rules_of_degrees(std::vector<RuleResult>& r, Job& job) {
    const Scenario& s = job.scenario();
    const int node = s.cluster.devices_per_node;
    const Trial& alone = job.of(no_model_parallel(s, 0));
    if (alone.fits())
        faster(r[0], alone,
               {&job.of(set_degrees(s, {2, 1})), &job.of(set_degrees(s, {1, 2})), &job.of(no_model_parallel(s, 1)),
                &job.of(no_model_parallel(s, 3))});
    else if (alone.report)
        faster(r[1], job.base(), {&job.of(no_model_parallel(s, 3))});
    if (s.cluster.nodes > 1) faster(r[2], job.of(set_degrees(s, {node, 0})), {&job.of(set_degrees(s, {2 * node, 0}))});
    const StrategyChange two = set_degrees(s, {std::max(2, s.strategy.tensor_parallel), 0});
    faster(r[3], job.of(both(two, set_field("", "/strategy/sequence_parallel", "true"))),
           {&job.of(both(two, set_field("", "/strategy/sequence_parallel", "false")))});
    size_class(r[4], job);
    if (s.model.moe) faster(r[5], job.of(set_degrees(s, {1, 0, 0, node})), {&job.of(set_degrees(s, {node, 0, 0, 1}))});
    if (s.training.sequence_length >= 8192) faster(r[6], job.of(set_degrees(s, {0, 0, 2})), {&job.base()});
    faster(r[8], job.base(),
           {&job.of(set_degrees(s, {s.strategy.tensor_parallel * 2, 0})), &job.of(set_degrees(s, {0, s.strategy.pipeline_parallel * 2}))});
}

void apply_rules(std::vector<RuleResult>& r, Job& job) {
    rules_of_degrees(r, job);
    rules_of_pipelines(r, job);
    const auto field = [&](const char* pointer, const char* value) { return &job.of(set_field("", pointer, value)); };
    const Trial* one = field("/training/micro_batch_size", "1");
    faster(r[7], *one, {field("/training/micro_batch_size", "2"), field("/training/micro_batch_size", "4")});
    faster(r[10], *field("/strategy/recompute", "\"selective\""), {field("/strategy/recompute", "\"full\"")});
    out_of_memory(r[11], job);
    const Trial& offloaded = *field("/strategy/offload/optimizer", "\"cpu\"");
    if (offloaded.fits()) at_least(r[13], seconds(offloaded) / seconds(job.base()), 1.9);
}

// The job with the first of the guide's strategies that fits; nothing: none does.
std::optional<std::string> with_strategy(const std::string& json, const TryOptions& trying) {
    TryOptions memory = trying;
    memory.simulate = false;
    const Trial plain = try_one(json, {}, memory);
    if (!plain.scenario) return {};
    for (const StrategyChange& c : guide(*plain.scenario))
        if (Trial t = try_one(json, c, memory); t.fits()) return t.json;
    return {};
}

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::ranges::sort(values);
    return values[values.size() / 2];
}

} // namespace

std::vector<RuleResult> check_rules(int jobs, std::uint64_t seed, int threads, const std::function<void(int)>& progress) {
    std::vector<RuleResult> sum = claims();
    std::vector<std::vector<RuleResult>> by_job(static_cast<std::size_t>(jobs));
    std::atomic<int> next{0}, done{0};
    std::mutex telling;
    const auto work = [&] {
        TryOptions trying;
        trying.jobs = 1;
        for (int k = next++; k < jobs; k = next++) {
            std::mt19937_64 random(seed * 1000003 + static_cast<std::uint64_t>(k));
            std::optional<std::string> json;
            for (int draw = 0; draw < 20 && !json; ++draw) json = with_strategy(random_job(random), trying);
            std::vector<RuleResult>& mine = by_job[k] = claims();
            if (json)
                if (Job job(*json, trying); job.base().fits()) apply_rules(mine, job);
            const std::lock_guard lock(telling);
            if (++done; progress) progress(done);
        }
    };
    const int cores = threads > 0 ? threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    std::vector<std::thread> others;
    for (int t = 1; t < std::min(cores, jobs); ++t) others.emplace_back(work);
    work();
    for (std::thread& t : others) t.join();
    for (const std::vector<RuleResult>& mine : by_job) // in the order of jobs, whoever ran them
        for (std::size_t i = 0; i < mine.size(); ++i) {
            sum[i].applies += mine[i].applies;
            sum[i].holds += mine[i].holds;
            sum[i].ties += mine[i].ties;
            sum[i].effects.insert(sum[i].effects.end(), mine[i].effects.begin(), mine[i].effects.end());
        }
    return sum;
}

std::string to_markdown(const std::vector<RuleResult>& rules, int jobs) {
    std::string text =
        fmt::format("{} random jobs. Holds and fails: by more than {:.0f} %. A job that does not fit counts as twice as slow.\n\n", jobs,
                    rule_tie * 100);
    text += "| rule | applies | holds | tie | fails | median effect | what the effect is |\n|---|---|---|---|---|---|---|\n";
    for (const RuleResult& r : rules)
        text += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", r.claim, r.applies, r.holds, r.ties, r.applies - r.holds - r.ties,
                            r.effects.empty() ? "" : fmt::format("{:.2f}", median(r.effects)), r.measure);
    return text;
}

} // namespace orrery
