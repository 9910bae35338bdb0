// simexec: runs plans for real. The command line; each subcommand is a file of this folder (command.hpp lists them).
#include "exec/simexec/command.hpp"

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/checkpoint/copies.hpp"
#include "exec/executors/executors.hpp"
#include "exec/kernels/room.hpp"
#include "exec/mpi/processes.hpp"
#include "exec/queues/device.hpp"
#include "exec/queues/launch.hpp"
#include "exec/queues/store.hpp"
#include "exec/simexec/others.hpp"
#include "sim/console/command_line.hpp"
#include "topology/input_error.hpp"

#include <CLI/CLI.hpp>

#include <exception>
#include <map>
#include <new>
#include <optional>
#include <stdexcept>

namespace orrery::simexec {
namespace {

constexpr const char* examples =
    R"(  simexec run scenarios/tiny-gpt.json --text README.md --steps 100     train a byte-level GPT on any text
  simexec run job.json --set cluster.devices_per_node=2 --set strategy.tensor_parallel=2      another strategy: the losses agree
  simexec run job.json --checkpoint runs/a --every 50                  stop it (Ctrl-C, SIGTERM); continue with --resume runs/a
  simexec run job.json --checkpoint runs/a --every 50 --restart 10      a killed, lost or stopped rank: start again from the newest checkpoint
  simexec run job.json --executor mpi --checkpoint runs/a --every 50 --restart 10 --elastic    mpirun is started; each loss takes a replica away
  simexec run job.json --weights Llama-2-7b/ --export-weights tuned/    go on from a model of Hugging Face, and write one
  simexec run job.json --trace step.trace                              then: simrun compare job.json step.trace
  mpirun -n 4 simexec run job.json --executor mpi                      one process per rank, on one machine or several
  simexec run job.json --device cuda --executor queues                 one GPU per rank; or torchrun --no-python --nproc-per-node 8 simexec run ..
  simexec agree job.json                                               does this strategy train like one rank?
  simexec calibrate -o local.json                                      measure this machine, for the next line and for simrun
  simexec run job.json --checkpoint runs/a --every 20 --restart 99 --drill 2 --calibration local.json    how much do kills cost? predicted, and measured
  simexec calibrate job.json -o local.json                             the same, and at that scenario's own sizes
  simexec check job.json --calibration local.json                      predicted and measured, side by side
  simexec check scenarios/tiny-*.json --calibration local.json         a table of several scenarios
  mpirun -n 4 simexec check job.json --executor mpi                    the same, a process a rank: one trace of all on one clock
  simexec replay large.json --rank 5                                   one rank of a large job: its kernels run, other ranks are predicted
  simexec doctor                                                       what this machine has and lacks
)";

constexpr const char* trace_help = "Write the measured step: .json for Perfetto, any other name compact";

constexpr const char* exits =
    R"(Exit: 0 done, 1 bad input, 2 out of memory, 3 the plan cannot run, 4 training failed (NaN or infinity, or a strategy that does not
train like one rank), 5 stopped by a signal (with --checkpoint a checkpoint was written), 6 a rank was lost or has a different plan,
7 a checkpoint or another file could not be written (a full disk), 8 a GPU failed (CUDA), 9 communication between GPUs failed (NCCL), 70 a bug of simexec.)";

struct Parsed {
    Options options;
    RunOptions run;
    RestartOptions restart;
    CheckOptions check;
    ReplayOptions replay;
    CalibrateOptions calibrate;
    std::string file;
    std::vector<std::string> files;
    AgreeOptions agree;
};

// An option with named values. CLI11's own transformer prints the numbers behind the names in --help.
template <class T>
CLI::Option* add_choice(CLI::App& app, const std::string& option, T& value, const std::map<std::string, T>& named,
                        const std::string& help) {
    std::vector<std::string> names;
    for (const auto& [name, _] : named) names.push_back(name);
    return app
        .add_option_function<std::string>(
            option, [&value, named](const std::string& name) { value = named.at(name); }, help)
        ->check(CLI::IsMember(names));
}

