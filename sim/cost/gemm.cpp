// The tile law of gemm.hpp.
#include "sim/cost/gemm.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace orrery {
namespace {

struct Tile {
    double m, n;
    double processors = 1; // that share one
};

constexpr Tile wide_tiles[] = {{256, 128}, {128, 256}, {128, 128}, {64, 256}, {256, 64}, {128, 64}, {64, 128}, {64, 64}};
constexpr Tile pair_tiles[] = {{256, 256, 2}, {256, 224, 2}, {224, 256, 2}, {256, 192, 2}, {192, 256, 2},
                               {256, 160, 2}, {160, 256, 2}, {256, 128, 2}, {128, 256, 2}, {256, 96, 2},
                               {96, 256, 2},  {256, 64, 2},  {64, 256, 2},  {256, 32, 2},  {32, 256, 2}};
constexpr Tile block_tiles[] = {{128, 128}, {64, 128}, {128, 64}, {64, 64}, {128, 32}, {64, 32}};
constexpr Tile column_tiles[] = {{128, 16}, {128, 24}, {128, 32}, {128, 40},  {128, 48},  {128, 56},  {128, 64}, {128, 72},
                                 {128, 80}, {128, 88}, {128, 96}, {128, 104}, {128, 112}, {128, 120}, {128, 128}};
constexpr int splits[] = {1, 2, 3, 4, 6, 8, 12, 16};

// (a^p + b^p)^(1/p), as the larger times a factor near one: large times to the eighth power would overflow.
double join(double a, double b, double p) {
    const double hi = std::max(a, b), lo = std::min(a, b);
    return hi <= 0 ? 0 : hi * std::pow(1 + std::pow(lo / hi, p), 1 / p);
}

double join8(double a, double b) {
    const double hi = std::max(a, b), lo = std::min(a, b);
    if (hi <= 0) return 0;
    double r = lo / hi;
    r *= r;
    r *= r;
    r *= r;
    return hi * std::sqrt(std::sqrt(std::sqrt(1 + r)));
}

// The share of each operand that comes from HBM; the rest is in the cache. The tables' benchmark repeats one product with copies of its
// weights in turn, as many as fill the cache but five at most (aiconfigurator's collect_gemm.py): rows and what is written stay in the
// cache where they fit, weights where all copies do.
struct Memory {
    double us = 0, rows_missed = 1, weights_missed = 1;
};
Memory memory_of(const GemmTable& t, const GemmDevice& d, const GemmProblem& p, double feed) {
    const double rows = p.batch * p.in_bytes * p.m * p.k, weights = p.batch * p.in_bytes * p.n * p.k,
                 out = p.batch * p.out_bytes * p.m * p.n * (p.accumulate ? 2 : 1), volume = rows + weights + out;
    if (d.cold || t.l2_share <= 0) return {volume / (t.stream * d.bandwidth)};
    const double copies = std::min(5.0, std::ceil(d.l2 / weights));
    const auto missed = [&](double footprint) { return 1 / (1 + std::pow(footprint / (t.l2_share * d.l2), -8.0)); };
    const double rows_missed = missed(rows + weights), weights_missed = missed(rows + copies * weights);
    const double miss = rows * rows_missed + weights * weights_missed + out * missed(volume);
    return {miss / (t.stream * d.bandwidth) + (volume - miss) / (t.l2_stream * feed), rows_missed, weights_missed};
}

// Compute time without tiles: padded to the array (systolic) or bare (roofline).
double plain_us(const GemmTable& t, const GemmDevice& d, const GemmProblem& p) {
    auto pad = [&](double x, double to) { return t.menu == TileMenu::systolic ? to * std::ceil(x / to) : x; };
    return 2 * p.batch * pad(p.again.m * p.m, 8) * pad(p.n, d.array) * pad(p.again.k * p.k, d.array) / (t.efficiency * d.peak * d.clock);
}

// Rows that the tiles of all groups have, those without a row of the problem's in them.
double rows_of_tiles(const GemmProblem& p, double height) {
    if (p.rows.empty()) return p.batch * height * std::ceil(p.m / height);
    double sum = 0;
    for (double rows : p.rows) sum += height * std::ceil(rows / height);
    return sum;
}

// DeepGEMM's own choice (get_best_configs): the fewest waves, then the fullest last one, then the narrowest tile; not the shortest time.
std::span<const Tile> chosen_column(const GemmProblem& p, double processors) {
    const Tile* best = nullptr;
    double fewest = 0, fullest = 0;
    for (const Tile& tile : column_tiles) {
        const double count = rows_of_tiles(p, tile.m) / tile.m * std::ceil(p.n / tile.n), waves = std::ceil(count / processors),
                     last = count - (waves - 1) * processors;
        if (best != nullptr && (waves > fewest || (waves == fewest && last <= fullest))) continue;
        best = &tile, fewest = waves, fullest = last;
    }
    return {best, 1};
}

std::span<const Tile> tiles_of(const GemmTable& t, const GemmDevice& d, const GemmProblem& p) {
    if (t.menu == TileMenu::block128) return block_tiles;
    if (t.menu == TileMenu::columns) return chosen_column(p, d.processors);
    if (t.menu == TileMenu::pairs || t.menu == TileMenu::pairs_nosplit) return pair_tiles;
    return wide_tiles;
}

double tiled_us(const GemmTable& t, const GemmDevice& d, const GemmProblem& p, double feed, const Memory& memory) {
    const bool may_split = (t.menu == TileMenu::wide || t.menu == TileMenu::pairs) && p.batch == 1;
    const double overlap = p.accumulate ? std::min(2.0, t.overlap) : t.overlap;
    double best = std::numeric_limits<double>::infinity();
    for (const Tile& tile : tiles_of(t, d, p)) {
        const double tall = rows_of_tiles(p, tile.m), whole = tall / tile.m * std::ceil(p.n / tile.n);
        const bool two_scales = t.menu == TileMenu::columns && std::fmod(128, tile.n) != 0;
        const double teams = std::floor(d.processors / tile.processors); // each on a tile of its own
        const double slower = (1 + t.ragged * (tall - p.batch * p.m) / tall) * (two_scales ? 1 + t.two_scales : 1);
        for (int s : splits) {
            if (s > 1 && (!may_split || p.k / s < 256)) break;
            const double k = 64 * std::ceil(p.k / (64.0 * s)), count = whole * s;
            const double mma = 2 * tile.m * tile.n * k * teams / (t.efficiency * d.peak);
            const double fed = std::clamp(count / teams, t.alone, 1.0); // the fewer processors, the more of the cache's rate for each
            const double operands = fed * (tile.m * (1 + t.far * memory.rows_missed) + tile.n * (1 + t.far * memory.weights_missed)) * k *
                                    p.in_bytes * teams / feed;
            const double one = (slower * join8(mma, operands) + t.tile * std::sqrt(tile.m * tile.n / (32768 * tile.processors))) / d.clock;
            const double waves = (1 - t.soft_waves) * std::ceil(count / teams) + t.soft_waves * std::max(1.0, count / teams);
            const double extra = s > 1 ? t.split + 4.0 * s * p.m * p.n / feed : 0;
            if (waves * one + extra >= best) continue; // the join below only adds
            best = std::min(best, join(waves * one, memory.us, overlap) + extra);
        }
    }
    return best;
}

} // namespace

double gemm_us(const GemmTable& table, const GemmDevice& device, const GemmProblem& problem) {
    const double feed = table.feed * device.peak_16 / 200;
    const Memory memory = memory_of(table, device, problem, feed);
    const bool plain = table.menu == TileMenu::systolic || table.menu == TileMenu::roofline;
    double t = plain ? join(plain_us(table, device, problem), memory.us, 3) : tiled_us(table, device, problem, feed, memory);
    const double at_peak = 2 * problem.batch * problem.m * problem.n * problem.k / (device.peak * device.clock);
    if (table.ceiling > 0) t = join8(t, at_peak / table.ceiling * t / (t + table.pause));
    const double busy = table.throttle_busy && !plain ? at_peak / table.efficiency / t : 1;
    t *= 1 + (table.throttle - device.relief) * busy * t / (t + table.throttle_us);
    return table.t0 + t;
}

} // namespace orrery
