// simrun: from a scenario to its report. The command line; each subcommand is a file of this folder (command.hpp lists them).
#include "sim/ranks/ranks.hpp"
#include "sim/simrun/command.hpp"
#include "sim/sweep/sweep.hpp"

#include "sim/console/command_line.hpp"
#include "sim/scenario/suggest.hpp"
#include "sim/scenario/sweep.hpp"
#include "topology/input_error.hpp"
#include "topology/text.hpp"

#include <CLI/CLI.hpp>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace orrery::simrun {

namespace {

constexpr const char* examples =
    R"(  simrun scenarios/llama3-405b-16k-h100.json          how that job trains: time, MFU, bubble, memory, fit
  simrun job.json --set strategy.tensor_parallel=8    the same with one field changed (repeat --set for more)
  simrun job.json --json -o report.json               the report as JSON
  simrun job.json --trace step.json                   the simulated step for ui.perfetto.dev
  simrun a.json b.json c.json                         several scenarios side by side
  simrun sweep.json --top 10 --csv all.csv            a sweep on all cores; a stopped sweep continues
  simrun sweep.json --top 3 --write best              the three best as scenarios best/1.json .., to run or compare
  simrun sweep.json --shard 3/8                       a part of a sweep, for one of eight machines; `simrun merge` joins their files
  mpirun -n 64 simrun sweep.json                      a sweep on 64 processes: points are dealt to whoever is free
  simrun advise job.json                              what limits it, what would help, why not otherwise
  simrun search job.json --top 3 --write best         the best strategy for what job.json leaves free, with a proof
  simrun search job.json --gap 2                      in a fraction of the time: no other can be more than 2 % better
  simrun compare job.json real.trace                  predicted against measured; or two scenarios, or two traces
  simrun compare a.json b.json --worst 30             why one is slower: by kind of op, queue, wait and op
  simrun validate scenarios/validation/narayanan_sc21.json          published measurements, predicted, and the errors
  simrun validate scenarios/validation/*.json --html errors.html    all of them, as a page
  simrun plan job.json                                the plan as text, and what its verification says
  simrun plan job.json --after tensor-parallel        the plan after one pass (`list passes` names them)
  simrun export job.json --to perfetto -o step.json   the simulated step for ui.perfetto.dev
  simrun export job.json --to dot -o plan.dot         the plan's op graphs for Graphviz
  simrun fit gemm_h100-sxm-80gb.csv.gz -o laws.json   constants of the laws from a table of measured GEMMs
  simrun fit all_reduce.log --cluster aws-p5 -o f.json  your fabric from nccl-tests' output, for --calibration f.json
  simrun fit gemm_h100-sxm-80gb.csv.gz --check        how far the constants in use are off on it
  simrun learn mine.json -o learned.json              from your measured steps, for --calibration learned.json
  simrun ingest topo.xml fabric.txt -o cluster.json   a cluster from files that describe real machines (NCCL, ibnetdiscover, ..)
  simrun list models                                  or clusters, devices, fabrics, schedules, strategies, frameworks, practices, passes, constants
  simrun schema --markdown -o fields.md               every field with its type, unit and defaults, to read
  simrun schema -o scenario.schema.json               for an editor's completion: "$schema": "scenario.schema.json"
)";

constexpr const char* exits =
    "Exit: 0 done, 1 bad input, 2 does not fit in memory, 3 the plan cannot run. Sizes: GB is 1e9 bytes, GiB 2^30.";

// The parsed command line.
struct Parsed {
    Options options;
    ScenarioOptions scenario;
    SweepOptions sweep;
    ValidateOptions validate;
    IngestCommand ingest;
    FitCommand fit;
    LearnCommand learn;
    SearchCommand search;
    SbatchCommand sbatch;
    std::vector<std::string> files, datasets;
    std::string one_file, after, topic, format;
    bool no_fold = false, no_replay = false, markdown = false;
    int worst = -1, rules = 0;
};

void add_output(CLI::App& app, Options& o) {
    app.add_flag("--json", o.json, "JSON on standard output");
    app.add_option("-o,--output", o.output, "Write to this file instead of standard output")->type_name("FILE");
    app.add_flag("-q,--quiet", o.quiet, "Nothing but errors (and what --json or -o ask for)");
    app.add_flag("-v,--verbose", o.verbose, "More detail: defaults and their sources, largest buffers, size of the simulation");
}

// For a command that prints text only, or JSON always.
void without_json(CLI::App& app) { app.remove_option(app.get_option("--json")); }

void add_set(CLI::App& app, Options& o) {
    app.add_option("--set", o.overrides,
                   "Override a field: strategy.tensor_parallel=8 (repeat for more); of a sweep, a field that it varies is fixed")
        ->type_name("PATH=VALUE")
        ->expected(1)
        ->allow_extra_args(false)
        ->take_all();
}

void add_calibration(CLI::App& app, Options& o) {
    app.add_option(
           "--calibration", o.calibration,
           "A file of `simrun fit TABLE -o FILE`, which replaces built-in constants of its device, or of `simrun learn` (repeat for more)")
        ->type_name("FILE")
        ->expected(1)
        ->allow_extra_args(false)
        ->take_all();
}

// False, with a message, where a file cannot be used.
bool read_calibrations(Options& o) {
    if (o.calibration.empty()) return true;
    const auto constants = std::make_shared<OwnConstants>();
    for (const std::string& file : o.calibration) {
        const auto text = read_input(file);
        if (!text) return false;
        try {
            constants->add(*text);
        } catch (const std::runtime_error& e) { return complain(file + " cannot be used as a calibration: " + e.what()), false; }
    }
    o.constants = constants;
    return true;
}

void add_jobs(CLI::App& app, Options& o) {
    app.add_option("-j,--jobs", o.jobs, "Number of threads (default: all cores)")->check(CLI::Range(1, 4096))->type_name("N");
}

void add_run(CLI::App& app, Parsed& p) {
    app.add_option("files", p.files, "A scenario, several to compare, or one sweep")->type_name("SCENARIO.json");
    add_output(app, p.options);
    app.get_option("--output")->description("Write to this file instead of standard output; for a sweep: the file of results (SQLite)");
    add_set(app, p.options);
    add_calibration(app, p.options);
    app.add_option("--trace", p.scenario.trace, "Write the simulated step: .json for Perfetto, any other name compact")->type_name("FILE");
    app.add_flag("--no-fold", p.no_fold, "Simulate every rank, also ranks that behave alike");
    app.add_flag("--no-replay", p.no_replay, "Simulate every microbatch, also when the schedule repeats");
    add_jobs(app, p.options);
    app.add_option("--csv", p.sweep.csv,
                   "Sweep: every point as CSV into this file; a text that begins like a formula (= + - @) gets an apostrophe in front")
        ->type_name("FILE");
    app.add_option("--top", p.sweep.top, "Sweep: number of best points to print")->check(CLI::Range(1, 1000000))->type_name("N");
    app.add_option("--write", p.sweep.write, "Sweep: write the best points (--top of them) as scenarios 1.json, 2.json .. into this folder")
        ->type_name("DIR");
    std::vector<std::string> rankings;
    for (const RankBy by : all_rankings()) rankings.emplace_back(name(by));
    app.add_option(
           "--by", p.sweep.by,
           "Sweep: the figure to rank by (default: tokens_per_s); cost and energy: of a token; goodput, run_time and run_cost: of a "
           "whole run (\"run\"), the last two of a token that counts in the end")
        ->check(CLI::IsMember(rankings))
        ->type_name("FIGURE");
    app.add_option("--shard", p.sweep.shard, "Sweep: one part of it, as 3/8; slurm: the part that this task of a Slurm array is")
        ->type_name("I/N");
    app.add_flag("--fresh", p.sweep.fresh, "Sweep: start over instead of continuing");
}

CLI::App* add_command(CLI::App& app, Parsed& p, const char* name, const char* what) {
    CLI::App* sub = app.add_subcommand(name, what);
    add_output(*sub, p.options);
    return sub;
}

void add_validate(CLI::App& app, Parsed& p) {
    CLI::App* validate = add_command(app, p, "validate", "Predict every row of datasets of published measurements; print the errors");
    validate->add_option("datasets", p.datasets, "Datasets, as in scenarios/validation, and measured searches, as in its folder searches")
        ->required()
        ->type_name("DATASET.json");
    validate->add_flag("--csv", p.validate.csv,
                       "CSV on standard output; a text that begins like a formula (= + - @) gets an apostrophe in front");
    validate->add_option("--html", p.validate.html, "A page with every row and predicted against measured, into this file")
        ->type_name("FILE");
    validate->add_option("--markdown", p.validate.markdown, "The figures by dataset (VALIDATION.md) into this file")->type_name("FILE");
    validate->add_option("--rows", p.validate.rows, "Write the errors that the intervals of reports are computed from into this file")
        ->type_name("FILE");
    validate->add_option("--spreads", p.validate.spreads, "Write the spreads of what is believed of constants, from rows fitted to nothing")
        ->type_name("FILE");
    add_calibration(*validate, p.options);
    validate->add_option("--against", p.validate.against, "Fail where an error has grown by more than a point since this VALIDATION.md")
        ->type_name("FILE");
    add_jobs(*validate, p.options);
    validate->footer(
        "rank corr.: Kendall's tau of predicted and measured step times.\n"
        "attainable: the expected tau of a predictor that knows every true time, given the noise of the readings. The noise is\n"
        "step_time_noise of a row or its dataset (a relative standard deviation), or the scatter of the dataset's repeated readings.\n"
        "beyond noise: tau of the pairs that differ by more than two standard deviations. Doubtful rows are left out of both.");
}

void add_fit(CLI::App& app, Parsed& p) {
    CLI::App* fitting = add_command(app, p, "fit", "Fit constants of the cost model to tables of measurements");
    fitting->add_option("tables", p.datasets, "CSV tables with a header, plain or gzipped, JSON lists of rows, or the output of nccl-tests")
        ->required()
        ->type_name("FILE");
    fitting->add_flag("--check", p.fit.only_check, "Fit nothing: print the errors of the calibration in use on these measurements");
    fitting->add_option("--cluster", p.fit.cluster, "Of nccl-tests' output: the cluster it ran on, a preset or a file of `simrun ingest`")
        ->type_name("NAME|FILE");
    fitting->add_option("--nodes", p.fit.nodes, "Of nccl-tests' output without its \"# Rank\" lines: how many nodes took part")
        ->check(CLI::Range(1, 1000000))
        ->type_name("N");
    add_calibration(*fitting, p.options);
    fitting->footer(
        "A table of products is named for its device (gemm_h100-sxm-80gb.csv; simrun list devices) and has the columns dtype, "
        "m, n, k, batch, us.\n"
        "Use the fitted file in predictions and checks: simrun job.json --calibration FILE, simrun fit --check TABLE\n"
        "--calibration FILE. Constants of attention and of tables of collectives are printed or checked; they cannot be read back.\n"
        "The output of nccl-tests (all_reduce_perf and the others, mpirun's and srun's prefixes too) is fitted to your fabric:\n"
        "  simrun fit all_reduce.log alltoall.log --cluster cluster.json -o fabric.json     constants, and errors of curves left out in "
        "turn\n"
        "  simrun fit all_reduce.log --cluster cluster.json --calibration fabric.json --check   measured and predicted, size by size\n"
        "  simrun job.json --calibration fabric.json                                        predictions on that fabric");
}

void add_learn(CLI::App& app, Parsed& p) {
    CLI::App* sub = add_command(app, p, "learn", "Learn from your own measured steps: predictions move, and so do their intervals");
    sub->add_option("rows", p.datasets, "Datasets of your runs: scenarios with what was measured")->required()->type_name("ROWS.json");
    sub->add_option("--check", p.learn.check, "Datasets of other runs of yours: their errors with and without what was learned")
        ->type_name("FILE");
    add_calibration(*sub, p.options);
    add_jobs(*sub, p.options);
    sub->footer(
        "A dataset is {\"name\": .., \"source\": .., \"rows\": [{\"name\": .., \"scenario\": {..}, \"measured\": {\"step_time_s\": 1.9, "
        "\"memory_gb\": 61.2}}]}\n(scenarios/validation/README.md); either figure will do. The constants learned hold for the stack and "
        "the "
        "device of the rows:\nfactors on the times of groups of constants (products, attention, host, networks ..) and on memory.\n"
        "One row moves a prediction little, as it may be an odd one; three that agree move it most of the way.\n"
        "Examples:\n"
        "  simrun learn mine.json -o learned.json                    the factors, and the rows before and after\n"
        "  simrun learn mine.json -o learned.json --check more.json  and rows that were not learned from\n"
        "  simrun job.json --calibration learned.json                a prediction with them (sweeps and search take it too)");
}

void add_commands(CLI::App& app, Parsed& p) {
    CLI::App* plan = add_command(app, p, "plan", "Print the plan of a scenario and verify it");
    plan->add_option("scenario", p.one_file, "The scenario")->required()->type_name("SCENARIO.json");
    without_json(*plan);
    plan->add_option("--after", p.after, "Print the state after this pass (simrun list passes)")->type_name("PASS");
    add_set(*plan, p.options);
    CLI::App* list = add_command(app, p, "list", "List the names that a scenario can use");
    list->add_option("topic", p.topic,
                     "models, clusters, devices, fabrics, schedules, strategies, frameworks, practices, passes or constants (of "
                     "calibration files, with "
                     "their limits)")
        ->type_name("TOPIC");
    CLI::App* schema = add_command(app, p, "schema", "The JSON Schema of scenarios, for editors; --markdown: the field reference");
    without_json(*schema);
    schema->add_flag("--markdown", p.markdown, "Every field, its type, unit, defaults by framework and meaning, as Markdown");
    add_validate(app, p);
    add_fit(app, p);
    add_learn(app, p);
    CLI::App* comparing =
        add_command(app, p, "compare", "Two runs side by side: scenarios (simulated now) or traces, predicted or measured");
    comparing->add_option("runs", p.datasets, "Two of: SCENARIO.json, a trace file")->required()->expected(2)->type_name("A B");
    add_calibration(*comparing, p.options);
    comparing->add_option("--worst", p.worst, "Number of ops to list, the largest difference first (default: 10; in JSON all)")
        ->check(CLI::Range(0, 100000))
        ->type_name("N");
    add_set(*comparing, p.options);
    CLI::App* exporting = add_command(app, p, "export", "Write the simulated step or the plan for other programs");
    exporting->add_option("scenario", p.one_file, "The scenario")->required()->type_name("SCENARIO.json");
    without_json(*exporting);
    exporting->get_option("--output")
        ->description("Write to this file; default: NAME.perfetto.json and NAME.run.trace in this folder, the others to standard output");
    exporting->add_option("--to", p.format, export_help())->required()->type_name("FORMAT");
    add_set(*exporting, p.options);
}

void add_ingest(CLI::App& app, Parsed& p) {
    CLI::App* sub = add_command(app, p, "ingest", "A cluster from files that describe real machines: a node, a fabric, or both");
    sub->add_option("files", p.datasets, "One file of a node, one of its fabric, or one of both")->required()->type_name("FILE");
    sub->add_option("--from", p.ingest.from, "The files' format, where their content does not tell it: " + ingest_formats())
        ->type_name("FORMAT");
    sub->add_option("--device", p.ingest.device, "The GPU, where the files do not name it (simrun list devices)")->type_name("NAME");
    sub->add_option("--nodes", p.ingest.nodes, "How many nodes the cluster has")->check(CLI::Range(1, 1000000))->type_name("N");
    sub->add_option("--nic-gbit", p.ingest.nic_gbit, "Rate of one NIC in Gb/s")->check(CLI::Range(0.001, 1e6))->type_name("RATE");
    sub->add_option("--network", p.ingest.network, "infiniband, roce, ethernet, omni-path or efa")
        ->check(CLI::IsMember({"infiniband", "roce", "ethernet", "omni-path", "efa"}))
        ->type_name("KIND");
    sub->add_flag("--graph", p.ingest.graph, "Write an explicit graph (PCIe tree, NICs, switches) instead of the short form");
    sub->footer(
        "Examples:\n"
        "  simrun ingest topo.xml --nodes 16 -o cluster.json        NCCL's dump of one node (NCCL_TOPO_DUMP_FILE=topo.xml), 16 of them\n"
        "  simrun ingest topo.xml fabric.txt -o cluster.json        the same node in the fabric that ibnetdiscover saw\n"
        "  simrun ingest matrix.txt --device h200-sxm-141gb         `nvidia-smi topo -m > matrix.txt` names no GPU\n"
        "  simrun job.json --set cluster=cluster.json               a scenario on the cluster\n"
        "Every value that no file states is assumed: the terminal lists it, and \"sources\" in the cluster marks it.");
}

void add_advise(CLI::App& app, Parsed& p) {
    CLI::App* sub = add_command(app, p, "advise", "What limits a job, what would help, and why not otherwise; each figure simulated");
    sub->add_option("scenario", p.one_file, "The scenario")->type_name("SCENARIO.json");
    add_set(*sub, p.options);
    add_calibration(*sub, p.options);
    add_jobs(*sub, p.options);
    sub->add_option("--rules", p.rules, "Instead: the field's rules of thumb on so many random jobs, as a table")
        ->check(CLI::Range(1, 1000000))
        ->type_name("N");
    sub->footer("Examples:\n"
                "  simrun advise job.json                                     verdict, limits, changes, why-nots\n"
                "  simrun advise job.json --set training.micro_batch_size=8   where it does not fit: the cheapest change that makes it\n"
                "  simrun advise job.json --json -o advice.json               with the changed scenarios\n"
                "  simrun advise --rules 200                                  where 14 rules of thumb hold and where not\n"
                "Exit 0: it fits; 2: it does not fit in memory.");
}

void add_parts(CLI::App& app, Parsed& p) {
    CLI::App* merging = add_command(app, p, "merge", "Join the files of a sweep's parts (--shard) into one");
    merging->add_option("files", p.datasets, "Files that sweeps have written")->required()->type_name("FILE.sqlite");
    merging->get_option("--output")->description("The file to add them to (default: merged.sqlite); made where it is not there");
    merging->footer("Examples:\n"
                    "  simrun sweep.json --shard 1/8 -o 1.sqlite      on one of eight machines\n"
                    "  simrun merge ?.sqlite -o all.sqlite            when all are done, or some were killed: what they computed is there\n"
                    "  simrun sweep.json -o all.sqlite --csv all.csv  ranks all points, and computes those that no file has\n"
                    "Exit 1 also: the files have unlike figures of one point.");
    CLI::App* script = add_command(app, p, "sbatch", "Print a Slurm script that computes a sweep, or searches, as a job array");
    without_json(*script);
    script->add_option("file", p.one_file, "The sweep, or the scenario to search for")->required()->type_name("FILE.json");
    script->add_option("--shards", p.sbatch.shards, "Number of tasks (default: 8)")->check(CLI::Range(1, 100000))->type_name("N");
    script->add_option("--cpus", p.sbatch.cpus, "Cores of a task (default: 8)")->check(CLI::Range(1, 4096))->type_name("N");
    script->add_option("--time", p.sbatch.time, "Time limit of a task (default: 24:00:00)")->type_name("TIME");
    script->add_option("--partition", p.sbatch.partition, "Slurm partition")->type_name("NAME");
    script->add_option("--folder", p.sbatch.folder, "Shared folder for the parts' files (default: NAME-parts)")->type_name("DIR");
    add_set(*script, p.options);
    add_calibration(*script, p.options);
    script->add_option("--space", p.sbatch.space, "As in simrun search")->type_name("FILE");
    script->add_option("--by", p.sbatch.by, "As in simrun search")->check(CLI::IsMember(search_figures()))->type_name("FIGURE");
    script->add_option("--within", p.sbatch.within_days, "As in simrun search")->check(console::above_zero())->type_name("DAYS");
    script->add_option("--gap", p.sbatch.gap, "As in simrun search")->check(CLI::Range(0.0, 50.0))->type_name("PERCENT");
    script->add_option("--allow", p.sbatch.allow, "As in simrun search")
        ->delimiter(',')
        ->check(CLI::IsMember({"offload", "compression"}))
        ->type_name("WHAT");
    script->footer("Examples:\n"
                   "  simrun sbatch sweep.json --shards 64 --cpus 16 -o sweep.sh && sbatch sweep.sh\n"
                   "  simrun sbatch job.json --space space.json --by cost -o search.sh && sbatch search.sh\n"
                   "A task that is stopped keeps what it has; submit the script again to go on. Its head says how to join the parts.");
}

constexpr const char* search_footer =
    "Points are simulated in the order of a bound of their step time, until no other can be better than the best.\n"
    "Ctrl-C stops the search and prints the best so far.\n"
    "Exit 1 also: no point is legal; 2: nothing fits in memory or ends in time (the nearest miss is named).";

void add_search(CLI::App& app, Parsed& p) {
    CLI::App* sub = add_command(app, p, "search", "Find the best strategy for a model, a cluster and a batch, with a proof");
    sub->add_option(
           "scenario", p.one_file,
           "The scenario: fields that it states are fixed; of the others those are varied that the answer lists (degrees, micro batch, "
           "schedule, sharding, rank order, recompute, overlaps ..), the rest is the framework's default")
        ->required()
        ->type_name("SCENARIO.json");
    add_set(*sub, p.options);
    add_calibration(*sub, p.options);
    add_jobs(*sub, p.options);
    sub->add_option("--by", p.search.by,
                    "What is made small (default: time, of a step); tokens_per_s_per_gpu and goodput are made large; goodput, run_time, "
                    "run_cost: of a scenario with \"run\"; target_time, target_cost: of one with training.convergence, and the best "
                    "batch where --space names several")
        ->check(CLI::IsMember(search_figures()))
        ->type_name("FIGURE");
    sub->add_option("--top", p.search.top, "Number of strategies to print, each of other degrees")
        ->check(CLI::Range(1, 1000))
        ->type_name("N");
    sub->add_option("--space", p.search.space,
                    "Values of fields, as {\"/strategy/tensor_parallel\": [1, 2], \"/cluster/nodes\": [8, 16]}; a field named here has "
                    "these alone")
        ->type_name("FILE");
    sub->add_option("--allow", p.search.allow,
                    "offload: compare plans with states and activations on the host and on NVMe from the start, not only where nothing "
                    "else fits; compression: gradients travel as something smaller, which changes the numbers of the training (repeat, or "
                    "separate by commas)")
        ->delimiter(',')
        ->check(CLI::IsMember({"offload", "compression"}))
        ->type_name("WHAT");
    sub->add_option("--csv", p.search.csv,
                    "Every simulated point that fits, best first, into this file; no interval where --database knows a point without one")
        ->type_name("FILE");
    sub->add_option("--write", p.search.write, "Write the best (--top of them) as scenarios 1.json, 2.json .. into this folder")
        ->type_name("DIR");
    sub->add_option("--database", p.search.database, "Keep simulated points in this file (SQLite): a search that is stopped goes on")
        ->type_name("FILE");
    sub->add_option("--within", p.search.within_days,
                    "A run that takes longer is no answer; the scenario says how long it is: \"run\": {\"tokens\": 1e12}, or "
                    "training.convergence")
        ->check(console::above_zero())
        ->type_name("DAYS");
    sub->add_option(
           "--shard", p.search.shard,
           "One part of the space, as 3/8 (slurm: the part that this task of an array is), with --database; `simrun merge` joins the "
           "files, and a search with the merged one simulates no point again")
        ->type_name("I/N");
    sub->add_flag("--fresh", p.search.fresh, "Forget what the database holds");
    sub->add_flag("--no-refine", p.search.no_refine, "Leave the layers of stages, and what single stages recompute, uniform");
    sub->add_option("--seconds", p.search.seconds, "Stop after so long, and say by how much any other point could be better")
        ->check(console::above_zero())
        ->type_name("S");
    sub->add_option("--gap", p.search.gap,
                    "Stop when no other point can be more than PERCENT better than the best: many fewer are simulated (default: 0, "
                    "the best is proven)")
        ->check(CLI::Range(0.0, 50.0))
        ->type_name("PERCENT");
    sub->footer(search_footer);
}

// A file that is not there and looks like a command is one that was misspelt.
std::string command_meant(const CLI::App& app, const std::string& file) {
    std::vector<std::string> names;
    for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(sub->get_name());
    return std::filesystem::exists(file) ? "" : nearest(file, names).value_or("");
}

// Options that this kind of input does not use are refused.
bool refuse_idle(const CLI::App& app, const std::vector<std::string>& options, const std::string& whose) {
    const std::string given = console::given_of(app, options);
    if (!given.empty()) complain(given + ": " + whose);
    return !given.empty();
}

int run_files(Parsed& p, const CLI::App& app) {
    if (p.files.empty()) {
        complain("no scenario was named\n" + app.help());
        return bad_input;
    }
    if (const std::string meant = command_meant(app, p.files.front()); !meant.empty()) {
        complain("no file " + p.files.front() + "; did you mean the command `simrun " + meant +
                 "`? (A scenario is run by its name alone: simrun job.json)");
        return bad_input;
    }
    const std::vector<std::string> of_one{"--trace", "--no-fold", "--no-replay"},
        of_sweeps{"--csv", "--top", "--by", "--write", "--shard", "--fresh"};
    p.scenario.fold = !p.no_fold;
    p.scenario.replay = !p.no_replay;
    for (const std::string& file : p.files) {
        const auto text = read_input(file);
        if (!text) return bad_input;
        if (const std::vector<Problem> wrong = json_problems(*text); !wrong.empty()) return complain(file, wrong), bad_input;
        if (!is_sweep(*text)) continue;
        if (p.files.size() == 1)
            return refuse_idle(app, of_one, "for one scenario, and " + file + " is a sweep") ? bad_input
                                                                                             : run_sweep(file, p.options, p.sweep);
        complain(file + " is a sweep: run it alone");
        return bad_input;
    }
    if (refuse_idle(app, of_sweeps, "for a sweep, and " + join(p.files) + (p.files.size() == 1 ? " has" : " have") + " no field \"sweep\""))
        return bad_input;
    if (p.files.size() > 1 && refuse_idle(app, of_one, "for one scenario: run each by itself")) return bad_input;
    return p.files.size() == 1 ? run_scenario(p.files.front(), p.options, p.scenario) : run_scenarios(p.files, p.options);
}

// The files of this command line, before anything is written.
std::string lost_file(const CLI::App& app, const Parsed& p) {
    if (app.got_subcommand("merge")) return ""; // it adds to the file that it names
    std::vector<std::string> inputs = p.files;
    inputs.insert(inputs.end(), p.datasets.begin(), p.datasets.end());
    inputs.insert(inputs.end(), p.learn.check.begin(), p.learn.check.end());
    inputs.insert(inputs.end(), p.options.calibration.begin(), p.options.calibration.end());
    for (const std::string& one : {p.one_file, p.search.space, p.sbatch.space}) inputs.push_back(one);
    return console::lost_file(inputs, {{"-o", p.options.output},
                                       {"--trace", p.scenario.trace},
                                       {"--csv", p.sweep.csv},
                                       {"--database", p.search.database},
                                       {"--csv", p.search.csv},
                                       {"--html", p.validate.html},
                                       {"--markdown", p.validate.markdown},
                                       {"--rows", p.validate.rows},
                                       {"--spreads", p.validate.spreads}});
}

int dispatch(const CLI::App& app, Parsed& p) {
    if (const std::string why = lost_file(app, p); !why.empty()) return complain(why), bad_input;
    if (app.got_subcommand("search")) return run_search(p.one_file, p.options, p.search);
    if (app.got_subcommand("advise")) return run_advise(p.one_file, p.options, p.rules);
    if (app.got_subcommand("merge")) return run_merge(p.datasets, p.options);
    if (app.got_subcommand("sbatch")) return run_sbatch(p.one_file, p.options, p.sbatch);
    if (app.got_subcommand("plan")) return run_plan(p.one_file, p.after, p.options);
    if (app.got_subcommand("list")) return run_list(p.topic, p.options);
    if (app.got_subcommand("schema")) return run_schema(p.options, p.markdown);
    if (app.got_subcommand("validate")) return run_validate(p.datasets, p.options, p.validate);
    if (app.got_subcommand("fit")) return run_fit(p.datasets, p.options, p.fit);
    if (app.got_subcommand("learn")) return run_learn(p.datasets, p.options, p.learn);
    if (app.got_subcommand("ingest")) return run_ingest(p.datasets, p.options, p.ingest);
    if (app.got_subcommand("compare")) return run_compare(p.datasets, p.worst, p.options);
    if (app.got_subcommand("export")) return run_export(p.one_file, p.format, p.options);
    return run_files(p, app);
}

int run(int argc, char** argv) {
    CLI::App app{"simrun predicts how a training job runs: step time, MFU, where the time goes, memory of every stage.", "simrun"};
    app.set_version_flag("--version", "simrun " ORRERY_VERSION);
    Parsed parsed;
    add_run(app, parsed);
    add_commands(app, parsed);
    add_ingest(app, parsed);
    add_search(app, parsed);
    add_parts(app, parsed);
    add_advise(app, parsed);
    console::add_examples(app, examples, exits);
    app.require_subcommand(0, 1);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) { return console::refuse(app, e, {argv + 1, argv + argc}); }
    try {
        const bool own_line = isatty(STDERR_FILENO) != 0 && (app.got_subcommand("search") || app.got_subcommand("advise") ||
                                                             app.got_subcommand("validate") || app.got_subcommand("learn"));
        if (!parsed.options.quiet && !own_line && !started_as_ranks()) say_while_it_lasts();
        if (!read_calibrations(parsed.options)) return bad_input;
        const int code = dispatch(app, parsed);
        if (const auto& own = parsed.options.constants; own && (code == 0 || code == too_big) && !parsed.options.quiet)
            for (const std::string& device : own->not_asked_for())
                std::fputs(("simrun: note: the calibration of " + printable(device) +
                            " was not used: nothing was predicted for that device (`simrun list devices` names them)\n")
                               .c_str(),
                           stderr);
        return code;
    } catch (const CannotRun& e) {
        complain(e.what());
        return cannot_run;
    } catch (const std::bad_alloc&) {
        complain(too_little_memory);
        return bad_input;
    } catch (const std::runtime_error& e) { // bad input found late, a file, the system
        complain(e.what());
        return bad_input;
    } catch (const std::exception& e) {
        complain(std::string(e.what()) + "\nThis is a bug in simrun.");
        return our_bug;
    }
}

} // namespace

} // namespace orrery::simrun

int main(int argc, char** argv) {
#ifdef __GLIBC__
    // Each pass of a prediction frees arrays of megabytes that the next one asks for again. Memory once had is kept: to give it back and to
    // fault its pages in anew is up to a quarter of a short run.
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 8 << 20);
#endif
    return orrery::simrun::run(argc, argv);
}
