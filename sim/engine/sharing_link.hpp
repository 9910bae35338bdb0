// A link and a bundle as the solver of sharing.cpp knows them; (1) and (2) are there.
#pragma once

#include "sim/engine/sharing_grid.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace orrery::sharing {

struct Member {
    std::uint64_t weight;
    std::int32_t bundle;
    std::int32_t use;
}; // of a link: a bundle, and which of its uses this is
struct Crossing {
    std::uint64_t weight;
    std::int32_t link;
    std::int32_t slot;
}; // of a bundle: a link, and its place there

struct alignas(64) Link { // what settle() and release() touch lies in the first cache line
    Wide capacity = 0;
    Wide load = 0;           // sum of w r over its bundles that are not free
    double level = infinite; // L_l of (2), as far as known
    double key = 0;          // where the sweep looks at it next, if queued
    bool queued = false;
    bool firm = false;         // the key stays a lower bound of the level even if more of its bundles become free
    bool limits = true;        // false: infinite capacity
    Wide free = 0;             // sum of w over its free bundles
    Wide room = 0, rising = 0; // of a full link: the numerator and denominator of (1) at its level
    Wide weight = 0;           // sum of w over all
    std::vector<Member> members;

    bool full() const { return level < infinite; }
    bool fits() const { return free == 0 && load <= capacity; } // all its bundles have rates, and there is room for them
    void count(std::uint64_t w, const Rate& rate);
    void discount(std::uint64_t w, const Rate& rate);
};

// A bundle on the link has this rate now.
inline void Link::count(std::uint64_t w, const Rate& rate) {
    const Wide used = product(w, rate); // 0 for a free one
    load += used;
    if (rate.value == infinite) free += w;
    if (!full()) return;
    if (rate.value < level)
        room -= used;
    else
        rising += w;
}

// ... and has it no longer.
inline void Link::discount(std::uint64_t w, const Rate& rate) {
    const Wide used = product(w, rate);
    load -= used;
    if (rate.value == infinite) free -= w;
    if (!full()) return;
    if (rate.value < level)
        room += used;
    else
        rising -= w;
}

struct Bundle {
    double cap = 0;      // as the caller gave it
    double limit = 0;    // on the grid
    double reported = 0; // rate at the end of the last update
    bool present = false, fresh = false, marked = false;
    std::vector<Crossing> crossings;
};

// A lower bound of the level of a link: bundles that have a rate (below the level of a full link) keep it or lose some of it, the
// others share what is left. It holds until one more of them becomes free.
inline double at_least(const Link& link) {
    const Wide rising = link.full() ? link.rising : link.free;
    const Wide room = link.full() ? link.room : link.load < link.capacity ? link.capacity - link.load : 0;
    if (rising == 0 || room >> 127) return 0; // more may be counted than there is room for, as long as the sweep is below
    return std::min(approximate(room) / approximate(rising) * (1 - 0x1p-40), highest_rate);
}

} // namespace orrery::sharing
