// report.json and its terminal form: everything a run is judged by. Field names as in the JSON.
#pragma once

#include "sim/cost/cost.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/loose/loose.hpp"
#include "sim/memory/memory.hpp"
#include "sim/plan/staleness.hpp"
#include "sim/report/error_bar.hpp"
#include "sim/trust/shares.hpp"
#include "topology/indexed.hpp"

#include <array>
#include <string>
#include <vector>

namespace orrery {

// Where training.convergence says what a target takes: steps of this length one after the other, as if nothing ever failed. (A scenario
// with "run" has failures too: sim/job.)
struct TimeToTarget {
    std::string name; // empty: there is none
    double samples = 0, steps = 0, s = 0, usd = 0;
};

// Workers that each train parameters of their own and meet every `steps` steps (local SGD, DiLoCo, servers, peers).
struct WorkerMeetings {
    double steps = 0;               // between two meetings; 0: there are no such workers
    double sync_time_s = 0;         // exposed, of one meeting: what the steps between two take beyond a worker's steps alone
    double compute_utilization = 1; // a worker's steps alone over all of the time: H t / (H t + sync)
    double bytes_between_nodes = 0; // in a step, as a mean: what leaves nodes for meetings and for the steps themselves
};

// A step's wait for its samples (training.data).
struct InputWait {
    double stall_s = 0; // of the step; 0: the samples lie ready
    double share = 0;   // the step's sensitivity to the time that its samples take, as Report::shares are those to groups of constants
    std::string limit;  // what that time is of: "storage", "decoding", ..
};

// Bytes of a step, of all devices: what leaves nodes over their NICs; copies between devices, their hosts' memory and NVMe.
struct Traffic {
    double between_nodes = 0, to_host = 0, from_host = 0, to_disk = 0, from_disk = 0;
};

// The parts of a plan that really leave the devices. A fraction may be less than the smallest operand, or name layers that are not there.
struct Away {
    double updated = 0;       // of the trained parameters' elements: those that hosts update
    bool activations = false; // whether any saved one leaves
};

struct Report {
    std::string name;
    int world_size = 0, data_parallel = 0;
    double step_time_s = 0, tokens_per_s = 0, tokens_per_s_per_gpu = 0, samples_per_s = 0, model_tflops_per_gpu = 0, mfu = 0, hfu = 0,
           bubble_fraction = 0;
    ByEnum<Category, double, category_count> breakdown_s{}; // means over ranks; add up to step_time_s
    double host_wait_s = 0;                                 // of breakdown_s's "other": devices stand idle for their hosts
    Traffic traffic;
    Away away;
    MemoryReport memory;
    double peak_tflops_per_gpu = 0; // what MFU and HFU are shares of: the device's dense peak at this precision
    std::string peak_dtype;         // the precision that peak is for
    std::int64_t microbatches = 0;
    Staleness staleness;                                 // of the weights that gradients were made with
    LooseReport loose;                                   // of workers that meet outside the plan (Strategy::loose)
    std::string busiest_link;                            // the name of its
    WorkerMeetings meetings;                             // of workers that each train parameters of their own
    double trained_parameters = 0;                       // of those of the model and its adapters
    double parameters = 0, flops_per_step = 0;           // model FLOPs of a step, all ranks, no recompute
    struct Experts {                                     // of a mixture's layer; load empty: the model has none
        std::vector<double> load;                        // share of the routed rows, by expert: the mean over layers
        double fullest_expert = 1;                       // the load of the expert with the most, over the mean: the mean over layers
        double fullest_rank = 1;                         // rows of the rank with the most, over the mean: the mean over layers
        std::vector<double> fullest_by_layer;            // the same of each mixture layer, where they differ
        double dropped_fraction = 0, tokens_dropped = 0; // routed rows that find their expert full; of all layers in a step
    } experts;
    double energy_j = 0, cost_usd = 0; // of a step; 0: not known
    double tokens_per_step = 0;
    double run_tokens = 0; // of the whole run, where the scenario says how long it is; 0: it does not
    TimeToTarget target;
    std::vector<std::string> notes;     // fields without effect, assumptions
    std::vector<Provenance> provenance; // what the prediction rests on
    Configuration configuration;        // by which validated rows are like this one
    ErrorBar error_bar;                 // of the nearest validated rows
    CostShares shares{};                // of the step, by group of constants: its sensitivities; 0 where not asked for
    InputWait input;                    // shares and input.share add up to 1

