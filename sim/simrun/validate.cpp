// `simrun validate DATASET..`: predictions against published measurements.
#include "sim/validate/validate.hpp"

#include "sim/simrun/command.hpp"
#include "sim/validate/searches.hpp"
#include "topology/text.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace orrery::simrun {

namespace {

// The files' contents: rows of datasets, and measured searches.
struct Input {
    std::vector<ValidationRow> rows;
    std::vector<MeasuredSearch> searches;
};

bool read_file(const std::string& file, const Options& options, Input& input) {
    if (!read_input(file)) return false;
    SearchFile found = load_search(file);
    for (const std::string& problem : found.problems) complain(problem);
    if (!found.problems.empty()) return false;
    if (found.is_one) {
        input.searches.push_back(std::move(found.search));
        return true;
    }
    DatasetResult set = load_dataset(file);
    for (const std::string& problem : set.problems) complain(problem);
    if (!set.problems.empty()) return false;
    if (set.other_table && !options.quiet)
        std::fprintf(stderr, "simrun: %s is no dataset of scenarios and left out (simrun fit --check may take it)\n",
                     printable(file).c_str());
    input.rows.insert(input.rows.end(), std::make_move_iterator(set.rows.begin()), std::make_move_iterator(set.rows.end()));
    return true;
}

bool empty(const Input& input) { return input.rows.empty() && input.searches.empty(); }

// Rows and searches in one object.
std::string json_of(const Validation& result, const std::vector<MeasuredSearch>& searches) {
    auto j = nlohmann::ordered_json::parse(to_json(result));
    if (!searches.empty()) j["searches"] = nlohmann::ordered_json::parse(searches_to_json(searches));
    return j.dump(1) + "\n";
}

std::string text_of(const Validation& result, const std::vector<MeasuredSearch>& searches, const TextStyle& style) {
    return (result.rows.empty() ? "" : to_text(result, style) + (searches.empty() ? "" : "\n")) + searches_to_text(searches, style);
}

} // namespace

std::optional<std::vector<ValidationRow>> read_rows(const std::vector<std::string>& files, const Options& options) {
    Input input;
    for (const std::string& file : files)
        if (!read_file(file, options, input)) return std::nullopt;
    for (ValidationRow& row : input.rows) row.constants = options.constants;
    return input.rows;
}

int run_validate(const std::vector<std::string>& files, const Options& options, const ValidateOptions& validating) {
    Input input;
    for (const std::string& file : files)
        if (!read_file(file, options, input)) return bad_input;
    if (empty(input)) {
        complain("no rows to validate");
        return bad_input;
    }
    for (ValidationRow& row : input.rows) row.constants = options.constants;
    for (MeasuredSearch& search : input.searches)
        for (MeasuredJob& job : search.jobs)
            for (ValidationRow& row : job.strategies) row.constants = options.constants;
    Validation result;
    {
        ProgressBar progress("validating", options);
        const auto show = [&](std::size_t n, std::size_t total) { progress.show(n, total); };
        result = validate(std::move(input.rows), options.jobs, show,
                          !validating.markdown.empty() || !validating.spreads.empty() || !validating.rows.empty());
        predict_searches(input.searches, result.rows, options.jobs, show);
    }
    const std::vector<MeasuredSearch>& searches = input.searches;
    const auto markdown = [&](const Validation& v) { return to_markdown(v) + searches_to_markdown(searches); };
    const auto also = [&](const std::string& file, const auto& text) {
        if (file.empty()) return true;
        Options to = options;
        to.output = file;
        return deliver(text(result), to);
    };
    if (!also(validating.html, to_html) || !also(validating.markdown, markdown) || !also(validating.rows, to_experience) ||
        !also(validating.spreads, to_spreads))
        return bad_input;
    if (!validating.against.empty()) {
        const auto earlier = read_input(validating.against);
        if (!earlier) return bad_input;
        if (earlier->find("\n| ") == std::string::npos) {
            complain(validating.against + " holds no table of errors: name a file that `simrun validate --markdown` has written");
            return bad_input;
        }
        const std::vector<std::string> worse = regressions(result, *earlier);
        for (const std::string& one : worse) complain("an error has grown: " + one);
        if (!worse.empty()) return bad_input;
    }
    if (validating.csv) return deliver(to_csv(result), options) ? done : bad_input;
    if (options.json || options.output.ends_with(".json")) return deliver(json_of(result, searches), options) ? done : bad_input;
    return deliver(text_of(result, searches, output_style(options)), options) ? done : bad_input;
}

} // namespace orrery::simrun
