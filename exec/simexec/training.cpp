#include "exec/simexec/training.hpp"

#include "exec/queues/launch.hpp"
#include "exec/runtime/machine.hpp"
#include "exec/runtime/resume.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>

namespace orrery::simexec {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> v) {
    if (v.empty()) return 0;
    std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
    return v[v.size() / 2];
}

// Whether one of the steps from `begin` to `end` is an n-th: rounds end where they end.
bool falls_due(std::int64_t n, std::int64_t begin, std::int64_t end) { return n > 0 && end / n > begin / n; }

} // namespace

// A process of several on this machine has the cores its launcher bound it to, but no more than its part of all.
Cores cores_of(const RunOptions& how, int ranks_here) {
    Cores c{1, ranks_here, processors()};
    int part = c.cores / ranks_here;
    if (how.executor == "mpi") {
        const auto launched = launched_rank();
        c.ranks = launched ? (launched->local_size > 0 ? launched->local_size : launched->size) : ranks_here;
        c.cores = online_processors();
        part = std::min(processors(), c.cores / c.ranks);
    } else if (how.executor == "serial") {
        c.ranks = 1; // one after the other
    }
    c.threads = how.device != "cpu" ? 1 : how.threads > 0 ? how.threads : std::max(1, part);
    return c;
}

std::filesystem::path folder_of_copies(const RunOptions& how, int rank) {
    std::string folder = how.copies.empty() ? copies_folder(how.checkpoint).string() : how.copies;
    if (const auto at = folder.find("{rank}"); at != std::string::npos) folder.replace(at, 6, std::to_string(rank));
    return folder;
}

// One process writes checkpoints in the background; several write a part each, and the first seals when all have.
void Training::checkpoint(std::optional<CheckpointWriter>& writer, std::int64_t step) const {
    executor.fetch();
    if (!others) {
        if (!writer) writer.emplace(how.checkpoint);
        return writer->begin(state(step), pieces_of(world, how.adapters));
    }
    const CheckpointDraft draft(how.checkpoint, step);
    std::string wrong;
    try {
        draft.write_part(others->rank, pieces_of(world, how.adapters));
    } catch (const std::exception& e) { wrong = e.what(); }
    if (const int failed = others->first(!wrong.empty()); failed >= 0) {
        if (others->rank == 0) draft.discard();
        say_once(*others, failed == others->rank, wrong);
        throw UnwrittenElsewhere("a rank's part of the checkpoint could not be written");
    }
    if (others->rank == 0) draft.seal(state(step), others->size);
    others->meet();
}

StepFacts Training::facts(std::int64_t step, double loss, double seconds) const {
    const Figures f = figures(world.scenario, seconds, how);
    const LossScale* scale = loss_scale(world);
    StepFacts s{step, loss, std::nullopt, rates.at(step, scale ? scale->skipped : 0), seconds, f.tokens_per_s, f.mfu, std::nullopt, 0};
    for (const auto& rank : world.ranks) {
        if (!rank) continue;
        if (rank->gradient_norm >= 0) s.gradient_norm = rank->gradient_norm;
        s.memory_bytes = std::max(s.memory_bytes, rank->memory.device().highest);
    }
    return s;
}

void Training::take_loss(bool first, std::int64_t step, Result& r) const {
    r.last_loss = mean_loss(world);
    if (first) r.first_loss = r.last_loss;
    if (std::isfinite(r.last_loss)) return;
    if (others && others->rank > 0) std::this_thread::sleep_for(std::chrono::seconds(2)); // rank 0 says it, and ends the job
    throw NotFinite(fmt::format("training has failed at step {}: the loss is no number", step), true);
}

std::string hold_text(Corpus& corpus, std::int64_t count, const Scenario& s, RunOptions& how) {
    if (how.eval_every == 0) return "";
    const std::int64_t length = s.training.sequence_length + 1 + s.model.mtp_layers, batch = length * s.training.global_batch_size;
    corpus.held = std::llround(static_cast<double>(count) * how.eval_fraction);
    if (corpus.held < batch || count - corpus.held < length + 1)
        return fmt::format(
            "--eval-fraction {}: {} of the text's {} tokens are held, and a batch takes {}: choose another share, a longer text, "
            "or a smaller training.global_batch_size",
            how.eval_fraction, corpus.held, count, batch);
    how.eval_batches = static_cast<int>(std::min<std::int64_t>(how.eval_batches, corpus.held / batch));
    return "";
}

