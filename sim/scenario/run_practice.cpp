// Defaults of "run" that follow from elsewhere: from the software that starts a run again (run.practice), and from what was measured on the
// cluster (cluster.run). A field that the scenario's own "run" states stands; then come the practice's rows, then the cluster's.
#include "sim/scenario/run_practice.hpp"
#include "sim/scenario/resolve.hpp"
#include "sim/scenario/whole_run_text.hpp"

#include <nlohmann/json.hpp>

#include <array>

namespace orrery {
namespace {

using enum RunPractice;

// torchelastic: `torchrun --nnodes=MIN:MAX`; a change of its nodes ends all workers and starts them again on those that are there.
// ray-train: Ray Train with ScalingConfig(num_workers=(MIN, MAX)), its version 2.
constexpr std::array rows{
    RunDefault{torchelastic, "run.elastic", "\"shrink-batch\"",
               "the group goes on with the nodes that are there, each with its own batch (torch.distributed.elastic, --nnodes=MIN:MAX)"},
    RunDefault{torchelastic, "run.detect_s.crash", "15",
               "3 keep-alives of 5 s that fail to come (DynamicRendezvousHandler: keep_alive_interval, keep_alive_max_attempt); the agent "
               "sees the death of a process of its own node sooner"},
    RunDefault{torchelastic, "run.detect_s.hang", "600", "the process group's timeout (torch.distributed, NCCL: 10 minutes)"},
    RunDefault{
        torchelastic, "run.restart.schedule_s", "30",
        "the rendezvous waits for more nodes (RendezvousTimeout: last_call 30 s); it does not where all are back: an upper bound there"},
    RunDefault{torchelastic, "run.spares.nodes", "0", "a node beyond those that train would train too: there are none that stand by"},
    RunDefault{torchelastic, "run.spares.warm", "false", "all processes are started again"},
    RunDefault{torchelastic, "run.checkpoint.kind", "\"sync\"", "the training loop's own torch.save, as in torchelastic's examples"},
    RunDefault{ray_train, "run.elastic", "\"shrink-batch\"",
               "the worker group is made anew with the workers that can be had (ScalingConfig, num_workers=(MIN, MAX))"},
    RunDefault{ray_train, "run.detect_s.crash", "17",
               "5 health checks of a node, 3 s apart (ray_config_def.h: health_check_period_ms, health_check_failure_threshold), and the "
               "controller's poll of 2 s (RAY_TRAIN_HEALTH_CHECK_INTERVAL_S); a dead process alone is seen by the poll"},
    RunDefault{ray_train, "run.detect_s.hang", "1800", "the process group's timeout (TorchConfig: timeout_s)"},
    RunDefault{ray_train, "run.spares.warm", "false", "workers are started on a node when the group is made anew"},
    RunDefault{ray_train, "run.checkpoint.kind", "\"sync\"", "ray.train.report waits for the upload (CheckpointUploadMode.SYNC)"},
};

// Leaves of an object as pointers: what notes about defaults name.
void leaves(const Json& value, const std::string& where, std::vector<std::pair<std::string, std::string>>& out) {
    if (!value.is_object()) return out.push_back({where, value.dump()});
    for (const auto& [key, item] : value.items()) leaves(item, where + "/" + key, out);
}

RunPractice practice_of(const Json& run) {
    const auto named_so = run.find("practice");
    if (named_so == run.end() || !named_so->is_string()) return usual;
    return named<RunPractice>(named_so->get<std::string>()).value_or(usual); // another word is a problem where the field is read
}

void apply_cluster_run(Reading& reading, Reading& scratch) {
    if (reading.run_of_cluster.empty()) return;
    const Json object = Json::parse(reading.run_of_cluster);
    scratch.options = reading.options;
    read_object(scratch, object, "/cluster/run", whole_run_fields());
    std::vector<std::pair<std::string, std::string>> given;
    leaves(object, "/run", given);
    for (const auto& [pointer, value] : given) scratch.scenario.defaults[pointer] = value + ": the cluster's own (cluster.run)";
    for (Problem& p : scratch.problems) reading.problems.push_back(std::move(p));
    scratch.problems.clear();
}

} // namespace

std::span<const RunDefault> run_defaults() { return rows; }

Scenario with_practice(Scenario scenario, RunPractice practice) {
    Reading scratch;
    scratch.scenario = std::move(scenario);
    for (const RunDefault& row : rows)
        if (row.practice == practice) read_value(scratch, Json::parse(row.value), pointer_of(row.field), *find_field(row.field));
    scratch.scenario.run->practice = practice;
    return std::move(scratch.scenario);
}

void read_usual_run(Reading& reading, const Json& value, const std::string& where) {
    if (!value.is_object()) return reading.problem(where, dotted(where) + " = " + short_text(value) + " must be an object: fields of run");
    for (const char* length : {"steps", "tokens", "days", "practice"})
        if (value.contains(length))
            reading.problem(where + "/" + length,
                            dotted(where) + "." + length + " belongs to a scenario's own run: leave it out of the cluster's");
    reading.run_of_cluster = value.dump();
}

void apply_run_defaults(Reading& reading, const Json& document) {
    const auto run = document.find("run");
    const bool wanted = run != document.end() && run->is_object();
    if (!wanted && reading.run_of_cluster.empty()) return;
    Reading scratch; // fields of these sources must not count as given
    scratch.scenario = reading.scenario;
    scratch.scenario.run.emplace();
    apply_cluster_run(reading, scratch);
    if (!wanted) return;
    for (const RunDefault& row : rows) {
        if (row.practice != practice_of(*run)) continue;
        const std::string pointer = pointer_of(row.field);
        read_value(scratch, Json::parse(row.value), pointer, *find_field(row.field));
        scratch.scenario.defaults[pointer] = std::string(row.value) + ": " + row.source;
    }
    reading.scenario = scratch.scenario;
}

} // namespace orrery
