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

struct ShortName {
    std::string_view name, field, remark = {}; // what is to be known besides, a sentence
};

// The names other tools and people use: Megatron-LM's arguments, torchtitan's and DeepSpeed's keys, those of launch files (axolotl,
// LLaMA-Factory, accelerate), the usual abbreviations.
constexpr ShortName short_name_table[] = {
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
    {"tokens", "training.global_batch_size", "It counts sequences, of training.sequence_length tokens each"},
    {"global_batch_tokens", "training.global_batch_size", "It counts sequences, of training.sequence_length tokens each"},
    {"batch_tokens", "training.global_batch_size", "It counts sequences, of training.sequence_length tokens each"},
    {"lr", "training.learning_rate"},
    {"dtype", "training.precision"},
    {"gpus", "cluster.nodes", "It counts nodes; cluster.devices_per_node says how many devices each has"},
    {"num_gpus", "cluster.nodes", "It counts nodes; cluster.devices_per_node says how many devices each has"},
    {"world_size", "cluster.nodes", "It counts nodes; cluster.devices_per_node says how many devices each has"},
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
    {"cp_comm_type", "strategy.context_parallel_kind"},
    {"hierarchical_context_parallel_sizes", "strategy.context_parallel_kind", "All ranks are of one level here"},
    {"ep_size", "strategy.expert_parallel"},
    {"expert_parallel_size", "strategy.expert_parallel"},
    {"expert_model_parallel_size", "strategy.expert_parallel"},
    {"expert_parallel_degree", "strategy.expert_parallel"},
    {"gradient_checkpointing", "strategy.recompute"},
    {"recompute_granularity", "strategy.recompute"},
    {"gradient_accumulation_steps", "training.global_batch_size",
     "Microbatches are what global_batch_size leaves each replica, by micro_batch_size"},
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
    {"tie_word_embeddings", "model.tied_embeddings"},
    {"share_embeddings_and_output_weights", "model.tied_embeddings"},
    {"lora", "model.trainable.lora.rank", "model.trainable.lora is an object, {\"rank\": 16}"},
    {"lora_r", "model.trainable.lora.rank"},
    {"lora_rank", "model.trainable.lora.rank"},
    {"lora_alpha", "model.trainable.lora.alpha"},
    {"lora_target", "model.trainable.lora.targets"},
    {"lora_target_modules", "model.trainable.lora.targets"},
    {"load_in_4bit", "model.trainable.base_dtype", "true is nf4, with lora"},
    {"mixed_precision", "training.precision"},
    {"grad_reduce_in_fp32", "training.gradient_dtype", "true is fp32, false bf16"},
    {"accumulate_grad_in_fp32", "training.gradient_dtype", "true is fp32, false bf16"},
    {"accumulate_allreduce_grads_in_fp32", "training.gradient_dtype", "true is fp32, false bf16"},
    {"use_precision_aware_optimizer", "training.moment_dtype", "training.master_remainders says what is kept of the masters"},
    {"exp_avg_dtype", "training.moment_dtype"},
    {"store_param_remainders", "training.master_remainders"},
    {"sample_packing", "training.document_tokens", "It is the length of documents in tokens, not a switch"},
    {"packing", "training.document_tokens", "It is the length of documents in tokens, not a switch"},
    {"sharding_strategy", "strategy.zero_stage",
     "FULL_SHARD is 3, SHARD_GRAD_OP 2, NO_SHARD 0; HYBRID_SHARD is 3 with strategy.shard_group_size"},
    {"fsdp_sharding_strategy", "strategy.zero_stage",
     "FULL_SHARD is 3, SHARD_GRAD_OP 2, NO_SHARD 0; HYBRID_SHARD is 3 with strategy.shard_group_size"},
    {"use_distributed_optimizer", "strategy.zero_stage", "true is 1"},
    {"use_megatron_fsdp", "strategy.zero_stage", "true is 3"},
    {"fsdp", "strategy.zero_stage", "It is 3 under framework fsdp and fsdp2; shard_group_size says how many ranks shard"},
    {"zero_optimization", "strategy.zero_stage", "It is a number, the section's key stage"},
    {"sub_group_size", "strategy.offload.sub_group_size"},
    {"reduce_bucket_size", "strategy.bucket_bytes", "It counts bytes, not elements"},
    {"ddp_bucket_cap_mb", "strategy.bucket_bytes", "It counts bytes: 25 MB are 26214400"},
    {"defer_embedding_wgrad_compute", "strategy.deferred_output_gradients", "It counts microbatches, as wgrad_deferral_limit does"},
    {"wgrad_deferral_limit", "strategy.deferred_output_gradients", "0 is none here, not all of them"},
    {"recompute_modules", "strategy.recompute"},
    {"recompute_num_layers", "strategy.recompute_layers"},
    {"torch_compile", "strategy.fused"},
    {"compile", "strategy.fused"},
    {"offload_optimizer", "strategy.offload.optimizer"},
    {"optimizer_cpu_offload", "strategy.offload.optimizer"},
    {"offload_param", "strategy.offload.parameters"},
    {"fsdp_offload_params", "strategy.offload.parameters"},
    {"overlap_grad_reduce", "strategy.overlap.grad_reduce"},
    {"overlap_comm", "strategy.overlap.grad_reduce"},
    {"overlap_param_gather", "strategy.overlap.param_gather"},
    {"tp_comm_overlap", "runtime.tensor_parallel_buffers", "It needs strategy.overlap.tensor_parallel"},
    {"overlap_p2p_comm", "strategy.overlap.pipeline"},
    {"overlap_moe_expert_parallel_comm", "strategy.overlap.expert_parallel"},
    {"moe_shared_expert_overlap", "strategy.overlap.shared_experts"},
    {"moe_token_dispatcher_type", "runtime.token_dispatcher"},
    {"moe_flex_dispatcher_backend", "runtime.token_dispatcher"},
    {"moe_permute_fusion", "runtime.permute_fusion"},
    {"apply_rope_fusion", "runtime.fused_rope"},
    {"cross_entropy_loss_fusion", "runtime.fused_loss"},
    {"gradient_accumulation_fusion", "runtime.fused_weight_gradient_accumulation"},
    {"use_liger_kernel", "runtime.fused_loss", "Liger's kernels are this, runtime.fused_norm, fused_rope and fused_activation"},
    {"flash_attn", "runtime.attention_kernel"},
    {"attn_implementation", "runtime.attention_kernel"},
    {"attn_impl", "runtime.attention_kernel"},
    {"attn_backend", "runtime.attention_kernel"},
    {"use_flex_attn", "runtime.attention_kernel", "It is \"flex\" there"},
    {"fp8_param_gather", "runtime.fp8_parameters"},
    {"enable_cuda_graph", "runtime.cuda_graphs"},
    {"cuda_graph_impl", "runtime.cuda_graphs", "It is true or false"},
    {"mtbf", "run.failures.per_node_day", "It counts failures of one node in a day, 1 over its days between failures"},
    {"mtbf_hours", "run.failures.per_node_day", "It counts failures of one node in a day, 24 over its hours between failures"},
};

