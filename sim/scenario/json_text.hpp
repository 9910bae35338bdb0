// JSON in: syntax errors with line and column, keys given twice, and overrides from the command line. Private to this room.
#pragma once

#include "sim/scenario/input_file.hpp"
#include "sim/scenario/parse.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace orrery {

using Json = nlohmann::json;

// Nothing but a null and problems where the text is not JSON. `//` and `/* */` comments are allowed.
Json read_json(std::string_view text, std::vector<Problem>& problems);

// Sets the field an override names. Where a preset's name stands in for an object ("model": "gpt2-124m"), it becomes {"preset": ..} first.
void apply_override(Json& document, const std::string& text, std::vector<Problem>& problems);
std::vector<std::string> override_path(const std::string& text); // {"strategy", "zero_stage"} of "strategy.zero_stage=1"

// One step of a JSON pointer, escaped as RFC 6901 says.
std::string pointer_step(std::string_view key);
std::string plain_step(std::string_view step); // and back, without the slash

std::string type_name(const Json& value);  // "a text", "a number", ...
std::string short_text(const Json& value); // the value as JSON, cut after 40 characters

} // namespace orrery
