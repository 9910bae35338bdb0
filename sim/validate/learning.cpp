// Lessons of a source's own rows about its other rows, by the beliefs of sim/trust.
#include "sim/trust/beliefs.hpp"
#include "sim/validate/lessons.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <span>
#include <tuple>

namespace orrery {

namespace {

// Rows of one software on one device, of one figure; one of the two lists is empty.
struct Kind {
    LearnedFrom of;
    std::vector<Lesson> time;
    std::vector<MemoryLesson> memory;
};

const CostShares& rests_on(const Lesson& l) { return l.shares; }
double rests_on(const MemoryLesson& l) { return l.moving; }

// What `taught` makes of the rows from the `n`-th on.
template <class L> LearnedFrom::After left_by(const std::vector<L>& rows, std::size_t n) {
    const auto taught = taught_by(std::span(rows).first(n));
    const auto others = static_cast<double>(rows.size() - n);
    LearnedFrom::After mean;
    for (std::size_t i = n; i < rows.size(); ++i) {
        const double left = rows[i].off - expected_off(taught.beliefs, rests_on(rows[i]));
        const double width = half_width(std::hypot(spread_of(taught.beliefs, rests_on(rows[i])), taught.noise));
        mean.error += std::abs(std::expm1(-left)) / others, mean.covered += (std::abs(left) <= width) / others;
        mean.width += std::expm1(width) / others;
    }
    return mean;
}

// The mean over draws of n rows: all single rows and all but one in turn, else as many draws as do no longer matter.
template <class L> LearnedFrom::After after(std::vector<L> rows, std::size_t n) {
    const std::size_t size = rows.size();
    const bool each = n == 1 || n + 1 == size;
    const std::size_t draws = each ? size : 100;
    std::minstd_rand random(1);
    LearnedFrom::After mean;
    for (std::size_t d = 0; d < draws; ++d) {
        if (each)
            std::rotate(rows.begin(), rows.begin() + 1, rows.end());
        else
            for (std::size_t i = 0; i < n; ++i) std::swap(rows[i], rows[i + random() % (size - i)]);
        const LearnedFrom::After one = left_by(rows, n);
        mean.error += one.error / static_cast<double>(draws), mean.covered += one.covered / static_cast<double>(draws);
        mean.width += one.width / static_cast<double>(draws);
    }
    return mean;
}

template <class L> LearnedFrom summed_up(LearnedFrom of, const std::vector<L>& rows) {
    of.rows = static_cast<int>(rows.size());
    for (const L& l : rows) of.none += std::abs(std::expm1(-l.off)) / of.rows, of.bias += std::expm1(-l.off) / of.rows;
    of.one = after(rows, 1), of.three = after(rows, 3), of.all = after(rows, rows.size() - 1);
    return of;
}

// By dataset and row, as they were predicted for the first time.
const Experience* at_first(const ValidationRow& r) {
    static const std::map<std::pair<std::string_view, std::string_view>, const Experience*> known = [] {
        std::map<std::pair<std::string_view, std::string_view>, const Experience*> all;
        for (const Experience& e : first_contacts()) all[{e.dataset, e.name}] = &e;
        return all;
    }();
    const auto at = known.find({r.dataset, r.name});
    return at == known.end() ? nullptr : at->second;
}

// A source that was new: the row's first error where it was kept (first_contact.json), else that of today.
template <class L> std::optional<L> new_to_us(std::optional<L> lesson, const ValidationRow& r, std::optional<double> Experience::*figure) {
    const Experience* first = at_first(r);
    if (!lesson || !(r.held_out || first)) return std::nullopt;
    if (first && first->*figure && *(first->*figure) > -1) lesson->off = -std::log1p(*(first->*figure));
    return lesson;
}

} // namespace

std::vector<LearnedFrom> learned_from(const Validation& v, Figure figure, bool first) {
    std::vector<Kind> kinds;
    std::map<std::tuple<std::string, std::string, Stack>, std::size_t> known;
    for (const ValidationRow& r : v.rows) {
        auto time = figure == Figure::step_time ? lesson_of(r) : std::nullopt;
        auto memory = figure == Figure::memory ? memory_lesson_of(r) : std::nullopt;
        if (first) time = new_to_us(time, r, &Experience::step_time), memory = new_to_us(memory, r, &Experience::memory);
        if (!time && !memory) continue;
        const Configuration& c = r.configuration;
        const auto [at, is_new] = known.try_emplace({r.dataset, c.device, c.stack}, kinds.size());
        if (is_new) kinds.push_back({{r.dataset, c.device, c.stack}, {}, {}}), kinds.back().of.unseen = r.held_out;
        if (time) kinds[at->second].time.push_back(*time);
        if (memory) kinds[at->second].memory.push_back(*memory);
    }
    std::vector<LearnedFrom> out;
    for (const Kind& k : kinds)
        if (k.time.size() + k.memory.size() >= 4) out.push_back(k.memory.empty() ? summed_up(k.of, k.time) : summed_up(k.of, k.memory));
    return out;
}

std::string to_spreads(const Validation& v) {
    const std::vector<Experience> rows = merged(read_experience(to_experience(v)), first_contacts());
    std::set<std::string_view> sources;
    std::size_t used = 0;
    for (const Experience& e : rows)
        if (e.unseen && e.step_time) ++used, sources.insert(source_of(e.dataset));
    return write_spreads(spreads_by(rows), used, sources.size());
}

} // namespace orrery
