// A Hugging Face config.json, as it is, to the fields of "model". Private to this room.
#pragma once

#include "sim/scenario/json_text.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace orrery {

// The architectures read: gpt2, gpt_neox, opt, bloom, mpt, llama, mistral, qwen2, qwen3, mixtral, qwen3_moe, deepseek_v3 (and deepseek_v2).
std::vector<std::string> hf_architectures();

// notes receives what the config says and the model does not take over.
Json model_from_hf(std::string_view text, std::vector<Problem>& problems, std::vector<std::string>& notes);

} // namespace orrery
