#include "sim/report/error_bar.hpp"

#include "sim/cost/own_constants.hpp"
#include "topology/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace orrery {

std::span<const EmbeddedFile> validated_files(); // generated from scenarios/calibration/validated

namespace {

// (Of powers of two, as most are, without a logarithm: a prediction asks for some thousands.)
double doublings(int a, int b) {
    const auto x = static_cast<unsigned>(std::max(1, a)), y = static_cast<unsigned>(std::max(1, b));
    if (std::has_single_bit(x) && std::has_single_bit(y)) return std::abs(std::countr_zero(x) - std::countr_zero(y));
    return std::abs(std::log2(static_cast<double>(x) / y));
}

constexpr double reach_in_time = 3, reach_in_units = 8, reach_in_memory = 4; // the further, the more rows of a kind are wanted
constexpr double stacks_apart = 6.5, source_share = 0.5, least = 0.02;       // stacks: in time

std::optional<double> figure_of(const Experience& e, Figure figure) { return figure == Figure::step_time ? e.step_time : e.memory; }

// in_units: stacks have units of their own.
double nearness(const Configuration& a, const Configuration& b, Figure figure, bool in_units) {
    if (figure == Figure::memory) return std::exp(-distance(a, b) / reach_in_memory);
    const double d = distance_in_time(a, b);
    return in_units ? std::exp(-(d - (a.stack != b.stack ? stacks_apart : 0)) / reach_in_units) : std::exp(-d / reach_in_time);
}

double off_of(double error) { return -std::log1p(std::max(-0.95, error)); } // ln(measured / predicted)

// The unit of errors of the step time, but for its stack.
double unit_of(const Configuration& c, const Spreads& spreads) { return std::sqrt(spread_of(spreads.with(c.left_open), c.shares)); }

// Units of errors of the step time. Software of some stacks is further off than its constants say: its unit is longer by the mean error of
// the stack, in units, over that of all. Sources weigh as the root of their rows. A stack of few sources is held to all, as if `hold`
// sources more, of one row each, had been as far off as all are.
class Units {
  public:
    Units(const Spreads& spreads, std::span<const Experience> rows, std::string_view without) : spreads_(spreads) {
        sizes_.fill(1);
        constexpr double hold = 16;
        struct Sum {
            double off = 0, weight = 0;
            void add(double o, double w) { off += o * w, weight += w; }
        };
        std::map<std::pair<Stack, std::string_view>, Sum> sources;
        for (const Experience& e : rows)
            if (const std::string_view source = source_of(e.dataset);
                e.unseen && e.step_time && e.configuration.has_shares() && (without.empty() || source != without))
                sources[{e.configuration.stack, source}].add(std::abs(off_of(*e.step_time)) / unit_of(e.configuration, spreads), 1);
        ByEnum<Stack, Sum, stack_count> stacks;
        Sum all;
        for (const auto& [key, s] : sources)
            for (Sum* sum : {&stacks[key.first], &all}) sum->add(s.off / s.weight, std::sqrt(s.weight));
        if (all.off <= 0) return;
        const double mean = all.off / all.weight;
        for (std::size_t i = 0; i < stack_count; ++i) sizes_[i] = (stacks[i].off + hold * mean) / (stacks[i].weight + hold) / mean;
    }

    double of(const Configuration& c) const { return unit_of(c, spreads_) * sizes_[c.stack]; }

