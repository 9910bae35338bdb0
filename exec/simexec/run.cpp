// `simexec run SCENARIO.json`: train it here, by the plan the simulator would time.
#include "exec/cuda/plugin.hpp"
#include "exec/executors/executors.hpp"
#include "exec/kernels/room.hpp"
#include "exec/local/timeline.hpp"
#include "exec/mpi/processes.hpp"
#include "exec/runtime/machine.hpp"
#include "exec/runtime/resume.hpp"
#include "exec/simexec/gpu.hpp"
#include "sim/memory/memory.hpp"
#include "sim/plan/lower.hpp"
#include "sim/report/model_flops.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <unistd.h>

namespace orrery::simexec {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> v) {
    if (v.empty()) return 0;
    std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
    return v[v.size() / 2];
}

// Signals that ask for an end are kept until a step is over. Made before any thread is, so that none of them takes a signal.
class StopSignals {
  public:
    StopSignals() {
        sigemptyset(&set_);
        sigaddset(&set_, SIGTERM);
        sigaddset(&set_, SIGINT);
        pthread_sigmask(SIG_BLOCK, &set_, &before_);
    }
    ~StopSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;
    int pending() const {
        const timespec at_once{0, 0};
        const int got = sigtimedwait(&set_, nullptr, &at_once);
        return got > 0 ? got : 0;
    }

  private:
    sigset_t set_, before_;
};

struct Result {
    std::int64_t first_step = 0, steps = 0;
    double first_loss = 0, last_loss = 0, step_s = 0;
    int signal = 0;
    std::vector<OpTime> record;
    std::string checkpoint, on; // on: "NVIDIA H200, CUDA runtime ..", or the kernels and the processor
};

// The processes that have the other ranks.
struct Others {
    int rank = 0, size = 1;
    std::function<bool(bool mine)> any; // whether any of them says so; the same answer on all
    std::function<void()> meet;         // a barrier
    std::function<std::vector<std::int64_t>(const std::vector<std::int64_t>& mine)> sum; // the same on all
};

Others over(const OrreryTransport& t, double patience) {
    const auto sum = [&t, patience](const std::vector<std::int64_t>& mine) { return sum_over_ranks(t, mine, patience); };
    return {t.rank, t.size, [sum](bool mine) { return sum({mine})[0] > 0; }, [&t] { t.barrier(); }, sum};
}

Others over(const std::shared_ptr<Store>& store, const LaunchedRank& at, double patience) {
    const auto round = std::make_shared<int>(0);
    const auto meet = [store, at, patience, round](const std::string& what) {
        barrier(*store, fmt::format("{} {}", what, (*round)++), at.size, patience);
    };
    const auto any = [store, meet, round](bool mine) {
        const std::string key = fmt::format("any {}", *round);
        if (mine) store->add(key, 1);
        meet("any");
        return store->add(key, 0) > 0;
    };
    const auto sum = [store, at, patience, round](const std::vector<std::int64_t>& mine) {
        const int now = (*round)++;
        const auto key = [now](int rank) { return fmt::format("sum {} {}", now, rank); };
        store->set(key(at.rank), fmt::format("{}", fmt::join(mine, " ")));
        std::vector<std::int64_t> all(mine.size(), 0);
        for (int r = 0; r < at.size; ++r) {
            std::istringstream of_rank(wait_for(*store, key(r), patience));
            std::int64_t n = 0;
            for (auto& x : all) x += of_rank >> n ? n : 0;
        }
        return all;
    };
    return {at.rank, at.size, any, [meet] { meet("all"); }, sum};
}

struct Training {
    World& world;
    Executor& executor;
    const Corpus& corpus;
    const Options& options;
    const RunOptions& how;
    std::string corpus_name;
    const Others* others; // null: all ranks are in this process
    const StopSignals& signals;

    bool anyone(bool mine) const { return others ? others->any(mine) : mine; }
    void checkpoint(std::optional<CheckpointWriter>& writer, std::int64_t step) const;
    CheckpointState state(std::int64_t step) const {
        return {step, world.scenario.training.seed, {{"scenario", world.scenario.name}, {"corpus", corpus_name}}};
    }
    void run(std::int64_t first, Result& result);
};

