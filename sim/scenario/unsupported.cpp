// Features that parse and are checked, but have no lowering yet. A line goes when its pass comes.
#include "sim/scenario/documents.hpp"
#include "sim/scenario/fields.hpp"
#include "sim/scenario/parse.hpp"

namespace orrery {
std::vector<Problem> unsupported(const Scenario& scenario) {
    std::vector<Problem> problems;
    const Strategy& s = scenario.strategy;
    const auto refuse = [&](bool asked, const char* pointer, const std::string& what, const std::string& instead = "") {
        if (asked) problems.push_back({pointer, what + " is not modelled yet" + (instead.empty() ? "" : ": " + instead)});
    };
    refuse(scenario.model.moe && s.tensor_parallel > 1 && !s.sequence_parallel, "/strategy/sequence_parallel",
           "a mixture of experts under tensor parallelism without strategy.sequence_parallel (Megatron refuses it too: each rank routes "
           "tokens of its own)");
    refuse(scenario.model.moe && scenario.model.bias && s.expert_tensor_parallel > 1, "/strategy/expert_tensor_parallel",
           "strategy.expert_tensor_parallel with biases (each rank would add an expert's bias to its own summand; model.bias = false has "
           "none)");
    refuse(s.tensor_parallel > 1 && scenario.model.attention.qk_norm && scenario.model.attention.qk_norm_across,
           "/strategy/tensor_parallel",
           "model.attention.qk_norm_across under tensor parallelism (each rank has some of the heads, and the norm's sums go over all)",
           "tensor_parallel = 1");
    refuse(scenario.model.logit_cap > 0 && scenario.runtime.loss == LossKind::chunked, "/runtime/loss",
           "model.logit_cap in a loss by chunks", "runtime.loss = whole");
    refuse(s.context_parallel > 1 && scenario.runtime.attention_kernel == AttentionKernel::unfused, "/runtime/attention_kernel",
           "runtime.attention_kernel = unfused with context parallelism (nothing merges its parts)");
    refuse(s.context_parallel > 1 && s.context_parallel_kind == ContextKind::ring && scenario.model.attention.full_every > 0,
           "/model/attention/full_every",
           "model.attention.full_every under ring attention (a ring places tokens for windows or for whole rows; allgather and ulysses do "
           "not mind)");
    refuse(deals_documents(scenario) && s.context_parallel_kind == ContextKind::ring && scenario.model.attention.sliding_window > 0,
           "/training/document_tokens",
           "training.document_tokens with model.attention.sliding_window under ring attention (a ring places tokens for windows or for "
           "documents; allgather and ulysses do not mind)");
    const GradientCompression sent = s.gradient_compression;
    refuse(of_signs(sent) && s.zero_stage > 0, "/strategy/gradient_compression",
           std::string("strategy.gradient_compression = ") + name(sent) + " with strategy.zero_stage = " + std::to_string(s.zero_stage) +
               " (DeepSpeed's engine refuses it too: its 1-bit optimizers have the momentum whole on every rank)",
           "all other kinds go with ZeRO; zero_stage = 0 has these too");
    return problems;
}

std::vector<std::string> offered_choices(const Field& field) {
    const auto* slot = std::get_if<ChoiceSlot>(&field.slot);
    if (!slot) return field.choices;
    std::vector<std::string> offered;
    for (std::size_t i = 0; i < field.choices.size(); ++i) {
        Scenario scenario;
        scenario.model.moe.emplace();
        (*slot)(scenario, static_cast<int>(i));
        if (unsupported(scenario).empty()) offered.push_back(field.choices[i]);
    }
    return offered;
}

} // namespace orrery
