// From what the simulator and the memory walk found to the figures a run is judged by.
#include "sim/report/report.hpp"

#include "sim/cost/own_constants.hpp"
#include "sim/model/expert_load.hpp"
#include "sim/report/memory_margin.hpp"
#include "sim/report/model_flops.hpp"
#include "sim/report/traffic.hpp"
#include "sim/scenario/parameters.hpp"
#include "sim/scenario/router_at_start.hpp"
#include "sim/scenario/trainable.hpp"
#include "topology/catalog.hpp"
#include "topology/indexed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace orrery {

namespace {

struct Peak {
    FlopsPerSecond rate;
    std::string dtype;
};

// The dense peak MFU is a share of: at the training precision, else at the nearest wider one the device has.
Peak peak_of(const Device& device, DType precision) {
    std::vector<std::string> order{name(precision)};
    if (precision == DType::nvfp4 || precision == DType::mxfp8) order.insert(order.end(), {"fp8"});
    if (precision != DType::fp32 && precision != DType::tf32) order.insert(order.end(), {"bf16", "fp16"});
    order.emplace_back("fp32");
    for (const std::string& key : order) {
        const auto it = device.peak.find(key);
        if (it != device.peak.end() && it->second.value > 0) return {it->second, key};
    }
    return {};
}

void fill_rates(Report& r, const Scenario& s, double step) {
    const double sequences = static_cast<double>(s.training.global_batch_size);
    const double tokens = sequences * static_cast<double>(s.training.sequence_length);
    r.samples_per_s = sequences / step;
    r.tokens_per_s = tokens / step;
    r.tokens_per_s_per_gpu = r.tokens_per_s / r.world_size;
    r.model_tflops_per_gpu = r.flops_per_step / step / r.world_size * 1e-12;
    if (r.peak_tflops_per_gpu > 0) r.mfu = r.model_tflops_per_gpu / r.peak_tflops_per_gpu;
}

void fill_lanes(Report& r, const Simulation& simulation, double step) {
    double ranks = 0, hardware = 0, host = 0;
    ByEnum<Category, double, category_count> sum{};
    for (const LaneResult& lane : simulation.lanes) {
        ranks += lane.ranks;
        hardware += lane.hardware_flops * lane.ranks;
        host += lane.host_wait.seconds() * lane.ranks;
        for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += lane.breakdown[c].seconds() * lane.ranks;
    }
    if (ranks <= 0) return;
    for (std::size_t c = 0; c < sum.size(); ++c) r.breakdown_s[c] = sum[c] / ranks;
    r.host_wait_s = host / ranks;
    r.bubble_fraction = r.breakdown_s[Category::bubble] / step;
    if (r.peak_tflops_per_gpu > 0) r.hfu = hardware / ranks / step * 1e-12 / r.peak_tflops_per_gpu;
}

// f(device of this kind of nodes), mean over the cluster's nodes; 0 where it is not known of one.
template <class F> double mean_over_nodes(const Cluster& c, F&& f) {
    double sum = f(c.device);
    int own = c.nodes;
    for (const OtherNodes& o : c.others) own -= o.nodes;
    if (c.others.empty() || sum <= 0) return sum;
    sum *= own;
    for (const OtherNodes& o : c.others) {
        const double one = f(o.device);
        if (one <= 0) return 0;
        sum += one * o.nodes;
    }
    return sum / c.nodes;
}

// USD of a device and hour; 0: not known.
double price_of(const Cluster& c) {
    return c.price_usd_per_device_hour > 0 ? c.price_usd_per_device_hour
                                           : mean_over_nodes(c, [](const Device& d) { return d.price_usd_per_hour; });
}

// Board power of every device and what the cluster says its nodes draw besides, for the whole step: an upper bound, as boards idle below
// it.
void fill_energy_and_cost(Report& r, const Scenario& s, double step) {
    r.energy_j = step * watts_of(s.cluster, r.world_size);
    r.cost_usd = step * usd_per_second(s.cluster, r.world_size);
}

void fill_tokens(Report& r, const Scenario& s) {
    r.tokens_per_step = static_cast<double>(s.training.global_batch_size) * static_cast<double>(s.training.sequence_length);
    if (s.run) r.run_tokens = s.run->steps > 0 ? static_cast<double>(s.run->steps) * r.tokens_per_step : s.run->tokens;
}

// Notes what uneven loads would cost where nobody stated them: all wait for the fullest rank, and products of unlike rows fill their tiles
// less.
void note_even_loads(Report& r, const Scenario& s) {
    MoeSpec moe = *s.model.moe;
    if (!moe.even() || moe.pads() || !s.defaults.contains("/model/moe/imbalance")) return;
    const std::string assumed = "experts' loads are taken to be even (model.moe.imbalance)";
    const int ranks = s.strategy.expert_parallel, layers = mixture_layers(s.model, s.model.layers);
    if (layers == 0) return;
    if (ranks == 1) {
        r.notes.push_back(assumed + ": uneven ones fill the tiles of experts' products less");
        return;
    }
    moe.imbalance = Imbalance::zipf;
    moe.imbalance_exponent = 0.5;
    const double learned = fullest_share(moe, ranks);
    moe.imbalance_loads = {load_at_start(s.model, s.training.sequence_length, layers / 2)};
    r.notes.push_back(fmt::format("{}: with zipf:0.5 the fullest of {} ranks would have {:.2f} x these rows, in the middle layer of an "
                                  "untrained router {:.2f} x (untrained: what to state for first steps, where no benchmark forces it), and "
                                  "the others would wait for it",
                                  assumed, ranks, learned, fullest_share(moe, ranks)));
}

void fill_experts(Report& r, const Scenario& s) {
    if (!s.model.moe) return;
    note_even_loads(r, s);
    const MoeSpec& moe = *s.model.moe;
    const Strategy& st = s.strategy;
    const std::int64_t of_a_rank = s.training.micro_batch_size * s.training.sequence_length / (st.tensor_parallel * st.context_parallel);
    const int layers = mixture_layers(s.model, s.model.layers + s.model.mtp_layers);
    r.experts.load.assign(moe.experts, 0);
    r.experts.fullest_rank = r.experts.fullest_expert = 0;
    for (int layer = 0; layer < layers; ++layer) {
        const std::vector<double> shares = expert_shares(moe, layer);
        for (std::size_t e = 0; e < shares.size(); ++e) r.experts.load[e] += shares[e] / layers;
        r.experts.fullest_expert += *std::max_element(shares.begin(), shares.end()) * moe.experts / layers;
        const double fullest = fullest_share(moe, st.expert_parallel, layer);
        if (moe.imbalance_loads.size() > 1) r.experts.fullest_by_layer.push_back(fullest);
        r.experts.fullest_rank += fullest / layers;
        r.experts.dropped_fraction += dropped_share(moe, of_a_rank, layer) / layers;
    }
    if (r.experts.fullest_rank > 1 + 1e-9)
        r.notes.push_back("experts' loads are uneven: every rank is taken for the fullest one of each layer, whose pace all have; HFU and "
                          "the memory of rows are upper bounds");
    r.experts.tokens_dropped =
        r.experts.dropped_fraction * layers * moe.top_k * static_cast<double>(s.training.global_batch_size * s.training.sequence_length);
}

void add_assumptions(Report& r, const Scenario& s) {
    std::string assumed;
    for (const auto& [pointer, from] : s.defaults) {
        if (from.find("assumed") != std::string::npos) assumed += (assumed.empty() ? "" : ", ") + pointer;
    }
    if (!assumed.empty()) r.notes.push_back("assumed, as nothing published says it: " + assumed);
    if (r.peak_dtype != name(s.training.precision) && !r.peak_dtype.empty()) {
        r.notes.push_back(fmt::format("{} has no {} peak: MFU and HFU are shares of its {} peak", s.cluster.device.title,
                                      name(s.training.precision), r.peak_dtype));
    }
    if (r.energy_j > 0) r.notes.push_back(energy_basis(s.cluster));
    const auto source = s.cluster.device.sources.find("price_usd_per_hour");
    const bool published = s.cluster.price_usd_per_device_hour <= 0 && source != s.cluster.device.sources.end();
    if (price_of(s.cluster) > 0)
        r.notes.push_back(
            fmt::format("cost: {:.4g} USD a device and hour{}", price_of(s.cluster), published ? " (" + source->second + ")" : ""));
    else
        r.notes.emplace_back("cost: not known for this device, as no price list was found; cluster.device.price_usd_per_hour sets it");
    if (r.energy_j <= 0 && !s.cluster.device.name.empty())
        r.notes.emplace_back("energy: not known, as no power of this device is published; cluster.device.power_w sets it");
}

} // namespace

