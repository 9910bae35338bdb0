// A run of `simexec run` from step to step, and what it says at the end.
#pragma once

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/checkpoint/copies.hpp"
#include "exec/local/executor.hpp"
#include "exec/runtime/corpus.hpp"
#include "exec/runtime/resume.hpp"
#include "exec/simexec/command.hpp"
#include "exec/simexec/others.hpp"
#include "exec/simexec/step_log.hpp"
#include "exec/simexec/supervised.hpp"
#include "exec/supervise/supervise.hpp"
#include "sim/memory/memory.hpp"

#include <csignal>

namespace orrery::simexec {

// Keeps signals that ask for an end until a step is over, and then until the process ends: ranks agree on the end, so that one that has
// heard of it from another may get its own signal while it ends. Made before any thread is, so that none of them takes a signal. A write
// beyond the size that a file may have (ulimit -f) fails like one to a full disk.
class StopSignals {
  public:
    StopSignals() {
        std::signal(SIGXFSZ, SIG_IGN);
        pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    }
    int pending() const {
        const timespec at_once{0, 0};
        const int got = sigtimedwait(&set_, nullptr, &at_once);
        return got > 0 ? got : 0;
    }

  private:
    const sigset_t set_ = stop_signals();
};

struct Result {
    std::int64_t first_step = 0, steps = 0;
    double first_loss = 0, last_loss = 0, step_s = 0;
    int signal = 0;
    int threads = 1; // that shared a rank's kernels
    std::vector<OpTime> record;
    std::vector<std::int64_t> allocated;                        // bytes of device memory, by rank; 0: of another process
    std::vector<std::vector<CommunicatorMemory>> communicators; // by rank; empty: of another process, or nobody can tell
    std::optional<double> eval_loss;                            // of the held part, behind the last step
    std::int64_t copied = 0;                                    // bytes that a checkpoint in the background copies; 0: none does
    std::string checkpoint, on;                                 // on: "NVIDIA H200, CUDA runtime ..", or the kernels and the processor
};

// Threads of a rank on a processor, and whether ranks have less than a core each.
struct Cores {
    int threads = 1;
    int ranks = 1, cores = 1; // on this machine
    bool shared() const { return ranks > cores; }
};

// Facts that checkpoints keep about their text, beside its name ("corpus"): 0 and 0 for the synthetic language.
inline constexpr const char *text_tokens_fact = "text_tokens", *text_hash_fact = "text_hash";

struct Training {
    World& world;
    Executor& executor;
    const Corpus& corpus;
    const Options& options;
    const RunOptions& how;
    std::string corpus_name;
    const Others* others; // null: all ranks are in this process
    const StopSignals& signals;
    Supervised& life;
    PeerLink link; // of copies in memory
    RateSchedule rates;

    bool anyone(bool mine) const { return others ? others->any(mine) : mine; }
    void checkpoint(std::optional<CheckpointWriter>& writer, std::int64_t step) const;
    CheckpointState state(std::int64_t step) const {
        CheckpointState s{step, world.scenario.training.seed, {{"scenario", world.scenario.name}, {"corpus", corpus_name}}};
        s.facts[text_tokens_fact] = std::to_string(how.text_tokens);
        s.facts[text_hash_fact] = std::to_string(how.text_is);
        if (const LossScale* scale = loss_scale(world)) s.facts[loss_scale_fact] = text_of(*scale);
        if (how.adapters) s.facts[trained_alone_fact] = std::to_string(how.weights_are); // beside which weights
        return s;
    }
    // A step's batch. Where it cannot be had, what was trained is saved first (by a process that is alone: others do not know).
    void load(std::optional<CheckpointWriter>& writer, std::int64_t saved, std::int64_t step) const;
    double evaluate() const; // the mean loss of batches of the held part; changes nothing that stays
    void note(std::int64_t step, std::int64_t end, double seconds, std::optional<StepLog>& log,
              Result& result) const; // evaluates, logs, shows
    StepFacts facts(std::int64_t step, double loss, double seconds) const;
    void take_loss(bool first, std::int64_t step, Result& result) const; // throws NotFinite where no executor looks
    void run(std::int64_t first, Result& result);
};

Cores cores_of(const RunOptions& how, int ranks_here);
// "OpenBLAS .. on AMD EPYC, 2 threads a rank, 4 ranks share 2 cores": compare repeats it, so that a wait for a core is not read as slow
// work.
std::string on_processor(const Cores& cores);
std::string shared_cores(const Cores& cores); // ", 4 ranks share 2 cores"; empty: each has one

// Keeps the end of a text of `count` tokens for evaluation. Why it cannot; empty: it can.
std::string hold_text(Corpus& corpus, std::int64_t count, const Scenario& scenario, RunOptions& how);
std::filesystem::path folder_of_copies(const RunOptions& how, int rank); // --copies, or a folder in memory
struct Figures {
    double tokens_per_s, flops_per_s;
    std::optional<double> mfu; // of the scenario's device, where it ran on such
    std::string peak_of;
};
Figures figures(const Scenario& scenario, double step_s, const RunOptions& how);

// The processor has no bf16 and no fp16: what buffers of such a type hold is rounded to it. GPUs store for themselves.
bool rounded(const Scenario& scenario, const RunOptions& how);

std::string as_json(const World& world, const Result& r, const RunOptions& how, const MemoryReport& predicted);
std::string as_text(const World& world, const Result& r, const RunOptions& how, const MemoryReport& predicted, const TextStyle& style);

} // namespace orrery::simexec
