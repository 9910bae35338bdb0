// `simexec run --restart N`: a supervisor that trains nothing. It starts the run as processes of its own, waits, and starts it again from
// its newest checkpoint where a rank was killed, lost, stopped or stuck.
#include "exec/simexec/command.hpp"
#include "exec/simexec/training.hpp"

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/queues/launch.hpp"
#include "exec/runtime/world.hpp"
#include "exec/simexec/outputs.hpp"
#include "exec/simexec/replayed.hpp"
#include "exec/simexec/supervised.hpp"
#include "exec/supervise/drill.hpp"
#include "exec/supervise/owner.hpp"
#include "exec/supervise/supervise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <sstream>

namespace orrery::simexec {

namespace fs = std::filesystem;

namespace {

constexpr int most_fruitless = 3; // attempts one after another that train no step: they would go on so

// How large the job is at the moment, as overrides of its scenario.
struct Size {
    int replicas = 1, ranks = 1;
    std::vector<std::string> overrides;
};

// With a replica less, or as many less as batch and strategy ask for; the global batch stays: others take more microbatches.
std::optional<Size> smaller(const std::string& file, const Options& options, const Size& now) {
    const int of_replica = now.ranks / now.replicas;
    for (int replicas = now.replicas - 1; replicas >= 1; --replicas) {
        Size s{replicas, replicas * of_replica, {}};
        s.overrides = {fmt::format("strategy.data_parallel={}", replicas), "cluster.nodes=1",
                       fmt::format("cluster.devices_per_node={}", s.ranks)};
        std::vector<std::string> all = options.overrides;
        all.insert(all.end(), s.overrides.begin(), s.overrides.end());
        ParseResult parsed = load_scenario(file, all);
        if (parsed.scenario && parsed.problems.empty() && unsupported(*parsed.scenario).empty() && not_executable(*parsed.scenario).empty())
            return s;
    }
    return std::nullopt;
}

// Our own arguments without those that are the supervisor's, and without --resume, which each attempt gets anew.
std::vector<std::string> arguments_of_ranks(const std::vector<std::string>& all) {
    static constexpr std::array valued{"--restart", "--silence", "--launch", "--resume", "--drill", "--calibration"};
    std::vector<std::string> kept;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const std::string& a = all[i];
        if (a == "--elastic") continue;
        const auto named = [&](const char* n) { return a == n || a.starts_with(std::string(n) + "="); };
        const auto it = std::find_if(valued.begin(), valued.end(), named);
        if (it == valued.end())
            kept.push_back(a);
        else if (a == *it)
            ++i; // its value is the next word
    }
    return kept;
}

std::vector<std::string> launcher(const RunOptions& how, const RestartOptions& restart, int ranks) {
    std::string line = restart.launch;
    if (line.empty() && how.executor == "mpi") line = "mpirun -n {ranks}";
    if (const auto at = line.find("{ranks}"); at != std::string::npos) line.replace(at, 7, std::to_string(ranks));
    std::vector<std::string> words;
    std::istringstream cut(line);
    for (std::string w; cut >> w;) words.push_back(w);
    return words;
}

std::int64_t newest(const std::string& folder) {
    const auto steps = checkpoint_steps(folder);
    return steps.empty() ? -1 : steps.back();
}

class Supervisor {
  public:
    Supervisor(const std::string& file, const Options& options, const RunOptions& how, const RestartOptions& restart, Size size)
        : file_(file), options_(options), how_(how), restart_(restart), size_(std::move(size)) {}
    int run();

  private:
    std::vector<std::string> command(int number) const;
    void say(const std::string& text) const {
        if (!options_.quiet) std::fputs(("simexec: " + text + "\n").c_str(), stderr);
    }
    bool goes_on(const Ending& e, int number); // false: it gives up, and has said why
    int finish(int number) const;
    void prepare_drill();