void add_output(CLI::App& app, Options& o) {
    app.add_flag("--json", o.json, "JSON on standard output");
    app.add_option("-o,--output", o.output, "Write to this file instead of standard output")->type_name("FILE");
    app.add_flag("-q,--quiet", o.quiet, "Nothing but errors (and what --json or -o ask for)");
}

void add_verbose(CLI::App& app, Options& o, const char* help) { app.add_flag("-v,--verbose", o.verbose, help); }

CLI::App* add_scenario_command(CLI::App& app, Parsed& p, const char* name, const char* what) {
    CLI::App* sub = app.add_subcommand(name, what);
    sub->add_option("scenario", p.file, "The scenario")->required()->type_name("SCENARIO.json");
    sub->add_option("--set", p.options.overrides, "Override a field: strategy.tensor_parallel=2 (repeat for more)")
        ->type_name("PATH=VALUE")
        ->expected(1)
        ->allow_extra_args(false)
        ->take_all();
    add_output(*sub, p.options);
    return sub;
}

std::vector<std::string> all_executors() {
    std::vector<std::string> names = executor_names();
    names.emplace_back("mpi");
    return names;
}

void add_restarts(CLI::App& run, Parsed& p) {
    CLI::Option* restart =
        run.add_option("--restart", p.restart.restarts,
                       "Supervise the run: start its ranks, and start them again from the newest checkpoint, at most N times, where one is "
                       "killed, lost, stopped or stuck")
            ->check(CLI::Range(0, 1000000))
            ->type_name("N");
    run.add_flag("--elastic", p.restart.elastic,
                 "--restart: go on with a data-parallel replica less after each loss; the others take more microbatches, the batch stays")
        ->needs(restart);
    run.add_option("--silence", p.restart.silence_s,
                   "--restart: a rank without a sign of life for S seconds is lost (stopped, or its machine is gone); default 10")
        ->check(CLI::Range(1.0, 1e6))
        ->needs(restart)
        ->type_name("S");
    CLI::Option* drill =
        run.add_option(
               "--drill", p.restart.drill_s,
               "--restart: kill a random rank every S seconds in the mean, at moments that training.seed draws, to see what survives")
            ->check(CLI::Range(0.01, 1e9))
            ->needs(restart)
            ->type_name("S");
    run.add_option("--calibration", p.restart.calibration,
                   "--drill: predict the goodput too, from what simexec calibrate measured before; each rank has one thread then")
        ->check(CLI::ExistingFile)
        ->needs(drill)
        ->type_name("FILE");
    run.add_option("--launch", p.restart.launch, "--restart: what starts the ranks; default with --executor mpi: \"mpirun -n {ranks}\"")
        ->needs(restart)
        ->type_name("WORDS");
    run.add_option(
           "--copy-every", p.run.copy_every,
           "Every N steps copy the state, beside the next steps, into this machine's memory (/dev/shm) and with --executor mpi into "
           "that of another rank's machine; a restart takes the newest of these and of --checkpoint")
        ->check(CLI::Range(1, 1000000000))
        ->type_name("N");
    run.add_option("--copies", p.run.copies)->group(""); // another folder than /dev/shm's; {rank}: one for each
    run.add_option("--watch", p.run.watch)->group("");   // what a supervisor says to its ranks
    run.add_option("--attempt", p.run.attempt)->group("");
}

void add_weights(CLI::App& run, Parsed& p) {
    run.add_option(
           "--weights", p.run.weights,
           "Begin with these weights in place of random ones: a safetensors file with Hugging Face's names, an index of several, or a "
           "folder, whose config.json must be of the scenario's model (GPT-2, Llama, Mistral, Mixtral, Qwen)")
        ->type_name("DIR_or_FILE");
    CLI::Option* written =
        run.add_option("--export-weights", p.run.export_weights,
                       "At the end write the weights into this folder, as such files and a config.json; with --resume and "
                       "no step left, nothing else is done")
            ->type_name("DIR");
    run.add_option_function<std::string>(
           "--export-dtype", [&p](const std::string& t) { (t == "bf16" ? p.run.export_bf16 : p.run.export_fp32) = true; },
           "What they are written in (default: bf16 where training.precision is, else fp32)")
        ->needs(written)
        ->check(CLI::IsMember({"bf16", "fp32"}));
}

