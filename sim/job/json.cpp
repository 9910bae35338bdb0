// The whole run's part of report.json.
#include "sim/job/whole_run.hpp"

#include <nlohmann/json.hpp>

namespace orrery {
namespace {

using Json = nlohmann::ordered_json;

Json band_json(const SeedBand& b) {
    return {{"p10", b.p10}, {"p50", b.p50}, {"p90", b.p90}, {"p10_error", b.error10}, {"p50_error", b.error50}, {"p90_error", b.error90}};
}

Json saves_json(const WholeRunReport& r) {
    Json j{{"bytes", r.state_bytes},
           {"every_steps", r.save_every},
           {"every_s", static_cast<double>(r.save_every) * r.step_s},
           {"chosen", r.save_auto},
           {"best_s", r.best_s},
           {"least_s", r.least_s},
           {"young_s", r.young_s},
           {"daly_s", r.daly_s},
           {"young_mttf_s", r.young_mttf_s},
           {"daly_mttf_s", r.daly_mttf_s},
           {"block_s", r.save.block_s},
           {"write_s", r.save.write_s},
           {"step_factor_while_writing", r.save.write_factor},
           {"load_s", r.save.load_s},
           {"host_bytes_of_a_node", r.save.host_bytes},
           {"nvme_bytes_of_a_node", r.save.nvme_bytes},
           {"storage_bytes", r.storage_bytes},
           {"near_bytes", r.near_bytes},
           {"curve", Json::array()}};
    for (const IntervalPoint& p : r.curve) j["curve"].push_back({{"steps", p.steps}, {"goodput", p.goodput}});
    return j;
}

} // namespace

std::string to_json(const WholeRunReport& r) {
    Json j{{"seeds", r.seeds}, {"finished", r.finished}, {"nodes", r.nodes}, {"spare_nodes", r.spares}, {"step_time_s", r.step_s}};
    j["wall_s"] = band_json(r.wall_s);
    j["goodput"] = band_json(r.goodput);
    j["ettr"] = band_json(r.ettr);
    j["tokens"] = band_json(r.tokens);
    j["undisturbed_s"] = r.ideal_s;
    j["mean_wall_s"] = r.mean_wall_s;
    j["productive_s"] = r.productive_s;
    for (std::size_t i = 0; i < lost_times; ++i) j["lost_s"][name(static_cast<LostTime>(i))] = r.lost_s[i];
    j["failures"] = r.failures;
    for (std::size_t i = 0; i < failing_parts; ++i) j["failures_by"][name(static_cast<FailingPart>(i))] = r.by_part[i];
    j["interruptions"] = r.interruptions;
    j["planned"] = r.planned;
    j["degraded"] = r.degraded;
    j["fallbacks_to_storage"] = r.fallbacks;
    j["mttf_s"] = r.mttf_s;
    j["unavailable"] = r.unavailable;
    j["restart_s"] = r.restart_s;
    j["checkpoint"] = saves_json(r);
    j["progress"] = Json::array();
    for (const ProgressPoint& p : r.progress) j["progress"].push_back({{"at_s", p.at_s}, {"goodput", band_json(p.goodput)}});
    j["formula"] = {{"mean_time_between_failures_s", r.failure_every_s}, {"goodput_exact", r.exact}, {"ettr_meta", r.meta}};
    j["elastic_seeds"] = r.elastic_seeds;
    j["elastic"] = Json::array();
    for (const ElasticOption& e : r.elastic)
        j["elastic"].push_back({{"name", e.name},
                                {"kind", name(e.kind)},
                                {"spare_nodes", e.spares},
                                {"goodput", e.goodput},
                                {"wall_s", e.wall_s},
                                {"steps", e.steps},
                                {"chosen", e.chosen},
                                {"step_s_a_node_less", e.pace.step_s},
                                {"tokens_share_a_node_less", e.pace.share},
                                {"step_is_a_lower_bound", e.pace.bound}});
    if (r.replanned)
        j["replanned"] = {{"step_s", r.replanned->step_s},       {"nodes", r.replanned->nodes}, {"strategy", r.replanned->strategy},
                          {"simulated", r.replanned->simulated}, {"legal", r.replanned->legal}, {"proven", r.replanned->proven}};
    j["device_hours"] = r.device_hours;
    j["cost_usd"] = r.cost_usd;
    j["energy_j"] = r.energy_j;
    if (!r.target.empty())
        j["target"] = {{"target", r.target},
                       {"samples_to_target", r.target_samples},
                       {"steps_to_target", r.target_steps},
                       {"time_to_target_s", r.target_s},
                       {"cost_to_target_usd", r.target_usd}};
    j["notes"] = r.notes;
    return j.dump(2);
}

} // namespace orrery
