// `simrun advise SCENARIO.json`: what limits a job, what would help, and what would not.
#include "sim/advise/advise.hpp"
#include "sim/advise/rules.hpp"

#include "sim/simrun/command.hpp"

#include <cstdio>
#include <filesystem>

namespace orrery::simrun {

std::string way_out(const std::string& json, const Options& options, const std::string& base_dir, const std::string& search, bool hosts,
                    double seconds) {
    FixOptions fixing;
    fixing.hosts = hosts;
    fixing.trying.parsing.base_dir = base_dir;
    fixing.trying.parsing.constants = options.constants;
    fixing.trying.jobs = options.jobs;
    fixing.seconds = seconds;
    fixing.cluster_of = search;
    const Fix fix = cheapest_fix(json, fixing);
    return !search.empty() && !fix.found() ? "" : to_text(fix);
}

void hint_at_way_out(const std::string& file, const Options& options) {
    const auto text = read_input(file);
    ParseOptions parsing;
    parsing.base_dir = std::filesystem::path(file).parent_path().string();
    parsing.overrides = options.overrides;
    const std::string out = text ? way_out(whole_text(*text, parsing), options, parsing.base_dir) : "";
    if (!out.empty()) std::fputs(("simrun: " + out + "\n").c_str(), stderr);
}

namespace {

int print_rules(int jobs, const Options& options) {
    console::StatusLine line(!options.quiet);
    const std::vector<RuleResult> rules = check_rules(jobs, 1, options.jobs, [&](int n) {
        if (line.due()) line.show("job " + std::to_string(n) + " of " + std::to_string(jobs));
    });
    line.show("");
    return deliver(to_markdown(rules, jobs), options) ? done : bad_input;
}

} // namespace

int run_advise(const std::string& file, const Options& options, int rules) {
    if (rules > 0) return print_rules(rules, options);
    if (file.empty()) return complain("no scenario was named: simrun advise job.json"), bad_input;
    const auto text = read_input(file);
    if (!text) return bad_input;
    AdviseOptions advising;
    advising.parsing.base_dir = std::filesystem::path(file).parent_path().string();
    advising.parsing.overrides = options.overrides;
    advising.parsing.constants = options.constants;
    advising.jobs = options.jobs;
    console::StatusLine line(!options.quiet);
    advising.progress = [&](const std::string& doing) {
        if (line.due()) line.show("looking at " + doing);
    };
    const AdviceResult result = naming(file, [&] { return advise(*text, advising); });
    line.show("");
    if (!result.advice) {
        complain(file, result.problems);
        return bad_input;
    }
    const bool json = options.json || options.output.ends_with(".json");
    if (json || !options.quiet || !options.output.empty())
        if (!deliver(json ? to_json(*result.advice) : to_text(*result.advice, output_style(options)), options)) return bad_input;
    return result.advice->report.memory.fits ? done : too_big;
}

} // namespace orrery::simrun