// Other tools' words for what a field takes. A tool that is no framework here trains with one that is, with its defaults.
constexpr OtherWord other_word_table[] = {
    {"model.trainable.lora.targets", "q-proj", "\"qkv\""},
    {"model.trainable.lora.targets", "k-proj", "\"qkv\""},
    {"model.trainable.lora.targets", "v-proj", "\"qkv\""},
    {"model.trainable.lora.targets", "o-proj", "\"proj\""},
    {"model.trainable.lora.targets", "gate-proj", "\"fc1\""},
    {"model.trainable.lora.targets", "up-proj", "\"fc1\""},
    {"model.trainable.lora.targets", "down-proj", "\"fc2\""},
    {"model.trainable.lora.targets", "linear-qkv", "\"qkv\""},
    {"model.trainable.lora.targets", "linear-proj", "\"proj\""},
    {"model.trainable.lora.targets", "linear-fc1", "\"fc1\""},
    {"model.trainable.lora.targets", "linear-fc2", "\"fc2\""},
    {"training.precision", "bfloat16", "\"bf16\""},
    {"training.precision", "float16", "\"fp16\""},
    {"training.precision", "half", "\"fp16\""},
    {"training.precision", "float32", "\"fp32\""},
    {"cluster.inter_node.kind", "ib", "\"infiniband\""},
    {"cluster.inter_node.kind", "rocev2", "\"roce\""},
    {"cluster.inter_node.kind", "tcp", "\"ethernet\""},
    {"cluster.inter_node.kind", "ici", "\"torus\""},
    {"strategy.context_parallel_kind", "p2p", "\"ring\""},
    {"strategy.context_parallel_kind", "a2a", "\"ulysses\""},
    {"strategy.context_parallel_kind", "all-gather", "\"allgather\""},
    {"strategy.context_parallel_kind", "a2a+p2p", "\"ulysses\" or \"ring\" of all ranks, as one inside the other is not simulated"},
    {"runtime.attention_kernel", "sdpa", "what PyTorch's scaled_dot_product_attention runs, \"flash-2\" or \"cudnn\""},
    {"runtime.attention_kernel", "fa2", "\"flash-2\""},
    {"runtime.attention_kernel", "fa3", "\"flash-3\""},
    {"strategy.framework", "megatron-bridge", "\"nemo\""},
    {"strategy.framework", "megatron-lm", "\"megatron\""},
    {"strategy.framework", "megatron-core", "\"megatron\""},
    {"strategy.framework", "megatron-swift", "\"megatron\""},
    {"strategy.framework", "megatron-deepspeed", "\"deepspeed\""},
    {"strategy.framework", "gpt-neox", "\"deepspeed\""},
    {"strategy.framework", "llm-foundry", "\"composer\""},
    {"strategy.framework", "mosaicml", "\"composer\""},
    {"strategy.framework", "olmo-core", "\"fsdp2\""},
    {"strategy.framework", "torchtune", "\"fsdp2\""},
    {"strategy.framework", "picotron", "\"ddp\""},
    {"strategy.framework", "unsloth", "\"ddp\""},
    {"strategy.framework", "nanogpt", "\"ddp\""},
    {"strategy.framework", "maxtext", "\"jax\""},
    {"strategy.framework", "xla", "\"jax\""},
    {"strategy.framework", "transformer-engine", "\"te\""},
    {"strategy.framework", "primus", "what it trains with, \"megatron\", \"jax\" or \"torchtitan\""},
    {"strategy.framework", "open-lm", "what it trains with, \"fsdp\" or \"ddp\""},
    {"strategy.framework", "litgpt", "what it trains with, \"fsdp\", \"ddp\" or \"deepspeed\""},
    {"strategy.framework", "lightning", "what it trains with, \"fsdp\", \"ddp\" or \"deepspeed\""},
    {"strategy.framework", "axolotl", "what it trains with, \"fsdp\", \"fsdp2\", \"ddp\" or \"deepspeed\""},
    {"strategy.framework", "trl", "what it trains with, \"fsdp\", \"fsdp2\", \"ddp\" or \"deepspeed\""},
    {"strategy.framework", "accelerate", "what it trains with, \"fsdp\", \"fsdp2\", \"ddp\" or \"deepspeed\""},
    {"strategy.framework", "llama-factory", "what it trains with, \"fsdp\", \"fsdp2\", \"ddp\" or \"deepspeed\""},
    {"strategy.framework", "transformers", "what it trains with, \"fsdp\", \"fsdp2\", \"ddp\" or \"deepspeed\""},
    {"strategy.framework", "huggingface", "what it trains with, \"fsdp\", \"fsdp2\", \"ddp\" or \"deepspeed\""},
    {"strategy.framework", "hf", "what it trains with, \"fsdp\", \"fsdp2\", \"ddp\" or \"deepspeed\""},
    {"strategy.framework", "pytorch", "what of it shards or reduces, \"ddp\", \"fsdp\" or \"fsdp2\""},
    {"training.precision", "fp8-cs", "\"fp8\" with runtime.fp8_recipe = current"},
    {"training.precision", "fp8-ds", "\"fp8\" with runtime.fp8_recipe = delayed"},
    {"training.precision", "fp8-sc", "\"fp8\" with runtime.fp8_recipe = blockwise"},
    {"training.precision", "fp8-mx", "\"mxfp8\""},
    {"runtime.fp8_recipe", "tensorwise", "\"current\""},
    {"runtime.fp8_recipe", "subchannel", "\"blockwise\""},
    {"runtime.attention_kernel", "eager", "\"unfused\""},
    {"runtime.attention_kernel", "flash-attention-2", "\"flash-2\""},
    {"runtime.attention_kernel", "flash-attention-3", "\"flash-3\""},
    {"runtime.attention_kernel", "flex-attention", "\"flex\""},
    {"runtime.token_dispatcher", "flex", "its backend, \"deepep\" or \"hybridep\""},
    {"strategy.recompute", "mla-up-proj", "\"latent\""},
    {"strategy.recompute", "moe-act", "\"activation\""},
    {"strategy.recompute", "layernorm", "\"norm\""},
    {"strategy.recompute", "core-attn", "\"attention\""},
    {"strategy.recompute", "mlp", "\"fc1\", \"activation\" and \"fc2\""},
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
    if (const std::size_t slash = word.rfind('/'); slash != std::string_view::npos) word.remove_prefix(slash + 1); // a hub's owner
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
    std::vector<std::pair<std::string_view, std::string_view>> all;
    for (const ShortName& n : short_name_table) all.emplace_back(n.name, n.field);
    return all;
}

std::string_view field_of_short_name(std::string_view word) {
    const std::string wanted = folded(word);
    for (const ShortName& n : short_name_table)
        if (folded(n.name) == wanted) return n.field;
    return {};
}

std::string_view remark_on_short_name(std::string_view word) {
    const std::string wanted = folded(word);
    for (const ShortName& n : short_name_table)
        if (folded(n.name) == wanted) return n.remark;
    return {};
}

std::span<const OtherWord> other_words() { return other_word_table; }

std::string_view meant_by_other_word(std::string_view field, std::string_view word) {
    const std::string wanted = folded(word);
    for (const OtherWord& o : other_word_table)
        if (o.field == field && o.word == wanted) return o.meant;
    return {};
}

std::string did_you_mean_value(std::string_view field, std::string_view word, const std::vector<std::string>& known) {
    if (const std::string_view meant = meant_by_other_word(field, word); !meant.empty())
        return ": did you mean " + std::string(meant) + "?";
    const auto near = nearest(word, known);
    return near ? ": did you mean \"" + *near + "\"?" : ".";
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
