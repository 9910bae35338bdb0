// A whole run as the scenario states it ("run"): how long, what fails, how it comes back, what is saved. sim/job simulates it. Times are in
// seconds, rates per day, unless a name says otherwise. Defaults and their sources: fields_whole_run.cpp.
#pragma once

#include "sim/scenario/words.hpp"
#include "topology/indexed.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace orrery {

// Kinds of failure. hang: a rank that stops without a word (a collective's watchdog finds it); sdc: silent data corruption.
enum class FailingPart : std::uint8_t { gpu, hbm, nvlink, nic, network, host, storage, power, software, hang, sdc };
template <> struct Spelling<FailingPart> {
    static constexpr const char* all[] = {"gpu", "hbm", "nvlink", "nic", "network", "host", "storage", "power", "software", "hang", "sdc"};
};
inline constexpr std::size_t failing_parts = std::size(Spelling<FailingPart>::all);

// exponential: at a constant rate. weibull: each node's time to its next failure has this shape, from its last repair on. trace: a file.
enum class FailureLaw : std::uint8_t { exponential, weibull, trace };
template <> struct Spelling<FailureLaw> { static constexpr const char* all[] = {"exponential", "weibull", "trace"}; };

// sync: the step waits for storage. async: it waits for the copy to host memory. peer: to the host memory of other nodes. local: to the
// node's own NVMe. tiers: to both. The last three save to storage too, every so many saves.
enum class CheckpointKind : std::uint8_t { sync, async, peer, local, tiers };
template <> struct Spelling<CheckpointKind> { static constexpr const char* all[] = {"sync", "async", "peer", "local", "tiers"}; };

// The reaction of a run that lacks a node for which no spare is free. none: it waits. drop_replica: it goes on without the data-parallel
// replica, the others take its sequences. shrink_batch: the same with a smaller batch. replan: with the best strategy for the nodes left.
// reroute: the replica's other nodes go on, and peers take the lost node's microbatches (ReCycle). stepwise: survivors go on at once and
// lose no step but the one that failed (TorchFT); the replica comes back by a copy from a peer.
enum class Elasticity : std::uint8_t { none, drop_replica, shrink_batch, replan, reroute, stepwise };
template <> struct Spelling<Elasticity> {
    static constexpr const char* all[] = {"none", "drop-replica", "shrink-batch", "replan", "reroute", "stepwise"};
};

// Software that starts runs again: what it does about failures where no field of "run" says otherwise (run_practice.cpp: the rows and their
// sources).
enum class RunPractice : std::uint8_t { usual, torchelastic, ray_train };
template <> struct Spelling<RunPractice> { static constexpr const char* all[] = {"usual", "torchelastic", "ray-train"}; };

struct WholeRun {
    std::int64_t steps = 0; // one of the three is above 0
    double tokens = 0, days = 0;
    RunPractice practice = RunPractice::usual;

    struct Outage { // of a trace
        int node = 0;
        double begin_s = 0, end_s = 0;
    };
    struct Groups { // nodes that fail together: racks, leaf switches
        int nodes = 0;
        double per_day = 0; // of each group
    };
    struct Failures {
        double per_node_day = 0.004;
        ByEnum<FailingPart, double, failing_parts> by{190, 72, 0, 7, 35, 40, 3, 3, 56, 7, 6}; // weights
        FailureLaw distribution = FailureLaw::exponential;
        double shape = 1; // of weibull
        std::string file; // of a trace
        std::vector<Outage> trace;
        double lemon_share = 0, lemon_factor = 1; // nodes that fail so many times as often as the others
        int remove_lemons_after = 0;              // failures after which a node is taken out for good; 0: never
        double burst_size = 1, burst_hours = 1;
        double transient = 0.5; // share of hardware failures after which the same node starts again
        Groups racks, switches;
        double planned_per_day = 0, planned_s = 0; // interruptions that are known before: saved, then so long
    } failures;

    struct Degraded { // not broken: slower, for so many hours in the mean
        double per_node_day = 0, factor = 1, hours = 1;
    };
    Degraded slow_node, slow_link, lost_nic; // of lost_nic the factor follows from the node's NICs

    struct Detect {
        double crash = 10, hang = 600, sdc = 7200, slow = 3600;
    } detect;
    struct Restart {
        double schedule_s = 60, init_s = 30, init_s_per_1024_ranks = 15, load_s = -1, compile_s = 60; // load_s < 0: from the bytes
        int warmup_steps = 0;
        double warmup_factor = 2; // how many times as long those steps take
        double repeat = 0;        // the chance that a start fails and is made again
        double regroup_s = 30;    // of survivors that go on without restart (stepwise)
    } restart;
    struct Repair {
        std::vector<double> days; // nine deciles; empty: exponential
        double mean_days = 0;
    } repair;
    struct Spares {
        int nodes = -1; // -1: enough for 99 of 100 moments
        bool warm = true;
        double cold_s = 600; // what a cold one takes longer
    } spares;
    struct Checkpoint {
        std::int64_t every_steps = 0; // 0 with every_seconds 0: auto
        double every_seconds = 0;
        CheckpointKind kind = CheckpointKind::async;
        int replicas = 1;         // peers that hold a copy
        int storage_every = 10;   // peer, local, tiers: every so many saves one goes to storage
        double fraction = 1;      // of the bytes that a save writes between full ones
        int full_every = 1;       // saves from a full one to the next
        int keep = 0;             // saves that a run can go back to after silent corruption; 0: all
        double gigabytes = 0;     // 0: the plan's own states
        double save_s = -1;       // how long a save blocks; < 0: from the bytes
        double copy_gb_per_s = 0; // of a device to host memory; 0: the host's PCIe
        double barrier_s = 0;
    } checkpoint;
    Elasticity elastic = Elasticity::none;
    std::int64_t evaluate_every_steps = 0;
    double evaluation_s = 0;
    int seeds = 100;
};

// How samples reach the devices ("training.data").
struct InputPipeline {
    double bytes_per_sample = 0, bytes_spread = 0; // mean and standard deviation
    double cpu_ms_per_sample = 0;
    int workers = 2;            // readers of a device
    int prefetch = 2;           // batches that each reader holds ready
    double reader_mb_per_s = 0; // of one reader; 0: storage and network alone limit it
    bool operator==(const InputPipeline&) const = default;
};

// How many samples a target takes, by the batch size B: min_samples x (1 + B / critical_batch_size) (McCandlish et al., arXiv:1812.06162).
struct Convergence {
    std::string target;
    double min_samples = 0, critical_batch_size = 0, min_steps = 0; // two of the three
    double replica_penalty = 0;   // share of samples more where replicas train parameters of their own (Strategy::drifts)
    double staleness_penalty = 0; // share of samples more for each update that gradients are old in the mean
    bool operator==(const Convergence&) const = default;
};
// Sequences of training until the target. `staleness`: updates between the weights that a gradient is made with and those it is added to,
// in the mean. drifts: replicas train parameters of their own.
inline double samples_to_target(const Convergence& c, double batch, bool drifts, double staleness) {
    return c.min_samples * (1 + batch / c.critical_batch_size) * (drifts ? 1 + c.replica_penalty : 1) *
           (1 + c.staleness_penalty * staleness);
}

} // namespace orrery
