// `simexec run SCENARIO.json`: train it here, by the plan the simulator would time.
#include "exec/checkpoint/files.hpp"
#include "exec/checkpoint/folder_lock.hpp"
#include "exec/cuda/plugin.hpp"
#include "exec/executors/executors.hpp"
#include "exec/kernels/room.hpp"
#include "exec/local/timeline.hpp"
#include "exec/mpi/heartbeats.hpp"
#include "exec/mpi/processes.hpp"
#include "exec/runtime/machine.hpp"
#include "exec/runtime/resume.hpp"
#include "exec/runtime/text_file.hpp"
#include "exec/simexec/gpu.hpp"
#include "exec/simexec/merged.hpp"
#include "exec/simexec/others.hpp"
#include "exec/simexec/outputs.hpp"
#include "exec/simexec/training.hpp"
#include "exec/simexec/weights.hpp"
#include "sim/memory/memory.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <unistd.h>

namespace orrery::simexec {

namespace fs = std::filesystem;

namespace {

// complete: the step has ended on all ranks. Then rank 0 writes one trace of all; else each process what it has.
void write_trace(const World& world, const Result& r, const RunOptions& how, const Others* others, bool complete) {
    const bool serial = how.executor == "serial";
    const std::string source = fmt::format(
        "measured: {}, {}", r.on, serial ? "ops timed serially, then arranged as if ranks ran in parallel" : how.executor + " executor");
    const std::optional<Trace> trace = others && complete ? merged_trace(world, r.record, source, *others)
                                                          : trace_of(world, serial ? side_by_side(world, r.record) : r.record, source);
    if (!trace) return;
    const std::string file = others && others->rank > 0 ? fmt::format("{}.rank{}", how.trace, others->rank) : how.trace;
    write_trace_file(*trace, file, how.trace);
}

// Before anything is made for the ranks: a plan of thousands is refused at once. What they need.
double require_memory(const Plan& plan, const Scenario& scenario, int ranks_here) {
    double mean = 0;
    const MemoryReport predicted = memory(plan, scenario);
    for (const StageMemory& s : predicted.stages)
        mean += static_cast<double>(s.allocated_peak.count) / static_cast<double>(predicted.stages.size());
    const double needed = mean * ranks_here;
    if (needed > static_cast<double>(physical_memory()))
        throw OutOfMemory(fmt::format(
            "{} rank{} of this scenario need {}B of memory, and this machine has {}B: try a smaller model or fewer ranks",
            grouped(ranks_here), ranks_here == 1 ? "" : "s", metric(needed, 3), metric(static_cast<double>(physical_memory()), 3)));
    return needed;
}

// Bytes of the copy from which one process with all ranks writes a checkpoint while it trains on. Throws OutOfMemory where it does not fit
// beside the ranks.
std::int64_t copy_of_checkpoint(const World& world, const RunOptions& how, double needed) {
    std::int64_t bytes = 0;
    for (const CheckpointPiece& p : pieces_of(world, how.adapters))
        bytes += p.count * static_cast<std::int64_t>(bytes_per_element(p.dtype));
    if (needed + static_cast<double>(bytes) > static_cast<double>(physical_memory()))
        throw OutOfMemory(fmt::format("a checkpoint is written from a copy of {}B, the ranks need {}B, and this machine has {}B: leave out "
                                      "--checkpoint, or run the ranks as processes (--executor mpi), which write their own",
                                      metric(static_cast<double>(bytes), 3), metric(needed, 3),
                                      metric(static_cast<double>(physical_memory()), 3)));
    return bytes;
}

// The start of a run: a copy in memory where it is newer than what --resume names, else that; empty: nothing.
std::filesystem::path newest_state(const RunOptions& how, const PeerLink& link) {
    const std::filesystem::path stored = how.resume;
    if (how.copy_every == 0 || how.attempt == 0) return stored;
    const auto copy = gather_copies(folder_of_copies(how, link.rank), link);
    if (!copy) return stored;
    const auto steps = checkpoint_steps(stored);
    return !steps.empty() && checkpoint_file::folder_name(steps.back()) >= copy->filename().string() ? stored : *copy;
}

// Where the run goes on, after the newest checkpoint that all processes can read; a damaged one is passed over.
CheckpointState resume(World& world, const std::string& folder, const Others* others) {
    const bool one = fs::exists(fs::path(folder) / "state.json");
    std::vector<std::int64_t> steps = one ? std::vector<std::int64_t>{0} : checkpoint_steps(folder);
    for (bool first = true;; first = false) {
        std::int64_t step = steps.empty() ? -1 : steps.back();
        if (others) step = others->gather({step})[0][0]; // rank 0's: the others must have it, too
        if (step < 0)
            throw std::runtime_error(folder + (first ? ": no checkpoint is there" : ": no checkpoint there can be read on all ranks"));
        std::string why;
        CheckpointState state;
        try {
            const CheckpointFiles files(one ? fs::path(folder) : fs::path(folder) / fmt::format("step-{:08}", step));
            restore(world, files);
            state = files.state();
        } catch (const WrongModel& e) {
            throw WrongModel(fmt::format("{}: {}", one ? folder : folder + "/" + checkpoint_file::folder_name(step), e.what()));
        } catch (const std::runtime_error& e) { why = e.what(); }
        const int failed = others ? others->first(!why.empty()) : why.empty() ? -1 : 0;
        if (failed < 0) return state;
        if (one) throw std::runtime_error(why.empty() ? folder + " cannot be read on another rank" : why);
        if (!others || failed == others->rank) complain(why + "; the checkpoint before it is taken");
        std::erase_if(steps, [&](std::int64_t s) { return s >= step; });
    }
}

// "the synthetic language", "a.txt (1024 tokens)".
std::string named_text(const std::string& name, const std::string& tokens) {
    return name.empty() ? "the synthetic language" : fmt::format("{} ({} tokens)", name, tokens);
}

// Steps go on with the sequences after those that are done: of another text they would be other ones. A text may have moved.
void require_its_text(const std::string& from, const CheckpointState& state, const RunOptions& how) {
    const auto hash = state.facts.find(text_hash_fact), tokens = state.facts.find(text_tokens_fact), name = state.facts.find("corpus");
    const auto end = state.facts.end();
    if (hash == end || tokens == end || name == end || hash->second == std::to_string(how.text_is)) return; // of before there was one
    const std::string had = named_text(name->second, tokens->second), has = named_text(how.text, std::to_string(how.text_tokens));
    throw std::runtime_error(
        fmt::format("{} was trained on {}, and this run reads {}{}: {}; to begin a run on another text with its weights, write them with "
                    "--export-weights and read them with --weights",
                    from, had, has, had == has ? " with other contents" : "",
                    name->second.empty() ? "leave out --text" : "name that file with --text " + name->second));
}

// The attempt before of a supervised run may be on another machine: its process ends within this time.
constexpr double patience_for_the_last_s = 10;

// Each rank writes its part of a checkpoint into the same folder: a machine that has one of its own under that name is found now, and not
// when the first checkpoint is sealed.
void require_one_folder(const RunOptions& how, const Others& others) {
    constexpr int tries = 100; // network file systems may show a file late
    const auto seen = [&] { return FolderLock::holder(how.checkpoint); };
    const bool writes = !how.checkpoint.empty();
    const std::int64_t said = others.gather({others.rank == 0 && writes ? term(seen().value_or("")) : 0})[0][0];
    bool one = !writes || said == 0;
    for (int i = 0; i < tries && !one; ++i) {
        if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        const auto who = seen();
        one = who && term(*who) == said;
    }
    const int apart = others.first(!one);
    if (apart < 0) return;
    const std::string why = fmt::format("--checkpoint {}: rank {} has another folder there than rank 0: name one that all machines share",
                                        how.checkpoint, apart);
    say_once(others, others.rank == 0, why);
    throw RefusedElsewhere(why);
}

// The folder of checkpoints is this job's alone from here on: its rank 0 holds the lock, and all ranks end where another job has it.
std::unique_ptr<FolderLock> lock_checkpoints(const RunOptions& how, const Others* others) {
    std::unique_ptr<FolderLock> lock;
    std::string why;
    if (!how.checkpoint.empty() && (!others || others->rank == 0)) {
        lock = std::make_unique<FolderLock>(how.checkpoint, how.watch.empty() ? 0 : patience_for_the_last_s);
        why = lock->problem().empty() ? holds_other_run(how) : lock->problem(); // another has come and gone meanwhile
    }
    const bool refused = others ? others->any(!why.empty()) : !why.empty(); // asked of all, also where one has no folder: see agree()
    if (!refused && others) require_one_folder(how, *others);
    if (!refused) return lock;
    if (!others) throw std::runtime_error(why);
    say_once(*others, others->rank == 0, why);
    throw RefusedElsewhere(why.empty() ? "rank 0 may not write checkpoints" : why);
}

// The world as it begins: fresh, or as the checkpoint has it. The step to begin with; nothing, with a message, where there is none to do.
std::optional<std::int64_t> begin_or_resume(World& world, const Scenario& scenario, const RunOptions& how, const Others* others,
                                            const PeerLink& link) {
    const bool speaks = !others || others->rank == 0;
    if (!how.checkpoint.empty() && speaks) remove_drafts(how.checkpoint); // of a run that died
    const fs::path from = newest_state(how, link);
    if (from.empty() || scenario.model.trainable.partial()) { // of adapters a checkpoint may hold no more
        initialise(world);
        if (!how.weights.empty()) load_weights(world, SafeTensors(how.weights));
    }
    if (from.empty()) return 0;
    const CheckpointState state = resume(world, from.string(), others);
    const auto beside = state.facts.find(trained_alone_fact);
    if (beside != state.facts.end() &&
        (beside->second != std::to_string(how.weights_are) || (how.weights.empty() && state.seed != scenario.training.seed)))
        throw std::runtime_error(from.string() + " holds what was trained beside other weights: name the same --weights, or, where there "
                                                 "were none, the same training.seed");
    if (state.step < how.steps) require_its_text(from.string(), state, how);
    const bool knows = state.facts.contains(text_hash_fact);
    const auto it = state.facts.find("corpus");
    if (speaks && (state.seed != scenario.training.seed || (!knows && it != state.facts.end() && it->second != how.text)))
        complain("the checkpoint was trained on another text or seed: going on with this one");
    if (state.step < how.steps || !how.export_weights.empty()) return state.step;
    if (speaks) complain(fmt::format("{} stands at step {} already: ask for more with --steps", from.string(), state.step));
    return std::nullopt;
}

// Messages of copies in peers' memory, between steps.
PeerLink link_of(const OrreryTransport* t, const std::optional<Others>& others, const RunOptions& how) {
    PeerLink link;
    link.patience_s = how.patience;
    if (!t || !others) return link;
    constexpr int tag = 8; // no one else's: below communicators'
    link.rank = t->rank;
    link.ranks = t->size;
    link.send = [t](int to, const void* data, std::size_t bytes) { return t->send(to, tag, data, bytes); };
    link.receive = [t](int from, void* data, std::size_t bytes) { return t->receive(from, tag, data, bytes); };
    link.done = [t](void* request) { return t->done(request) != 0; };
    link.gather = others->gather;
    return link;
}

// Signs are scaled by a variance that stands still once they travel: without steps before that it is zero, and the first step is
// boundless.
std::string no_warmup(const Scenario& s) {
    const bool alone = s.strategy.data_parallel * s.strategy.context_parallel == 1;
    if (alone || !s.strategy.sends_signs() || s.strategy.compression.start_step > 0) return "";
    return fmt::format("/strategy/gradient_compression/start_step: 0 leaves {} without a variance, which its steps before start_step make: "
                       "try a tenth to a fifth of --steps, and at least training.warmup_steps",
                       name(s.strategy.gradient_compression));
}

// Why this plan cannot be run like this; empty: it can.
std::string refusal(const Plan& plan, const RunOptions& how, const std::optional<LaunchedRank>& launched) {
    if (how.adapters && std::ranges::all_of(plan.tensors, [](const LogicalTensor& t) { return t.trained; }))
        return "--adapters leaves out what is not trained, and all of this model is: set model.trainable, or leave it out";
    if (launched && how.copy_every > 0) return "--copy-every sends copies over MPI: leave it out where GPUs have processes of their own";
    if ((plan.workers != 0 || plan.steps > 1) && how.decay != RateDecay::none)
        return "this strategy runs several steps at a time with one learning rate (workers that meet after some steps, or a pipeline that "
               "drains every strategy.flush_every steps): leave out --decay";
    if (launched && launched->size != plan.mesh.ranks())
        return fmt::format("the scenario has {}, and {} started {}", counted(plan.mesh.ranks(), "rank"), launched->by,
                           counted(launched->size, "process"));
    return "";
}

// The parts of this process's run.
struct Job {
    const Scenario& scenario;
    const Corpus& corpus;
    const Options& options;
    const RunOptions& how;
    const StopSignals& signals;
    const OrreryTransport* transport = nullptr;
    bool gpus = false;                // each rank has one
    std::int64_t copied = 0;          // by a checkpoint in the background
    std::optional<Others> others{};   // nothing: all ranks are in this process
    std::optional<Supervised> life{}; // from when it is watched
    Cores cores{};
    std::unique_ptr<World> world{};
    std::unique_ptr<World> warm{}; // runs the steps before gradients are compressed; null: there are none
    std::optional<Fleet> fleet{};  // of GPUs
    std::unique_ptr<Heartbeats> heartbeats{};
    std::unique_ptr<FolderLock> folder{}; // of checkpoints
    std::unique_ptr<Executor> running{};

