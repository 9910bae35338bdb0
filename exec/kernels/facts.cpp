#include "exec/kernels/facts.hpp"

#include "sim/plan/context.hpp"
#include "sim/scenario/documents.hpp"

namespace orrery {
namespace {

// PyTorch's defaults (torch.optim), and those of the LAMB (arXiv:1904.00962) and LARS (arXiv:1708.03888) papers.
OptimizerFacts optimizer_facts(const Training& t) {
    OptimizerFacts o;
    const bool gradient_descent = t.optimizer == Optimizer::sgd || t.optimizer == Optimizer::momentum || t.optimizer == Optimizer::lars;
    o.learning_rate = t.learning_rate > 0 ? t.learning_rate : gradient_descent ? 1e-2 : 1e-3;
    o.decoupled = t.optimizer == Optimizer::adamw;
    if (t.optimizer == Optimizer::adamw || t.optimizer == Optimizer::lamb) o.weight_decay = 1e-2;
    if (t.optimizer == Optimizer::lars) o.weight_decay = 1e-4;
    if (t.optimizer == Optimizer::lamb) o.epsilon = 1e-6;
    o.warmup_steps = t.warmup_steps;
    o.clip = t.gradient_clipping;
    return o;
}

} // namespace

KernelFacts facts_of(const Scenario& s) {
    const Model& m = s.model;
    KernelFacts f;
    f.micro_batch = s.training.micro_batch_size;
    f.sequence = s.training.sequence_length;
    f.workers = s.strategy.worker_count();
    f.sequence_parts = static_cast<std::int64_t>(s.strategy.tensor_parallel) * s.strategy.context_parallel;
    f.loss_tokens = s.training.global_batch_size * s.training.sequence_length / f.workers;
    f.replicas = s.strategy.data_parallel * s.strategy.context_parallel;
    if (s.strategy.sends_signs()) f.frozen_from = s.strategy.compression.start_step;
    f.local_steps = s.strategy.compression.local_steps;
    const Synchronization& meeting = s.strategy.synchronization;
    f.outer_learning_rate = meeting.outer_optimizer == OuterOptimizer::none ? 1 : meeting.outer_learning_rate;
    if (s.strategy.streaming() && meeting.overlap_steps > 0) f.mixing = meeting.mixing;
    f.outer_momentum = s.strategy.synchronization.outer_momentum;
    f.context_ranks = s.strategy.context_parallel;
    f.context_contiguous =
        context_is_contiguous(m.attention.sliding_window, f.sequence / f.context_ranks, f.context_ranks, s.strategy.context_parallel_kind);
    if (packs_documents(s)) f.document = documents_of(s).tokens;
    f.deals_documents = deals_documents(s);
    f.layers = m.layers;
    f.heads = m.attention_heads;
    f.kv_heads = m.kv_heads;
    f.hidden = m.hidden_size;
    f.vocabulary = m.vocab_size;
    f.causal = m.attention.causal;
    f.alibi = m.position == PositionKind::alibi;
    f.gated = m.gated();
    f.window = m.attention.sliding_window;
    f.full_every = m.attention.full_every;
    f.qk_dim = f.v_dim = m.head_dim;
    f.rope_dim = static_cast<std::int64_t>(m.head_dim * m.rope_fraction) / 2 * 2; // pairs are turned
    if (m.attention.kind == AttentionSpec::Kind::mla) {
        f.qk_dim = m.attention.qk_nope_head_dim + m.attention.qk_rope_head_dim;
        f.v_dim = m.attention.v_head_dim;
        f.rope_dim = m.attention.qk_rope_head_dim;
        f.kv_heads = f.heads;
    }
    f.adapter_scale = m.trainable.alpha / m.trainable.rank;
    f.rope_scale = m.rope_scale;
    f.rope_base = m.rope_base;
    f.norm_epsilon = m.norm_epsilon;
    f.embedding_scale = m.embedding_scale;
    f.score_cap = m.attention.score_cap;
    f.activation_clamp = m.activation_clamp;
    f.dropout = m.dropout;
    f.mtp_layers = m.mtp_layers;
    if (m.moe) f.moe = *m.moe;
    f.optimizer = optimizer_facts(s.training);
    f.seed = s.training.seed;
    return f;
}

} // namespace orrery