void add_evaluation(CLI::App& run, Parsed& p) {
    CLI::Option* every = run.add_option("--eval-every", p.run.eval_every,
                                        "Every N steps, and at the end, the loss on text that training never sees: shown, and in --log and "
                                        "--json. A batch of it takes as long as a step")
                             ->check(CLI::Range(1, 1000000000))
                             ->type_name("N");
    run.add_option("--eval-fraction", p.run.eval_fraction, "The share of the text, at its end, that is held for --eval-every; default 0.05")
        ->needs(every)
        ->check(CLI::Range(0.000001, 0.9))
        ->type_name("F");
    run.add_option("--eval-batches", p.run.eval_batches, "Batches of it at a time, the first ones; default 4, or as many as it has")
        ->needs(every)
        ->check(CLI::Range(1, 1000000))
        ->type_name("N");
}

void add_decay(CLI::App& run, Parsed& p) {
    CLI::Option* decay = add_choice<RateDecay>(run, "--decay", p.run.decay,
                                               {{"none", RateDecay::none}, {"linear", RateDecay::linear}, {"cosine", RateDecay::cosine}},
                                               "How the learning rate goes down after training.warmup_steps (default: none)");
    run.add_option("--decay-steps", p.run.decay_steps, "The step at which the decay ends (default: --steps)")
        ->needs(decay)
        ->check(CLI::Range(1, 1000000000))
        ->type_name("N");
    run.add_option("--least-rate", p.run.least_rate, "What the decay leaves, as a share of the learning rate")
        ->needs(decay)
        ->check(CLI::Range(0.0, 1.0))
        ->type_name("SHARE");
}

// How a rank computes, and what it looks at.
void add_numbers(CLI::App& run, Parsed& p) {
    run.add_option("--memory", p.run.memory_gb, "Memory limit of a rank in GB (default: all memory of the machine)")
        ->check(console::above_zero())
        ->type_name("GB");
    run.add_option("--threads", p.run.threads,
                   "Threads that share the kernels of a rank on a processor (default: the cores of this machine over its ranks)")
        ->check(CLI::Range(1, 1024))
        ->type_name("N");
    run.add_option("--routing", p.run.routing,
                   "Write how many tokens chose each expert, a list a layer: a scenario takes it as model.moe.imbalance = {\"file\": FILE}")
        ->type_name("FILE");
    run.add_flag("--find-nan", p.run.find_nan, "Check the results of every op and name the first that is NaN or infinite; slower");
    run.add_flag(
        "--deterministic", p.run.deterministic,
        "Two runs give the same bits, on GPUs too, with kernels and NCCL rings that add in one order; slower there. Processors always "
        "do");
    CLI::Option* single = run.add_flag("--fp32", p.run.fp32, "Keep the plan's bf16 and fp16 buffers in fp32 (default: they are rounded)");
    run.add_flag("--fp64", p.run.fp64, "Every floating buffer in double precision")->excludes(single);
}

