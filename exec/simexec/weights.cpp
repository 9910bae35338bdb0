#include "exec/simexec/weights.hpp"

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/weights/config.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace orrery::simexec {

namespace fs = std::filesystem;

std::string check_weights(const Scenario& scenario, RunOptions& how) {
    if (how.weights.empty() && how.export_weights.empty()) return "";
    if (const std::string why = why_no_weights(scenario, {!how.weights.empty(), !how.export_weights.empty()}); !why.empty()) return why;
    if (how.weights.empty()) return "";
    const fs::path folder = fs::is_directory(how.weights) ? fs::path(how.weights) : fs::path(how.weights).parent_path();
    if (fs::exists(folder / "config.json"))
        if (const auto lines = mismatches(folder / "config.json", scenario.model); !lines.empty())
            return fmt::format("{}", fmt::join(lines, "\n"));
    how.weights_are = static_cast<std::int64_t>(SafeTensors(how.weights).fingerprint());
    return "";
}

void write_weights(const World& world, const RunOptions& how, const Others* others) {
    const bool narrow = how.export_bf16 || (!how.export_fp32 && world.scenario.training.precision == DType::bf16);
    try {
        export_weights(world, how.export_weights, narrow ? WeightType::bf16 : WeightType::f32, others ? others->rank : 0, [&](bool failed) {
            return others ? others->first(failed) : failed ? 0 : -1;
        });
    } catch (const Unwritten& e) {
        if (!others) throw;
        say_once(*others, !dynamic_cast<const UnwrittenElsewhere*>(&e), e.what());
        throw UnwrittenElsewhere(e.what());
    }
}

} // namespace orrery::simexec
