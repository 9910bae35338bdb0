#include "sim/report/error_bar.hpp"

#include "topology/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace orrery {

std::span<const EmbeddedFile> validated_files(); // generated from scenarios/calibration/validated

namespace {

double doublings(int a, int b) { return std::abs(std::log2(static_cast<double>(std::max(1, a)) / std::max(1, b))); }

constexpr std::size_t considered = 100; // the nearest rows; those beyond weigh next to nothing
constexpr double dataset_share = 0.5, widening = 0.05;

struct Neighbour {
    double distance = 0, weight = 0;
    const Experience* row = nullptr;
};

// The nearest rows that have this error, nearest first. Rows of one source share its systematic error: no dataset outweighs the others.
std::vector<Neighbour> neighbours(const Configuration& of, std::span<const Experience> rows, std::optional<double> Experience::*error) {
    std::vector<Neighbour> near;
    for (const Experience& e : rows)
        if (e.*error) near.push_back({(error == &Experience::step_time ? distance_in_time : distance)(of, e.configuration), 0, &e});
    std::stable_sort(near.begin(), near.end(), [](const Neighbour& a, const Neighbour& b) { return a.distance < b.distance; });
    if (near.size() > considered) near.resize(considered);
    std::map<std::string, double> of_dataset;
    double all = 0;
    for (Neighbour& n : near) all += n.weight = std::exp(near.front().distance - n.distance);
    for (const Neighbour& n : near) of_dataset[n.row->dataset] += n.weight;
    for (const auto& [dataset, weight] : of_dataset) {
        const double others = all - weight;
        if (others <= 0 || weight <= dataset_share * all) continue;
        for (Neighbour& n : near)
            if (n.row->dataset == dataset) n.weight *= std::max(0.1, others * dataset_share / (1 - dataset_share) / weight);
    }
    return near;
}

// The error that four in five of the weight stay within, never below 2 %: measurements themselves repeat no better.
double four_in_five(std::vector<Neighbour> near, std::optional<double> Experience::*error) {
    const auto off = [&](const Neighbour& n) { return std::abs(*(n.row->*error)); };
    std::sort(near.begin(), near.end(), [&](const Neighbour& a, const Neighbour& b) { return off(a) < off(b); });
    double all = 0, away = 0, within = 0;
    for (const Neighbour& n : near) all += n.weight, away += n.weight * n.distance;
    for (const Neighbour& n : near)
        if ((within += n.weight) >= 0.8 * all) return std::max(0.02, off(n)) * (1 + widening * away / all);
    return 0;
}

// The addition for a device without a validated row. For 30 rows on V100, TPU v4 and v5p and MI300X, predicted from assumed constants
// before any of them was known, four in five were within 15 %, of the worst device (MI300X) within 29 %: 20 %. Within an architecture (an
// H200 by an H100's constants): some 10 %.
double of_transfer(const Configuration& of, std::span<const Experience> rows) {
    const auto has = [&](auto same) {
        return std::any_of(rows.begin(), rows.end(), [&](const Experience& e) { return e.step_time && same(e.configuration); });
    };
    if (of.measured || has([&](const Configuration& c) { return c.device == of.device; })) return 0;
    return has([&](const Configuration& c) { return c.architecture == of.architecture; }) ? 0.1 : 0.2;
}

} // namespace

Configuration configuration_of(const Scenario& s) {
    Configuration c;
    c.device = s.cluster.device.name;
    c.architecture = s.cluster.device.architecture;
    c.stack = practice_of(s).stack;
    const double bytes = bytes_per_element(s.training.precision);
    c.precision_bits = static_cast<int>(std::lround(bytes * 8));
    c.experts = s.model.moe.has_value();
    c.devices = s.world_size();
    c.tensor = s.strategy.tensor_parallel;
    c.pipeline = s.strategy.pipeline_parallel;
    c.context = s.strategy.context_parallel;
    c.expert = s.strategy.expert_parallel;
    c.zero = s.strategy.zero_stage;
    c.sequence = s.training.sequence_length;
    c.recompute = s.strategy.recompute != RecomputeKind::none;
    c.measured = !s.cluster.device.kernels.empty();
    return c;
}

double distance(const Configuration& a, const Configuration& b) {
    double d = 0;
    if (a.device != b.device) d += a.architecture == b.architecture ? 1 : 3;
    if (a.stack != b.stack) d += 1.5;
    if (a.precision_bits != b.precision_bits) d += 1.5;
    if (a.experts != b.experts) d += 2;
    if ((a.zero == 3) != (b.zero == 3)) d += 1;
    if (a.recompute != b.recompute) d += 0.3;
    d += 0.5 * (doublings(a.tensor, b.tensor) + doublings(a.pipeline, b.pipeline) + doublings(a.context, b.context) +
                doublings(a.expert, b.expert));
    return d + 0.15 * doublings(a.devices, b.devices);
}

double distance_in_time(const Configuration& a, const Configuration& b) {
    const double lengths = a.sequence > 0 && b.sequence > 0 ? 0.3 * doublings(a.sequence, b.sequence) : 0;
    return distance(a, b) + lengths + 5 * std::abs(a.host_share - b.host_share);
}

const std::vector<Experience>& validated_rows() {
    static const std::vector<Experience> rows = [] {
        std::vector<Experience> all;
        for (const EmbeddedFile& f : validated_files()) {
            auto more = read_experience(f.text);
            all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
        }
        return all;
    }();
    return rows;
}

ErrorBar error_bar(const Configuration& of, std::span<const Experience> rows) {
    ErrorBar bar;
    const std::vector<Neighbour> timed = neighbours(of, rows, &Experience::step_time);
    bar.memory = four_in_five(neighbours(of, rows, &Experience::memory), &Experience::memory);
    if (timed.empty()) return bar;
    for (const Neighbour& n : timed) {
        if (n.weight < 0.1 * timed.front().weight) continue;
        ++bar.rows;
        bar.same_device += n.row->configuration.device == of.device;
    }
    bar.nearest = timed.front().row->dataset + " / " + timed.front().row->name;
    bar.nearest_error = *timed.front().row->step_time;
    bar.transferred = of_transfer(of, rows);
    bar.step_time = std::hypot(four_in_five(timed, &Experience::step_time), bar.transferred);
    return bar;
}

std::string to_text(const ErrorBar& bar) {
    if (bar.rows == 0) return "no validated row to compare with";
    const std::string text =
        fmt::format("80 % interval, from the most similar validated runs: step time within {:.0f} %, memory within {:.0f} % "
                    "({} runs for the time, {} on this device; nearest: {}, {:+.0f} % off)",
                    bar.step_time * 100, bar.memory * 100, bar.rows, bar.same_device, bar.nearest, bar.nearest_error * 100);
    if (bar.transferred == 0) return text;
    return text + fmt::format("; nothing was ever validated on this device: {:.0f} % of it stand for constants transferred to it",
                              bar.transferred * 100);
}

} // namespace orrery
