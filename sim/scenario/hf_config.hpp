// A Hugging Face config.json, as it is, to the fields of "model". Private to this room.
#pragma once

#include "sim/scenario/json_text.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace orrery {

// The architectures read, by their model_type: gpt2, llama, gemma3, deepseek_v3 and so on.
std::vector<std::string> hf_architectures();

// notes receives what the config says and the model does not take over.
Json model_from_hf(std::string_view text, std::vector<Problem>& problems, std::vector<std::string>& notes);

} // namespace orrery
