#include "sim/search/replan.hpp"

#include "sim/scenario/layers.hpp"
#include "sim/search/choose.hpp"
#include "sim/search/search.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>

namespace orrery {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int shapes_a_degree = 2;                          // of tensor parallelism: their counts do not say what its communication costs
constexpr std::int64_t most_points = 24, most_of_large = 6; // simulated, of all shapes; steps of thousands of devices take seconds each
constexpr int large = 2048;                                 // devices

// Degrees on as many of the nodes as they can fill, with the batch that they can deal out.
struct ReplanShape {
    int tensor = 1, pipeline = 1, nodes = 0;
    std::int64_t batch = 0;
    bool rounds = false; // whole rounds of microbatches, as interleaved pipelines take them
    double work = 0;     // of a device, bubbles included, by the counts alone: the order in which shapes are looked at
};

std::int64_t lcm(std::int64_t a, std::int64_t b) { return std::lcm(std::max<std::int64_t>(1, a), std::max<std::int64_t>(1, b)); }

bool plain(const Strategy& g) { return g.schedule == "none" || g.schedule == "1f1b" || g.schedule == "gpipe"; }

ReplanShape shape_of(const Scenario& s, int nodes, int tensor, int pipeline, bool rounds) {
    const Strategy& g = s.strategy;
    const std::int64_t model = static_cast<std::int64_t>(tensor) * pipeline * g.context_parallel, a_node = s.cluster.devices_per_node;
    const std::int64_t workers = g.replicas_of_worker() > 1 ? g.worker_count() : 1, stages = workers * pipeline; // of all workers
    std::int64_t unit = lcm(lcm(workers * model, a_node), stages * g.expert_parallel * g.expert_tensor_parallel);
    if (g.shard_group_size > 0) unit = lcm(unit, stages * tensor * g.shard_group_size);
    const std::int64_t devices = nodes * a_node / unit * unit;
    ReplanShape shape{tensor, pipeline, static_cast<int>(devices / a_node), 0, rounds, 0};
    if (devices == 0) return shape;
    const std::int64_t a_round = devices / model * s.training.micro_batch_size, multiple = rounds ? pipeline : 1;
    const std::int64_t microbatches = ((s.training.global_batch_size + a_round - 1) / a_round + multiple - 1) / multiple * multiple;
    shape.batch = microbatches * a_round;
    const int chunks = rounds ? std::max(1, s.model.layers / pipeline) : 1;
    const double bubble = (pipeline - 1.0) / (static_cast<double>(microbatches) * chunks);
    shape.work = static_cast<double>(shape.batch) / static_cast<double>(devices) * (1 + bubble);
    return shape;
}

std::vector<ReplanShape> shapes(const Scenario& s, int nodes) {
    const int t = s.strategy.tensor_parallel, p = s.strategy.pipeline_parallel;
    const bool interleaves = !plain(s.strategy);
    std::vector<ReplanShape> all;
    for (const int tensor : {t, t / 2, t * 2}) {
        if (tensor < 1 || tensor > s.cluster.devices_per_node || s.model.attention_heads % tensor != 0) continue;
        for (const int pipeline : {p, p - 1, p + 1, p / 2, p * 2})
            for (const bool rounds : {false, true}) {
                if (pipeline < 1 || pipeline > s.model.layers || (rounds && (pipeline == 1 || !interleaves))) continue;
                const ReplanShape shape = shape_of(s, nodes, tensor, pipeline, rounds);
                if (shape.nodes > 0) all.push_back(shape);
            }
    }
    std::ranges::stable_sort(all, {}, [](const ReplanShape& x) { return std::tuple(x.work, x.tensor, x.pipeline, x.rounds); });
    const auto same = [](const ReplanShape& a, const ReplanShape& b) {
        return a.tensor == b.tensor && a.pipeline == b.pipeline && a.batch == b.batch && a.nodes == b.nodes && a.rounds == b.rounds;
    };
    all.erase(std::unique(all.begin(), all.end(), same), all.end());
    std::map<int, int> taken;
    std::erase_if(all, [&](const ReplanShape& x) { return ++taken[x.tensor] > shapes_a_degree; });
    return all;
}

class Replanner {
  public:
    Replanner(std::string json, ParseOptions parsing, int jobs) : json_(std::move(json)), parsing_(std::move(parsing)), jobs_(jobs) {}

    std::optional<Replanned> operator()(const Scenario& s, int nodes) {
        const std::lock_guard lock(mutex_);
        const auto [at, fresh] = known_.try_emplace(nodes);
        if (fresh) at->second = find(s, nodes);
        return at->second;
    }

