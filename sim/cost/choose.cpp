// NCCL's own expectation of each candidate, from the constants its tuner carries, and its choice: the least.
#include "sim/cost/collectives.hpp"

#include <algorithm>

namespace orrery {
namespace {

constexpr double base_us[] = {6.6, 14.0, 8.4}; // LL, LL128, Simple (NCCL 2.30)
constexpr double nvls_us = 25;

// The fastest tabulated channel speed that n channels can have together; where even the slowest is too much (a rack), an even share.
double nvls_speed(const LinkTable& t, int n) {
    for (double s : t.choice_nvls_speeds)
        if (n * s <= t.choice_nominal * (1 + 1e-9)) return s;
    return t.choice_nominal / n;
}

double ring_bandwidth(const LinkTable& t, Protocol p) {
    switch (p) {
    case Protocol::ll:
        return std::min(t.choice_ll_max, t.choice_bus / 2);
    case Protocol::ll128:
        return std::min(0.92 * t.choice_bus, t.choice_ll128_cap);
    case Protocol::simple:
        return t.choice_bus;
    }
    return t.choice_bus;
}

// The time that the tuner expects of a candidate: us + bytes / rate.
struct Expected {
    Choice choice;
    double us, rate;
    double at(double bytes) const { return us + bytes / rate; }
};

std::vector<Expected> candidates(const LinkTable& t, CollectiveKind kind, int n, bool one_byte, bool multicast) {
    const double k = ring_steps(kind, n);
    std::vector<Expected> out;
    for (Protocol p : {Protocol::simple, Protocol::ll128, Protocol::ll}) {
        if (p == Protocol::ll128 && !t.has_ll128) continue;
        const std::size_t i = static_cast<std::size_t>(p);
        out.push_back({{Algorithm::ring, p}, base_us[i] + k * t.choice_hop[i], ring_bandwidth(t, p) * n / k});
    }
    if (kind != CollectiveKind::all_reduce || !multicast || !t.has_nvls || one_byte || n <= 2) return out;
    const double bandwidth = n * nvls_speed(t, n) * t.choice_nvls_efficiency * (n - 1) / n * 2;
    if (bandwidth > 0) out.push_back({{Algorithm::nvls, Protocol::simple}, nvls_us, bandwidth * n / k});
    return out;
}

const Expected& least_of(const std::vector<Expected>& all, double bytes) {
    const Expected* least = &all.front();
    for (const Expected& e : all)
        if (e.at(bytes) < least->at(bytes)) least = &e;
    return *least;
}

} // namespace

Choice choose(const LinkTable& t, CollectiveKind kind, int n, double bytes, bool one_byte, bool multicast) {
    return least_of(candidates(t, kind, n, one_byte, multicast), bytes).choice;
}

std::vector<Turn> turns_beyond(const LinkTable& t, CollectiveKind kind, int n, double bytes, bool one_byte, bool multicast) {
    const std::vector<Expected> all = candidates(t, kind, n, one_byte, multicast);
    std::vector<Turn> out;
    for (const Expected* now = &least_of(all, bytes);;) {
        const Expected* next = nullptr;
        double at = 0;
        for (const Expected& e : all) {
            if (e.rate <= now->rate) continue;
            const double size = (e.us - now->us) / (1 / now->rate - 1 / e.rate);
            if (next == nullptr || size < at) next = &e, at = size;
        }
        if (next == nullptr) return out;
        out.push_back({std::max(at, bytes), next->choice});
        now = next;
    }
}

} // namespace orrery
