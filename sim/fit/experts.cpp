// The law of experts.hpp, its check and its fit.
#include "sim/fit/experts.hpp"

#include "sim/fit/laws.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <tuple>

namespace orrery {

namespace {

// Sorted loads of the group with most, of one draw.
std::vector<double> drawn(const ExpertsProblem& p, std::mt19937& random) {
    const auto experts = static_cast<std::size_t>(p.experts), group = static_cast<std::size_t>(p.experts / p.ep);
    const double rows = p.tokens * p.top_k, low = rows > p.experts ? 1 : 0.01, high = rows > p.experts ? 0.8 * p.tokens : 2, e = 1 - p.skew;
    std::vector<double> load(experts);
    double sum = 0;
    for (double& x : load) {
        const double u = static_cast<double>(random()) / 4294967296.0;
        sum += x = std::pow((std::pow(high, e) - std::pow(low, e)) * u + std::pow(low, e), 1 / e);
    }
    for (double& x : load) x = std::min(p.tokens, x / sum * rows);
    std::vector<double> most;
    double least = -1;
    for (std::size_t first = 0; first + group <= experts; first += group) {
        const auto begin = load.begin() + static_cast<std::ptrdiff_t>(first), end = begin + static_cast<std::ptrdiff_t>(group);
        double total = 0;
        for (auto x = begin; x != end; ++x) total += *x;
        if (total > least) least = total, most.assign(begin, end);
    }
    std::sort(most.begin(), most.end());
    return most;
}

double in_bytes_of(const std::string& dtype) { return dtype == "bf16" || dtype == "fp16" ? 2 : 1; }

struct Case {
    ExpertsProblem problem;
    std::vector<double> rows;
    double us = 0;
};

std::map<std::string, std::vector<Case>> cases_of(const MeasuredTable& t) {
    std::map<std::string, std::vector<Case>> out;
    std::map<std::tuple<double, double, double, double, double>, std::vector<double>> met;
    for (std::size_t i = 0; i < t.rows.size(); ++i) {
        Case c{experts_problem(t, i), {}, t.number(i, "fwd_us")};
        const ExpertsProblem& p = c.problem;
        auto& rows = met[{p.experts, p.tokens, p.top_k, p.ep, p.skew}];
        if (rows.empty()) rows = expert_rows(p);
        c.rows = rows;
        out[t.text(i, "dtype")].push_back(std::move(c));
    }
    return out;
}

GemmDevice cold_device(const Device& device, const std::string& dtype) {
    GemmDevice d = burst_device(device, dtype);
    d.cold = true;
    return d;
}

std::string class_of(const ExpertsProblem& p, const std::vector<double>& rows) {
    double sum = 0;
    for (double r : rows) sum += r;
    return fmt::format("{}, {} 256 rows an expert", p.skew > 0 ? "skewed" : "balanced", sum < 256 * double(rows.size()) ? "under" : "from");
}

ExpertsTable table_of(const std::vector<double>& p, double efficiency) {
    ExpertsTable t{p[0], p[1], p[2], {}, {}};
    t.gemm.menu = TileMenu::wide_nosplit;
    t.gemm.tile = p[3], t.gemm.feed = p[4], t.gemm.stream = std::min(1.0, p[5]), t.gemm.soft_waves = std::min(1.0, p[6]),
    t.gemm.efficiency = efficiency;
    return t;
}

} // namespace

bool is_experts(const MeasuredTable& t) { return t.has("fwd_us") && t.has("expert_ffn") && t.has("top_k") && t.has("moe_ep"); }

ExpertsProblem experts_problem(const MeasuredTable& t, std::size_t row) {
    ExpertsProblem p{
        t.number(row, "tokens"),  t.number(row, "hidden"), t.number(row, "expert_ffn") / std::max(1.0, t.number(row, "moe_tp")),
        t.number(row, "experts"), t.number(row, "top_k"),  t.number(row, "moe_ep")};
    p.gate = t.text(row, "kernel").find("nongated") == std::string::npos ? 2 : 1;
    const std::string& skew = t.text(row, "distribution");
    if (skew.starts_with("power_law_")) p.skew = std::strtod(skew.c_str() + 10, nullptr);
    return p;
}

std::vector<double> expert_rows(const ExpertsProblem& p) {
    if (p.skew <= 0) {
        const double rows = p.tokens * p.top_k / p.ep, active = std::max(1.0, std::floor(std::min(p.experts / p.ep, rows)));
        return std::vector<double>(static_cast<std::size_t>(active), rows / active);
    }
    constexpr int draws = 16;
    std::mt19937 random(1);
    std::vector<double> mean(static_cast<std::size_t>(p.experts / p.ep));
    for (int k = 0; k < draws; ++k) {
        const std::vector<double> one = drawn(p, random);
        for (std::size_t i = 0; i < mean.size() && i < one.size(); ++i) mean[i] += one[i] / draws;
    }
    return mean;
}

double experts_us(const ExpertsTable& t, const GemmDevice& d, const ExpertsProblem& p, std::span<const double> rows, double in_bytes) {
    double sum = 0;
    for (double r : rows) sum += r;
    const double active = static_cast<double>(rows.size());
    const auto product = [&](double n, double k) {
        GemmProblem g{sum / active, n, k, active, in_bytes};
        g.rows = rows;
        return gemm_us(t.gemm, d, g);
    };
    const double moved = 2 * sum * p.ffn * (p.gate + 1) + (in_bytes < 2 ? 7 : 6) * sum * p.hidden + 2 * p.tokens * p.hidden;
    return t.start + t.per_expert * p.experts + product(p.gate * p.ffn, p.hidden) + product(p.hidden, p.ffn) + t.copy * moved / d.bandwidth;
}

Checked check_experts(const MeasuredTable& t) {
    Checked out;
    const auto device = find_device(t.device);
    if (!device) return {{}, {fmt::format("{}: no device {}", t.file, t.device)}};
    const KernelTables kernels = kernel_tables(*device, {}, t.constants.get());
    for (const auto& [dtype, cases] : cases_of(t)) {
        const auto table = kernels.experts.find(dtype);
        if (table == kernels.experts.end()) {
            out.skipped.push_back(fmt::format("{}: no constants of experts in {} for {}", t.file, dtype, t.device));
            continue;
        }
        const GemmDevice d = cold_device(*device, dtype);
        for (const Case& c : cases)
            out.points.push_back({"experts", dtype, class_of(c.problem, c.rows), device->name, c.us,
                                  experts_us(table->second, d, c.problem, c.rows, in_bytes_of(dtype))});
    }
    return out;
}

std::string fit_experts(const MeasuredTable& t) {
    const Device device = device_named(t, t.device, "moe");
    const KernelTables kernels = kernel_tables(device, {}, t.constants.get());
    nlohmann::ordered_json out;
    for (const auto& [dtype, cases] : cases_of(t)) {
        const auto dense = kernels.gemm.find(dtype);
        const double efficiency = dense == kernels.gemm.end() ? 0.8 : std::min(0.85, dense->second.efficiency), in = in_bytes_of(dtype);
        const GemmDevice d = cold_device(device, dtype);
        // A balanced layer says what its kernels take; of a skewed one only what is drawn on average is known.
        const bool balanced = std::any_of(cases.begin(), cases.end(), [](const Case& c) { return c.problem.skew <= 0; });
        std::vector<const Case*> inside, outside;
        std::size_t met = 0;
        for (const Case& c : cases)
            if (++met % 5 == 0)
                outside.push_back(&c);
            else if (!balanced || c.problem.skew <= 0)
                inside.push_back(&c);
        constexpr std::size_t enough = 1500;
        std::vector<const Case*> used;
        for (std::size_t i = 0; i < inside.size(); i += std::max<std::size_t>(1, inside.size() / enough)) used.push_back(inside[i]);
        if (used.size() < 40)
            throw std::runtime_error(fmt::format("{}: {} layers of {} are too few for seven constants", t.file, met, dtype));
        std::vector<double> best;
        double least = 1e300;
        for (const auto& [tile, soft] : {std::pair{5.0, 0.9}, std::pair{0.1, 0.4}}) {
            const auto residual = [&](const std::vector<double>& p, std::size_t i) {
                return std::log(experts_us(table_of(p, efficiency), d, used[i]->problem, used[i]->rows, in) / used[i]->us);
            };
            const std::vector<double> p = least_squares({20, 0.03, 2, tile, 2.5, 0.85, soft}, used.size(), residual);
            double cost = 0;
            for (std::size_t i = 0; i < used.size(); ++i) cost += std::abs(residual(p, i));
            if (cost < least) least = cost, best = p;
        }
        const ExpertsTable g = table_of(best, efficiency);
        std::vector<Compared> apart;
        for (const Case* c : outside) apart.push_back({"", "", "kept out", "", c->us, experts_us(g, d, c->problem, c->rows, in)});
        const Deviation s = deviations(apart).front();
        out[dtype] = {
            {"start_us", rounded(g.start)},
            {"per_expert_us", rounded(g.per_expert)},
            {"copy", rounded(g.copy)},
            {"tile_us", rounded(g.gemm.tile)},
            {"efficiency", rounded(g.gemm.efficiency)},
            {"feed", rounded(g.gemm.feed)},
            {"stream", rounded(g.gemm.stream)},
            {"soft_waves", rounded(g.gemm.soft_waves)},
            {"source",
             {{"kind", "fitted"},
              {"text",
               fmt::format(
                   "simrun fit of {}: {} measurements; on {} kept out of the fit: median error {:.1f} %, mean {:.1f} %, bias {:+.1f} %",
                   t.file, used.size(), s.n, s.median_abs * 100, s.mean_abs * 100, s.bias * 100)}}}};
    }
    return out.dump();
}

} // namespace orrery
