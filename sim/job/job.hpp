// A whole run as numbers, and what becomes of it: the discrete-event simulation of months of steps. It knows no plan and no cluster;
// whole_run.hpp makes a TrainingJob from a scenario and its predicted step.
#pragma once

#include "sim/scenario/whole_run.hpp"
#include "topology/indexed.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace orrery {

// Where time goes that trains nothing, by the names of Google's ml-goodput-measurement. slower: steps that counted, but took longer than
// they do on the whole machine.
enum class LostTime : std::uint8_t {
    initialisation, // ranks join
    preparation,    // survivors regroup
    startup,        // kernels are compiled, steps are warm
    save,           // the blocking part of saves
    restore,        // a checkpoint is loaded
    wasted,         // steps that are done again
    recovery,       // detection, new nodes, waits for repairs, planned interruptions
    evaluation,
    data, // readers begin, until the first samples are there
    slower
};
inline constexpr std::size_t lost_times = 10;
const char* name(LostTime t);
const char* in_words(LostTime t); // "infrastructure recovery"

// The parts that the machine lacks at a moment.
struct MachineState {
    int replicas_lost = 0;
    bool slow_node = false, slow_link = false, lost_nic = false;
    auto operator<=>(const MachineState&) const = default;
};
// Steps in that state: how long one takes, and what share of an undisturbed step's tokens it trains.
struct Pace {
    double step_s = 0, share = 1;
    bool bound = false; // of a formula that leaves costs out: the step is at least as long
};

// The costs of a save. All but the shares in seconds.
struct SaveCost {
    double block_s = 0;      // steps stand still
    double write_s = 0;      // from then until it can be gone back to; the next save waits for it
    double write_factor = 1; // how many times as long steps take meanwhile
    double storage_s = 0;    // peer, local, tiers: of the copy that goes to storage every storage_every saves
    double load_s = 0;       // from storage
    double near_load_s = 0;  // from peers' memory or the node's NVMe
    double host_bytes = 0;   // of copies that a node's memory holds at most
    double nvme_bytes = 0;   // of saves that a node's NVMe holds at most
};

struct TrainingJob {
    WholeRun run;
    int nodes = 1, replicas = 1;
    double replicas_per_node = 1; // data-parallel replicas that one node's loss ends
    std::int64_t step_ps = 1;     // an undisturbed step
    double steps = 0;             // to train; 0: until horizon_s
    double horizon_s = 0;
    std::int64_t save_every = 1; // steps
    SaveCost save;
    double init_s = 0;
    double first_batch_s = 0; // after a start, until samples are there
    int spares = 0;
    std::function<Pace(const MachineState&)> pace; // of states other than the whole machine's; may be called from several threads
    std::int64_t most_failures = 2'000'000;        // of one simulated run: beyond, it is given up
    std::uint64_t seed = 0;

    double step_s() const { return static_cast<double>(step_ps) * 1e-12; }
};

// A span of a simulated run's timeline.
struct JobSpan {
    double begin_s = 0, end_s = 0;
    std::string what, detail; // of a restart: what broke; of training: what the machine lacked
    struct Saves {            // that ended in this span of training: at even distances
        std::int64_t number = 0;
        double first_s = 0, every_s = 0, lasts_s = 0;
    } saves = {};
};

struct JobOutcome {
    bool finished = false;
    double wall_s = 0, steps = 0; // steps that count
    double productive_s = 0;      // those steps at an undisturbed step's time; wall_s = productive_s + the sum of lost_s
    ByEnum<LostTime, double, lost_times> lost_s{};
    std::int64_t failures = 0, interruptions = 0, planned = 0, degraded = 0, saves = 0, storage_saves = 0;
    std::int64_t fallbacks = 0;                                 // to storage, where all copies nearer were lost
    ByEnum<FailingPart, std::int64_t, failing_parts> by_part{}; // failures
    double node_down_s = 0;                                     // node-seconds under repair
    double missing_node_s = 0;                                  // node-seconds without a spare
    std::vector<JobSpan> timeline;                              // where it was asked for
    double goodput() const { return wall_s > 0 ? productive_s / wall_s : 0; }
    // Steps that counted, as long as they took, over the run's wall time (Kokolis et al., arXiv:2410.21680).
    double ettr() const { return wall_s > 0 ? (productive_s + lost_s[LostTime::slower]) / wall_s : 0; }
};

// One run. `number`: which of the seeds; the same number gives the same failures at the same times, whatever else the job says.
JobOutcome simulate_job(const TrainingJob& job, int number, bool timeline = false);
// All seeds on `jobs` threads (0: all cores), in the order of their numbers.
std::vector<JobOutcome> simulate_seeds(const TrainingJob& job, int seeds, int jobs = 0);

} // namespace orrery