  private:
    static constexpr std::size_t stack_count = std::size(Spelling<Stack>::all);
    const Spreads& spreads_;
    ByEnum<Stack, double, stack_count> sizes_;
};

struct Weighed {
    double error = 0, off = 0; // predicted / measured - 1 and ln(measured / predicted), in units of the row
    double weight = 0;
    std::string_view source;
};

// The unseen rows but those of the source `without`, the most like `of` with the most weight. units: errors are in them.
std::vector<Weighed> weighed(const Configuration& of, std::span<const Experience> rows, Figure figure, const Units* units,
                             std::string_view without) {
    std::vector<Weighed> all;
    std::map<std::string_view, double> of_source;
    for (const Experience& e : rows) {
        const std::optional<double> error = figure_of(e, figure);
        if (!e.unseen || !error || (units && !e.configuration.has_shares())) continue;
        const double unit = units ? units->of(e.configuration) : 1;
        Weighed w{*error / unit, off_of(*error) / unit, nearness(of, e.configuration, figure, units != nullptr), source_of(e.dataset)};
        if (!without.empty() && w.source == without) continue;
        of_source[w.source] += w.weight;
        all.push_back(w);
    }
    for (Weighed& w : all) w.weight *= std::pow(of_source[w.source], source_share - 1);
    return all;
}

// The figure that this share of the weight stays below. rows: not empty.
template <class Of> double quantile(std::vector<Weighed>& rows, double share, Of&& figure) {
    std::sort(rows.begin(), rows.end(), [&](const Weighed& a, const Weighed& b) { return figure(a) < figure(b); });
    double sum = 0, below = 0;
    for (const Weighed& w : rows) sum += w.weight;
    for (const Weighed& w : rows)
        if ((below += w.weight) >= share * sum) return figure(w);
    return figure(rows.back());
}

struct Width {
    double half = 0; // as in ErrorBar; 0: there are no rows
    TimeInterval interval;
};

Width width_of(const Configuration& of, std::span<const Experience> rows, Figure figure, const Spreads& spreads,
               std::string_view without = {}) {
    const bool by_shares = figure == Figure::step_time && of.has_shares();
    const std::optional<Units> units = by_shares ? std::optional<Units>(std::in_place, spreads, rows, without) : std::nullopt;
    std::vector<Weighed> all = weighed(of, rows, figure, units ? &*units : nullptr, without);
    if (all.empty()) return {};
    const double unit = units ? units->of(of) : 1;
    Width w;
    w.half = std::max(least, unit * quantile(all, 0.8, [](const Weighed& x) { return std::abs(x.error); }));
    const auto off = [](const Weighed& x) { return x.off; };
    w.interval = {std::max(least, -std::expm1(unit * quantile(all, 0.1, off))),
                  std::max(least, std::expm1(unit * quantile(all, 0.9, off)))};
    return w;
}

const Experience* nearest(const Configuration& of, std::span<const Experience> rows) {
    const Experience* best = nullptr;
    double at = 0;
    for (const Experience& e : rows) {
        if (!e.step_time) continue;
        const double d = distance_in_time(of, e.configuration);
        if (!best || d < at) best = &e, at = d;
    }
    return best;
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
    c.left_open = open_fields_of(s);
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
    const double stacks = a.stack != b.stack ? stacks_apart : 0; // what one's software costs beside its kernels tells nothing of another's
    return distance(a, b) + lengths + stacks + 5 * std::abs(a.host_share - b.host_share);
}

std::string_view source_of(std::string_view dataset) {
    if (dataset.starts_with("b_")) dataset.remove_prefix(2);
    return dataset.substr(0, std::min(dataset.find('_'), dataset.find(' ')));
}

std::vector<Experience> merged(std::vector<Experience> now, std::span<const Experience> first) {
    std::map<std::pair<std::string, std::string>, Experience*> known;
    for (Experience& e : now) known[{e.dataset, e.name}] = &e;
    // Half of what was mended counts, in squares; the sign is that of the first error.
    const auto joined = [](std::optional<double> before, std::optional<double> after) -> std::optional<double> {
        if (!before || !after) return before ? before : after;
        return std::copysign(std::sqrt((*before * *before + *after * *after) / 2), *before);
    };
    std::vector<Experience> more;
    for (const Experience& f : first) {
        const auto at = known.find({f.dataset, f.name});
        if (at == known.end()) {
            more.push_back(f);
            continue;
        }
        Experience& e = *at->second;
        e.step_time = joined(f.step_time, e.step_time);
        e.memory = joined(f.memory, e.memory);
        e.unseen = true;
    }
    now.insert(now.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    return now;
}

namespace {

std::vector<Experience> read_files(bool first) {
    std::vector<Experience> all;
    for (const EmbeddedFile& f : validated_files()) {
        if ((f.name == "first_contact") != first) continue;
        auto more = read_experience(f.text);
        all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    }
    return all;
}

} // namespace

const std::vector<Experience>& first_contacts() {
    static const std::vector<Experience> rows = read_files(true);
    return rows;
}

const std::vector<Experience>& validated_rows() {
    static const std::vector<Experience> rows = merged(read_files(false), first_contacts());
    return rows;
}

ErrorBar error_bar(const Configuration& of, std::span<const Experience> rows, const Spreads& spreads) {
    ErrorBar bar;
    bar.memory = width_of(of, rows, Figure::memory, spreads).half;
    std::set<std::string_view> sources;
    for (const Experience& e : rows) {
        if (!e.step_time) continue;
        bar.same_device += e.configuration.device == of.device;
        if (!e.unseen) continue;
        ++bar.rows;
        sources.insert(source_of(e.dataset));
    }
    bar.sources = static_cast<int>(sources.size());
    if (const Experience* near = nearest(of, rows)) {
        bar.nearest = near->dataset + " / " + near->name;
        bar.nearest_error = *near->step_time;
    }
    if (bar.rows == 0) return bar;
    bar.transferred = of_transfer(of, rows);
    const Width width = width_of(of, rows, Figure::step_time, spreads);
    bar.step_time = std::hypot(width.half, bar.transferred);
    bar.interval = {std::hypot(width.interval.faster, bar.transferred), std::hypot(width.interval.slower, bar.transferred)};
    if (of.has_shares() && of.left_open != OpenFields{}) {
        Configuration stated = of;
        stated.left_open = {};
        bar.all_stated = std::hypot(width.half * unit_of(stated, spreads) / unit_of(of, spreads), bar.transferred);
    }
    return bar;
}

namespace {

// Whether the factor on what is not counted is in the row's prediction, and the row may tell of it (merged() knows it for unseen).
bool tells_of_uncounted(const Experience& e) {
    const std::vector<Stack>& stacks = uncounted().stacks;
    return e.step_time && e.configuration.devices > 1 && e.configuration.has_shares() &&
           std::find(stacks.begin(), stacks.end(), e.configuration.stack) != stacks.end();
}

double with_uncounted(const Experience& e, double factor) {
    const double share = e.configuration.shares[CostGroup::memory];
    return (1 + *e.step_time) * (1 + share * (factor / uncounted().memory - 1)) - 1;
}

} // namespace

double uncounted_by(std::span<const Experience> rows, std::string_view without) {
    constexpr int most = 60; // hundredths beyond 1
    std::map<std::string_view, std::vector<const Experience*>> of_source;
    for (const Experience& e : rows)
        if (tells_of_uncounted(e) && (without.empty() || source_of(e.dataset) != without)) of_source[source_of(e.dataset)].push_back(&e);
    double best = uncounted().memory, least = 0;
    for (int i = 0; i <= most && !of_source.empty(); ++i) {
        const double factor = 1 + 0.01 * i;
        double error = 0;
        for (const auto& [source, of] : of_source) {
            double sum = 0;
            for (const Experience* e : of) sum += std::abs(with_uncounted(*e, factor));
            error += sum / std::sqrt(static_cast<double>(of.size()));
        }
        if (i == 0 || error < least) best = factor, least = error;
    }
    return best;
}

std::vector<Experience> with_uncounted_left_out(std::vector<Experience> rows) {
    std::map<std::string_view, double> factors;
    for (const Experience& e : rows)
        if (const std::string_view source = source_of(e.dataset); tells_of_uncounted(e) && !factors.contains(source))
            factors[source] = uncounted_by(rows, source);
    for (Experience& e : rows)
        if (tells_of_uncounted(e)) e.step_time = with_uncounted(e, factors.at(source_of(e.dataset)));
    return rows;
}

Spreads spreads_by(std::span<const Experience> rows, std::string_view without) {
    std::vector<Observed> observed;
    for (const Experience& e : rows) {
        if (!e.unseen || !e.step_time || *e.step_time <= -1 || !e.configuration.has_shares()) continue;
        const std::string_view source = source_of(e.dataset);
        if (without.empty() || source != without)
            observed.push_back({e.configuration.shares, std::log1p(*e.step_time), std::string(source), e.configuration.left_open});
    }
    return fitted_spreads(observed, judged_spreads);
}

std::vector<Coverage> left_out_coverage(std::span<const Experience> rows, Figure figure) {
    std::map<std::pair<int, std::string>, std::pair<Coverage, std::set<std::string_view>>> groups;
    const auto count = [&](int kind, const std::string& by, const Experience& e, double error, const Width& width) {
        auto& [c, sources] = groups[{kind, by}];
        c.by = by;
        ++c.rows;
        sources.insert(source_of(e.dataset));
        c.mean_abs_error += std::abs(error), c.bias += error;
        if (figure == Figure::memory) {
            c.width += width.half, c.covered += std::abs(error) <= width.half;
            return;
        }
        const double took = 1 / std::max(0.05, 1 + error); // in predicted steps
        const bool below = took<1 - width.interval.faster, above = took> 1 + width.interval.slower;
        c.width += (width.interval.faster + width.interval.slower) / 2;
        c.below += below, c.above += above, c.covered += !below && !above;
    };
    std::map<std::string_view, Spreads> spreads;
    for (const Experience& e : rows) {
        const std::optional<double> error = figure_of(e, figure);
        if (!e.unseen || !error) continue;
        const std::string_view source = source_of(e.dataset);
        if (!spreads.contains(source)) spreads[source] = spreads_by(rows, source);
        const Width width = width_of(e.configuration, rows, figure, spreads[source], source);
        count(0, "all", e, *error, width);
        count(1, name(e.configuration.stack), e, *error, width);
        count(2, e.configuration.device, e, *error, width);
    }
    std::vector<Coverage> out;
    for (auto& [key, group] : groups) {
        Coverage c = group.first;
        c.sources = static_cast<int>(group.second.size());
        for (double* sum : {&c.mean_abs_error, &c.bias, &c.covered, &c.width, &c.below, &c.above}) *sum /= c.rows;
        out.push_back(c);
    }
    return out;
}

std::string to_text(const TimeInterval& interval) {
    return interval.known() ? fmt::format("-{:.0f} +{:.0f} %", interval.faster * 100, interval.slower * 100) : std::string();
}

std::string to_text(const ErrorBar& bar) {
    if (bar.rows == 0) return "no validated row to compare with";
    if (bar.learned > 0)
        return fmt::format(
            "80 % interval: a step takes from {:.0f} % less to {:.0f} % more than predicted, memory is within {:.0f} %, by {} "
            "measured steps of one's own; without them predictions of {} runs of {} sources stand for it",
            bar.interval.faster * 100, bar.interval.slower * 100, bar.memory * 100, bar.learned, bar.rows, bar.sources);
    std::string text =
        fmt::format("80 % interval: a step takes from {:.0f} % less to {:.0f} % more than predicted, memory is within {:.0f} %; so far off "
                    "were predictions of {} runs of {} sources that no constant was fitted to, those most like this job first",
                    bar.interval.faster * 100, bar.interval.slower * 100, bar.memory * 100, bar.rows, bar.sources);
    if (bar.transferred > 0)
        text += fmt::format("; nothing was ever validated on this device: {:.0f} % of it stand for constants transferred to it",
                            bar.transferred * 100);
    return text + fmt::format("; nearest validated run: {}, {:+.0f} % off", bar.nearest, std::round(bar.nearest_error * 100) + 0.0);
}

} // namespace orrery