Report report(const Scenario& scenario, const Plan& plan, const Simulation& simulation, const MemoryReport& memory, const CostModel& cost) {
    Report r;
    r.name = scenario.name.empty() ? plan.name : scenario.name;
    r.world_size = plan.mesh.ranks();
    r.data_parallel = scenario.strategy.data_parallel;
    r.microbatches = plan.microbatches / plan.steps;
    r.staleness = staleness(plan);
    r.step_time_s = simulation.step_time.seconds();
    r.memory = memory;
    r.parameters = static_cast<double>(parameter_count(scenario.model));
    r.trained_parameters = static_cast<double>(trained_parameters(scenario.model).value_or(parameter_count(scenario.model)));
    fill_tokens(r, scenario);
    r.flops_per_step = static_cast<double>(scenario.training.global_batch_size) *
                       model_flops_per_sequence(scenario.model, static_cast<double>(scenario.training.sequence_length),
                                                static_cast<double>(scenario.training.document_tokens));
    r.notes = scenario.notes;
    fill_experts(r, scenario);
    const Peak peak = peak_of(scenario.cluster.device, scenario.training.precision);
    r.peak_tflops_per_gpu =
        1e-12 * mean_over_nodes(scenario.cluster, [&](const Device& d) { return peak_of(d, scenario.training.precision).rate.value; });
    r.peak_dtype = peak.dtype;
    if (r.step_time_s > 0) {
        fill_rates(r, scenario, r.step_time_s);
        fill_lanes(r, simulation, r.step_time_s);
        fill_energy_and_cost(r, scenario, r.step_time_s);
        set_target(r, scenario);
    }
    r.away = away_of(plan);
    note_away(r, scenario);
    add_assumptions(r, scenario);
    r.provenance = cost.provenance();
    if (const Source& source = uncounted().source; uncounted_of(scenario) != no_factors)
        r.provenance.push_back({"what is not counted", source.kind, source.text});
    r.shares = cost_shares(simulation);
    r.configuration = configuration_of(scenario, r);
    r.error_bar = error_bar(r.configuration, validated_rows());
    return r;
}

