#include "sim/memory/ready.hpp"

#include "sim/memory/best_segments.hpp"

namespace orrery {

void make_ready(ParseResult& parsed) {
    if (!parsed.scenario) return;
    if (parsed.problems.empty()) parsed.problems = unsupported(*parsed.scenario);
    if (parsed.problems.empty()) settle(*parsed.scenario);
}

ParseResult ready_scenario(std::string_view json_text, const ParseOptions& options) {
    ParseResult parsed = parse_scenario(json_text, options);
    make_ready(parsed);
    return parsed;
}

} // namespace orrery
