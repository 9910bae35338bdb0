// Shared by the subcommands of simrun: common options, output, exit codes. One file per subcommand.
#pragma once

#include "sim/console/console.hpp"
#include "sim/cost/own_constants.hpp"
#include "sim/job/whole_run.hpp"
#include "sim/validate/validate.hpp"
#include "topology/input_error.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace orrery::simrun {

// 0: done and fits. 1: bad input. 2: does not fit in memory. 3: the plan cannot run (a deadlock). 70: our bug.
enum Exit { done = 0, bad_input = 1, too_big = 2, cannot_run = 3, our_bug = 70 };

struct Options {
    bool json = false, quiet = false, verbose = false;
    std::string output;                            // -o: a file instead of standard output
    std::vector<std::string> overrides;            // --set path=value
    std::vector<std::string> calibration;          // --calibration: files of `simrun fit`
    std::shared_ptr<const OwnConstants> constants; // what these hold; null: there are none
    int jobs = 0;                                  // --jobs; 0: all cores
};

struct ScenarioOptions {
    std::string trace;
    bool fold = true, replay = true;
};
struct SweepOptions {
    std::string csv, write, by = "tokens_per_s", shard;
    int top = 20;
    bool fresh = false;
};
struct SbatchCommand {
    std::string folder, partition, time = "24:00:00";
    int shards = 8, cpus = 8;
    std::string space, by; // of a search, as in SearchCommand
    std::vector<std::string> allow;
    double within_days = 0, gap = 0;
};
std::vector<std::string> search_figures(); // names of SearchCommand::by
struct SearchCommand {
    std::string by = "time", space, csv, write, database, shard; // files; a folder for the best
    std::vector<std::string> allow;                              // offload, compression
    double within_days = 0;                                      // 0: no deadline
    int top = 5;
    bool fresh = false, no_refine = false;
    double seconds = 0; // 0: until it is proven
    double gap = 0;     // per cent
};
struct ValidateOptions {
    bool csv = false;
    std::string html, markdown, rows, spreads, against;
}; // files to write; a VALIDATION.md to hold it to

struct FitCommand {
    bool only_check = false;
    std::string cluster; // of nccl-tests' output: a preset's name or a file
    int nodes = 0;       // of it, where the output does not say; 0: as many as its ranks need
};
struct LearnCommand {
    std::vector<std::string> check; // datasets of rows not to learn from: predicted with and without what was learned
};
struct IngestCommand {
    std::string from, device, network;
    int nodes = 0;
    double nic_gbit = 0;
    bool graph = false;
}; // what topology/ingest/ingest.hpp calls IngestOptions

int run_scenario(const std::string& file, const Options& options, const ScenarioOptions& scenario);
int run_scenarios(const std::vector<std::string>& files, const Options& options); // several: one table
int run_sweep(const std::string& file, const Options& options, const SweepOptions& sweep);
int run_merge(const std::vector<std::string>& files, const Options& options);
int run_sbatch(const std::string& file, const Options& options, const SbatchCommand& command);
int run_advise(const std::string& file, const Options& options, int rules); // rules: on so many random jobs; 0: advice on the file
int run_search(const std::string& file, const Options& options, const SearchCommand& command);
// Says what a search of this scenario would be refused for, before it simulates anything; false: nothing.
bool refused_search(const std::string& file, const std::string& text, const Options& options, const SearchCommand& command);
int run_plan(const std::string& file, const std::string& after, const Options& options);
int run_list(const std::string& what, const Options& options);
int run_schema(const Options& options, bool markdown);
int run_validate(const std::vector<std::string>& files, const Options& options, const ValidateOptions& validate);
int run_learn(const std::vector<std::string>& files, const Options& options, const LearnCommand& command);
int run_fit(const std::vector<std::string>& tables, const Options& options, const FitCommand& command);
int run_ingest(const std::vector<std::string>& files, const Options& options, const IngestCommand& command);
int run_compare(const std::vector<std::string>& files, int worst, const Options& options); // two of scenario or trace
int run_export(const std::string& file, const std::string& to, const Options& options);

std::vector<std::string> list_topics();    // what `list` knows
std::vector<std::string> export_formats(); // what `export --to` knows
std::string export_help();                 // each format and its contents, for --help
std::string ingest_formats();              // what `ingest --from` knows

// The style of standard output: colour and blocks on a terminal that wants them (NO_COLOR, TERM=dumb), plain text in a pipe or a file.
TextStyle output_style(const Options& options);
TextStyle error_style();

// Text to -o or to standard output. False, with a message, where the file cannot be written.
bool deliver(const std::string& text, const Options& options);
void complain(const std::string& text); // "simrun: error: .." on standard error
void complain(const std::string& file, const std::vector<Problem>& problems);

// The message to a user whose job ran out of memory (std::bad_alloc).
inline constexpr const char* too_little_memory = "there is not enough memory for this: lower the microbatches, layers, stages or devices";

// Work on the scenario of a file: what shows to be wrong with it only then names the file.
template <class F> auto naming(const std::string& file, F&& work) {
    try {
        return work();
    } catch (const CannotRun& e) { throw CannotRun(file + ": " + e.what()); } catch (const InputError& e) {
        throw InputError(file + ": " + e.what());
    } catch (const std::bad_alloc&) { throw InputError(file + ": " + too_little_memory); }
}

// --write: scenarios by name ("1.json") into a folder, in place of those that an earlier call wrote there, which it remembers in the
// folder. False, with a message, where one cannot be written.
bool write_scenarios(const std::string& folder, const std::vector<std::pair<std::string, std::string>>& files, const Options& options);
// A scenario there that no such call wrote would stand between its own; asked for before a search begins. Empty: there is none.
std::string why_not_written(const std::string& folder);

// The text of a file that must be there; else a message that names files that may have been meant.
std::optional<std::string> read_input(const std::string& file);
// Why a job does not fit: its step's memory, or the saves of its run; "" where both fit.
std::string why_it_does_not_fit(const Scenario& scenario, const Report& report);
// How a scenario of this file re-plans itself on fewer nodes.
Replan replan_of(const std::string& file, const Options& options);
// The change that makes a scenario of this file fit, in one sentence; tries few plans, so that it is quick. search: the text
// of the search of which json is a point: its smallest cluster is named, and nothing is said where none was found. hosts: states may lie
// there on a larger cluster. seconds: how long it may look.
std::string way_out(const std::string& json, const Options& options, const std::string& base_dir, const std::string& search = "",
                    bool hosts = true, double seconds = 20);
void hint_at_way_out(const std::string& file, const Options& options); // the same on standard error, after "does not fit"
// The rows of datasets, each carrying the user's constants; nothing, with messages, where a file cannot be used.
std::optional<std::vector<ValidationRow>> read_rows(const std::vector<std::string>& files, const Options& options);
// The scenario of a file, supported by lowering, or nothing after every problem has been printed.
std::optional<Scenario> load(const std::string& file, const Options& options);

// From now on a line on standard error after half a minute, and then each minute, that says that the program still computes.
void say_while_it_lasts();

// A bar on standard error for what takes over a second, where that is a terminal and -q was not given.
class ProgressBar {
  public:
    ProgressBar(std::string what, const Options& options) : what_(std::move(what)), line_(!options.quiet) {}
    void show(std::size_t done, std::size_t total);

  private:
    std::string what_;
    console::StatusLine line_;
};

} // namespace orrery::simrun
