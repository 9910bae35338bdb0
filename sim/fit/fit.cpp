// Constants from tables (fit.hpp): the tile law's of a GEMM table, rate and start of each attention series.
#include "sim/cost/calibration_ranges.hpp"
#include "sim/fit/experts.hpp"
#include "sim/fit/laws.hpp"
#include "sim/fit/prefill.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <Eigen/Dense>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>

namespace orrery {

namespace {

using OrderedJson = nlohmann::ordered_json;

struct Score {
    std::size_t n = 0;
    double median = 0, mean = 0, bias = 0;
};
Score score(std::vector<double> errors) {
    Score s;
    s.n = errors.size();
    for (double e : errors) s.mean += std::abs(e) / double(s.n), s.bias += e / double(s.n);
    for (double& e : errors) e = std::abs(e);
    std::sort(errors.begin(), errors.end());
    if (s.n > 0) s.median = (errors[(s.n - 1) / 2] + errors[s.n / 2]) / 2;
    return s;
}

OrderedJson source_of(const MeasuredTable& t, std::size_t fitted, const Score& s) {
    return {
        {"kind", "fitted"},
        {"text",
         fmt::format("simrun fit of {}: {} measurements; on {} kept out of the fit: median error {:.1f} %, mean {:.1f} %, bias {:+.1f} %",
                     t.file, fitted, s.n, s.median * 100, s.mean * 100, s.bias * 100)}};
}

// Positions in the list of parameters; the cast's come last and are the benchmark's, not the law's.
enum : std::size_t {
    t0,
    tile,
    efficiency,
    feed,
    stream,
    split,
    soft_waves,
    throttle,
    throttle_us,
    l2_share,
    l2_stream,
    ragged,
    two_scales,
    ceiling,
    pause,
    far,
    cast_fixed,
    cast_element,
    cast_beyond
};

bool of_pairs(TileMenu menu) { return menu == TileMenu::pairs || menu == TileMenu::pairs_nosplit; }

GemmTable table_of(const GemmTable& like, const std::vector<double>& p) {
    GemmTable t = like;
    t.t0 = p[t0], t.tile = p[tile], t.efficiency = p[efficiency], t.feed = p[feed], t.stream = std::min(1.0, p[stream]), t.split = p[split];
    t.soft_waves = std::min(1.0, p[soft_waves]), t.throttle = p[throttle], t.throttle_us = p[throttle_us], t.l2_share = p[l2_share],
    t.l2_stream = p[l2_stream];
    if (t.menu == TileMenu::columns) t.ragged = p[ragged], t.two_scales = p[two_scales];
    if (of_pairs(t.menu))
        t.ceiling = p[ceiling], t.pause = std::min(100.0, p[pause]), t.far = p[far], t.efficiency = std::min(1.0, t.efficiency),
        t.throttle_us = std::clamp(t.throttle_us, 1e3, 1e4);
    return t;
}

// The kernels that a library has for this type on this architecture.
TileMenu menu_for(const std::string& dtype, const std::string& architecture) {
    if (architecture == "blackwell") return dtype == "fp8_block" ? TileMenu::pairs_nosplit : TileMenu::pairs;
    if (dtype != "fp8_block") return TileMenu::wide;
    return architecture == "hopper" ? TileMenu::columns : TileMenu::block128;
}

OrderedJson constants_of(const GemmTable& g) {
    OrderedJson j = {{"menu", name(g.menu)},
                     {"t0_us", rounded(g.t0)},
                     {"tile_us", rounded(g.tile)},
                     {"efficiency", rounded(g.efficiency)},
                     {"feed", rounded(g.feed)},
                     {"stream", rounded(g.stream)},
                     {"split_us", rounded(g.split)},
                     {"soft_waves", rounded(g.soft_waves)},
                     {"throttle", rounded(g.throttle)},
                     {"throttle_us", rounded(g.throttle_us)},
                     {"throttle_busy", g.throttle_busy}};
    if (g.alone < 1) j["alone"] = g.alone;
    if (g.ragged > 0) j["ragged"] = rounded(g.ragged);
    if (g.two_scales > 0) j["two_scales"] = rounded(g.two_scales);
    if (g.ceiling > 0) j["ceiling"] = rounded(g.ceiling), j["pause_us"] = g.pause < 1e-3 ? 0 : rounded(g.pause);
    if (g.far > 0) j["far"] = rounded(g.far);
    if (g.overlap < 3) j["overlap"] = g.overlap;
    j["l2_share"] = rounded(g.l2_share), j["l2_stream"] = rounded(g.l2_stream);
    return j;
}

OrderedJson fit_gemm(const MeasuredTable& t, const std::string& dtype, const Device& device) {
    std::vector<std::size_t> inside, outside;
    std::size_t met = 0;
    for (std::size_t i = 0; i < t.rows.size(); ++i)
        if (t.text(i, "dtype") == dtype) (++met % 5 == 0 ? outside : inside).push_back(i);
    // Some thousand shapes say all that a dozen constants can hold.
    constexpr std::size_t enough = 2500;
    std::vector<std::size_t> used;
    for (std::size_t i = 0; i < inside.size(); i += std::max<std::size_t>(1, inside.size() / enough)) used.push_back(inside[i]);
    if (used.size() < 20)
        throw std::runtime_error(fmt::format("{}: {} shapes of {} are too few for a dozen constants", t.file, met, dtype));
    const GemmDevice d = burst_device(device, dtype);
    const bool cast = dtype != "bf16";
    GemmTable like;
    like.menu = menu_for(dtype, device.architecture);
    like.throttle_busy = true;
    const bool pairs = of_pairs(like.menu);
    if (pairs) like.overlap = 2;
    double share = 1;
    const auto predicted = [&](const std::vector<double>& p, std::size_t row) {
        const GemmProblem problem = problem_of(t, row, dtype);
        return gemm_us(table_of(like, p), d, problem) +
               (cast ? Cast{p[cast_fixed], p[cast_element], p[cast_beyond], share}.us(problem.m * problem.k, d.l2) : 0);
    };
    const auto residual = [&](const std::vector<double>& p, std::size_t i) {
        return std::log(predicted(p, used[i]) / t.number(used[i], "us"));
    };
    std::vector<double> best;
    GemmTable best_like;
    double least = 1e300, best_share = 1;
    for (const double alone : {1.0, 0.0}) // whether a processor's feed is its own or a share of the chip's
        for (const double cast_share : cast ? std::vector<double>{0.5, 1.2} : std::vector<double>{1})
            // Two starts: waves as they are (cuBLAS before Hopper) and persistent kernels.
            for (const auto& [tile_start, soft] : {std::pair{5.0, 0.1}, std::pair{1.5, 0.9}}) {
                like.alone = alone, share = cast_share;
                std::vector<double> start{2, tile_start, 0.85, 3, 0.8, 3, soft, 0.15, 3000, 0.6, pairs ? 1 : 0.3, 1, 0.2, 0.75, 5, 0.3};
                if (cast) start.insert(start.end(), {8.0, 1e-6, 1e-6});
                const std::vector<double> p = least_squares(start, used.size(), residual);
                double cost = 0;
                for (std::size_t i = 0; i < used.size(); ++i) cost += std::abs(residual(p, i));
                if (cost < least) least = cost, best = p, best_like = like, best_share = share;
            }
    like = best_like, share = best_share;
    std::vector<double> errors;
    for (std::size_t row : outside) errors.push_back(predicted(best, row) / t.number(row, "us") - 1);
    OrderedJson group = constants_of(table_of(like, best));
    group["source"] = source_of(t, used.size(), score(std::move(errors)));
    return group;
}

// 1/rate = 1/R + (s0/R)/seq, weighted so that relative errors count.
OrderedJson fit_attention(const MeasuredTable& t) {
    using Key = std::array<std::string, 5>; // device, implementation, op, causal, head_dim
    std::map<Key, std::vector<std::size_t>> series;
    for (std::size_t i = 0; i < t.rows.size(); ++i)
        series[{t.text(i, "device"), t.text(i, "implementation"), t.text(i, "op"), t.text(i, "causal"), t.text(i, "head_dim")}].push_back(
            i);
    OrderedJson out = OrderedJson::array();
    for (const auto& [key, rows] : series) {
        if (rows.size() < 3) continue;
        Eigen::MatrixXd a(static_cast<Eigen::Index>(rows.size()), 2);
        const Eigen::VectorXd ones = Eigen::VectorXd::Ones(static_cast<Eigen::Index>(rows.size()));
        for (std::size_t i = 0; i < rows.size(); ++i) {
            const double rate = t.number(rows[i], "tflops"), seq = t.number(rows[i], "seq");
            a(static_cast<Eigen::Index>(i), 0) = rate, a(static_cast<Eigen::Index>(i), 1) = rate / seq;
        }
        const Eigen::VectorXd x = a.colPivHouseholderQr().solve(ones);
        std::vector<double> errors;
        for (double e : Eigen::VectorXd(a * x - ones)) errors.push_back(e);
        out.push_back({{"device", key[0]},
                       {"implementation", key[1]},
                       {"op", key[2]},
                       {"causal", key[3] == "1"},
                       {"head_dim", std::atoi(key[4].c_str())},
                       {"tflops", rounded(1 / x[0])},
                       {"s0", rounded(std::max(0.0, x[1] / x[0]))},
                       {"points", rows.size()},
                       {"mean_abs_error", rounded(score(std::move(errors)).mean)}});
    }
    return out;
}

PrefillTable prefill_of(const std::vector<double>& p, const std::vector<int>& dims, double rows, bool latent) {
    PrefillTable t{p[0], p[1], p[2], p[3], std::min(1.0, p[4]), rows, {}, {}};
    for (std::size_t k = 0; k < dims.size(); ++k) t.efficiency[dims[k]] = p[5 + k];
    t.throttle = p[5 + dims.size()];
    if (dims.size() > 1) t.fall = p[6 + dims.size()];
    if (latent) t.latent = p[7 + dims.size()];
    return t;
}

// Eight constants and an efficiency for each head dimension, with the better of two heights of a block.
OrderedJson fit_prefill(const MeasuredTable& t) {
    const std::string name = t.device.starts_with("mla_") ? t.device.substr(4) : t.device;
    const Device device = device_named(t, name, "attention");
    const PrefillDevice d = prefill_device(device);
    std::set<int> met;
    std::vector<std::size_t> inside, outside;
    for (std::size_t i = 0; i < t.rows.size(); ++i) {
        const PrefillProblem p = prefill_problem(t, i);
        met.insert(static_cast<int>((p.qk + p.v) / 2));
        (i % 5 == 4 ? outside : inside).push_back(i);
    }
    const std::vector<int> dims(met.begin(), met.end());
    if (inside.size() < 40)
        throw std::runtime_error(fmt::format("{}: {} rows are too few for {} constants", t.file, t.rows.size(), 5 + dims.size()));
    PrefillTable best;
    double least = 1e300;
    for (const double rows : {128.0, 256.0}) {
        std::vector<double> start{10, 0.9, is_latent(t) ? 50.0 : 800.0, 0.4, 0.5};
        start.resize(5 + dims.size(), 0.5);
        start.insert(start.end(), {0.1, 0.5, 2000}); // throttle, fall, latent
        const auto residual = [&](const std::vector<double>& p, std::size_t i) {
            return std::log(prefill_us(prefill_of(p, dims, rows, is_latent(t)), d, prefill_problem(t, inside[i])) /
                            t.number(inside[i], "fwd_us"));
        };
        const std::vector<double> p = least_squares(start, inside.size(), residual);
        double cost = 0;
        for (std::size_t i = 0; i < inside.size(); ++i) cost += std::abs(residual(p, i));
        if (cost < least) least = cost, best = prefill_of(p, dims, rows, is_latent(t));
    }
    std::vector<double> errors;
    for (std::size_t row : outside) errors.push_back(prefill_us(best, d, prefill_problem(t, row)) / t.number(row, "fwd_us") - 1);
    OrderedJson efficiency;
    for (const auto& [dim, e] : best.efficiency) efficiency[std::to_string(dim)] = rounded(e);
    OrderedJson out = {{"start_us", rounded(best.start)},
                       {"pre", rounded(best.pre)},
                       {"s0", rounded(best.s0)},
                       {"critical", rounded(best.critical)},
                       {"soft_waves", rounded(best.soft_waves)},
                       {"rows", best.rows}};
    out["throttle"] = rounded(best.throttle);
    if (is_latent(t))
        out["latent"] = rounded(best.latent);
    else
        out["fall"] = rounded(best.fall);
    out["efficiency"] = efficiency, out["source"] = source_of(t, inside.size(), score(std::move(errors)));
    return out;
}

// A table that says nothing of a constant leaves it anywhere. Beyond the limits of calibration files it is put at them, and named.
void keep_within_ranges(OrderedJson& constants, const std::string& group) {
    OrderedJson named = OrderedJson::array();
    const auto keep = [&](const std::string& key, OrderedJson& value, const std::string& name) {
        for (const ConstantRange& r : constant_ranges()) {
            if (r.group != group || r.key != key || !value.is_number()) continue;
            const double kept = std::clamp(value.get<double>(), r.least, r.most);
            if (kept != value.get<double>()) value = kept, named.push_back(name);
        }
    };
    for (auto& [key, value] : constants.items()) {
        keep(key, value, key);
        if (value.is_object() && key != "source")
            for (auto& [dim, share] : value.items()) keep(key, share, key + "." + dim);
    }
    if (!named.empty()) constants["not_determined"] = named;
}

} // namespace

double rounded(double x) { return std::strtod(fmt::format("{:.3g}", x).c_str(), nullptr); }

GemmDevice burst_device(const Device& device, const std::string& dtype) {
    const auto peak = [&](const std::string& name) {
        const auto at = device.peak.find(name);
        return at == device.peak.end() ? 0.0 : at->second.value * 1e-6;
    };
    GemmDevice d;
    d.processors = std::max(1, device.processors);
    d.peak = peak(dtype == "fp8_block" ? "fp8" : dtype);
    d.peak_16 = peak("bf16");
    d.bandwidth = device.memory_bandwidth.value * 1e-6;
    d.l2 = static_cast<double>(device.l2_cache.count);
    d.cold = false;
    return d;
}

GemmProblem problem_of(const MeasuredTable& t, std::size_t row, const std::string& dtype) {
    GemmProblem p{t.number(row, "m"), t.number(row, "n"), t.number(row, "k")};
    constexpr double most = 1e9;
    if (!(p.m >= 1 && p.n >= 1 && p.k >= 1 && std::max({p.m, p.n, p.k}) <= most && t.number(row, "us") > 0))
        throw std::runtime_error(
            fmt::format("{}: row {}: a product has m, n and k from 1 to {:.0e} and us above 0", t.file, row + 1, most));
    p.in_bytes = dtype == "bf16" || dtype == "fp16" ? 2 : 1;
    return p;
}

namespace {

double beyond_cache(double elements, double share, double l2) { return 1 / (1 + std::pow(3 * elements / (share * l2), -4.0)); }

// Least squares of relative residuals, term by term left out where it comes out below zero.
Eigen::Vector3d never_negative(const Eigen::MatrixXd& a, const Eigen::VectorXd& b) {
    std::array<bool, 3> used{true, true, true};
    for (;;) {
        Eigen::MatrixXd kept = a;
        for (Eigen::Index c = 0; c < 3; ++c)
            if (!used[c]) kept.col(c).setZero();
        Eigen::Vector3d x = kept.completeOrthogonalDecomposition().solve(b);
        Eigen::Index worst = 0;
        if (x.minCoeff(&worst) >= -1e-12) return x.cwiseMax(0.0);
        used[worst] = false;
    }
}

} // namespace

double Cast::us(double elements, double l2) const {
    return fixed + elements * (per_element + (beyond > 0 ? beyond * beyond_cache(elements, share, l2) : 0));
}

Cast fit_cast(const std::vector<double>& law, const std::vector<double>& measured, const std::vector<double>& elements, double l2) {
    const auto n = static_cast<Eigen::Index>(law.size());
    Cast best;
    double least = 1e300;
    for (const double share : {0.5, 0.8, 1.2}) {
        Eigen::MatrixXd a(n, 3);
        Eigen::VectorXd b(n);
        for (Eigen::Index i = 0; i < n; ++i) {
            const auto k = static_cast<std::size_t>(i);
            a(i, 0) = 1 / measured[k], a(i, 1) = elements[k] / measured[k], b[i] = 1 - law[k] / measured[k];
            a(i, 2) = l2 > 0 ? a(i, 1) * beyond_cache(elements[k], share, l2) : 0;
        }
        Eigen::Vector3d x = never_negative(a, b);
        for (int again = 0; again < 4; ++again) { // odd shapes, whose law is far off, say little of their cast
            const Eigen::VectorXd weight = (1 + ((a * x - b) / 0.05).array().square()).pow(-0.25);
            x = never_negative(weight.asDiagonal() * a, weight.asDiagonal() * b);
        }
        const double off = (a * x - b).cwiseAbs().sum();
        if (off < least) least = off, best = {x[0], x[1], x[2], share};
    }
    return best;
}

Device device_named(const MeasuredTable& t, const std::string& name, const char* prefix) {
    if (const auto device = find_device(name)) return *device;
    throw std::runtime_error(
        fmt::format("{}: the file's name must say for which device it is, as {}_h100-sxm-80gb.csv does (simrun list devices){}", t.file,
                    prefix, name.empty() ? "" : "; " + name + " is none"));
}

std::string fit(const MeasuredTable& t) {
    OrderedJson out;
    out["fitted_to"] = t.file;
    switch (kind_of(t)) {
    case TableKind::gemm: {
        const Device device = device_named(t, t.device, "gemm");
        out["device"] = device.name;
        std::set<std::string> dtypes;
        for (std::size_t i = 0; i < t.rows.size(); ++i) dtypes.insert(t.text(i, "dtype"));
        for (const std::string& dtype : dtypes) out["gemm"][dtype] = fit_gemm(t, dtype, device);
        break;
    }
    case TableKind::attention_prefill:
        out["prefill"][is_latent(t) ? "latent" : "full"] = fit_prefill(t);
        break;
    case TableKind::experts:
        out["experts"] = OrderedJson::parse(fit_experts(t));
        break;
    case TableKind::attention_rates:
        out["attention"] = fit_attention(t);
        break;
    case TableKind::collectives:
    case TableKind::points:
    case TableKind::dispatch:
        throw std::runtime_error(t.file + ": communication is checked (--check), its constants are not fitted here");
    case TableKind::passes:
        throw std::runtime_error(t.file + ": passes over layers are checked (--check), they have no constants of their own");
    case TableKind::unknown:
        throw std::runtime_error(t.file + ": its columns are those of no table there is a law for");
    }
    for (const char* group : {"gemm", "prefill", "experts"})
        if (out.contains(group))
            for (auto& [kind, constants] : out[group].items()) keep_within_ranges(constants, group);
    return out.dump(2) + "\n";
}

} // namespace orrery