// One process writes checkpoints in the background; several write a part each, and the first seals when all have.
void Training::checkpoint(std::optional<CheckpointWriter>& writer, std::int64_t step) const {
    executor.fetch();
    if (!others) {
        if (!writer) writer.emplace(how.checkpoint);
        return writer->begin(state(step), pieces_of(world));
    }
    const CheckpointDraft draft(how.checkpoint, step);
    bool failed_here = false;
    try {
        draft.write_part(others->rank, pieces_of(world));
    } catch (const std::exception& e) {
        failed_here = true;
        complain(e.what());
    }
    if (anyone(failed_here)) {
        if (others->rank == 0) draft.discard();
        throw Unwritten(failed_here ? "this rank's part of the checkpoint could not be written"
                                    : "another rank's part of the checkpoint could not be written");
    }
    if (others->rank == 0) draft.seal(state(step), others->size);
    others->meet();
}

void Training::run(std::int64_t first, Result& r) {
    r.first_step = first;
    Progress progress(options);
    std::optional<CheckpointWriter> writer;
    std::vector<double> times;
    std::int64_t step = first, saved = first;
    const std::int64_t round = world.plan.steps; // what the executor does at a time
    for (; step < how.steps && !r.signal; step += round) {
        load_batch(world, corpus, step);
        const double began = now();
        r.record.clear(); // kept until the next: where a step fails, its trace says how far it came
        executor.step(how.trace.empty() ? nullptr : &r.record);
        times.push_back((now() - began) / static_cast<double>(round));
        r.last_loss = mean_loss(world);
        if (step == first) r.first_loss = r.last_loss;
        if (!std::isfinite(r.last_loss))
            throw NotFinite(fmt::format("training has failed at step {}: the loss is no number", step)); // where no executor looks
        if (writer) writer->look();
        const int got = signals.pending();
        if (anyone(got != 0)) r.signal = got ? got : SIGTERM;
        if (!how.checkpoint.empty() && how.every > 0 && (step + 1) % how.every == 0) {
            checkpoint(writer, step + 1);
            saved = step + 1;
        }
        const double tokens = static_cast<double>(world.facts.loss_tokens * world.facts.workers) / times.back();
        progress.show(static_cast<int>(std::min<std::int64_t>(step + round, how.steps) - first), static_cast<int>(how.steps - first),
                      fmt::format("loss {:.4f}  {} tokens/s", r.last_loss, metric(tokens, 3)));
        if (options.verbose)
            std::fputs(fmt::format("step {}: loss {:.6f} in {}\n", step, r.last_loss, seconds_text(times.back())).c_str(), stderr);
    }
    r.steps = step - first;
    r.step_s = median(times);
    if (!how.checkpoint.empty()) {
        if (saved != step) checkpoint(writer, step);
        if (writer) writer->finish();
        r.checkpoint = fmt::format("{}/step-{:08}", how.checkpoint, step);
    }
}

// The processor has no bf16: what buffers of that type hold is rounded to it. GPUs store for themselves.
bool rounded(const Scenario& s, const RunOptions& how) {
    return s.training.precision == DType::bf16 && !how.fp32 && !how.fp64 && how.device == "cpu";
}

std::string stored_as(const Scenario& s, const RunOptions& how) {
    if (how.fp64) return "fp64";
    if (rounded(s, how)) return "fp32 arithmetic, buffers rounded as in bf16";
    return how.device == "cpu" ? "fp32" : "as the device has it";
}

struct Figures {
    double tokens_per_s, flops_per_s;
    std::optional<double> mfu;
    std::string peak_of;
}; // mfu: of the scenario's device, where it ran on such

Figures figures(const Scenario& s, const Result& r, const RunOptions& how) {
    const double tokens = static_cast<double>(s.training.global_batch_size * s.training.sequence_length);
    const double flops = model_flops_per_sequence(s.model, static_cast<double>(s.training.sequence_length)) *
                         static_cast<double>(s.training.global_batch_size);
    const bool gpu = how.device == "cuda";
    const auto peak = s.cluster.device.peak.find(gpu ? name(stored_on_gpu(s)) : "fp32");
    Figures f{tokens / r.step_s, flops / r.step_s, std::nullopt, s.cluster.device.name};
    if (gpu == (s.cluster.device.architecture != "cpu") && peak != s.cluster.device.peak.end() && peak->second.value > 0)
        f.mfu = f.flops_per_s / peak->second.value;
    return f;
}

