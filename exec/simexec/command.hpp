// Shared by the subcommands of simexec. One file per subcommand.
#pragma once

#include "exec/kernels/machine.hpp"
#include "exec/runtime/text_file.hpp"
#include "exec/simexec/learning_rate.hpp"
#include "sim/console/console.hpp"

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace orrery::simexec {

// 0: done. 1: bad input. 2: out of memory. 3: the plan cannot run (a deadlock). 4: training failed (a loss that is no number; a strategy
// that does not train like one rank). 5: stopped by a signal, with a checkpoint where one was asked for. 6: a rank was lost, or is of
// a different plan. 7: a checkpoint or another file could not be written. 8: a GPU failed (an error of CUDA). 9: communication between GPUs
// failed (an error of NCCL). 70: our bug.
enum Exit {
    done = 0,
    bad_input = 1,
    too_big = 2,
    cannot_run = 3,
    failed = 4,
    stopped = 5,
    lost = 6,
    unwritten = 7,
    device_failed = 8,
    communication_failed = 9,
    our_bug = 70
};
int exit_code(const std::exception& e);    // of what ended a run
void report(const std::exception& e);      // complains, unless another rank's process does
void report_here(const std::exception& e); // the same, once on this machine

struct Options {
    bool json = false, quiet = false, verbose = false;
    std::string output;                 // -o: a file instead of standard output
    std::vector<std::string> overrides; // --set path=value
};

struct RunOptions {
    std::string executor = "serial", device = "cpu", text, trace, checkpoint, resume, routing;
    int steps = 10, every = 0;
    int threads = 0; // that share the kernels of a rank; 0: the cores of this machine over its ranks
    bool fp64 = false, fp32 = false, find_nan = false, deterministic = false;
    double patience = 60; // threads, mpi: seconds without progress
    TokenType token_type = TokenType::by_file;
    std::string log; // .csv: a row a step; else a line of JSON a step
    RateDecay decay = RateDecay::none;
    std::int64_t decay_steps = 0; // 0: as many as `steps`
    double least_rate = 0;        // at the end of the decay, a share of the learning rate
    std::int64_t text_is = 0;     // of the text's contents: what ranks compare, and checkpoints keep
    std::int64_t text_tokens = 0; // of it
    std::string text_form;        // what a token of it is taken to be; "": there is no text
    std::int64_t job = 0;         // of the scenario's text and overrides: what ranks compare
    double memory_gb = 0;         // a rank may hold, as the plan counts it; 0: as much as there is
    int copy_every = 0;           // steps between copies of the state into memory, here and on a peer's machine; 0: none
    std::string copies;           // the folder of such copies; "{rank}" is replaced; empty: of /dev/shm
    std::string watch;            // of a supervised run: the folder of its checkpoints, where rank 0 keeps the record
    int attempt = 0;
    std::string weights, export_weights; // files that the run begins with; the folder that it leaves its weights in
    bool adapters = false;               // checkpoints hold what is trained alone
    bool export_bf16 = false;
    bool export_fp32 = false;
    int eval_every = 0, eval_batches = 4; // steps between evaluations, 0: none; batches of the held part at each, at most
    double eval_fraction = 0.05;          // of the text, at its end, is held
    std::int64_t weights_are = 0;         // of their headers: what ranks compare
};

// Options of `run --restart N`: the supervisor's own.
struct RestartOptions {
    int restarts = -1; // at most; below 0: nobody supervises
    bool elastic = false;
    double silence_s = 10;
    double drill_s = 0;                 // seconds between kills of a random rank, in the mean; 0: none
    std::string calibration;            // of a drill: what its goodput is predicted from
    std::string launch;                 // before simexec in each attempt's command; {ranks}: their number
    std::vector<std::string> arguments; // of this program, from its command on
};

inline constexpr int worst_shown = 10; // ops of a comparison, where --worst is not given: of a JSON file then all

struct CalibrateOptions {
    std::string device = "cpu", executor = "serial";
    int steps = 5, ranks = 1; // ranks: of the runs whose start and saves are measured
    double scale = 1;
};
struct CheckOptions {
    std::string calibration, trace, device = "cpu", row, executor = "serial";
    int steps = 5, worst = -1;
};

struct AgreeOptions {
    std::string device = "cpu", executor = "serial";
    int steps = 5;
};
struct ReplayOptions {
    std::string device = "cpu", trace;
    int rank = 0, steps = 3, worst = -1;
};

int run_run(const std::string& file, const Options& options, const RunOptions& how);
int run_restarts(const std::string& file, const Options& options, const RunOptions& how, const RestartOptions& restart);
int run_agree(const std::string& file, const Options& options, const AgreeOptions& how);
int run_check(const std::vector<std::string>& files, const Options& options, const CheckOptions& how);
int run_replay(const std::string& file, const Options& options, const ReplayOptions& how);
int run_calibrate(const std::vector<std::string>& files, const Options& options, const CalibrateOptions& how);
int run_doctor(const Options& options);

std::string counted(std::int64_t n, const std::string& thing); // "1 rank", "2 processes"
Backend machine_of(const std::string& device);                 // "cpu", "cuda"; throws std::runtime_error with why there is none
TextStyle output_style(const Options& options);
TextStyle error_style();
int deliver(const std::string& text, const Options& options); // to -o or standard output, there not with -q alone: done or unwritten
void complain(const std::string& text);                       // "simexec: error: .." on standard error
[[noreturn]] void give_up(const std::string& who);            // a thread that does not come back cannot be ended: the process is
// What all processes of a job find alike, before they know of each other: one of each machine says it (calls `say`), and all stay for a
// second, so that none comes too late to see that it has been said. `what` tells one such thing from another.
void once_here(const std::string& what, const std::function<void()>& say);
int refuse(const std::string& text); // complains once here; bad_input
// Why a command that runs all ranks in one process is refused where a launcher started several; empty: there is one. does: what each
// process would do with all ranks.
std::string several_started(const std::string& does);

// A scenario that can be executed here, or nothing after every problem has been printed.
std::optional<Scenario> load(const std::string& file, const Options& options, bool forced_routing = false);
std::optional<std::string> read_text(const std::string& file);
// The cluster that simexec calibrate wrote as an override, with so many ranks on one node; nothing: it is none, and that has been said.
std::optional<std::string> cluster_of(const std::string& file, int ranks);

// A line on standard error that is written over, where that is a terminal; else a line every ten seconds. Nothing with -q.
class Progress {
  public:
    explicit Progress(const Options& options);
    void show(int done, int total, const std::string& beside);

  private:
    console::StatusLine line_;
    bool plain_;       // no terminal
    double next_ = 10; // s since it was made
};

} // namespace orrery::simexec
