// Each framework's behaviour when nobody says otherwise, by year of its release: the table after every default.
#pragma once

#include "sim/scenario/scenario.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

struct FrameworkInfo {
    const char* name;
    const char* title;
    const char* summary;
};
std::span<const FrameworkInfo> frameworks(); // in the order of the enum

// A row of the table: from `year` on, `field` ("strategy.overlap.pipeline") is `value` (JSON) because of `source`. A later row of the same
// field wins. architecture: only on devices of that one ("" any).
struct FrameworkDefault {
    const char* framework;
    int year;
    const char* architecture;
    const char* field;
    const char* value;
    const char* source;
};
std::span<const FrameworkDefault> framework_defaults();

// The rows that hold for this framework, year and device, one a field, the framework's own before the general ones ("*").
std::vector<FrameworkDefault> defaults_of(Framework framework, int year, std::string_view architecture);

// Whether it has a build for TPUs: XLA's own, and what PyTorch/XLA carries.
bool runs_on_tpus(Framework framework);

// Whether its layers, losses and optimizers are Megatron-Core's: framework megatron, and nemo, whose recipes run on it.
bool megatron_core(Framework framework);

} // namespace orrery