std::string as_json(const World& world, const Result& r, const RunOptions& how, const MemoryReport& predicted) {
    const Figures f = figures(world.scenario, r, how);
    nlohmann::ordered_json j{{"name", world.scenario.name},
                             {"world_size", world.plan.mesh.ranks()},
                             {"executor", how.executor},
                             {"kernels", how.device == "cuda" ? r.on : gemm_library()},
                             {"numbers", stored_as(world.scenario, how)},
                             {"processor", processor_name()},
                             {"first_step", r.first_step},
                             {"steps", r.steps},
                             {"first_loss", r.first_loss},
                             {"last_loss", r.last_loss},
                             {"step_time_s", r.step_s},
                             {"tokens_per_s", f.tokens_per_s},
                             {"model_tflops", f.flops_per_s / 1e12}};
    if (f.mfu) j["mfu"] = *f.mfu;
    for (const auto& rank : world.ranks)
        if (rank)
            j["memory"].push_back({{"rank", rank->rank},
                                   {"peak_bytes", rank->memory.device().highest},
                                   {"predicted_bytes", predicted.stages[static_cast<std::size_t>(rank->stage)].allocated_peak.count}});
    if (!r.checkpoint.empty()) j["checkpoint"] = r.checkpoint;
    return j.dump(2) + "\n";
}

std::string as_text(const World& world, const Result& r, const RunOptions& how, const MemoryReport& predicted, const TextStyle& style) {
    const Figures f = figures(world.scenario, r, how);
    std::string text = paint(world.scenario.name, Ink::bold, style) +
                       fmt::format(": {} steps on {} rank{}, {} executor, {}\n\n", r.steps, world.plan.mesh.ranks(),
                                   world.plan.mesh.ranks() == 1 ? "" : "s", how.executor, r.on);
    if (world.scenario.training.precision != DType::fp32)
        text += fmt::format("  {} training: {}\n", name(world.scenario.training.precision), stored_as(world.scenario, how));
    text += fmt::format("  loss       {:.4f} -> {:.4f}\n", r.first_loss, r.last_loss);
    text += fmt::format("  step time  {} (median)      tokens/s  {}\n", seconds_text(r.step_s), metric(f.tokens_per_s, 4));
    text += fmt::format("  model FLOP/s  {}", metric(f.flops_per_s, 4)) +
            (f.mfu ? fmt::format("              MFU  {:.1f} % of one {}\n", 100 * *f.mfu, f.peak_of) : "\n");
    std::vector<std::int64_t> most(predicted.stages.size(), 0);
    for (const auto& rank : world.ranks)
        if (rank)
            most[static_cast<std::size_t>(rank->stage)] =
                std::max(most[static_cast<std::size_t>(rank->stage)], rank->memory.device().highest);
    for (std::size_t s = 0; s < most.size(); ++s) {
        if (most[s] == 0) continue; // no rank of it is in this process
        const std::int64_t expected = predicted.stages[s].allocated_peak.count;
        text += fmt::format("  memory of stage {}: {} bytes at the peak, {}\n", s, grouped(most[s]),
                            most[s] == expected ? "as predicted" : "predicted " + grouped(expected));
    }
    if (!r.checkpoint.empty()) text += "  checkpoint " + r.checkpoint + "\n";
    if (!how.trace.empty() && !r.record.empty()) text += "  trace of the last step " + how.trace + "\n";
    return text;
}

void write_trace(const World& world, const Result& r, const RunOptions& how, int process) {
    const std::string file = process > 0 ? fmt::format("{}.rank{}", how.trace, process) : how.trace;
    const bool serial = how.executor == "serial";
    const std::vector<OpTime> times = serial ? side_by_side(world, r.record) : r.record;
    const Trace trace =
        trace_of(world, times,
                 fmt::format("measured: {}, {}", r.on,
                             serial ? "ops timed serially, then arranged as if ranks ran in parallel" : how.executor + " executor"));
    if (how.trace.ends_with(".json"))
        export_perfetto(trace, file);
    else
        save(trace, file);
}