void add_run(CLI::App& app, Parsed& p) {
    CLI::App* run = add_scenario_command(app, p, "run", "Train: the plan of a scenario, on this machine");
    add_verbose(*run, p.options, "Every step's loss");
    run->add_option("--executor", p.run.executor,
                    "How the ranks run: in one thread, in threads of their own, as devices with queues, or as processes")
        ->check(CLI::IsMember(all_executors()));
    run->add_option("--device", p.run.device,
                    "Where kernels run; cuda with --executor queues: one GPU per rank, with serial: all ranks on one GPU")
        ->check(CLI::IsMember({"cpu", "cuda"}));
    run->add_option("--patience", p.run.patience,
                    "Give up after S seconds in which no op and no communication of a rank ends (default: 60). threads, mpi, queues, with "
                    "--restart all; also how long "
                    "processes wait for each other at the start and between steps")
        ->check(console::above_zero())
        ->type_name("S");
    run->add_option("--steps", p.run.steps,
                    "Train up to this step (default: 10). Steps that come in periods (asynchronous pipelines, local SGD, FedAvg, DiLoCo, "
                    "0/1 Adam) end with a whole one")
        ->check(CLI::Range(1, 1000000000))
        ->type_name("N");
    CLI::Option* text = run->add_option("--text", p.run.text, "Train on this file, of bytes or token ids; a synthetic language if left out")
                            ->type_name("FILE");
    add_choice<TokenType>(
        *run, "--token-type", p.run.token_type, {{"bytes", TokenType::byte}, {"uint16", TokenType::uint16}, {"uint32", TokenType::uint32}},
        "What the file has: bytes, or token ids of 2 or 4 bytes (default: as its name and first bytes say: Megatron's .idx beside it, "
        "llm.c's header, .bin as nanoGPT's)")
        ->needs(text);
    run->add_option(
           "--log", p.run.log,
           "Write what each step brings (loss, gradient norm, learning rate, tokens/s, MFU, memory): .csv, or a line of JSON a step")
        ->type_name("FILE");
    add_decay(*run, p);
    run->add_option("--trace", p.run.trace, "Write the last step: .json for Perfetto, any other name compact")->type_name("FILE");
    CLI::Option* checkpoint =
        run->add_option("--checkpoint", p.run.checkpoint, "Write checkpoints into this folder: at the end, when stopped, and with --every")
            ->type_name("DIR");
    run->add_option("--every", p.run.every, "Write a checkpoint every N steps")
        ->needs(checkpoint)
        ->check(CLI::Range(1, 1000000000))
        ->type_name("N");
    run->add_flag(
        "--adapters", p.run.adapters,
        "Checkpoints hold what model.trainable trains alone, as LoRA's adapters, with its optimizer states; --resume takes the rest "
        "from --weights or, as at the start, from training.seed");
    run->add_option("--resume", p.run.resume, "Resume from the newest checkpoint of this folder; the strategy may differ")
        ->type_name("DIR");
    add_evaluation(*run, p);
    add_weights(*run, p);
    add_restarts(*run, p);
    add_numbers(*run, p);
}

void add_agree(CLI::App& app, Parsed& p) {
    CLI::App* agree = add_scenario_command(app, p, "agree", "Train a few steps under the strategy and on one rank, and compare");
    agree->add_option("--steps", p.agree.steps, "Number of steps (default: 5)")->check(CLI::Range(1, 1000))->type_name("N");
    agree->add_option("--device", p.agree.device, "Where both run: cpu in double precision, cuda in fp32 or in the plan's own types")
        ->check(CLI::IsMember({"cpu", "cuda"}));
    agree
        ->add_option("--executor", p.agree.executor,
                     "serial (cuda: all ranks on one GPU), threads, queues (cuda: a GPU a rank), mpi: a process a rank, under mpirun")
        ->check(CLI::IsMember(all_executors()));
}

void add_check(CLI::App& app, Parsed& p) {
    CLI::App* check = app.add_subcommand("check", "Predict a step, run it, and print both; for several scenarios, a table");
    check->add_option("scenarios", p.files, "The scenarios")->required()->type_name("SCENARIO.json");
    check->add_option("--set", p.options.overrides, "Override a field: strategy.tensor_parallel=2 (repeat for more)")
        ->type_name("PATH=VALUE")
        ->expected(1)
        ->allow_extra_args(false)
        ->take_all();
    add_output(*check, p.options);
    add_verbose(*check, p.options, "--executor mpi: which process has which rank");
    check->add_option("--calibration", p.check.calibration, "Predict with this measured machine (default: the scenario's cluster)")
        ->type_name("FILE");
    check->add_option("--device", p.check.device, "Where it runs; cuda: one GPU per rank, steps are timed there")
        ->check(CLI::IsMember({"cpu", "cuda"}));
    check
        ->add_option("--executor", p.check.executor,
                     "serial: one rank after the other, then arranged as if they ran beside each other; threads, queues: beside each "
                     "other in this process; mpi: a process a rank, under mpirun. With --device cuda: a GPU a rank, under torchrun, "
                     "mpirun or srun in processes")
        ->check(CLI::IsMember(all_executors()));
    check->add_option("--row", p.check.row, "cuda: write the measurements as a dataset for simrun validate")->type_name("FILE");
    check->add_option("--steps", p.check.steps, "Number of steps; the median is shown (default: 5)")
        ->check(CLI::Range(1, 1000))
        ->type_name("N");
    check->add_option("--worst", p.check.worst, "Number of ops to list (default: 10; in JSON all)")
        ->check(CLI::Range(0, 100000))
        ->type_name("N");
    check->add_option("--trace", p.check.trace, trace_help)->type_name("FILE");
}