void set_target(Report& r, const Scenario& s) {
    if (!s.training.convergence) return;
    const Convergence& c = *s.training.convergence;
    const double batch = static_cast<double>(s.training.global_batch_size);
    r.target.name = c.target.empty() ? "the target" : c.target;
    r.target.samples = samples_to_target(c, batch, s.strategy.drifts(), r.mean_staleness());
    r.target.steps = r.target.samples / batch;
    r.target.s = r.target.steps * r.step_time_s;
    r.target.usd = r.target.steps * r.cost_usd;
}

double watts_of(const Cluster& c, int devices) {
    // A limit above the board's own lets it draw no more: its clocks end there too.
    const double board = mean_over_nodes(c, [](const Device& d) {
        const double most = d.power_w > 0 ? d.power_w : d.power_limit_w;
        return d.power_limit_w > 0 ? std::min(d.power_limit_w, most) : most;
    });
    const double nodes = static_cast<double>(devices) / std::max(1, c.devices_per_node);
    return board > 0 ? board * devices + c.power_w_per_node * nodes : 0;
}

std::string assumed_node_power(const Cluster& c) {
    constexpr std::string_view assumed = "assumed: ";
    const auto from = c.sources.find("power_w_per_node");
    if (from == c.sources.end() || !from->second.starts_with(assumed)) return {};
    const std::optional<Cluster> preset = find_cluster(c.name);
    if (!preset || preset->power_w_per_node != c.power_w_per_node) return {}; // it is the scenario's own
    return fmt::format("a node of {} is assumed to draw {:g} W besides, {}", c.name, c.power_w_per_node,
                       from->second.substr(assumed.size()));
}

