// report.json. Key names and their order are a contract.
#include "sim/report/report.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace orrery {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson by_kind(const StageMemory& s) {
    OrderedJson j;
    for (int k = 0; k < memory_kind_count; ++k) j[name(static_cast<MemoryKind>(k))] = s.by_kind[k].count;
    j["reserved"] = s.reserved.count;
    return j;
}

OrderedJson stage(const StageMemory& s) {
    OrderedJson j;
    j["stage"] = s.stage;
    j["peak_bytes"] = s.peak.count;
    j["allocated_bytes"] = peak_as(s, MemoryMeasure::allocated).count;
    j["reserved_bytes"] = peak_as(s, MemoryMeasure::reserved).count;
    j["device_bytes"] = peak_as(s, MemoryMeasure::device).count;
    j["by_kind_bytes"] = by_kind(s);
    OrderedJson reserve = OrderedJson::array();
    for (const ReserveItem& i : s.reserve) {
        reserve.push_back({{"name", i.name}, {"bytes", i.bytes.count}, {"source", i.source}});
        if (i.kept) reserve.back()["given_up"] = true; // before memory runs out
    }
    j["reserve"] = reserve;
    if (s.host.peak.count > 0) j["host_bytes"] = s.host.peak.count;
    if (s.disk.peak.count > 0) j["nvme_bytes"] = s.disk.peak.count;
    j["peak_op"] = s.peak_op_name;
    j["peak_action"] = s.peak_action;
    OrderedJson largest = OrderedJson::array();
    for (const LiveBuffer& b : s.largest) largest.push_back({{"name", b.name}, {"bytes", b.bytes.count}, {"count", b.count}});
    j["largest"] = largest;
    return j;
}

OrderedJson memory_json(const MemoryReport& m) {
    OrderedJson j;
    const bool any = !m.stages.empty();
    j["peak_bytes"] = any ? fullest(m).peak.count : 0;
    j["capacity_bytes"] = m.capacity.count;
    j["fits"] = m.fits;
    j["by_kind_bytes"] = any ? by_kind(fullest(m)) : OrderedJson::object();
    for (const auto& [key, tier] : {std::pair<const char*, const NodeMemory&>{"node", m.host}, {"nvme", m.disk}}) {
        if (tier.used.peak.count == 0) continue;
        OrderedJson node{{"peak_bytes", tier.used.peak.count}, {"capacity_bytes", tier.capacity.count}, {"fits", tier.fits()}};
        for (int k = 0; k < memory_kind_count; ++k) node["by_kind_bytes"][name(static_cast<MemoryKind>(k))] = tier.used.by_kind[k].count;
        j[key] = std::move(node);
    }
    j["per_stage"] = OrderedJson::array();
    for (const StageMemory& s : m.stages) j["per_stage"].push_back(stage(s));
    return j;
}

OrderedJson pace_json(const Report& r, double tokens) {
    const AtThisPace pace = at_this_pace(r, tokens);
    OrderedJson j{{"tokens", tokens}, {"days", pace.seconds / 86400}};
    if (pace.cost_usd > 0) j["cost_usd"] = pace.cost_usd;
    if (pace.energy_j > 0) j["energy_j"] = pace.energy_j;
    return j;
}

} // namespace

