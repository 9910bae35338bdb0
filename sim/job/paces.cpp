// Steps of a machine that lacks something, each state simulated by the step model when it is first met.
#include "sim/job/whole_run.hpp"
#include "sim/scenario/perturb.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>

namespace orrery {
namespace {

bool fills_nodes(const Scenario& s) { return s.world_size() % s.cluster.devices_per_node == 0; }

// The same strategy with other degrees, on as many nodes as they need; microbatches rounded up to what any schedule takes. False where the
// degrees do not go together.
bool lay_out(Scenario& s, int data, int pipeline, std::int64_t batch) {
    Strategy& g = s.strategy;
    const int layers = std::accumulate(g.layers_per_chunk.begin(), g.layers_per_chunk.end(), 0);
    if (data < 1 || pipeline < 1 || s.cluster.graph) return false;
    if (pipeline != g.pipeline_parallel) {
        const int chunks = pipeline * g.virtual_pipeline;
        if (layers < chunks || pipeline == 1 || g.pipeline_parallel == 1) return false; // other schedules, other chunks
        g.layers_per_chunk.assign(chunks, layers / chunks);
        for (int i = 0; i < layers % chunks; ++i) ++g.layers_per_chunk[chunks - 1 - i];
        g.recompute_layers.clear();
        g.mtp_chunk = -1;
        g.microbatch_group_size = 0;
    }
    g.data_parallel = data;
    g.pipeline_parallel = pipeline;
    if (data % g.worker_count() != 0) return false;
    const int sharing = g.replicas_of_worker() * g.context_parallel;
    if (g.shard_group_size > 0 && sharing % g.shard_group_size != 0) return false;
    if (sharing * g.tensor_parallel % (g.expert_parallel * g.expert_tensor_parallel) != 0) return false;
    if (!fills_nodes(s)) return false;
    s.cluster.nodes = s.world_size() / s.cluster.devices_per_node;
    const bool plain = g.schedule == "none" || g.schedule == "1f1b" || g.schedule == "gpipe";
    const std::int64_t unit = plain ? 1 : 2 * g.microbatch_group(), a_round = data * s.training.micro_batch_size;
    const std::int64_t microbatches = ((batch + a_round - 1) / a_round + unit - 1) / unit * unit;
    s.training.global_batch_size = microbatches * a_round;
    return true;
}

// One more NIC of the first node is down: its first that is up. False where it has no other.
bool lose_nic(Cluster& c) {
    std::vector<LinkDown>& down = c.inter.down;
    const auto gone = [&](int nic) {
        return std::ranges::any_of(down, [&](const LinkDown& d) { return d.node == 0 && d.nic == nic && d.port < 0 && d.share >= 1; });
    };
    int nic = 0;
    while (nic < c.inter.nics_per_node && gone(nic)) ++nic;
    LinkDown lost;
    lost.node = 0;
    lost.nic = nic;
    down.push_back(lost);
    if (cluster_problems(c).empty()) return true;
    down.pop_back();
    return false;
}

class Paces {
  public:
    Paces(const Scenario& s, const Prediction& p, Replan replan)
        : scenario_(s), step_s_(p.report.step_time_s), bubble_(p.report.bubble_fraction), replan_(std::move(replan)) {}

    Pace operator()(const MachineState& state) {
        const std::lock_guard lock(mutex_);
        const auto [at, fresh] = known_.try_emplace(state);
        if (fresh) at->second = simulate(state);
        return at->second;
    }

  private:
    double step_of(const Scenario& s) const {
        PredictOptions options;
        options.verify = false;
        options.only_if_fits = true;
        options.meetings = false;
        const Prediction p = predict(s, options);
        return p.too_big ? 0 : p.report.step_time_s;
    }