double Training::evaluate() const {
    const bool notes = world.notes_routing;
    world.notes_routing = false;
    hold(world, true);
    double sum = 0;
    for (int i = 0; i < how.eval_batches; ++i) {
        load_held_batch(world, corpus, i);
        executor.step(nullptr);
        sum += mean_loss(world);
    }
    hold(world, false);
    world.notes_routing = notes;
    return sum / how.eval_batches;
}

void Training::note(std::int64_t step, std::int64_t end, double seconds, std::optional<StepLog>& log, Result& r) const {
    std::optional<StepFacts> brought;
    if (log) brought = facts(step, r.last_loss, seconds);
    r.eval_loss.reset();
    if (how.eval_every > 0 && (falls_due(how.eval_every, step, end) || end >= how.steps)) r.eval_loss = evaluate();
    if (brought) {
        brought->eval_loss = r.eval_loss;
        log->add(*brought);
    }
    if (options.verbose && (!others || others->rank == 0))
        std::fputs(fmt::format("step {}: loss {:.6f}{} in {}\n", step, r.last_loss,
                               r.eval_loss ? fmt::format(", of held text {:.6f}", *r.eval_loss) : "", seconds_text(seconds))
                       .c_str(),
                   stderr);
}

void Training::load(std::optional<CheckpointWriter>& writer, std::int64_t saved, std::int64_t step) const {
    try {
        load_batch(world, corpus, step);
    } catch (const std::runtime_error&) {
        if (others || how.checkpoint.empty() || saved == step) throw;
        checkpoint(writer, step); // nothing of this step is done yet
        writer->finish();
        complain(fmt::format("the run ends before step {}, with a checkpoint in {}", step, how.checkpoint));
        throw;
    }
}

void Training::run(std::int64_t first, Result& r) {
    r.first_step = first;
    const bool speaks = !others || others->rank == 0;
    Options quiet = options;
    quiet.quiet = true;
    Progress progress(speaks ? options : quiet);
    std::optional<CheckpointWriter> writer;
    std::vector<double> times;
    std::int64_t step = first, saved = first;
    std::optional<MemoryCopies> copies;
    if (how.copy_every > 0) copies.emplace(folder_of_copies(how, link.rank), link, first);
    life.begin(first);
    std::optional<StepLog> log;
    if (!how.log.empty() && speaks) log.emplace(how.log, first, how.eval_every > 0);
    const std::int64_t round = world.plan.steps; // what the executor does at a time
    for (; step < how.steps && !r.signal; step += round) {
        load(writer, saved, step);
        world.facts.optimizer.learning_rate = rates.decayed(step);
        const double began = now();
        r.record.clear(); // kept until the next: where a step fails, its trace says how far it came
        executor.step(how.trace.empty() ? nullptr : &r.record);
        times.push_back((now() - began) / static_cast<double>(round));
        take_loss(step == first, step, r);
        life.step(step + round, r.last_loss);
        const bool was_writing = writer && writer->writing();
        if (writer) writer->look();
        if (was_writing && !writer->writing()) life.written(saved);
        if (copies) copies->look();
        const std::int64_t end = step + round;                                   // steps done
        if (copies && end < how.steps && falls_due(how.copy_every, step, end)) { // the last is saved
            executor.fetch();
            copies->begin(state(end), pieces_of(world, how.adapters));
        }
        const int got = signals.pending();
        if (anyone(got != 0)) r.signal = got ? got : SIGTERM;
        if (!how.checkpoint.empty() && falls_due(how.every, step, end)) {
            checkpoint(writer, end);
            saved = end;
            life.saved(saved);
        }
        note(step, end, times.back(), log, r);
        const double tokens = static_cast<double>(world.facts.loss_tokens * world.facts.workers) / times.back();
        progress.show(static_cast<int>(std::min<std::int64_t>(step + round, how.steps) - first), static_cast<int>(how.steps - first),
                      fmt::format("loss {:.4f}  {} tokens/s", r.last_loss, metric(tokens, 3)));
    }
    if (copies) copies->finish();
    r.steps = step - first;
    r.step_s = median(times);
    if (!how.checkpoint.empty()) {
        if (saved != step) checkpoint(writer, step);
        if (writer) writer->finish();
        r.checkpoint = fmt::format("{}/step-{:08}", how.checkpoint, step);
        std::error_code ignored;
        if (copies && !r.signal) std::filesystem::remove_all(folder_of_copies(how, link.rank), ignored);
    }
}

} // namespace orrery::simexec