// Before anything is made for the ranks: a plan of thousands is refused at once.
void require_memory(const Plan& plan, const Scenario& scenario, int ranks_here) {
    double mean = 0;
    const MemoryReport predicted = memory(plan, scenario);
    for (const StageMemory& s : predicted.stages)
        mean += static_cast<double>(s.allocated_peak.count) / static_cast<double>(predicted.stages.size());
    const double needed = mean * ranks_here;
    if (needed > static_cast<double>(physical_memory()))
        throw OutOfMemory(fmt::format(
            "{} rank{} of this scenario need {}B of memory, and this machine has {}B: try a smaller model or fewer ranks",
            grouped(ranks_here), ranks_here == 1 ? "" : "s", metric(needed, 3), metric(static_cast<double>(physical_memory()), 3)));
}

// The world as it begins: fresh, or as the checkpoint has it. The step to begin with; nothing, with a message, where there is none to do.
std::optional<std::int64_t> begin_or_resume(World& world, const Scenario& scenario, const RunOptions& how) {
    if (how.resume.empty()) {
        initialise(world);
        return 0;
    }
    const Checkpoint checkpoint = load_checkpoint(how.resume);
    restore(world, checkpoint);
    const auto it = checkpoint.state.facts.find("corpus");
    if (checkpoint.state.seed != scenario.training.seed || (it != checkpoint.state.facts.end() && it->second != how.text))
        complain("the checkpoint was trained on another text or seed: going on with this one");
    if (checkpoint.state.step >= how.steps) {
        complain(fmt::format("{} stands at step {} already: ask for more with --steps", how.resume, checkpoint.state.step));
        return std::nullopt;
    }
    return checkpoint.state.step;
}

// Why this plan cannot be run like this; empty: it can.
std::string refusal(const Plan& plan, const RunOptions& how, const std::optional<LaunchedRank>& launched) {
    if (plan.workers != 0 && (!how.checkpoint.empty() || !how.resume.empty()))
        return "strategy.synchronization.kind = local_sgd keeps no checkpoints: each worker's optimizer has states of its own; leave out "
               "--checkpoint and --resume";
    if (launched && launched->size != plan.mesh.ranks())
        return fmt::format("the scenario has {} ranks, and {} started {} processes", plan.mesh.ranks(), launched->by, launched->size);
    return "";
}

int train(const Scenario& scenario, Corpus corpus, const Options& options, const RunOptions& how, const OrreryTransport* transport,
          const StopSignals& signals) {
    Plan plan = lower(scenario);
    const bool gpus = how.device == "cuda" && how.executor == "queues";
    std::optional<LaunchedRank> launched = gpus ? launched_rank() : std::nullopt;
    if (launched && launched->size == 1) launched.reset(); // one process that drives all GPUs of its node
    if (const std::string why = refusal(plan, how, launched); !why.empty()) return complain(why), bad_input;
    if (!gpus) require_memory(plan, scenario, transport ? 1 : plan.mesh.ranks());
    std::vector<int> here;
    if (transport || launched) here = {transport ? transport->rank : launched->rank};
    const auto world = make_world(scenario, std::move(plan),
                                  gpus       ? stored_on_gpu(scenario)
                                  : how.fp64 ? DType::fp64
                                             : DType::fp32,
                                  here, gpus ? cpu_machine() : machine_of(how.device));
    if (rounded(scenario, how)) round_storage(*world);
    if (transport) agree_on_plan(*world, *transport);
    if (transport && options.verbose) std::fputs(fmt::format("rank {} is process {}\n", transport->rank, getpid()).c_str(), stderr);
    const std::optional<std::int64_t> first = begin_or_resume(*world, scenario, how);
    if (!first) return bad_input;
    world->watch = how.find_nan ? Watch::all : Watch::ends;
    world->notes_routing = !how.routing.empty();
    for (auto& rank : world->ranks)
        if (rank) rank->memory.limit(std::llround(how.memory_gb * 1e9));
    const auto give_up = [](const std::string& who) { // a thread that does not come back cannot be ended: the process is
        complain(who);
        std::fflush(nullptr);
        std::_Exit(lost);
    };
    std::optional<Others> others;
    if (transport) others = over(*transport, how.patience);
    Result r;
    r.on = how.device == "cuda" ? world->machine.name : fmt::format("{} on {}", gemm_library(), processor_name());
    const auto fleet_executor = [&] {
        Fleet fleet = cuda_fleet(*world, launched, how.patience);
        r.on = fleet.devices[0]->name() + ", " + fleet.software;
        if (launched) others = over(fleet.store, *launched, how.patience);
        return queues_executor(*world, std::move(fleet));
    };
    const auto executor = transport ? processes_executor(*world, *transport, how.patience)
                          : gpus    ? fleet_executor()
                                    : make_executor(how.executor, *world, {how.patience, give_up});
    try {
        Training{*world, *executor, corpus, options, how, how.text, others ? &*others : nullptr, signals}.run(*first, r);
    } catch (...) {
        if (!r.record.empty()) write_trace(*world, r, how, others ? others->rank : 0);
        throw;
    }
    const MemoryReport predicted = memory(world->plan, scenario);
    if (!r.record.empty()) write_trace(*world, r, how, others ? others->rank : 0);
    const bool json = options.json || options.output.ends_with(".json"), speaks = !others || others->rank == 0;
    if (!how.routing.empty()) {
        const std::vector<std::int64_t> here_routed = routed(*world), sums = others ? others->sum(here_routed) : here_routed;
        if (speaks && !console::deliver("simexec", nlohmann::json(routed_loads(*world, sums)).dump() + "\n", how.routing)) return bad_input;
    }
    if (transport) transport->finish();
    if (speaks && (json || !options.quiet) &&
        !deliver(json ? as_json(*world, r, how, predicted) : as_text(*world, r, how, predicted, output_style(options)), options))
        return bad_input;
    return r.signal ? stopped : done;
}

} // namespace

