// `simrun validate DATASET..`: predictions against published measurements.
#include "sim/validate/validate.hpp"

#include "sim/simrun/command.hpp"
#include "topology/text.hpp"

#include <cstdio>

namespace orrery::simrun {

int run_validate(const std::vector<std::string>& files, const Options& options, const ValidateOptions& validating) {
    std::vector<ValidationRow> rows;
    for (const std::string& file : files) {
        if (!read_input(file)) return bad_input;
        DatasetResult set = load_dataset(file);
        for (const std::string& problem : set.problems) complain(problem);
        if (!set.problems.empty()) return bad_input;
        if (set.other_table && !options.quiet)
            std::fprintf(stderr, "simrun: %s is no dataset of scenarios and left out (simrun fit --check may take it)\n",
                         printable(file).c_str());
        rows.insert(rows.end(), std::make_move_iterator(set.rows.begin()), std::make_move_iterator(set.rows.end()));
    }
    for (ValidationRow& row : rows) row.constants = options.constants;
    if (rows.empty()) {
        complain("no rows to validate");
        return bad_input;
    }
    Validation result;
    {
        ProgressBar progress("validating", options);
        result = validate(
            std::move(rows), options.jobs, [&](std::size_t n, std::size_t total) { progress.show(n, total); },
            !validating.markdown.empty() || !validating.spreads.empty());
    }
    const auto also = [&](const std::string& file, const auto& text) {
        if (file.empty()) return true;
        Options to = options;
        to.output = file;
        return deliver(text(result), to);
    };
    if (!also(validating.html, to_html) || !also(validating.markdown, to_markdown) || !also(validating.rows, to_experience) ||
        !also(validating.spreads, to_spreads))
        return bad_input;
    if (!validating.against.empty()) {
        const auto earlier = read_input(validating.against);
        if (!earlier) return bad_input;
        const std::vector<std::string> worse = regressions(result, *earlier);
        for (const std::string& one : worse) complain("an error has grown: " + one);
        if (!worse.empty()) return bad_input;
    }
    if (validating.csv) return deliver(to_csv(result), options) ? done : bad_input;
    if (options.json || options.output.ends_with(".json")) return deliver(to_json(result), options) ? done : bad_input;
    return deliver(to_text(result, output_style(options)), options) ? done : bad_input;
}

} // namespace orrery::simrun
