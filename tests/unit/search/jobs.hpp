// Jobs that several tests of the search look for strategies of, and the text of what is found.
#pragma once

#include "sim/search/print.hpp"

#include <regex>
#include <string>

namespace orrery {

// A small model on a node, with most of its strategy free.
inline constexpr const char* dense = R"({"model": {"name": "small", "layers": 4, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4,
    "vocab_size": 32000, "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
    "cluster": {"preset": "dgx-h100", "nodes": 1}, "training": {"global_batch_size": 8, "sequence_length": 2048, "precision": "bf16"},
    "strategy": {"framework": "megatron", "context_parallel": 1, "rank_order": "tp-cp-ep-dp-pp", "shard_group_size": 0}})";

// Without the breaks of its lines and what they are indented by.
inline std::string one_line(const SearchResult& result, const SearchOptions& options) {
    return std::regex_replace(to_text(result, options, {}), std::regex("\n +"), " ");
}

} // namespace orrery