std::string to_json(const Report& r) {
    OrderedJson j;
    j["name"] = r.name;
    j["world_size"] = r.world_size;
    j["data_parallel"] = r.data_parallel;
    j["step_time_s"] = r.step_time_s;
    j["tokens_per_s"] = r.tokens_per_s;
    j["tokens_per_s_per_gpu"] = r.tokens_per_s_per_gpu;
    j["samples_per_s"] = r.samples_per_s;
    j["model_tflops_per_gpu"] = r.model_tflops_per_gpu;
    j["mfu"] = r.mfu;
    j["hfu"] = r.hfu;
    j["bubble_fraction"] = r.bubble_fraction;
    OrderedJson breakdown;
    for (int c = 0; c < category_count; ++c) breakdown[name(static_cast<Category>(c))] = r.breakdown_s[c];
    j["breakdown_s"] = breakdown;
    j["memory"] = memory_json(r.memory);
    j["parameters"] = static_cast<std::int64_t>(r.parameters);
    j["flops_per_step"] = r.flops_per_step;
    j["host_wait_s"] = r.host_wait_s;
    j["trained_parameters"] = static_cast<std::int64_t>(r.trained_parameters);
    if (r.staleness.worst > 0)
        j["staleness"] = {
            {"mean_updates", r.staleness.mean}, {"worst_updates", r.staleness.worst}, {"weight_versions", r.staleness.versions}};
    if (r.loose.step_s > 0) {
        const LooseReport& l = r.loose;
        j["workers"] = {{"mean_staleness", l.staleness},    {"worst_staleness", l.worst_staleness},
                        {"parameter_versions", l.versions}, {"wait_s", l.wait_s},
                        {"fastest_over_mean", l.fastest},   {"bytes_per_step", l.bytes_per_step}};
        if (l.server_share > 0) j["workers"]["server_share"] = l.server_share;
        if (l.steps_between_averages > 0) j["workers"]["steps_between_averages"] = l.steps_between_averages;
        if (l.busiest.link >= 0) j["workers"]["busiest_link"] = {{"name", r.busiest_link}, {"share", l.busiest.share}};
    }
    if (!r.experts.load.empty())
        j["experts"] = {{"tokens_dropped", r.experts.tokens_dropped},
                        {"dropped_fraction", r.experts.dropped_fraction},
                        {"fullest_expert_over_mean", r.experts.fullest_expert},
                        {"fullest_rank_over_mean", r.experts.fullest_rank},
                        {"load", r.experts.load}};
    if (!r.experts.fullest_by_layer.empty()) j["experts"]["fullest_rank_over_mean_by_layer"] = r.experts.fullest_by_layer;
    if (r.energy_j > 0) j["energy_j"] = r.energy_j;
    if (r.cost_usd > 0) j["cost_usd"] = r.cost_usd;
    if (const TimeToTarget& t = r.target; !t.name.empty()) {
        j["target"] = {{"target", t.name}, {"samples_to_target", t.samples}, {"steps_to_target", t.steps}, {"time_to_target_s", t.s}};
        if (t.usd > 0) j["target"]["cost_to_target_usd"] = t.usd;
    }
    j["notes"] = r.notes;
    j["provenance"] = nlohmann::ordered_json::array();
    for (const Provenance& p : r.provenance) j["provenance"].push_back(to_text(p));
    if (const ErrorBar& e = r.error_bar; e.rows > 0)
        j["error_bar"] = {{"step_time", e.step_time},
                          {"memory", e.memory},
                          {"narrow", r.narrow()},
                          {"rows", e.rows},
                          {"sources", e.sources},
                          {"same_device", e.same_device},
                          {"transferred", e.transferred},
                          {"nearest", e.nearest},
                          {"nearest_error", e.nearest_error},
                          {"faster", e.interval.faster},
                          {"slower", e.interval.slower}};
    if (r.error_bar.learned > 0) j["error_bar"]["learned"] = r.error_bar.learned;
    if (r.error_bar.all_stated > 0) j["error_bar"]["step_time_all_stated"] = r.error_bar.all_stated;
    // A step that waits for its samples alone follows no group: its own computation has the shares of its configuration.
    if (r.shares != CostShares{} || r.configuration.shares != CostShares{}) {
        for (int g = 0; g < cost_group_count; ++g) j["sensitivities"][name(static_cast<CostGroup>(g))] = r.shares[g];
        if (r.input.stall_s > 0) j["sensitivities"]["samples"] = r.input.share;
    }
    if (r.input.stall_s > 0) j["input"] = {{"stall_s", r.input.stall_s}, {"limit", r.input.limit}};
    if (r.step_time_s > 0) {
        j["per_trillion_tokens"] = pace_json(r, 1e12);
        if (r.run_tokens > 0) j["run_at_this_pace"] = pace_json(r, r.run_tokens);
    }
    if (const Traffic& t = r.traffic; r.step_time_s > 0)
        j["traffic_bytes"] = {{"between_nodes", t.between_nodes},
                              {"device_to_host", t.to_host},
                              {"host_to_device", t.from_host},
                              {"host_to_nvme", t.to_disk},
                              {"nvme_to_host", t.from_disk}};
    if (const WorkerMeetings& m = r.meetings; m.steps > 0) {
        j["meetings"] = {{"steps_between", m.steps}, {"compute_utilization", m.compute_utilization}, {"sync_time_s", m.sync_time_s}};
        if (m.bytes_between_nodes > 0) {
            j["meetings"]["bytes_between_nodes_per_step"] = m.bytes_between_nodes;
            j["meetings"]["bytes_between_nodes_per_token"] = m.bytes_between_nodes / r.tokens_per_step;
        }
    }
    return j.dump(2) + "\n";
}

} // namespace orrery