  private:
    // The scenario on another shape: degrees as given, and what the run has settled stated, so that chunks, schedule and recomputation
    // alone are free.
    std::string on(const ReplanShape& shape, const Scenario& s) const {
        OrderedJson j = OrderedJson::parse(json_);
        const Strategy& g = s.strategy;
        j.erase("run");
        if (j["cluster"].is_string()) j["cluster"] = OrderedJson{{"preset", j["cluster"]}};
        j["cluster"]["nodes"] = shape.nodes;
        j["training"]["global_batch_size"] = shape.batch;
        j["training"]["micro_batch_size"] = s.training.micro_batch_size;
        OrderedJson& strategy = j["strategy"];
        for (const char* field : fields_of_stages) strategy.erase(field);
        for (const char* field : {"data_parallel", "recompute_layers", "recompute", "sequence_parallel"}) strategy.erase(field);
        strategy["tensor_parallel"] = shape.tensor;
        strategy["pipeline_parallel"] = shape.pipeline;
        strategy["context_parallel"] = g.context_parallel;
        strategy["zero_stage"] = g.zero_stage;
        strategy["shard_group_size"] = g.shard_group_size;
        if (s.model.moe) strategy["expert_parallel"] = g.expert_parallel, strategy["expert_tensor_parallel"] = g.expert_tensor_parallel;
        if (g.context_parallel > 1) strategy["context_parallel_kind"] = name(g.context_parallel_kind);
        const Overlap& o = g.overlap;
        strategy["overlap"] = {
            {"grad_reduce", o.grad_reduce},         {"param_gather", o.param_gather}, {"backward_prefetch", o.backward_prefetch},
            {"tensor_parallel", o.tensor_parallel}, {"pipeline", o.pipeline},         {"expert_parallel", o.expert_parallel},
            {"shared_experts", o.shared_experts}};
        return j.dump();
    }

    std::string space_of(const ReplanShape& shape, const Scenario& s) const {
        const Strategy& g = s.strategy;
        OrderedJson space = OrderedJson::object();
        const bool own_schedule = shape.rounds || (plain(g) && g.schedule != "none");
        space["/strategy/schedule"] = OrderedJson::array({shape.pipeline == 1 ? "none" : own_schedule ? g.schedule : "1f1b"});
        space["/strategy/sequence_parallel"] = OrderedJson::array({g.sequence_parallel});
        space["/strategy/rank_order"] = OrderedJson::array({order_text(g)});
        const OrderedJson own = OrderedJson::parse(json_);
        OrderedJson recompute = OrderedJson::array({"none", "selective", "full"});
        if (own["strategy"].contains("recompute") && own["strategy"]["recompute"].is_string()) { // what fitted first
            const std::string kept = own["strategy"]["recompute"];
            if (kept == "full") recompute = OrderedJson::array({"full"});
            if (kept == "selective") recompute = OrderedJson::array({"selective", "full"});
        }
        space["/strategy/recompute"] = recompute;
        return space.dump();
    }

    static std::string order_text(const Strategy& g) {
        std::string text;
        for (const Axis axis : g.rank_order)
            if (axis != Axis::dpr && axis != Axis::dpw) text += (text.empty() ? "" : "-") + std::string(name(axis));
        return text;
    }

    std::optional<Replanned> find(const Scenario& s, int nodes) const {
        std::optional<Replanned> best;
        std::int64_t looked_at = 0, legal = 0;
        bool proven = true;
        if (s.cluster.graph) return best;
        for (const ReplanShape& shape : shapes(s, nodes)) {
            std::atomic<std::int64_t> simulated{0};
            SearchOptions options;
            options.space.parsing = parsing_;
            options.space.parsing.overrides.clear(); // they are in the text
            options.space.space = space_of(shape, s);
            options.space.jobs = jobs_;
            options.refine = options.intervals = false;
            options.ties = 0;
            options.top = 0;
            options.batch = 2;
            if (best) options.beat = best->step_s;
            options.progress = [&](const SearchProgress& p) { simulated = p.simulated; }; // between batches: the same on any machine
            options.space.go_on = [&] { return looked_at + simulated < (s.world_size() > large ? most_of_large : most_points); };
            const SearchResult result = search(on(shape, s), options);
            looked_at += result.counts.simulated;
            legal += result.counts.legal;
            proven = proven && result.proven;
            if (result.points.empty()) continue;
            const SearchPoint& p = result.points[leader(result.points)];
            if (!best || p.row.step_time_s < best->step_s) best = Replanned{p.row.step_time_s, shape.nodes, p.row.label, 0, 0, false};
        }
        if (best) best->simulated = looked_at, best->legal = legal, best->proven = proven;
        return best;
    }

    std::string json_;
    ParseOptions parsing_;
    int jobs_;
    std::mutex mutex_;
    std::map<int, std::optional<Replanned>> known_;
};

} // namespace

Replan replan_by_search(std::string json, ParseOptions parsing, int jobs) {
    auto replanner = std::make_shared<Replanner>(std::move(json), std::move(parsing), jobs);
    return [replanner](const Scenario& s, int nodes) { return (*replanner)(s, nodes); };
}

} // namespace orrery
