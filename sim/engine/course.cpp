#include "sim/engine/course.hpp"

#include "sim/engine/fold.hpp"

#include <bit>

namespace orrery {

namespace {

constexpr std::size_t most_words = 1ull << 22; // of the waypoints of a step
constexpr std::size_t many_lanes = 256;        // a waypoint of so many costs as much as running some actions

// A step is cut into parts, each with at most one waypoint: shorter ones near its beginning and its end, which are run where periods
// between are skipped.
std::int64_t part_of(std::int64_t action, std::int64_t actions, std::size_t lanes) {
    if (lanes > many_lanes) return action * 16 / actions;
    constexpr int bits = 2; // 4 parts each time the distance to the nearer end doubles
    constexpr std::int64_t end_part = 1 << 16;
    const bool first_half = 2 * action < actions;
    const auto place = static_cast<std::uint64_t>(first_half ? action : actions - 1 - action) + (1u << bits);
    const int octave = std::bit_width(place) - 1 - bits;
    const std::int64_t part = (static_cast<std::int64_t>(octave) << bits) + static_cast<std::int64_t>(place >> octave);
    return first_half ? part : end_part - part;
}

// 128 bits for a state of hundreds of megabytes; folding trusts 64.
std::vector<std::uint64_t> digest(const std::vector<std::uint64_t>& state) {
    std::uint64_t a = state.size(), b = 1;
    for (std::uint64_t word : state) {
        a = mix(a, word);
        b = mix(b + word);
    }
    return {a, b};
}

} // namespace

Waypoint waypoint(EventLoop& run, std::int32_t step) {
    Waypoint w;
    w.action = run.anchor_action;
    w.time = run.now + run.skipped;
    place_in_step(run, step, w.state);
    for (std::size_t l = 0; l < run.lanes.size(); ++l) {
        run.charge(static_cast<std::int32_t>(l));
        w.accounts.push_back(run.lanes[l].account);
    }
    w.completions = run.completions;
    w.ops = run.stats.events + run.stats.replayed_ops;
    return w;
}

void begin_step(Course& course, std::int32_t step) {
    std::vector<Waypoint> before = std::move(course.here);
    course = {};
    course.step = step;
    course.before = std::move(before);
}

bool meets(Course& course, EventLoop& run) {
    const auto actions = static_cast<std::int64_t>(run.program(run.reference).actions.size());
    const std::int64_t part = part_of(run.anchor_action, actions, run.lanes.size());
    if (part <= course.last) return false;
    course.last = part;
    const std::uint64_t print = fingerprint(run);
    const Waypoint* same = nullptr;
    for (const Waypoint& w : course.before)
        if (w.action == run.anchor_action && w.print == print) same = &w;
    if (!same && (!course.before.empty() || course.words > most_words)) return false;
    Waypoint here = waypoint(run, course.step);
    here.print = print;
    if (run.lanes.size() > many_lanes) here.state = digest(here.state);
    if (same && same->state == here.state) {
        course.met = same;
        course.there = std::move(here);
        return true;
    }
    if (!course.before.empty()) return false;
    course.words += here.state.size() + here.completions.size() + here.accounts.size() * account_count;
    course.here.push_back(std::move(here));
    return false;
}

Waypoint end_of(const Course& course, const Waypoint& end_before, EventLoop& run) {
    Waypoint end = course.there;
    end.time += end_before.time - course.met->time;
    end.ops += end_before.ops - course.met->ops;
    run.stats.replayed_ops += end_before.ops - course.met->ops;
    for (std::size_t l = 0; l < end.accounts.size(); ++l)
        for (std::size_t k = 0; k < account_count; ++k) end.accounts[l][k] += end_before.accounts[l][k] - course.met->accounts[l][k];
    for (std::size_t c = 0; c < end.completions.size(); ++c) end.completions[c] += end_before.completions[c] - course.met->completions[c];
    end.state = end_before.state;
    return end;
}

} // namespace orrery
