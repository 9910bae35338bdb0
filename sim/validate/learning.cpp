// Lessons of a source's own rows about its other rows, by the beliefs of sim/trust.
#include "sim/trust/beliefs.hpp"
#include "sim/validate/lessons.hpp"

#include <cmath>
#include <map>
#include <numeric>
#include <set>

namespace orrery {

namespace {

// Rows that teach, of one figure: their lessons, and what is expected of a row after some of them.
struct Ring {
    std::vector<Lesson> time;
    std::vector<MemoryLesson> memory;
    bool held_out = false;

    std::size_t size() const { return time.size() + memory.size(); } // one of them is empty
    double off(std::size_t i) const { return memory.empty() ? time[i].off : memory[i].off; }
};

struct After {
    double error = 0, covered = 0; // means over the rows not learned from
};

template <class L, class Of> After after(const std::vector<L>& ring, std::size_t first, std::size_t n, Of&& of) {
    std::vector<L> learned;
    for (std::size_t i = 0; i < n; ++i) learned.push_back(ring[(first + i) % ring.size()]);
    const auto taught = taught_by(learned);
    After sum;
    for (std::size_t i = n; i < ring.size(); ++i) {
        const L& l = ring[(first + i) % ring.size()];
        const double left = l.off - expected_off(taught.beliefs, of(l));
        sum.error += std::abs(std::expm1(-left));
        sum.covered += std::abs(left) <= half_width(std::hypot(spread_of(taught.beliefs, of(l)), taught.noise));
    }
    const auto others = static_cast<double>(ring.size() - n);
    return {sum.error / others, sum.covered / others};
}

After after(const Ring& ring, std::size_t n) {
    After sum;
    for (std::size_t first = 0; first < ring.size(); ++first) {
        const After one = ring.memory.empty() ? after(ring.time, first, n, [](const Lesson& l) { return l.shares; })
                                              : after(ring.memory, first, n, [](const MemoryLesson& l) { return l.moving; });
        sum.error += one.error / static_cast<double>(ring.size()), sum.covered += one.covered / static_cast<double>(ring.size());
    }
    return sum;
}

// Rows of a file stand in groups that are alike: every k-th row in turn, so that three in a row are not three of one kind.
template <class L> std::vector<L> dealt(const std::vector<L>& rows) {
    std::size_t step = rows.size() / 3;
    while (step > 1 && std::gcd(step, rows.size()) != 1) --step;
    std::vector<L> out;
    for (std::size_t i = 0; i < rows.size(); ++i) out.push_back(rows[i * std::max<std::size_t>(1, step) % rows.size()]);
    return out;
}

} // namespace

std::vector<LearnedFrom> learned_from(const Validation& v, Figure figure) {
    std::vector<std::string> order;
    std::map<std::string, Ring> by_dataset;
    for (const ValidationRow& r : v.rows) {
        const auto time = figure == Figure::step_time ? lesson_of(r) : std::nullopt;
        const auto memory = figure == Figure::memory ? memory_lesson_of(r) : std::nullopt;
        if (!time && !memory) continue;
        Ring& ring = by_dataset[r.dataset];
        if (ring.size() == 0) order.push_back(r.dataset);
        ring.held_out = r.held_out;
        if (time) ring.time.push_back(*time);
        if (memory) ring.memory.push_back(*memory);
    }
    std::vector<LearnedFrom> out;
    for (const std::string& dataset : order) {
        const Ring& all = by_dataset[dataset];
        const Ring ring{dealt(all.time), dealt(all.memory), all.held_out};
        if (ring.size() < 4) continue;
        LearnedFrom l{dataset, static_cast<int>(ring.size()), 0, after(ring, 1).error, after(ring, 3).error};
        for (std::size_t i = 0; i < ring.size(); ++i) {
            l.none += std::abs(std::expm1(-ring.off(i))) / l.rows;
            l.bias += std::expm1(-ring.off(i)) / l.rows;
        }
        l.covered = after(ring, 3).covered;
        l.held_out = ring.held_out;
        out.push_back(l);
    }
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
