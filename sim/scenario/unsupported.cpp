// Features that parse and are checked, but have no lowering yet. A line goes when its pass comes.
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
    refuse(s.context_parallel > 1 && scenario.runtime.attention_kernel == AttentionKernel::unfused, "/runtime/attention_kernel",
           "runtime.attention_kernel = unfused with context parallelism (nothing merges its parts)");
    refuse(s.context_parallel > 1 && s.context_parallel_kind == ContextKind::ring && scenario.model.attention.full_every > 0,
           "/model/attention/full_every",
           "model.attention.full_every under ring attention (a ring places tokens for windows or for whole rows; allgather and ulysses do "
           "not mind)");
    for (const auto& [key, tier] : {std::pair{"optimizer", s.offload.optimizer},
                                    {"parameters", s.offload.parameters},
                                    {"gradients", s.offload.gradients},
                                    {"activations", s.offload.activations}}) {
        const std::string field = std::string("offload/") + key;
        refuse(tier != Tier::none, ("/strategy/" + field).c_str(),
               std::string("strategy.offload.") + key + " = " + (tier == Tier::cpu ? "cpu" : "nvme"),
               key == std::string("activations") ? "recompute = full keeps the fewest of them on the device"
                                                 : "zero_stage = 1, 2, 3 divide them among the devices; none keeps all on each");
    }
    refuse(s.gradient_compression != GradientCompression::none, "/strategy/gradient_compression",
           std::string("strategy.gradient_compression = ") + name(s.gradient_compression),
           "training.gradient_dtype = bf16 halves what is reduced");
    return problems;
}

} // namespace orrery
