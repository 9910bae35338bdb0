#include "sim/cost/calibration_ranges.hpp"

#include "sim/scenario/practice.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

namespace orrery {
namespace {

using Json = nlohmann::json;

constexpr double share = 1.5; // of a datasheet's peak: fits may pass it, none by half

constexpr ConstantRange ranges[] = {
    {"gemm", "t0_us", 0, 1e4},
    {"gemm", "tile_us", 0, 1e4},
    {"gemm", "efficiency", 1e-3, share},
    {"gemm", "feed", 0, 1e4},
    {"gemm", "stream", 1e-3, share},
    {"gemm", "split_us", 0, 1e4},
    {"gemm", "soft_waves", 0, 1},
    {"gemm", "throttle", 0, 10},
    {"gemm", "throttle_us", 1e-3, 1e9},
    {"gemm", "l2_share", 0, 1e3},
    {"gemm", "l2_stream", 1e-3, 1e3},
    {"gemm", "alone", 0, 1},
    {"gemm", "ragged", 0, 1e3},
    {"gemm", "two_scales", 0, 1e3},
    {"gemm", "ceiling", 0, share},
    {"gemm", "pause_us", 0, 1e4},
    {"gemm", "far", 0, 1e3},
    {"gemm", "overlap", 1, 100},
    {"experts", "start_us", 0, 1e6},
    {"experts", "per_expert_us", 0, 1e6},
    {"experts", "copy", 1e-3, 1e3},
    {"experts", "tile_us", 0, 1e4},
    {"experts", "efficiency", 1e-3, share},
    {"experts", "feed", 0, 1e4},
    {"experts", "stream", 1e-3, share},
    {"experts", "soft_waves", 0, 1},
    {"prefill", "start_us", 0, 1e6},
    {"prefill", "pre", 0, 1e3},
    {"prefill", "s0", 0, 1e9},
    {"prefill", "critical", 0, 1e3},
    {"prefill", "soft_waves", 0, 1},
    {"prefill", "rows", 1, 1e6},
    {"prefill", "fall", 0, 10},
    {"prefill", "latent", 0, 1e9},
    {"prefill", "throttle", 0, 10},
    {"prefill", "efficiency", 1e-3, share},
    {"attention", "rate", 1e-3, 1e6},
    {"attention", "s0", 0, 1e9},
    {"attention", "soft_waves", 0, 1},
    {"attention", "rows", 1, 1e6},
    {"attention", "critical", 0, 1e3},
    {"attention", "start_us", 0, 1e6},
    {"attention", "sustained", 1e-3, share},
    {"sustained", "bf16", 1e-3, share},
    {"sustained", "fp8", 1e-3, share},
    {"sustained", "other", 1e-3, share},
    {"sustained", "attention", 1e-3, share},
    {"sustained", "matrix_share", 0, 1},
    {"sustained", "memory_power", 0, 1},
    {"memory", "fused", 1e-3, share},
    {"memory", "kernel_us", 0, 1e4},
    {"unaligned", "batched", 1e-3, 1},
    {"unaligned", "alone", 1e-3, 1},
    {"torch_groups", "speed", 0, 10},
    {"torch_groups", "mxfp8", 0, 10},
    {"torch_groups", "mxfp8_weights", 0, 10},
    {"torch_groups", "scales_ns", 0, 1e6},
    {"torch_groups", "scales_weights_ns", 0, 1e6},
    {"systolic", "array", 1, 1e6},
    {"systolic", "group_rows", 0, 1e6},
    {"systolic", "lanes", 0, 1e6},
    {"systolic", "gather", 1e-3, 10},
    {"reference", "tflops_16", 1e-6, 1e6},
};

[[noreturn]] void refuse(const std::string& at, const Json& value, const std::string& expected) {
    std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() > 40) text = text.substr(0, 37) + "...";
    throw std::runtime_error(at + " = " + text + " must be " + expected);
}

void check(const char* group, const std::string& key, const Json& value, const std::string& at) {
    const auto r = std::find_if(std::begin(ranges), std::end(ranges),
                                [&](const ConstantRange& c) { return std::strcmp(c.group, group) == 0 && key == c.key; });
    if (r == std::end(ranges)) return; // what nothing reads
    if (!value.is_number() || !(value.get<double>() >= r->least && value.get<double>() <= r->most))
        refuse(at, value, fmt::format("a number from {:g} to {:g}", r->least, r->most));
}

const Json& object(const Json& value, const std::string& at) {
    if (!value.is_object()) refuse(at, value, "an object");
    return value;
}

void check_flat(const char* group, const Json& values, const std::string& at) {
    for (const auto& [key, value] : object(values, at).items()) check(group, key, value, at + "." + key);
}

void check_dimension(const std::string& dim, const std::string& at) {
    const bool digits = !dim.empty() && dim.size() < 6 && dim.find_first_not_of("0123456789") == std::string::npos && dim != "0";
    if (!digits) throw std::runtime_error(at + ": \"" + dim + "\" is no head dimension: a whole number as \"128\"");
}

void check_prefill(const Json& kinds) {
    for (const auto& [kind, values] : object(kinds, "prefill").items()) {
        const std::string at = "prefill." + kind;
        for (const auto& [key, value] : object(values, at).items()) {
            if (key != "efficiency") {
                check("prefill", key, value, at + "." + key);
                continue;
            }
            for (const auto& [dim, share_of_peak] : object(value, at + ".efficiency").items()) {
                check_dimension(dim, at + ".efficiency");
                check("prefill", "efficiency", share_of_peak, at + ".efficiency." + dim);
            }
        }
    }
}

void check_series(const Json& series, const std::string& at) {
    if (object(series, at).empty()) refuse(at, series, "an object of [TFLOP/s, half length] by head dimension");
    for (const auto& [dim, pair] : series.items()) {
        check_dimension(dim, at);
        if (!pair.is_array() || pair.size() != 2) refuse(at + "." + dim, pair, "a pair [TFLOP/s, half length]");
        check("attention", "rate", pair[0], at + "." + dim + "[0]");
        check("attention", "s0", pair[1], at + "." + dim + "[1]");
    }
}

void check_attention(const Json& kernels) {
    static const std::array<std::string, 5> known{"flash-1", "flash-2", "flash-3", "cudnn", "flex"};
    for (const auto& [kernel, values] : object(kernels, "attention").items()) {
        const std::string at = "attention." + kernel;
        if (kernel == "waves") {
            check_flat("attention", values, at);
            continue;
        }
        const std::size_t sign = kernel.find('@');
        if (std::find(known.begin(), known.end(), kernel.substr(0, sign)) == known.end() ||
            (sign != std::string::npos && !named<KernelRelease>(kernel.substr(sign + 1))))
            throw std::runtime_error(at + " is no attention kernel: flash-1, flash-2, flash-3, cudnn or flex, alone or with @ and a "
                                          "release that compiled-in calibration files name, as in cudnn@cudnn-9.19");
        if (object(values, at).contains("sustained")) check("attention", "sustained", values["sustained"], at + ".sustained");
        for (const char* direction : {"forward", "backward"}) {
            if (!object(values, at).contains(direction)) throw std::runtime_error(at + " lacks \"" + direction + "\"");
            for (const char* mask : {"causal", "full"}) {
                const std::string here = at + "." + direction;
                if (!object(values[direction], here).contains(mask)) throw std::runtime_error(here + " lacks \"" + mask + "\"");
                check_series(values[direction][mask], here + "." + mask);
            }
        }
    }
}

} // namespace

std::span<const ConstantRange> constant_ranges() { return ranges; }

void check_constants(const Json& file) {
    for (const char* group : {"gemm", "experts"})
        if (file.contains(group))
            for (const auto& [dtype, values] : object(file[group], group).items())
                check_flat(group, values, std::string(group) + "." + dtype);
    if (file.contains("prefill")) check_prefill(file["prefill"]);
    if (file.contains("attention")) check_attention(file["attention"]);
    for (const char* group : {"sustained", "memory", "unaligned", "torch_groups", "systolic", "reference"})
        if (file.contains(group)) check_flat(group, file[group], group);
    if (file.contains("sustained") && file["sustained"].value("matrix_share", 0.0) > 0 && !file["sustained"].contains("memory_power"))
        refuse("sustained.matrix_share", file["sustained"]["matrix_share"],
               "with sustained.memory_power, the share of the power limit that other kernels draw");
}

} // namespace orrery
