// Edit distance by the usual table (Damerau's variant with swaps of neighbours), and small list texts.
#include "sim/scenario/suggest.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <numeric>

namespace orrery {
namespace {

char folded(char c) {
    if (c == '_' || c == ' ') return '-';
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

std::string folded(std::string_view word) {
    std::string text;
    for (const char c : word) text += folded(c);
    return text;
}

// The names other tools and people use: Megatron-LM's arguments, torchtitan's and DeepSpeed's keys, the usual abbreviations.
constexpr std::pair<std::string_view, std::string_view> short_name_table[] = {
    {"tp", "strategy.tensor_parallel"},
    {"tensor_model_parallel_size", "strategy.tensor_parallel"},
    {"pp", "strategy.pipeline_parallel"},
    {"pipeline_model_parallel_size", "strategy.pipeline_parallel"},
    {"vp", "strategy.virtual_pipeline"},
    {"vpp", "strategy.virtual_pipeline"},
    {"dp", "strategy.data_parallel"},
    {"cp", "strategy.context_parallel"},
    {"ep", "strategy.expert_parallel"},
    {"etp", "strategy.expert_tensor_parallel"},
    {"sp", "strategy.sequence_parallel"},
    {"zero", "strategy.zero_stage"},
    {"hsdp", "strategy.shard_group_size"},
    {"activation_checkpointing", "strategy.recompute"},
    {"seq_len", "training.sequence_length"},
    {"seq_length", "training.sequence_length"},
    {"seqlen", "training.sequence_length"},
    {"context_length", "training.sequence_length"},
    {"max_seq_len", "training.sequence_length"},
    {"batch_size", "training.global_batch_size"},
    {"batch", "training.global_batch_size"},
    {"gbs", "training.global_batch_size"},
    {"mbs", "training.micro_batch_size"},
    {"microbatch", "training.micro_batch_size"},
    {"tokens", "training.global_batch_size"},
    {"lr", "training.learning_rate"},
    {"dtype", "training.precision"},
    {"gpus", "cluster.nodes"},
    {"num_gpus", "cluster.nodes"},
    {"num_nodes", "cluster.nodes"},
    {"nnodes", "cluster.nodes"},
    {"gpus_per_node", "cluster.devices_per_node"},
    {"nproc_per_node", "cluster.devices_per_node"},
    {"gpu", "cluster.device"},
    {"tp_size", "strategy.tensor_parallel"},
    {"tensor_parallel_size", "strategy.tensor_parallel"},
    {"tensor_parallel_degree", "strategy.tensor_parallel"},
    {"pp_size", "strategy.pipeline_parallel"},
    {"pipeline_parallel_size", "strategy.pipeline_parallel"},
    {"pipeline_parallel_degree", "strategy.pipeline_parallel"},
    {"virtual_pipeline_parallel", "strategy.virtual_pipeline"},
    {"virtual_pipeline_parallel_size", "strategy.virtual_pipeline"},
    {"virtual_pipeline_model_parallel_size", "strategy.virtual_pipeline"},
    {"dp_size", "strategy.data_parallel"},
    {"data_parallel_size", "strategy.data_parallel"},
    {"data_parallel_shard_degree", "strategy.data_parallel"},
    {"data_parallel_replicate_degree", "strategy.shard_group_size"},
    {"cp_size", "strategy.context_parallel"},
    {"context_parallel_size", "strategy.context_parallel"},
    {"context_parallel_degree", "strategy.context_parallel"},
    {"ep_size", "strategy.expert_parallel"},
    {"expert_parallel_size", "strategy.expert_parallel"},
    {"expert_model_parallel_size", "strategy.expert_parallel"},
    {"expert_parallel_degree", "strategy.expert_parallel"},
    {"gradient_checkpointing", "strategy.recompute"},
    {"recompute_granularity", "strategy.recompute"},
    {"gradient_accumulation_steps", "training.global_batch_size"},
    {"per_device_train_batch_size", "training.micro_batch_size"},
    {"train_micro_batch_size_per_gpu", "training.micro_batch_size"},
    {"num_layers", "model.layers"},
    {"num_hidden_layers", "model.layers"},
    {"n_layers", "model.layers"},
    {"n_layer", "model.layers"},
    {"d_model", "model.hidden_size"},
    {"n_embd", "model.hidden_size"},
    {"num_attention_heads", "model.attention_heads"},
    {"num_heads", "model.attention_heads"},
    {"n_heads", "model.attention_heads"},
    {"n_head", "model.attention_heads"},
    {"num_key_value_heads", "model.kv_heads"},
    {"num_query_groups", "model.kv_heads"},
    {"n_kv_heads", "model.kv_heads"},
    {"intermediate_size", "model.ffn_size"},
    {"ffn_hidden_size", "model.ffn_size"},
    {"num_experts", "model.moe.experts"},
    {"num_local_experts", "model.moe.experts"},
    {"num_experts_per_tok", "model.moe.top_k"},
    {"moe_router_topk", "model.moe.top_k"},
};

} // namespace

int edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
    for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = static_cast<int>(i);
    for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = static_cast<int>(j);
    for (std::size_t i = 1; i <= a.size(); ++i) {
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const char x = folded(a[i - 1]), y = folded(b[j - 1]);
            d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (x != y)});
            if (i > 1 && j > 1 && x == folded(b[j - 2]) && folded(a[i - 2]) == y) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[a.size()][b.size()];
}

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known) {
    std::optional<std::string> best;
    int least = 0;
    for (const std::string& candidate : known) {
        int distance = edit_distance(word, candidate);
        const bool begins = word.size() >= 3 && (candidate.starts_with(word) || (candidate.size() >= 3 && word.starts_with(candidate)));
        const int allowed = std::max<int>(1, static_cast<int>(std::max(word.size(), candidate.size())) / 3);
        if (begins) distance = std::min(distance, allowed);
        if (distance <= allowed && (!best || distance < least)) best = candidate, least = distance;
    }
    return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
    constexpr std::size_t most = 4;
    std::vector<std::string> meant;
    if (const auto near = nearest(word, known)) meant.push_back(*near);
    if (meant.empty() && word.size() >= 2)
        for (const std::string& candidate : known)
            if (folded(candidate).find(folded(word)) != std::string::npos && meant.size() < most) meant.push_back(candidate);
    std::string text;
    for (std::size_t i = 0; i < meant.size(); ++i) text += (i == 0 ? "" : i + 1 == meant.size() ? " or " : ", ") + ('"' + meant[i] + '"');
    return text.empty() ? "" : ": did you mean " + text + "?";
}

std::vector<std::pair<std::string_view, std::string_view>> short_names() {
    return {std::begin(short_name_table), std::end(short_name_table)};
}

std::string_view field_of_short_name(std::string_view word) {
    const std::string wanted = folded(word);
    for (const auto& [name, field] : short_name_table)
        if (folded(name) == wanted) return field;
    return {};
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
    std::string text;
    for (const std::string& word : words) {
        if (!text.empty()) text += separator;
        text += word;
    }
    return text;
}

std::vector<std::int64_t> common_divisors(std::int64_t a, std::int64_t b, std::size_t count) {
    const std::int64_t g = std::gcd(a, b);
    std::vector<std::int64_t> low, high;
    for (std::int64_t d = 1; d * d <= g; ++d) {
        if (g % d != 0) continue;
        low.push_back(d);
        if (d * d != g) high.push_back(g / d);
    }
    low.insert(low.end(), high.rbegin(), high.rend());
    if (low.size() > count) low.resize(count);
    return low;
}

std::string join(const std::vector<std::int64_t>& numbers) {
    std::string text;
    for (const std::int64_t n : numbers) text += (text.empty() ? "" : ", ") + std::to_string(n);
    return text;
}

} // namespace orrery
