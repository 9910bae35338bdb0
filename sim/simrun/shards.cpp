// `simrun merge` and `simrun sbatch`: a sweep or a search on many machines.
#include "sim/scenario/sweep.hpp"
#include "sim/sweep/merge.hpp"

#include "sim/simrun/command.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <stdexcept>

namespace orrery::simrun {

namespace {

// As one word of a POSIX shell.
std::string quoted(const std::string& word) {
    if (!word.empty() &&
        word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,+-") == std::string::npos)
        return word;
    std::string text = "'";
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
}

std::string absolute(const std::string& file) { return std::filesystem::absolute(file).lexically_normal().string(); }

} // namespace

int run_merge(const std::vector<std::string>& files, const Options& options) {
    const std::string into = options.output.empty() ? "merged.sqlite" : options.output;
    Merged m;
    try {
        m = merge_stores(files, into);
    } catch (const std::runtime_error& e) {
        complain(e.what());
        return bad_input;
    }
    Options to_stdout = options;
    to_stdout.output.clear();
    if (m.differ > 0)
        complain(
            fmt::format("{} points are in more than one file with other figures ({} in {} is the first): the files come from different "
                        "builds or processors; what was read first stays",
                        m.differ, m.first_that_differs.at(0), m.first_that_differs.at(1)));
    if (options.json)
        return deliver(nlohmann::ordered_json{{"read", m.read}, {"added", m.added}, {"differ", m.differ}, {"into", into}}.dump(1) + "\n",
                       to_stdout)
                   ? done
                   : bad_input;
    if (!options.quiet)
        deliver(fmt::format("{} points read from {} files, {} of them new in {}\n`simrun SWEEP.json -o {} --csv all.csv` ranks them, and "
                            "computes those that no file has; parts of a search: `simrun search SCENARIO.json --database {}`\n",
                            grouped(m.read), files.size(), grouped(m.added), into, into, into),
                to_stdout);
    return m.differ > 0 ? bad_input : done;
}

namespace {

// Lines of a script that differ between a sweep and a search.
struct ArrayWork {
    std::string size;       // "1,024 points"
    std::string task;       // options of the program for a task, before --jobs; $local is its file
    std::string in_the_end; // the command that reads the merged file, its name already in it
};

std::string program() {
    std::error_code unreadable;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", unreadable);
    return quoted(unreadable ? "simrun" : self.string());
}

std::string common_of(const Options& options) {
    std::string more;
    for (const std::string& o : options.overrides) more += " --set " + quoted(o);
    for (const std::string& c : options.calibration) more += " --calibration " + quoted(absolute(c));
    return more;
}

// A job array: each task computes a part on its node's own disk, because SQLite must not be written over a network, and copies the file
// to the shared folder when it ends, also when Slurm stops it. Started again, a task goes on from that copy.
std::string script_of(const std::string& stem, const ArrayWork& work, const SbatchCommand& command) {
    const std::string folder = quoted(absolute(command.folder.empty() ? stem + "-parts" : command.folder));
    const std::string part = quoted(stem) + ".$part-of-" + std::to_string(command.shards) + ".sqlite";
    std::string text = "#!/bin/bash\n";
    text += fmt::format("#SBATCH --job-name={}\n#SBATCH --array=1-{}\n#SBATCH --cpus-per-task={}\n#SBATCH --time={}\n", quoted(stem),
                        command.shards, command.cpus, command.time);
    if (!command.partition.empty()) text += "#SBATCH --partition=" + quoted(command.partition) + "\n";
    text += "#SBATCH --requeue\n#SBATCH --signal=B:TERM@60\n\n";
    text += fmt::format("# {} in {} parts. When all tasks have ended:\n", work.size, command.shards);
    text += fmt::format("#   {0} merge {1}/*.sqlite -o {2}\n#   {0} {3}\n\n", program(), folder, quoted(absolute(stem + ".sqlite")),
                        work.in_the_end);
    text += "set -u\npart=$SLURM_ARRAY_TASK_ID\n";
    text += fmt::format("kept={}/{}\n", folder, part);
    text += "disk=$(mktemp -d)\nlocal=$disk/part.sqlite\n";
    text += fmt::format("mkdir -p {}\n", folder);
    text += "for end in '' -wal; do [ -e \"$kept$end\" ] && cp \"$kept$end\" \"$local$end\"; done\n";
    text += "keep() { for end in '' -wal; do [ -e \"$local$end\" ] && cp \"$local$end\" \"$kept$end.new\" && mv \"$kept$end.new\" "
            "\"$kept$end\"; done; "
            "[ -e \"$local-wal\" ] || rm -f \"$kept-wal\"; rm -rf \"$disk\"; }\n";
    text += "trap 'kill $work 2>/dev/null; wait $work; keep; exit 143' TERM\n";
    text += fmt::format("{} {} --jobs {} --quiet &\nwork=$!\nwait $work\ncode=$?\nkeep\n", program(), work.task, command.cpus);
    return text + "exit $code\n";
}

ArrayWork work_of(const std::string& file, const SweepDocument& sweep, const Options& options, const SbatchCommand& command) {
    const std::string stem = std::filesystem::path(file).stem().string(), what = quoted(absolute(file)) + common_of(options);
    return {grouped(sweep.size()) + " points", fmt::format("{} --shard $part/{} -o \"$local\"", what, command.shards),
            fmt::format("{} -o {} --csv {}", what, quoted(absolute(stem + ".sqlite")), quoted(absolute(stem + ".csv")))};
}

// A part in which nothing fits (exit code 2) is a part that is done.
ArrayWork work_of_search(const std::string& file, const Options& options, const SbatchCommand& command) {
    const std::string stem = std::filesystem::path(file).stem().string();
    std::string what = "search " + quoted(absolute(file)) + common_of(options);
    if (!command.space.empty()) what += " --space " + quoted(absolute(command.space));
    if (!command.by.empty()) what += " --by " + command.by;
    if (command.within_days > 0) what += fmt::format(" --within {}", command.within_days);
    if (command.gap > 0) what += fmt::format(" --gap {}", command.gap);
    for (const std::string& a : command.allow) what += " --allow " + a;
    return {"A search", fmt::format("{} --shard $part/{} --database \"$local\"", what, command.shards),
            fmt::format("{} --database {} --write {}", what, quoted(absolute(stem + ".sqlite")), quoted(absolute(stem + "-best")))};
}

} // namespace

int run_sbatch(const std::string& file, const Options& options, const SbatchCommand& command) {
    const auto text = read_input(file);
    if (!text) return bad_input;
    const std::string stem = std::filesystem::path(file).stem().string();
    if (!is_sweep(*text)) {
        SearchCommand of_task;
        of_task.space = command.space;
        of_task.allow = command.allow;
        of_task.within_days = command.within_days;
        of_task.gap = command.gap;
        if (!command.by.empty()) of_task.by = command.by;
        if (refused_search(file, *text, options, of_task)) return bad_input;
        return deliver(script_of(stem, work_of_search(file, options, command), command), options) ? done : bad_input;
    }
    if (!command.space.empty() || !command.by.empty() || command.within_days > 0 || command.gap > 0 || !command.allow.empty()) {
        complain("--space, --by, --within, --gap and --allow: for a search, and " + file + " is a sweep");
        return bad_input;
    }
    const SweepResult loaded = load_sweep(file, options.overrides, options.constants);
    if (!loaded.document || !loaded.problems.empty()) {
        complain(file, loaded.problems);
        return bad_input;
    }
    return deliver(script_of(stem, work_of(file, *loaded.document, options, command), command), options) ? done : bad_input;
}

} // namespace orrery::simrun
