// Measures this machine's kernels as training runs them, and writes what it found as a cluster that simrun uses as it is.
//
// Kernels are measured where they work: small models train for some steps on the serial executor, and every op's thread-CPU time is
// taken, the median over steps. Between two runs of an op the rest of the step has passed through the caches, as it will in training;
// an op repeated by itself would find its operands there (10 % too fast). To each kind of op a law of three terms is fitted.
#pragma once

#include "exec/local/executor.hpp"
#include "sim/cost/measured.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace orrery {

struct KernelSample {
    std::string key; // kernel_key()
    KernelSize size;
    double us = 0;      // median
    std::string part{}; // part_of() the ops; empty: of all of that size
};

struct SampleOptions {
    int steps = 5;     // measured; one more before them warms up
    double warm_s = 0; // seconds of steps before them: a GPU under its power limit has settled on a clock only then
    double scale = 1;  // of the models' sizes: below 1 for a quick look
    std::function<void(std::size_t done, std::size_t total)> progress{};
    // Another device than the processor: what stores a model, and who runs it. The models are larger then.
    std::function<DType(const Scenario&)> stored{};
    std::function<std::unique_ptr<Executor>(World&)> executor{};
};

// Every distinct (key, size) of the models trained. Deterministic but for the times.
std::vector<KernelSample> sample_kernels(const SampleOptions& options = {}, std::vector<std::string> scenarios = {});
// Every distinct (key, size) of a scenario as it is, on all its ranks, and every distinct (key, size, part): its laws are of these sizes
// alone.
std::vector<KernelSample> sample_own(const SampleOptions& options, const Scenario& scenario);
// Host time an op takes to issue, us: a step of a model too small for its device to matter, by the ops it computes.
double sample_issue(const SampleOptions& options, const std::string& scenario);
// The models it trains, as scenarios on one rank.
std::vector<std::string> calibration_scenarios(double scale = 1);
// Those of a GPU, in bf16 and in fp32, of that preset.
std::vector<std::string> gpu_calibration_scenarios(const std::string& preset, double scale = 1);
std::string gpu_issue_scenario(const std::string& preset);

// error: median of |law / measured - 1| over the samples of the kind.
struct FittedLaw {
    KernelLaw law;
    int points = 0;
    double error = 0;
};
std::map<std::string, FittedLaw> fit_laws(std::span<const KernelSample> samples);
// A law for each of these sizes and parts, beside those of the kinds.
void add_own_laws(std::map<std::string, FittedLaw>& laws, std::span<const KernelSample> samples);

// A GPU's own: its preset, with the laws, and what its host takes to issue an op.
std::string gpu_cluster_json(const std::string& preset, const std::string& measured_on, double issue_us,
                             const std::map<std::string, FittedLaw>& laws, std::span<const KernelSample> samples);

struct MachineFacts {
    std::string processor, gemm; // "AMD EPYC ..", "OpenBLAS 0.3.21"
    int cores = 1;
    double memory_mib = 0, cache_mib = 0;
    double copy_gb_per_s = 0; // of memory that is in no cache, bytes copied per second
    double handover_us = 0;   // from one thread to another that spins
};
MachineFacts measure_machine();

// Checkpoints in a folder of this machine: bytes at these rates, and what each save takes besides (files, flushes).
struct SaveFacts {
    double write_gb_per_s = 0, save_fixed_s = 0;
};
SaveFacts measure_saves(const std::filesystem::path& folder); // which is made, and gone afterwards; throws Unwritten

// What supervised runs take here, by runs of two models that differ in their bytes.
struct RunFacts {
    bool waits = false;        // steps stand still until a save is written; else only until it is copied
    double detect_s = 0;       // from a rank's death until the supervisor starts the run again
    double start_s = 0;        // from there to its first step, without the bytes it loads
    double block_s = 0;        // steps stand still for a save, without its bytes
    double copy_gb_per_s = 0;  // a rank's bytes meanwhile; 0: no time that can be told
    double read_gb_per_s = 0;  // of all ranks together, when a run goes on from a checkpoint
    double write_gb_per_s = 0; // the same, of saves
    std::string of;            // "serial, 1 rank"
};

// A cluster of one node with a rank a core, its device with the laws, a source for every figure.
std::string cluster_json(const MachineFacts& machine, const std::map<std::string, FittedLaw>& laws, std::span<const KernelSample> samples,
                         const RunFacts& run = {});

} // namespace orrery