    const std::string& file_;
    const Options& options_;
    const RunOptions& how_;
    const RestartOptions& restart_;
    Size size_;
    int fruitless_ = 0;
    std::vector<double> moments_{}; // of a drill
    std::string predicted_{};       // said at the end; known before the first step
};

std::vector<std::string> Supervisor::command(int number) const {
    std::vector<std::string> words = launcher(how_, restart_, size_.ranks);
    words.push_back(fs::read_symlink("/proc/self/exe").string());
    for (std::string& a : arguments_of_ranks(restart_.arguments)) words.push_back(std::move(a));
    if (!restart_.calibration.empty() && how_.threads == 0) words.insert(words.end(), {"--threads", "1"}); // as it was calibrated
    for (const std::string& o : size_.overrides) words.insert(words.end(), {"--set", o});
    const bool saved = number > 0 && newest(how_.checkpoint) >= 0;
    const std::string from = saved ? how_.checkpoint : how_.resume;
    if (!from.empty()) words.insert(words.end(), {"--resume", from});
    words.insert(words.end(), {"--watch", how_.checkpoint, "--attempt", std::to_string(number)});
    return words;
}

bool Supervisor::goes_on(const Ending& e, int number) {
    fruitless_ = e.steps > 0 ? 0 : fruitless_ + 1;
    if (number >= restart_.restarts) {
        complain(fmt::format("{}; {} restart{} (--restart) have been made", e.what, number, number == 1 ? "" : "s"));
        return false;
    }
    if (fruitless_ >= most_fruitless) {
        complain(fmt::format("{}; the last {} attempts ended before they had trained a step: a restart will not help", e.what, fruitless_));
        return false;
    }
    if (restart_.elastic) {
        if (const auto less = smaller(file_, options_, size_))
            size_ = *less;
        else
            say("no smaller job keeps the batch: it goes on with as many ranks");
    }
    const std::int64_t from = newest(how_.checkpoint);
    say(fmt::format("{}; restart {} of {} {}, on {} rank{}", e.what, number + 1, restart_.restarts,
                    how_.copy_every > 0 ? "from the newest checkpoint or copy"
                    : from >= 0         ? fmt::format("from step {}", from)
                                        : "from the beginning",
                    size_.ranks, size_.ranks == 1 ? "" : "s"));
    return true;
}

int Supervisor::finish(int number) const {
    const RunSummary s = summary(read_record(fs::path(how_.checkpoint) / record_name));
    if (number == 0) return done;
    const auto simulated =
        restart_.elastic ? std::nullopt : simulated_goodput(read_record(fs::path(how_.checkpoint) / record_name), how_.every);
    if (simulated)
        say(fmt::format("goodput as simulated from its own steps, saves and starts, with these losses: {:.1f} %", 100 * *simulated));
    say(fmt::format("{} restart{}; goodput {:.1f} %: {} steps of {} in {}; {} of steps done again, {} a restart", number,
                    number == 1 ? "" : "s", 100 * s.goodput, s.steps, seconds_text(s.step_s), seconds_text(s.wall_s),
                    seconds_text(s.wasted_s), seconds_text(s.restart_s)));
    if (!predicted_.empty()) say(predicted_);
    return done;
}

// Before the run, so that nothing of it can help.
void Supervisor::prepare_drill() {
    constexpr int most_kills = 100'000;
    const std::optional<Scenario> scenario = load(file_, options_);
    moments_ = drill_moments(restart_.drill_s, most_kills, scenario ? scenario->training.seed : 0);
    if (restart_.calibration.empty()) return;
    std::string why;
    const auto goodput = predicted_goodput(file_, options_, how_, restart_.calibration, moments_, why);
    predicted_ = goodput ? fmt::format("goodput as predicted from {}: {:.1f} %, with steps of {}", restart_.calibration,
                                       100 * goodput->goodput, seconds_text(goodput->step_s))
                         : "the goodput is not predicted: " + why;
    say(predicted_);
}

int Supervisor::run() {
    WatchedSignals signals;
    const fs::path folder = how_.checkpoint;
    const FolderOwner owner(folder, folder / watch_name);
    if (!owner.problem().empty()) return refuse(owner.problem());
    if (how_.resume.empty()) fs::remove(folder / record_name);
    std::optional<Drill> drill;
    if (restart_.drill_s > 0) {
        prepare_drill();
        drill.emplace(folder / record_name, folder / watch_name, moments_, 1);
    }
    const Patiences patience{restart_.silence_s, how_.patience, std::max(600.0, 10 * how_.patience)};
    for (int number = 0;; ++number) {
        fs::remove_all(folder / watch_name);
        const RunRecord record(folder / record_name, number);
        record.add("launch", std::max<std::int64_t>(0, newest(how_.checkpoint)));
        const Ending e = attempt(command(number), folder / watch_name, patience, signals);
        record.add("end", std::max<std::int64_t>(0, e.steps), 0, name(e.how));
        fs::remove_all(folder / watch_name);
        if (e.how == Ended::finished) return finish(number);
        if (is_loss(e.how) && newest(how_.checkpoint) >= how_.steps) { // it was lost after its last save
            say(fmt::format("{}; the checkpoint of step {} stands: nothing is left to do", e.what, how_.steps));
            return finish(number);
        }
        if (!is_loss(e.how)) return e.code;
        if (!goes_on(e, number)) return e.code;
    }
}

} // namespace

int run_restarts(const std::string& file, const Options& options, const RunOptions& how, const RestartOptions& restart) {
    const std::optional<Scenario> scenario = load(file, options);
    if (!scenario) return bad_input;
    if (how.checkpoint.empty()) return refuse("--restart goes on from checkpoints: add --checkpoint DIR, and --every N for how often");
    if (scenario->strategy.workers() && restart.elastic)
        return refuse("--elastic goes on with fewer replicas, and a worker of local_sgd and diloco has optimizer states of its own: leave "
                      "it out");
    if (const auto launched = launched_rank(); launched && launched->size > 1)
        return refuse(fmt::format("--restart starts the ranks itself, and {} has started {} processes: start it alone", launched->by,
                                  launched->size));
    if (const std::string why = why_unwritable(options, how); !why.empty()) return refuse(why);
    if (const std::string why = holds_other_run(how); !why.empty()) return refuse(why);
    return Supervisor(file, options, how, restart, {scenario->strategy.data_parallel, scenario->world_size(), {}}).run();
}

} // namespace orrery::simexec
