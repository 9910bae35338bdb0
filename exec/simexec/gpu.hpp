// Shared by check, replay, calibrate and run with --device cuda: ranks on GPUs under the asynchronous executor.
#pragma once

#include "exec/cuda/plugin.hpp"
#include "exec/simexec/command.hpp"
#include "exec/simexec/others.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace orrery::simexec {

// The type that a GPU stores: the plan's, where it trains in bf16 or fp16; else fp32.
DType stored_on_gpu(const Scenario& scenario);

// Host time to issue an op to a GPU, us: measured by `simexec calibrate --device cuda` beside an H200 (Xeon, 2026).
inline constexpr double gpu_issue_us = 6.9;

// Some steps on GPUs after others that warm up, a second at least: a GPU under its power limit has settled on a clock only then.
struct Measured {
    std::vector<OpTime> times;   // of the step with events whose length is the median
    double step_s = 0;           // wall time of a step without events, the median
    std::int64_t used_bytes = 0; // of the first GPU: all that is taken, as its driver counts it
    std::string on;              // "NVIDIA H200, CUDA runtime .."
    std::optional<Others> others{};
};
// delays: of one rank alone, by issue (replay); empty: communication is real. launched: the rank of this process; nothing: all are here.
Measured measure_on_gpu(World& world, const Corpus& corpus, int steps, std::vector<std::int64_t> delays, Progress& progress,
                        const std::optional<LaunchedRank>& launched = std::nullopt);

// The step of median length, of those that every process has recorded: the same one everywhere.
std::size_t middle_step(const std::vector<std::vector<OpTime>>& records, const Others* others);

// The preset of the GPU of that name: "h200-sxm-141gb". Throws std::runtime_error where there is none.
std::string device_preset(const std::string& name);

// A dataset for `simrun validate`: the rows of `so_far`, its text (but for one of this row's name), and one of the scenario's file with its
// overrides and what was measured.
std::string measured_row(const std::string& file, const std::vector<std::string>& overrides, const Measured& measured,
                         const std::optional<std::string>& so_far);

} // namespace orrery::simexec
