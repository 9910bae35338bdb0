// Abilities of software: the schedules, dispatchers, kinds of context parallelism and ZeRO stages that a scenario's framework can be told
// to use. The checker does not ask (a scenario may ask what a schedule would bring); the search for a strategy does.
#pragma once

#include "sim/scenario/scenario.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace orrery {

struct Abilities {
    bool all = true;                                   // the scenario names no framework: whatever is known here
    std::string_view schedules, dispatchers, contexts; // names, each between blanks: " none 1f1b "; a context degree of 1 needs no kind
    // The states that can leave the devices, each with those before it: optimizer, gradients, parameters; beside them activations, and
    // disk: what leaves may lie on NVMe.
    std::string_view homes;
    // The payloads of data-parallel gradients, as strategy.gradient_compression.kind names them.
    std::string_view compressions;
    std::string_view stages, piped_stages; // strategy.zero_stage of several replicas: without a pipeline, and with one

    bool has_schedule(std::string_view name) const { return has(schedules, name); }
    bool has(TokenDispatcher kind) const { return has(dispatchers, name(kind)); }
    bool has(ContextKind kind) const { return has(contexts, name(kind)); }
    bool has_home(std::string_view what) const { return has(homes, what); }
    bool has(GradientCompression kind) const { return has(compressions, name(kind)); }
    bool has_stage(int zero_stage, bool piped) const { return has(piped ? piped_stages : stages, std::to_string(zero_stage)); }
    bool has_context() const { return all || !contexts.empty(); }
    // Not those that train with stale weights, which is another training.
    std::vector<std::string> all_schedules() const;
    std::vector<GradientCompression> all_compressions() const; // but none

  private:
    bool has(std::string_view list, std::string_view word) const;
};

// Those of the framework that the scenario's text names.
Abilities abilities_of(const Scenario& scenario);

// A space of schedules for a scenario (JSON) whose own schedule is none of its framework's: these and its own; empty: it is one of them.
std::string schedules_beside_own(const std::string& text);

// Whether a search should try this dispatcher on the scenario's devices. Megatron-Core's two libraries are for unlike machines: DeepEP for
// Ampere, Hopper, B200 and B300, HybridEP for these and for GB200 and GB300 (Megatron-Bridge's flex_dispatcher_backend.py of 2026, which
// falls back to all-to-all elsewhere). Where no NVLink domain spans nodes, recipes have DeepEP: there HybridEP is tried only in the place
// of one that cannot be.
bool may_dispatch(const Scenario& scenario, TokenDispatcher kind);

// Asynchronous tensor parallelism is a pass of torch.compile's: torchtitan refuses it where it does not compile ("Async TP requires 'model'
// in --compile.components and --compile.enable", CompileConfig of 0.3.0; maybe_enable_async_tp of 0.2.0). The checker asks this too.
bool may_overlap_tensor_parallel(const Scenario& scenario);

} // namespace orrery