    // With fewer replicas, or what elastic says instead.
    Pace fewer(Scenario& s, int lost) const {
        const int data = scenario_.strategy.data_parallel, left = data - lost;
        const std::int64_t batch = scenario_.training.global_batch_size;
        const Elasticity elastic = scenario_.run->elastic;
        if (elastic == Elasticity::reroute) // bubbles take the lost node's work; where they are filled all are busy longer
            return {std::max(step_s_, step_s_ * (1 - bubble_) * data / left), 1, true};
        if (elastic == Elasticity::replan) return replanned(lost);
        const bool smaller = elastic == Elasticity::shrink_batch || elastic == Elasticity::stepwise;
        const std::int64_t kept = smaller ? batch / data * left : batch;
        const double share = smaller ? static_cast<double>(left) / data : 1;
        Scenario less = s;
        if (lay_out(less, left, s.strategy.pipeline_parallel, kept))
            if (const double step = step_of(less); step > 0) return s = less, Pace{step, share};
        return {step_s_ * (smaller ? 1.0 : static_cast<double>(data) / left), share,
                true}; // degrees that do not go together, or do not fit
    }

    // The best of what a search finds for the nodes left, where there is one, and of the layouts near the plan's own that they can hold.
    Pace replanned(int lost) const {
        const Strategy& g = scenario_.strategy;
        const int pipeline = g.pipeline_parallel, model = g.tensor_parallel * g.context_parallel;
        const int nodes = (lost + replicas_per_node(scenario_) - 1) / replicas_per_node(scenario_); // lost, not their whole replicas
        const int devices = scenario_.world_size() - nodes * scenario_.cluster.devices_per_node;
        double best = 0;
        if (replan_)
            if (const auto found = replan_(scenario_, scenario_.cluster.nodes - nodes)) best = found->step_s;
        for (const int p : {pipeline, pipeline - 1, pipeline / 2, pipeline * 2}) {
            if (p < 1) continue;
            Scenario other = scenario_;
            int data = devices / (model * p);
            while (data > 1 && (data * model * p) % scenario_.cluster.devices_per_node != 0) --data;
            if (!lay_out(other, data, p, scenario_.training.global_batch_size)) continue;
            const double step = step_of(other);
            if (step > 0 && (best <= 0 || step < best)) best = step;
        }
        return {best > 0 ? best : step_s_ * g.data_parallel / std::max(1, g.data_parallel - lost), 1, best <= 0};
    }

    Pace simulate(const MachineState& state) const {
        Scenario s = scenario_;
        Pace pace{step_s_, 1};
        if (state.replicas_lost > 0) pace = fewer(s, state.replicas_lost);
        const WholeRun& r = *scenario_.run;
        const auto add = [&](Perturbation::Kind kind, double factor, const char* link) {
            Perturbation p;
            p.kind = kind;
            p.factor = factor;
            p.index = 0;
            p.link = link;
            s.perturb.push_back(p);
        };
        const bool network = s.cluster.nodes > 1 && !s.cluster.graph && s.cluster.inter.kind != InterKind::none;
        if (state.slow_node) add(Perturbation::Kind::slow_node, r.slow_node.factor, "");
        if (state.slow_link && network) add(Perturbation::Kind::slow_link, r.slow_link.factor, "nic");
        const bool lost = state.lost_nic && network && lose_nic(s.cluster);
        if (s.perturb.size() == scenario_.perturb.size() && !lost) return pace;
        const double sound = state.replicas_lost > 0 ? pace.step_s : step_s_, slow = step_of(s);
        // The steps before it may be of a formula: what is slow costs as much again.
        if (slow > 0) pace.step_s = std::max(sound, state.replicas_lost > 0 ? slow : std::max(step_s_, slow));
        return pace;
    }

    const Scenario& scenario_;
    double step_s_, bubble_;
    Replan replan_;
    std::mutex mutex_;
    std::map<MachineState, Pace> known_;
};

} // namespace

int replicas_per_node(const Scenario& s) {
    const Strategy& g = s.strategy;
    int stride = 1, replicas = 1;
    for (const Axis axis : g.rank_order) {
        const int size = axis == Axis::tp   ? g.tensor_parallel
                         : axis == Axis::cp ? g.context_parallel
                         : axis == Axis::dp ? g.data_parallel
                         : axis == Axis::pp ? g.pipeline_parallel
                                            : 1;
        if (axis == Axis::dp) replicas = std::clamp((s.cluster.devices_per_node + stride - 1) / stride, 1, size);
        stride *= size;
    }
    return replicas;
}

std::function<Pace(const MachineState&)> paces(const Scenario& scenario, const Prediction& prediction, const Replan& replan) {
    auto table = std::make_shared<Paces>(scenario, prediction, replan);
    return [table](const MachineState& state) { return (*table)(state); };
}

} // namespace orrery
