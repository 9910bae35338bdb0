// Abilities of software: the schedules, dispatchers, kinds of context parallelism and ZeRO stages that a scenario's framework can be told
// to use. The checker does not ask (a scenario may ask what a schedule would bring); the search for a strategy does.
#pragma once

#include "sim/scenario/scenario.hpp"

#include <string>
#include <string_view>

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

  private:
    bool has(std::string_view list, std::string_view word) const;
};

// Those of the framework that the scenario's text names.
Abilities abilities_of(const Scenario& scenario);

} // namespace orrery