int run_run(const std::string& file, const Options& options, const RunOptions& how) {
    const std::optional<Scenario> scenario = load(file, options);
    if (!scenario) return bad_input;
    if (const auto launched = launched_rank(); how.device == "cpu" && how.executor != "mpi" && launched && launched->size > 1)
        return complain(fmt::format("{} started {} processes, and each would train all ranks of the scenario: add --executor mpi, or start "
                                    "one process",
                                    launched->by, launched->size)),
               bad_input;
    Corpus corpus{"", scenario->model.vocab_size, scenario->training.seed};
    if (!how.text.empty()) {
        auto text = read_text(how.text);
        if (!text) return bad_input;
        corpus.text = std::move(*text);
        const std::int64_t needed = scenario->training.sequence_length + 2 + scenario->model.mtp_layers;
        if (static_cast<std::int64_t>(corpus.text.size()) < needed)
            return complain(fmt::format("{}: a text of {} bytes is shorter than a sequence of {}", how.text, corpus.text.size(), needed)),
                   bad_input;
        if (corpus.vocabulary < 256)
            return complain(fmt::format("/model/vocab_size: {} is less than the 256 that bytes of a text need", corpus.vocabulary)),
                   bad_input;
    }
    const StopSignals signals;
    if (how.device == "cuda" && ((how.executor != "serial" && how.executor != "queues") || how.fp64))
        return complain("--device cuda goes with --executor queues (a GPU a rank) or serial (all ranks on one), not in double precision"),
               bad_input;
    const OrreryTransport* transport = nullptr;
    if (!how.routing.empty() && !scenario->model.moe) return complain("--routing: the model has no experts"), bad_input;
    if (how.find_nan && how.device == "cuda" && how.executor == "queues")
        return complain("--find-nan looks into memory that GPUs have for themselves: --executor serial puts all ranks on one whose memory "
                        "is shared"),
               bad_input;
    if (how.executor == "mpi") {
        transport = &open_transport();
        if (transport->size != scenario->world_size())
            return complain(fmt::format("the scenario has {} ranks, and {} processes were started: mpirun -n {} simexec run ..",
                                        scenario->world_size(), transport->size, scenario->world_size())),
                   bad_input;
    }
    try {
        return train(*scenario, std::move(corpus), options, how, transport, signals);
    } catch (const std::exception& e) {
        if (!transport) throw;
        complain(e.what()); // the others would wait for this rank
        transport->abort_all(exit_code(e));
        return exit_code(e);
    }
}

} // namespace orrery::simexec
