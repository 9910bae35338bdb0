// Facts of a scenario that kernels need beyond the shapes in the plan's ops: constants of the model and of training.
#pragma once

#include "sim/scenario/scenario.hpp"

#include <cmath>

namespace orrery {

struct OptimizerFacts {
    double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8; // PyTorch's defaults
    double weight_decay = 0;                                                 // adamw, lamb, lars
    bool decoupled = false;                                                  // adamw: decay is not part of the gradient
    double momentum = 0.9;
    double trust = 1e-3; // LARS (You et al., arXiv:1708.03888)
    std::int64_t warmup_steps = 0;
    double clip = 0;         // of the gradient norm; 0: none
    std::int64_t begins = 0; // the first step of a run that has no gradients of the step before (OptimizerStep::delayed)
    bool holds = false;      // a step that changes nothing: weights, masters and moments stay as they are (evaluation)
};

struct KernelFacts {
    // The batch: sequences of a microbatch; tokens of a sequence. A loss is the mean over `loss_tokens`: of a step, of one worker where
    // replicas are workers with parameters of their own.
    std::int64_t micro_batch = 1, sequence = 1, loss_tokens = 1, workers = 1;
    std::int64_t replicas = 1;                          // ranks that have summands of one gradient
    std::int64_t frozen_from = 0, local_steps = 1;      // Adam's second moment stands still from this step on; steps of a worker alone
    double outer_learning_rate = 1, outer_momentum = 0; // of workers' outer optimizer
    double mixing = 1;                                  // of what it leads to, in their parameters
    int context_ranks = 1;
    bool context_contiguous = false; // a context rank holds consecutive tokens; else chunks r and 2c-1-r of 2c
    std::int64_t document = 0;       // tokens of each packed document, which see their own document alone; 0: a sequence is one
    bool deals_documents = false;    // each document is cut into these chunks, not the sequence
    // The model.
    int layers = 1, heads = 1, kv_heads = 1;
    std::int64_t hidden = 1, vocabulary = 1; // the vocabulary as the model has it, without the rows that pad it
    bool causal = true, alibi = false, gated = false;
    int window = 0, full_every = 0; // tokens a token sees, and which layers see all in spite of it
    // Of a head; rope_dim: columns of a query or key that carry the position, the first ones, of latent attention the last.
    std::int64_t qk_dim = 1, v_dim = 1, rope_dim = 1;
    double adapter_scale = 1;                    // of what LoRA's adapters make: alpha / rank
    double rope_scale = 1, activation_clamp = 0; // of cosines and sines; of experts' activations, 0: none
    double rope_base = 10000, norm_epsilon = 1e-5, dropout = 0;
    double embedding_scale = 1, score_cap = 0; // of the rows looked up; of fused attention's scores x: cap tanh(x / cap), 0: none
    double mtp_weight = 0.3;                   // of the further tokens' loss, over their number (DeepSeek-V3, arXiv:2412.19437, 4.2)
    int mtp_layers = 0;
    MoeSpec moe;                     // experts == 0: none
    bool forced_routing = false;     // by position, evenly: token p goes to experts p k + i, i < k (for tests of parity)
    double auxiliary_weight = 1e-2;  // of the load-balancing loss (Switch, arXiv:2101.03961)
    std::int64_t sequence_parts = 1; // ranks that hold parts of a sequence, whose loads that loss sums
    OptimizerFacts optimizer;
    bool deterministic = false; // a GPU's kernels add in one order, which processors always do
    std::uint64_t seed = 0;

    int window_of(int layer) const { return full_every > 0 && (layer + 1) % full_every == 0 ? 0 : window; }
    double attention_scale() const { return 1 / std::sqrt(static_cast<double>(qk_dim)); }
};

KernelFacts facts_of(const Scenario& scenario);

} // namespace orrery
