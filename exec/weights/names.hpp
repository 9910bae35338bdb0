// Which tensors of a Hugging Face file a tensor of a plan is, and where its rows lie there.
#pragma once

#include "sim/scenario/scenario.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace orrery {

// As config.json says in model_type.
enum class WeightFamily : std::uint8_t { gpt2, llama, mistral, mixtral, qwen2, qwen3, qwen3_moe, olmo2 };
template <> struct Spelling<WeightFamily> {
    static constexpr const char* all[] = {"gpt2", "llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "olmo2"};
};

// The names of a model; nothing, and the reasons, where no family is like it.
std::optional<WeightFamily> weight_family(const Model& model, std::vector<std::string>& why_not);

// A tensor of a plan is made of rows of one or more tensors of the file. Vectors have rows of one element.
struct Counterpart {
    struct Source {
        std::string name;
        std::vector<std::int64_t> shape;
    };
    struct Row {
        std::size_t source = 0;
        std::int64_t row = 0;
    };
    std::vector<Source> sources;
    std::int64_t rows = 0, columns = 1; // of the plan's tensor, rows that pad a vocabulary left out
    bool transposed = false;            // the file has a row as a column
    std::function<Row(std::int64_t row)> place;
};

// By the plan's name of the tensor ("l3.qkv.weight"); nothing: files have no such tensor (adapters).
std::optional<Counterpart> counterpart(const Model& model, WeightFamily family, const std::string& tensor);

// Other tensors that such files may have, and nobody needs: buffers of masks and frequencies, a head that is the embedding.
bool is_idle(const Model& model, const std::string& name);

// Names without this beginning, as models without a head have them, are read too.
const char* prefix_of(WeightFamily family);

} // namespace orrery