void add_replay(CLI::App& app, Parsed& p) {
    CLI::App* replay =
        add_scenario_command(app, p, "replay", "Run one rank of any job: its kernels for real, communication as predicted delays");
    replay->add_option("--rank", p.replay.rank, "The rank to run")->type_name("R");
    replay->add_option("--device", p.replay.device, "Where its kernels run")->check(CLI::IsMember({"cpu", "cuda"}));
    replay->add_option("--steps", p.replay.steps, "Number of steps; the median one is shown (default: 3)")
        ->check(CLI::Range(1, 1000))
        ->type_name("N");
    replay->add_option("--worst", p.replay.worst, "Number of ops to list (default: 10; in JSON all)")
        ->check(CLI::Range(0, 100000))
        ->type_name("N");
    replay->add_option("--trace", p.replay.trace, trace_help)->type_name("FILE");
}

void add_calibrate(CLI::App& app, Parsed& p) {
    CLI::App* calibrate = app.add_subcommand("calibrate", "Measure this machine's kernels; write them as a cluster (-o local.json)");
    calibrate
        ->add_option("scenarios", p.files,
                     "Scenarios whose ops are measured at their own sizes too, a step of each trained here: predictions of them are nearer")
        ->type_name("SCENARIO.json");
    calibrate->add_option("--set", p.options.overrides, "Override a field of them: strategy.tensor_parallel=2 (repeat for more)")
        ->type_name("PATH=VALUE")
        ->expected(1)
        ->allow_extra_args(false)
        ->take_all();
    add_output(*calibrate, p.options);
    calibrate->add_option("--device", p.calibrate.device, "Whose kernels: the processor's, or the first GPU's")
        ->check(CLI::IsMember({"cpu", "cuda"}));
    calibrate->add_option("--steps", p.calibrate.steps, "Number of repetitions; medians are used (default: 5)")
        ->check(CLI::Range(1, 1000))
        ->type_name("N");
    calibrate
        ->add_option("--executor", p.calibrate.executor,
                     "How the runs go whose starts, saves and losses are measured, for predictions of whole runs on this machine")
        ->check(CLI::IsMember({"serial", "threads", "mpi"}));
    calibrate->add_option("--ranks", p.calibrate.ranks, "--executor threads, mpi: ranks of those runs")
        ->check(CLI::Range(1, 1024))
        ->type_name("N");
    calibrate
        ->add_option("--scale", p.calibrate.scale, "Factor on the sizes of the models that are trained; below 1 for a quick measurement")
        ->check(CLI::Range(0.1, 4.0))
        ->type_name("X");
}

void add_commands(CLI::App& app, Parsed& p) {
    add_run(app, p);
    add_agree(app, p);
    add_check(app, p);
    add_replay(app, p);
    add_calibrate(app, p);
    add_output(*app.add_subcommand("doctor", "List what this machine has and what is missing"), p.options);
}

// The files of this command line, before anything is written.
std::string lost_file(const Parsed& p) {
    std::vector<std::string> inputs = p.files;
    for (const std::string& one : {p.file, p.run.text, p.run.weights, p.restart.calibration, p.check.calibration}) inputs.push_back(one);
    return console::lost_file(inputs, {{"-o", p.options.output},
                                       {"--log", p.run.log},
                                       {"--trace", p.run.trace},
                                       {"--routing", p.run.routing},
                                       {"--trace", p.check.trace},
                                       {"--row", p.check.row},
                                       {"--trace", p.replay.trace}});
}

