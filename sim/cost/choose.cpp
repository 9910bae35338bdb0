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

} // namespace

Choice choose(const LinkTable& t, CollectiveKind kind, int n, double bytes, bool one_byte, bool multicast) {
    const double k = ring_steps(kind, n);
    Choice best{Algorithm::ring, Protocol::simple};
    double least = 0;
    for (Protocol p : {Protocol::simple, Protocol::ll128, Protocol::ll}) {
        if (p == Protocol::ll128 && !t.has_ll128) continue;
        const std::size_t i = static_cast<std::size_t>(p);
        const double us = base_us[i] + k * t.choice_hop[i] + bytes / (ring_bandwidth(t, p) * n / k);
        if (p != Protocol::simple && us >= least) continue;
        best.protocol = p;
        least = us;
    }
    if (kind != CollectiveKind::all_reduce || !multicast || !t.has_nvls || one_byte || n <= 2) return best;
    const double bandwidth = n * nvls_speed(t, n) * t.choice_nvls_efficiency * (n - 1) / n * 2;
    if (bandwidth > 0 && nvls_us + bytes / (bandwidth * n / k) < least) return {Algorithm::nvls, Protocol::simple};
    return best;
}

} // namespace orrery