    int begin();
    std::unique_ptr<World> world_of(const Scenario& of, Plan plan, const std::vector<int>& here) const;
    int train();
    std::unique_ptr<Executor> executor(World& of);
    void run(World& of, const RunOptions& to, std::int64_t first, const RateSchedule& rates, const PeerLink& link, Result& r);
    void agree(std::int64_t first) const;
    int deliver_all(const Result& r);
};

std::unique_ptr<Executor> Job::executor(World& of) {
    return transport ? processes_executor(of, *transport, how.patience)
           : fleet   ? queues_executor(of, std::move(*fleet))
                     : make_executor(how.executor, of, {how.patience, give_up});
}

void Job::run(World& of, const RunOptions& to, std::int64_t first, const RateSchedule& rates, const PeerLink& link, Result& r) {
    of.watch = how.find_nan ? Watch::all : Watch::ends;
    of.notes_routing = !how.routing.empty();
    for (auto& rank : of.ranks)
        if (rank)
            rank->memory.limit(std::llround(how.memory_gb * 1e9), how.memory_gb > 0 ? fmt::format(" (--memory {} GB)", how.memory_gb) : "");
    running = executor(of);
    Training{of, *running, corpus, options, to, how.text, others ? &*others : nullptr, signals, *life, link, rates}.run(first, r);
}

void Job::agree(std::int64_t first) const {
    const bool rounds = std::ranges::any_of(world->ranks, [](const auto& r) { return r && r->context.rounds; });
    agree_on_terms(*others,
                   {{"program version", term(ORRERY_VERSION)},
                    {"plan", static_cast<std::int64_t>(hash(world->plan))},
                    {"kernel library", term(fleet ? fleet->software : gemm_library())},
                    {"element type", 2 * static_cast<std::int64_t>(world->real) + rounds},
                    {"scenario file or --set", how.job},
                    {"text", how.text_is},
                    {"choice of --deterministic", how.deterministic},
                    {"choice of one or several --threads", cores.threads > 1}, // with one, matrix products may sum in another order
                    {"--weights", how.weights_are},
                    {"choice of --export-weights", !how.export_weights.empty()},
                    {"number of --steps", how.steps},
                    {"step to resume from", first},
                    {"choice of --decay", term(fmt::format("{} {} {}", static_cast<int>(how.decay), how.decay_steps, how.least_rate))},
                    {"choice of --checkpoint and --every", how.checkpoint.empty() ? -1 : how.every},
                    {"choice of --eval-every and what it evaluates",
                     term(fmt::format("{} {} {}", how.eval_every, how.eval_batches, how.eval_every > 0 ? how.eval_fraction : 0))},
                    {"choice of --trace", !how.trace.empty()},
                    {"choice of --routing", !how.routing.empty()}});
}

int Job::deliver_all(const Result& r) {
    const MemoryReport predicted = memory(world->plan, scenario);
    const bool json = options.json || options.output.ends_with(".json"), speaks = !others || others->rank == 0;
    if (!how.routing.empty()) {
        const std::vector<std::int64_t> here_routed = routed(*world), sums = others ? others->sum(here_routed) : here_routed;
        if (speaks && !console::deliver("simexec", nlohmann::json(routed_loads(*world, sums)).dump() + "\n", how.routing)) return unwritten;
    }
    heartbeats.reset();
    if (transport) transport->finish();
    if (speaks && r.signal)
        complain(fmt::format("stopped by a signal after step {} of {}: {}", r.first_step + r.steps, how.steps,
                             r.checkpoint.empty() ? "nothing was saved (--checkpoint DIR saves what was trained)"
                                                  : "go on with --resume " + how.checkpoint));
    int code = done;
    if (speaks)
        code = deliver(json ? as_json(*world, r, how, predicted) : as_text(*world, r, how, predicted, output_style(options)), options);
    return code != done ? code : r.signal ? stopped : done;
}

int Job::train() {
    if (transport && options.verbose) std::fputs(fmt::format("rank {} is process {}\n", transport->rank, getpid()).c_str(), stderr);
    const PeerLink link = link_of(transport, others, how);
    folder = lock_checkpoints(how, others ? &*others : nullptr);
    const std::optional<std::int64_t> first = begin_or_resume(*world, scenario, how, others ? &*others : nullptr, link);
    if (!first) return bad_input;
    if (others) agree(*first);
    if (*first >= how.steps) { // nothing is left but to write its weights
        write_weights(*world, how, others ? &*others : nullptr);
        heartbeats.reset();
        if (transport) transport->finish();
        return done;
    }
    Result r;
    r.threads = cores.threads;
    r.copied = copied;
    r.on = fleet ? fleet->devices[0]->name() + ", " + fleet->software : how.device == "cuda" ? world->machine.name : on_processor(cores);
    const auto trace = [&](bool complete) {
        if (!r.record.empty()) write_trace(*world, r, how, others ? &*others : nullptr, complete);
    };
    try {
        const OptimizerFacts& optimizer = world->facts.optimizer;
        const RateSchedule rates{optimizer.learning_rate, optimizer.warmup_steps, how.decay,
                                 how.decay_steps > 0 ? how.decay_steps : how.steps, how.least_rate};
        const std::int64_t start = scenario.strategy.compression.start_step;
        std::int64_t next = *first;
        if (warm && next < start) {
            RunOptions until = how;
            until.steps = static_cast<int>(std::min<std::int64_t>(start, how.steps));
            carry_over(*world, *warm);
            run(*warm, until, next, rates, link, r);
            next = until.steps;
            carry_over(*warm, *world);
        }
        const Result before = r;
        if (next < how.steps && !r.signal) run(*world, how, next, rates, link, r);
        if (next > *first)
            r.first_step = *first, r.first_loss = before.first_loss, r.steps = next - *first + (next < how.steps ? r.steps : 0);
    } catch (...) {
        trace(false);
        throw;
    }
    trace(true);
    r.allocated.assign(world->ranks.size(), 0);
    r.communicators.resize(world->ranks.size());
    for (const auto& rank : world->ranks) {
        if (!rank) continue;
        r.allocated[rank->rank] = running->allocated(*rank);
        r.communicators[rank->rank] = running->communicators(*rank);
    }
    if (!how.export_weights.empty()) {
        running->fetch();
        write_weights(*world, how, others ? &*others : nullptr);
    }
    return deliver_all(r);
}

std::unique_ptr<World> Job::world_of(const Scenario& of, Plan plan, const std::vector<int>& here) const {
    const DType real = gpus ? stored_on_gpu(of) : how.fp64 ? DType::fp64 : DType::fp32;
    auto made = make_world(of, std::move(plan), real, here, gpus ? cpu_machine() : machine_of(how.device));
    share_kernels(*made, cores.threads);
    if (rounded(of, how)) round_storage(*made);
    return made;
}

int Job::begin() {
    Plan plan = routed_plan(scenario);
    gpus = how.device == "cuda" && how.executor == "queues";
    std::optional<LaunchedRank> launched = gpus ? launched_rank() : std::nullopt;
    if (launched && launched->size == 1) launched.reset(); // one process that drives all GPUs of its node
    if (const std::string why = refusal(plan, how, launched); !why.empty()) return refuse(why);
    life.emplace(how.watch, how.attempt, transport ? transport->rank : launched ? launched->rank : 0);
    const double needed = gpus ? 0 : require_memory(plan, scenario, transport ? 1 : plan.mesh.ranks());
    std::vector<int> here;
    if (transport || launched) here = {transport ? transport->rank : launched->rank};
    cores = cores_of(how, static_cast<int>(here.empty() ? plan.mesh.ranks() : here.size()));
    world = world_of(scenario, std::move(plan), here);
    if (!how.checkpoint.empty() && here.empty()) copied = copy_of_checkpoint(*world, how, needed);
    if (const char* why = keeps_more(*world); how.eval_every > 0 && *why)
        return refuse(fmt::format("--eval-every has no meaning here: {}", why));
    world->facts.deterministic = how.deterministic;
    if (how.deterministic && gpus) // a user's own setting stands
        for (const auto& [variable, value] : {std::pair("NCCL_ALGO", "Ring"), std::pair("NCCL_PROTO", "Simple")})
            setenv(variable, value, 0);
    const Strategy& strategy = scenario.strategy;
    if (strategy.compresses() != GradientCompression::none && strategy.compression.start_step > 0 && !gpus) {
        Scenario before = scenario;
        before.strategy.compression.phase = Compression::Phase::warmup;
        warm = world_of(before, routed_plan(before), here);
    }
    if (gpus) fleet = cuda_fleet(*world, launched, how.patience); // rank 0 listens before it makes weights
    if (transport) heartbeats = heartbeats_of(*transport, how.patience);
    if (launched) others = over(*fleet, *launched, how.patience);
    return train();
}

int train(const Scenario& scenario, const Corpus& corpus, const Options& options, const RunOptions& how, const OrreryTransport* transport,
          const StopSignals& signals) {
    Job job{scenario, corpus, options, how, signals, transport};
    if (transport) job.others = over(*transport, how.patience);
    try {
        return job.begin();
    } catch (const std::exception& e) {
        job.folder.reset();                                 // its lock is a file
        if (transport) end_all(*transport, *job.others, e); // the others would wait for this rank
        if (!job.others) throw;
        if (job.others->fail(e)) report_here(e); // before the job goes: rank 0's waits for the others
        throw SaidByAnother(e.what(), exit_code(e));
    }
}

} // namespace

int run_run(const std::string& file, const Options& options, const RunOptions& asked) {
    const std::optional<Scenario> scenario = load(file, options);
    if (!scenario) return bad_input;
    RunOptions how = asked;
    how.job = term(fmt::format("{}\n{}", read_text(file).value_or(""), fmt::join(options.overrides, "\n")));
    if (how.device == "cpu" && how.executor != "mpi")
        if (const std::string why = several_started("train"); !why.empty()) return refuse(why);
    if (const std::string why = check_weights(*scenario, how); !why.empty()) return refuse(why);
    if (const std::string why = no_warmup(*scenario); !why.empty()) return refuse(why);
    if (const std::string why = why_unwritable(options, how); !why.empty()) return refuse(why);
    if (const std::string why = holds_other_run(how); !why.empty()) return refuse(why);
    std::optional<TextFile> text;
    Corpus corpus{"", scenario->model.vocab_size, scenario->training.seed};
    if (!how.text.empty()) {
        text.emplace(how.text, how.token_type, scenario->model.vocab_size);
        corpus.text = text->tokens();
        corpus.width = text->width();
        how.text_is = text->fingerprint();
        how.text_tokens = text->count();
        how.text_form = text->form();
        const std::int64_t needed = scenario->training.sequence_length + 2 + scenario->model.mtp_layers;
        if (text->count() < needed)
            return refuse(
                fmt::format("{}: a text of {} is shorter than a sequence of {}", how.text, counted(text->count(), "token"), needed));
        if (const std::string why = hold_text(corpus, text->count(), *scenario, how); !why.empty()) return refuse(why);
        if (corpus.width == 1 && corpus.vocabulary < 256)
            return refuse(fmt::format("/model/vocab_size: {} is less than the 256 that bytes of a text need", corpus.vocabulary));
        try {
            require_vocabulary(corpus, needed - 1, how.steps * scenario->training.global_batch_size);
        } catch (const std::runtime_error& e) { return refuse(fmt::format("{}: {}", how.text, e.what())); }
    }
    const StopSignals signals;
    if (how.device == "cuda" && ((how.executor != "serial" && how.executor != "queues") || how.fp64))
        return refuse("--device cuda goes with --executor queues (a GPU a rank) or serial (all ranks on one), not in double precision");
    const OrreryTransport* transport = nullptr;
    if (!how.routing.empty() && !scenario->model.moe) return refuse("--routing: the model has no experts");
    if (how.find_nan && how.device == "cuda" && how.executor == "queues")
        return refuse("--find-nan looks into memory that GPUs have for themselves: --executor serial puts all ranks on one whose memory "
                      "is shared");
    if (how.executor == "mpi") {
        transport = &open_transport("use --executor threads");
        if (transport->size != scenario->world_size())
            return refuse(fmt::format("the scenario has {}, and the job has {}: mpirun -n {} simexec run ..",
                                      counted(scenario->world_size(), "rank"), counted(transport->size, "process"),
                                      scenario->world_size()));
    }
    return train(*scenario, corpus, options, how, transport, signals);
}

} // namespace orrery::simexec
