// The time of a checkpoint here: written and flushed, and read again, at two sizes: a fixed time and a rate.
#include "exec/calibrate/calibrate.hpp"
#include "exec/checkpoint/checkpoint.hpp"
#include "exec/local/clock.hpp"

#include <algorithm>
#include <vector>

namespace orrery {
namespace {

constexpr std::int64_t small_bytes = 1 << 20, large_bytes = 64 << 20;
constexpr int repeats = 5;

double seconds(std::int64_t begin) { return static_cast<double>(wall_ns() - begin) * 1e-9; }

struct Took {
    double save_s = 0, load_s = 0; // medians
};

Took took(const std::filesystem::path& folder, std::int64_t bytes) {
    const std::vector<std::byte> data(static_cast<std::size_t>(bytes), std::byte{7});
    const std::vector<CheckpointPiece> pieces{whole("parameters/w", {bytes / 4}, DType::fp32, data.data())};
    std::vector<double> saves, loads;
    for (int i = 0; i < repeats; ++i) {
        std::int64_t begin = wall_ns();
        save_checkpoint(folder, {i + 1, 0, {}}, pieces);
        saves.push_back(seconds(begin));
        begin = wall_ns();
        (void)load_checkpoint(folder);
        loads.push_back(seconds(begin));
    }
    std::ranges::sort(saves);
    std::ranges::sort(loads);
    return {saves[repeats / 2], loads[repeats / 2]};
}

} // namespace

SaveFacts measure_saves(const std::filesystem::path& folder) {
    const Took small = took(folder, small_bytes), large = took(folder, large_bytes);
    const double more = static_cast<double>(large_bytes - small_bytes);
    SaveFacts f;
    f.write_gb_per_s = more / std::max(1e-6, large.save_s - small.save_s) * 1e-9;
    f.read_gb_per_s = more / std::max(1e-6, large.load_s - small.load_s) * 1e-9;
    f.save_fixed_s = std::max(0.0, small.save_s - static_cast<double>(small_bytes) / (f.write_gb_per_s * 1e9));
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
    return f;
}

} // namespace orrery