std::string energy_basis(const Cluster& c) {
    if (c.power_w_per_node <= 0)
        return "energy: board power limits alone, for the whole step; what nodes draw besides is not known (cluster.power_w_per_node says "
               "it)";
    const std::string besides = assumed_node_power(c);
    return "energy: board power limits and what nodes draw besides, for the whole step, an upper bound" +
           (besides.empty() ? "" : "; " + besides);
}

double usd_per_second(const Cluster& c, int devices) { return price_of(c) * devices / 3600; }

AtThisPace at_this_pace(const Report& r, double tokens) {
    if (r.step_time_s <= 0 || r.tokens_per_step <= 0) return {};
    const double steps = tokens / r.tokens_per_step;
    return {steps * r.step_time_s, steps * r.cost_usd, steps * r.energy_j};
}

double Report::headroom() const {
    if (memory.stages.empty() || memory.capacity.count == 0) return 1;
    return 1 - static_cast<double>(fullest(memory).peak.count) / static_cast<double>(memory.capacity.count);
}

Configuration configuration_of(const Scenario& scenario, const Report& r) {
    Configuration c = configuration_of(scenario);
    if (r.step_time_s > 0) c.host_share = r.host_wait_s / r.step_time_s;
    c.shares = r.shares;
    return c;
}

bool Report::narrow() const { return std::abs(headroom()) < memory_margin(error_bar.memory); }

std::string how_narrow(const Report& r) {
    if (!r.narrow()) return {};
    const double margin = memory_margin(r.error_bar.memory);
    return fmt::format("{:.1f} % {}, less than {:.0f} %: {}", std::abs(r.headroom()) * 100, r.memory.fits ? "headroom" : "too large",
                       margin * 100, r.memory.fits ? "some such plans do not fit" : "some such plans fit");
}

std::string why_not(const MemoryReport& memory) {
    if (memory.fits || memory.stages.empty()) return {};
    const StageMemory& s = fullest(memory);
    const auto over =
        std::count_if(memory.stages.begin(), memory.stages.end(), [&](const StageMemory& m) { return m.peak > memory.capacity; });
    const auto too_full = [&] {
        const bool host = !memory.host.fits();
        const NodeMemory& tier = host ? memory.host : memory.disk;
        return fmt::format("a node's ranks keep {:.1f} GB {}, {:.1f} GB more than the {:.1f} GB it has (cluster.host.{})",
                           tier.used.peak.gigabytes(), host ? "in its memory" : "on its NVMe", (tier.used.peak - tier.capacity).gigabytes(),
                           tier.capacity.gigabytes(), host ? "memory_gb" : "nvme_gb");
    };
    if (over == 0) return too_full();
    std::string text =
        fmt::format("stage {} needs {:.1f} GB ({:.1f} GiB), {:.1f} GB more than the device's {:.1f} GB ({:.1f} GiB)", s.stage,
                    s.peak.gigabytes(), static_cast<double>(s.peak.count) / 1073741824.0, (s.peak - memory.capacity).gigabytes(),
                    memory.capacity.gigabytes(), static_cast<double>(memory.capacity.count) / 1073741824.0);
    if (!s.peak_op_name.empty()) text += ", at " + s.peak_op_name;
    if (over > 1) text += fmt::format("; {} of {} stages do not fit", over, memory.stages.size());
    if (!memory.host.fits() || !memory.disk.fits()) text += "; " + too_full();
    return text;
}

} // namespace orrery
