// Fields that a prediction gets surer by when a scenario states them.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace orrery {

struct Scenario;

// JSON pointers. Left to its default, the first makes times of attention less sure, the second those of the whole step. Others (fused
// kernels, launch_us, overlaps) were tried: predictions of runs whose sources do not state them are not further off.
inline constexpr std::array<const char*, 2> open_fields{"/runtime/attention_kernel", "/runtime/year"};

using OpenFields = std::array<bool, open_fields.size()>; // true: left open
// assumed: fields that a scenario states, but the source of a measured run did not ("runtime.year", or its last part alone).
OpenFields open_fields_of(const Scenario& scenario, std::span<const std::string> assumed = {});

} // namespace orrery