int dispatch(const CLI::App& app, Parsed& p) {
    if (const std::string why = lost_file(p); !why.empty()) return refuse(why);
    if (app.got_subcommand("run") && p.restart.restarts >= 0) return run_restarts(p.file, p.options, p.run, p.restart);
    if (app.got_subcommand("run") && p.run.copy_every > 0 && p.run.watch.empty())
        return refuse("--copy-every is for restarts: add --restart N");
    if (app.got_subcommand("run")) return run_run(p.file, p.options, p.run);
    if (app.got_subcommand("agree")) return run_agree(p.file, p.options, p.agree);
    if (app.got_subcommand("check")) return run_check(p.files, p.options, p.check);
    if (app.got_subcommand("replay")) return run_replay(p.file, p.options, p.replay);
    if (app.got_subcommand("calibrate")) return run_calibrate(p.files, p.options, p.calibrate);
    return run_doctor(p.options);
}

template <class T> bool is(const std::exception& e) { return dynamic_cast<const T*>(&e) != nullptr; }

// The process that speaks, where all know the same.
bool speaks(const std::exception& e) {
    if (is<SaidElsewhere>(e) || is<UnwrittenElsewhere>(e) || is<RefusedElsewhere>(e)) return false;
    if (is<SaidByAnother>(e) || is<NotFiniteElsewhere>(e)) return false;
    const std::optional<LaunchedRank> launched = launched_if_clear(); // where it is not clear, e may say that
    if (!launched || launched->size == 1) return true;
    if (const auto* nan = dynamic_cast<const NotFinite*>(&e); nan && nan->all_know) return launched->rank == 0;
    const auto* gone = dynamic_cast<const PeerGone*>(&e);
    if (gone && gone->rank != 0) return launched->rank == 0;        // its process keeps the store, and saw it
    if (gone || is<StoreLost>(e)) return launched->local_rank <= 1; // rank 0's process is gone: someone on each node says so
    return true;
}

int run(int argc, char** argv) {
    CLI::App app{"simexec trains a scenario on this machine, by the same plan that simrun simulates.", "simexec"};
    app.set_version_flag("--version", "simexec " ORRERY_VERSION);
    Parsed parsed;
    add_commands(app, parsed);
    console::add_examples(app, examples, exits);
    app.require_subcommand(1, 1);
    parsed.restart.arguments = {argv + 1, argv + argc};
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        int code = e.get_exit_code() == 0 ? done : bad_input;
        once_here(e.what(), [&] { code = console::refuse(app, e, {argv + 1, argv + argc}); });
        return code;
    }
    try {
        return dispatch(app, parsed);
    } catch (const std::exception& e) {
        report_here(e);
        return exit_code(e);
    }
}

} // namespace

void report(const std::exception& e) {
    if (speaks(e)) complain(std::string(e.what()) + (exit_code(e) == our_bug ? "\nThis is a bug in simexec." : ""));
}

void report_here(const std::exception& e) {
    if (speaks(e)) once_here(e.what(), [&] { report(e); });
}

int exit_code(const std::exception& e) {
    if (const auto* said = dynamic_cast<const SaidByAnother*>(&e)) return said->code;
    if (is<OutOfMemory>(e) || is<NoRoom>(e) || is<std::bad_alloc>(e)) return too_big;
    if (is<StandsStill>(e) || is<CannotRun>(e)) return cannot_run;
    if (is<NotFinite>(e)) return failed;
    if (is<LostPeer>(e) || is<LostCopy>(e) || is<StoreLost>(e) || is<StoreTimeout>(e)) return lost;
    if (is<Unwritten>(e)) return unwritten;
    if (const auto* library = dynamic_cast<const LibraryFailed*>(&e))
        return library->cause == Cause::communicator ? communication_failed : device_failed;
    return is<std::logic_error>(e) && !is<std::invalid_argument>(e) ? our_bug : bad_input;
}

} // namespace orrery::simexec

int main(int argc, char** argv) { return orrery::simexec::run(argc, argv); }
