#include "sim/federated/federated.hpp"

#include <nlohmann/json.hpp>

namespace orrery {

std::string to_json(const FederatedReport& r) {
    nlohmann::ordered_json j;
    j["clients"] = r.clients;
    j["asked"] = r.asked;
    j["counted"] = r.counted;
    j["round_s"] = {{"mean", r.round_s.mean}, {"p10", r.round_s.p10}, {"p50", r.round_s.p50}, {"p90", r.round_s.p90}};
    j["failed_share"] = r.failed_share;
    j["wasted_share"] = r.wasted_share;
    j["down_bytes"] = r.down_bytes;
    j["up_bytes"] = r.up_bytes;
    j["staleness"] = {{"mean", r.staleness}, {"worst", r.worst_staleness}};
    j["slowness"] = {{"counted", r.slowness_counted}, {"all", r.slowness_all}};
    j["samples_counted"] = r.samples_counted;
    if (r.rounds_to_target > 0)
        j["to_target"] = {{"rounds", r.rounds_to_target}, {"time_s", r.time_to_target_s}, {"bytes", r.bytes_to_target}};
    return j.dump(2);
}

} // namespace orrery