    // Updates between the weights that a gradient is made with and those it is added to, in the mean.
    double mean_staleness() const { return loose.step_s > 0 ? loose.staleness : staleness.mean; }
    double headroom() const; // what the fullest stage leaves of the device's memory, as a fraction of it; < 0: it does not fit
    bool narrow() const;     // that is less than memory_margin(): it may be otherwise
};

// The report's time to its target, from its step time and staleness. Nothing where the scenario has no training.convergence.
void set_target(Report& report, const Scenario& scenario);

// So many tokens at the pace of this step, without failures, saves or evaluation. 0: not known.
struct AtThisPace {
    double seconds = 0, cost_usd = 0, energy_j = 0;
};
AtThisPace at_this_pace(const Report& report, double tokens);
std::string to_text(const AtThisPace& pace); // "186.2 days, 1.12 M USD, 402 MWh"

Configuration configuration_of(const Scenario& scenario, const Report& report); // with what only a prediction knows: host_share

// The effect of a user's own measured steps of this stack on this device: its interval is what they leave (that of the step time where
// shares are known), wider than before where they contradict each other, and it says what was learned.
void set_bars_by_learned(Report& report, const Scenario& scenario);

// The whole pipeline: lower, verify, measure memory, simulate. Throws std::runtime_error on a deadlock, std::logic_error where the
// lowered plan breaks a rule of verify (our bug).
// too_big: with only_if_fits the simulation of a plan that does not fit is left out; memory is there, times are zero.
struct Prediction {
    Report report;
    Simulation simulation;
    bool too_big = false;
};
inline constexpr std::uint64_t interval_shares = 100'000; // events: shares take a fraction of a second then
struct PredictOptions {
    SimulateOptions simulate;
    bool verify = true;
    bool only_if_fits = false;
    bool shares = false; // Report::shares too, of any simulation: the interval does not depend on them
    // A simulation of fewer events is simulated again for its shares, and its interval is drawn by them: every command that prints
    // intervals says interval_shares, so that a scenario has the same interval everywhere.
    std::uint64_t shares_up_to = 0;
    const PlanMemory* walked = nullptr; // of the plan, where the caller has it
    bool bound = true;                  // the plan has its dependencies (sim/plan/lower.hpp)
    RunMemo* memo = nullptr;            // of its simulations
    CacheOf cache = CacheOf::no_stage;  // of those that the report shows
    bool meetings = true;               // Report::meetings of rounds, which take one more simulation
};
Prediction predict(const Scenario& scenario, const PredictOptions& options = {});
// With a plan that several scenarios have (sim/plan/inputs.hpp).
Prediction predict(const Scenario& scenario, const Plan& plan, const PredictOptions& options);

Report report(const Scenario& scenario, const Plan& plan, const Simulation& simulation, const MemoryReport& memory, const CostModel& cost);
std::string to_json(const Report& report); // report.json, keys in DESIGN.md's order
// Power and price of a number of a cluster's devices, nodes' own share included; 0: not known.
double watts_of(const Cluster& cluster, int devices);
// Says that a preset's power_w_per_node is assumed, and from what; else empty.
std::string assumed_node_power(const Cluster& cluster);
// What watts_of() counts, in words: "energy: board power limits and ..".
std::string energy_basis(const Cluster& cluster);
double usd_per_second(const Cluster& cluster, int devices);
const char* in_words(Category category); // "tensor-parallel wait", as reports for a person call it
// Why it does not fit, in one sentence: which stage, by how much, at which op. Empty where it fits.
std::string why_not(const MemoryReport& memory);
// How near it is, where that is narrow(): what is to spare or too much, and how much plans must leave to fit surely. Empty where not.
std::string how_narrow(const Report& report);

// For a person; colour, block characters and width as the terminal allows (terminal.hpp).
// detailed: what the prediction rests on with every source, not by kind alone.
struct TextStyle {
    bool colour = false;
    int width = 100;
    bool unicode = false, detailed = false;
};
// "tensor 8 x pipeline 4 x data 2, 1f1b, ZeRO 1, on the host: optimizer". away: of its plan; without one, what the scenario asks for.
std::string strategy_text(const Scenario& scenario, const Away* away = nullptr);
std::string to_text(const Report& report, const Scenario& scenario, const TextStyle& style = {});

} // namespace orrery
