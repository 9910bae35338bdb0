// The time of a checkpoint here, written and flushed, at two sizes: a fixed time and a rate.
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

// Median.
double save_s(const std::filesystem::path& folder, std::int64_t bytes) {
    const std::vector<std::byte> data(static_cast<std::size_t>(bytes), std::byte{7});
    const std::vector<CheckpointPiece> pieces{whole("parameters/w", {bytes / 4}, DType::fp32, data.data())};
    std::vector<double> saves;
    for (int i = 0; i < repeats; ++i) {
        const std::int64_t begin = wall_ns();
        save_checkpoint(folder, {i + 1, 0, {}}, pieces);
        saves.push_back(seconds(begin));
    }
    std::ranges::sort(saves);
    return saves[repeats / 2];
}

} // namespace

SaveFacts measure_saves(const std::filesystem::path& folder) {
    const double small = save_s(folder, small_bytes), large = save_s(folder, large_bytes);
    const double more = static_cast<double>(large_bytes - small_bytes);
    SaveFacts f;
    f.write_gb_per_s = more / std::max(1e-6, large - small) * 1e-9;
    f.save_fixed_s = std::max(0.0, small - static_cast<double>(small_bytes) / (f.write_gb_per_s * 1e9));
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
    return f;
}

} // namespace orrery
