// From the text of a scenario to a Scenario with every field resolved, or to every problem of the file at once.
// Order: JSON -> overrides -> model, cluster -> framework defaults -> training, strategy, runtime -> derived fields -> checks.
#pragma once

#include "sim/scenario/scenario.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

// A user's mistake. `where` is a JSON pointer into the scenario ("" for the whole file), `what` a full sentence that names
// the field, the rule and a way out.
struct Problem {
    std::string where;
    std::string what;
    friend bool operator==(const Problem&, const Problem&) = default;
};

struct ParseOptions {
    std::string base_dir;               // what relative paths in the scenario start from; empty: the current directory
    std::vector<std::string> overrides; // "strategy.tensor_parallel=8" or "/strategy/tensor_parallel=8"; values are JSON or plain words
    std::shared_ptr<const OwnConstants> constants{}; // what the scenario carries
};

// scenario is there exactly when problems is empty.
struct ParseResult {
    std::optional<Scenario> scenario;
    std::vector<Problem> problems;
};

ParseResult parse_scenario(std::string_view json_text, const ParseOptions& options = {});

// Reads the file; relative paths in it start from its folder. A file that cannot be read is a problem too.
ParseResult load_scenario(const std::string& path, const std::vector<std::string>& overrides = {},
                          std::shared_ptr<const OwnConstants> constants = {});

// A model alone: a preset's name or an inline object, as under "model".
struct ModelResult {
    std::optional<Model> model;
    std::vector<Problem> problems;
};
ModelResult parse_model(std::string_view json_text, const ParseOptions& options = {});

// Requests of a correct scenario that lowering cannot do yet: programs print these as errors and exit 1.
std::vector<Problem> unsupported(const Scenario& scenario);

// The first mistake of a text as JSON: one of syntax with its line and column, a key given twice, lists and objects that are nested too
// deep to be read. No other file's text may be parsed before it was asked for here: a value of a million levels ends the program.
std::vector<Problem> json_problems(std::string_view text);
std::string problem_text(const Problem& problem); // "/strategy/tensor_parallel: strategy.tensor_parallel = 6 must divide .."

// A line a problem: "/strategy/tensor_parallel: strategy.tensor_parallel = 6 must divide ..".
std::string to_text(const std::vector<Problem>& problems);

} // namespace orrery
