// Limits of the constants that a calibration file may state. Beyond them a constant is a slip, or would make time run backwards.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <span>
#include <string>

namespace orrery {

// group: gemm and experts (by type), prefill (by kind), attention (waves, and by kernel "rate" and "s0": TFLOP/s of a head dimension and
// the row length at which half of it is lost), sustained, memory, unaligned, systolic, reference.
struct ConstantRange {
    const char *group, *key;
    double least, most;
};
std::span<const ConstantRange> constant_ranges();

// Throws std::runtime_error, which names the constant: no number, beyond its limits, or of an attention kernel, a head dimension or a
// release that are none.
void check_constants(const nlohmann::json& file);

} // namespace orrery
