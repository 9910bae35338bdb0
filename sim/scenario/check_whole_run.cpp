// Rules between the fields of a whole run, and which of them do nothing.
#include "sim/scenario/resolve.hpp"
#include "sim/scenario/whole_run_text.hpp"

#include <cmath>
#include <numeric>

namespace orrery {
namespace {

// Fields that a source is silent about are assumed: the report says so.
void note_assumed(Reading& reading) {
    const auto assumed = [&](const char* pointer, const std::string& value, const char* source) {
        if (!reading.scenario.defaults.contains(pointer)) note_default(reading, pointer, value, source);
    };
    const WholeRun& r = *reading.scenario.run;
    const char* llama = "Llama 3 405B, 54 days of 2,048 nodes (arXiv:2407.21783, table 5)";
    if (r.failures.distribution != FailureLaw::trace) {
        assumed("/run/failures/per_node_day", plain_number(r.failures.per_node_day), llama);
        assumed("/run/failures/transient", plain_number(r.failures.transient), "assumed");
    }
    assumed("/run/failures/by", "counts of what failed", llama);
    assumed("/run/detect_s/hang", plain_number(r.detect.hang), "PyTorch's watchdog waits 10 minutes");
    assumed("/run/detect_s/sdc", plain_number(r.detect.sdc),
            "assumed: a day would contradict Llama 3 405B's goodput above 90 % with 6 such errors in 54 days");
    assumed("/run/restart", "minutes", "assumed; initialisation grows as NCCL's does");
    assumed("/run/checkpoint/kind", name(r.checkpoint.kind), "assumed: what trainers of this size do");
}

void check_length(Reading& reading) {
    const WholeRun& r = *reading.scenario.run;
    const int given = int(reading.has("/run/steps")) + int(reading.has("/run/tokens")) + int(reading.has("/run/days"));
    if (given == 0)
        reading.problem("/run", "run must say how long it is: one of \"steps\", \"tokens\" and \"days\", as in {\"tokens\": 1e12}");
    else if (given > 1)
        reading.problem("/run", "run says its length more than once: keep one of \"steps\", \"tokens\" and \"days\"");
    const double per_step =
        static_cast<double>(reading.scenario.training.global_batch_size) * static_cast<double>(reading.scenario.training.sequence_length);
    if (sound(reading, {"/run", "/training"}) && r.tokens > 0 && r.tokens / per_step > 1e12)
        reading.problem("/run/tokens",
                        "run.tokens = " + plain_number(r.tokens) + " are more than 1e12 steps: at most " + plain_number(per_step * 1e12));
}

void check_failures(Reading& reading) {
    const WholeRun& r = *reading.scenario.run;
    const WholeRun::Failures& f = r.failures;
    if (f.distribution == FailureLaw::trace && !reading.has("/run/failures/file"))
        reading.problem("/run/failures/distribution",
                        "run.failures.distribution = trace needs run.failures.file: a CSV with the columns node, start_day, end_day");
    if (std::accumulate(f.by.begin(), f.by.end(), 0.0) <= 0)
        reading.problem("/run/failures/by", "run.failures.by has no weight above 0: leave it out, or give one");
    for (const auto& [key, group] : {std::pair{"racks", f.racks}, {"switches", f.switches}})
        if (group.per_day > 0 && group.nodes == 0)
            reading.problem(std::string("/run/failures/") + key + "/nodes",
                            std::string("run.failures.") + key + ".per_day needs " + key + ".nodes: how many nodes fail together");
    if (r.repair.days.empty() || r.repair.mean_days <= 0) return;
    double inside = 0; // what the nine tenths below the last decile add to the mean
    for (std::size_t i = 0; i < 9; ++i) inside += (r.repair.days[i] + (i > 0 ? r.repair.days[i - 1] : 0)) / 20;
    const double least = inside + r.repair.days[8] / 10;
    if (r.repair.mean_days < least)
        reading.problem("/run/repair/mean_days", "run.repair.mean_days = " + plain_number(r.repair.mean_days) +
                                                     " is less than run.repair.days alone make: at least " + plain_number(least));
}

void check_saves(Reading& reading) {
    const WholeRun::Checkpoint& c = reading.scenario.run->checkpoint;
    const Cluster& cluster = reading.scenario.cluster;
    const bool peers = c.kind == CheckpointKind::peer || c.kind == CheckpointKind::tiers;
    const std::string is = std::string("run.checkpoint.kind = ") + name(c.kind);
    if (peers && c.replicas >= cluster.nodes)
        reading.problem("/run/checkpoint/replicas", is + " with replicas = " + std::to_string(c.replicas) + " needs more than " +
                                                        std::to_string(c.replicas) + " nodes: the cluster has " +
                                                        std::to_string(cluster.nodes) + ". Try kind = async");
    const Host& host = cluster.host;
    const bool rates = host.nvme_bandwidth.value > 0 || (host.nvme_read.value > 0 && host.nvme_write.value > 0);
    if (c.kind == CheckpointKind::local && !rates && c.save_s < 0)
        reading.problem(
            "/run/checkpoint/kind",
            is + " needs cluster.host.nvme_gb_per_s, the rate of the node's NVMe (or those of both directions: nvme_read_gb_per_s, "
                 "nvme_write_gb_per_s): give it, or try kind = async");
}

void check_convergence(Reading& reading) {
    if (!reading.scenario.training.convergence || !sound(reading, {"/training/convergence"})) return;
    Convergence& c = *reading.scenario.training.convergence;
    const int given = int(c.min_samples > 0) + int(c.min_steps > 0) + int(c.critical_batch_size > 0);
    if (given < 2)
        return reading.problem("/training/convergence", "training.convergence needs two of \"min_samples\", \"min_steps\" and "
                                                        "\"critical_batch_size\" (= min_samples / min_steps)");
    if (given == 3 && std::abs(c.min_samples / c.min_steps / c.critical_batch_size - 1) > 0.01)
        return reading.problem("/training/convergence/critical_batch_size",
                               "training.convergence.critical_batch_size = " + plain_number(c.critical_batch_size) +
                                   " is not min_samples / min_steps = " + plain_number(c.min_samples / c.min_steps) + ": leave one out");
    if (c.min_samples <= 0) c.min_samples = c.min_steps * c.critical_batch_size;
    if (c.critical_batch_size <= 0) c.critical_batch_size = c.min_samples / c.min_steps;
    if (c.min_steps <= 0) c.min_steps = c.min_samples / c.critical_batch_size;
}

} // namespace

void check_whole_run(Reading& reading) {
    check_convergence(reading);
    if (!reading.scenario.run || !sound(reading, {"/run"})) return;
    check_length(reading);
    check_failures(reading);
    if (sound(reading, {"/cluster", "/run"})) check_saves(reading);
    note_assumed(reading);
}

namespace {

void note_failures(const Scenario& sc, const Notes& note) {
    const WholeRun& r = *sc.run;
    const WholeRun::Failures& f = r.failures;
    const bool trace = f.distribution == FailureLaw::trace;
    for (const char* field : {"per_node_day", "lemons", "bursts", "transient", "by", "racks", "switches"})
        note(std::string("/run/failures/") + field, trace, "a trace says what fails");
    note("/run/failures/file", !trace, "distribution is not trace");
    note("/run/failures/shape", f.distribution != FailureLaw::weibull, "distribution is not weibull");
    note("/run/failures/bursts", f.distribution == FailureLaw::weibull, "distribution is weibull: each node fails by itself");
    note("/run/failures/bursts/hours", !trace && f.distribution != FailureLaw::weibull && f.burst_size <= 1, "bursts.size is 1");
    note("/run/failures/lemons/share", !trace && f.lemon_factor <= 1, "lemons.factor is 1");
    note("/run/failures/lemons/factor", !trace && f.lemon_share <= 0, "lemons.share is 0");
    note("/run/failures/planned_s", f.planned_per_day <= 0, "planned_per_day is 0");
    note("/run/repair", trace, "a trace says when a node is back");
    const double hang = f.by[FailingPart::hang], sdc = f.by[FailingPart::sdc];
    note("/run/detect_s/hang", trace || hang <= 0, trace ? "a trace's failures are crashes" : "by.hang is 0");
    note("/run/detect_s/sdc", trace || sdc <= 0, trace ? "a trace's failures are crashes" : "by.sdc is 0");
    note("/run/checkpoint/keep", trace || sdc <= 0, "nothing is corrupted unseen");
    const bool network = sc.cluster.nodes > 1 && !sc.cluster.graph && sc.cluster.inter.kind != InterKind::none;
    for (const auto& [pointer, of] : {std::pair{"/run/slow_node", r.slow_node}, {"/run/slow_link", r.slow_link}})
        note(pointer, of.per_node_day <= 0 || of.factor <= 1, of.factor <= 1 ? "factor is 1" : "per_node_day is 0");
    const bool slow_link = r.slow_link.per_node_day > 0 && r.slow_link.factor > 1, one = sc.cluster.nodes < 2;
    note("/run/slow_link", slow_link && !network,
         one ? "one node has no network" : "the cluster's graph has no node that is like the others");
    note("/run/lost_nic", r.lost_nic.per_node_day <= 0 || sc.cluster.inter.nics_per_node < 2 || !network,
         r.lost_nic.per_node_day <= 0 ? "per_node_day is 0" : "no other NIC could carry its traffic: say it as run.failures.by.nic");
    const bool none = r.slow_node.per_node_day <= 0 && r.slow_link.per_node_day <= 0 && r.lost_nic.per_node_day <= 0;
    note("/run/detect_s/slow", none, "nothing goes slow");
}

} // namespace

void note_whole_run(Reading& reading) {
    Scenario& sc = reading.scenario;
    const Notes note(reading);
    const std::optional<InputPipeline>& data = sc.training.data;
    note("/training/data", data && data->bytes_per_sample <= 0 && data->cpu_ms_per_sample <= 0,
         "bytes_per_sample and cpu_ms_per_sample are 0");
    note("/training/data/bytes_spread", data && data->bytes_per_sample <= 0, "bytes_per_sample is 0");
    note("/training/data/prefetch", data && (data->bytes_spread <= 0 || data->workers == 0),
         data && data->workers == 0 ? "workers is 0" : "bytes_spread is 0: all samples are alike");
    note("/training/convergence/replica_penalty", !sc.strategy.drifts(),
         sc.strategy.served() ? "workers of a parameter_server keep no parameters of their own: staleness_penalty is for old gradients"
         : sc.strategy.synchronization.kind == Synchronization::Kind::synchronous ? "synchronization.kind is synchronous"
                                                                                  : "there is one worker");
    const bool flows = asynchronous_schedule(sc.strategy) && sc.strategy.pipeline_parallel > 1;
    note("/training/convergence/staleness_penalty", !flows && !sc.strategy.loose() && !sc.strategy.offload.delayed_update,
         "every gradient is added to the weights that it was made with");
    note("/cluster/storage", !sc.run && !data, "there is neither a run that saves nor training.data that is read");
    if (!sc.run) return;
    const WholeRun& r = *sc.run;
    note_failures(sc, note);
    const CheckpointKind kind = r.checkpoint.kind;
    const bool peers = kind == CheckpointKind::peer || kind == CheckpointKind::tiers;
    note("/run/checkpoint/replicas", !peers, "no save goes to other nodes");
    note("/run/checkpoint/storage_every", kind == CheckpointKind::sync || kind == CheckpointKind::async, "every save goes to storage");
    note("/run/checkpoint/fraction", r.checkpoint.full_every == 1, "full_every is 1");
    note("/run/checkpoint/full_every", r.checkpoint.fraction >= 1, "fraction is 1");
    note("/run/checkpoint/copy_gb_per_s", r.checkpoint.kind == CheckpointKind::sync, "kind is sync");
    // Options that the run is compared with have spares that are cold, and survivors that go on.
    const bool compared = sc.cluster.nodes > 1 && r.failures.per_node_day > 0;
    const auto note_of_run = [&](const std::string& pointer, bool elsewhere, bool idle, const std::string& why) {
        if (idle && reading.has(pointer))
            sc.notes.push_back(dotted(pointer) + " has no effect" + (elsewhere ? " on this run, only on the options compared: " : ": ") +
                               why);
    };
    note_of_run("/run/spares/cold_s", compared, r.spares.warm, "spares are warm");
    note("/run/elastic", r.elastic != Elasticity::none && r.elastic != Elasticity::replan && sc.strategy.data_parallel == 1,
         "there is one data-parallel replica");
    note_of_run("/run/restart/regroup_s", compared && sc.strategy.data_parallel > 1, r.elastic != Elasticity::stepwise,
                "elastic is not stepwise");
    note("/run/evaluation/seconds", r.evaluate_every_steps <= 0, "every_steps is 0");
    note("/run/evaluation/every_steps", r.evaluate_every_steps > 0 && r.evaluation_s <= 0, "seconds is 0");
    note("/run/restart/warmup_factor", r.restart.warmup_steps == 0, "warmup_steps is 0");
}

} // namespace orrery
