// Pairs of scenarios that differ by one improvement: what a planner compares. A pair is a scenario and two patches of it, pointer by
// pointer.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace orrery::laws {

using Json = nlohmann::ordered_json;
using Random = std::mt19937_64;

// One of n, the same on every standard library (std::uniform_int_distribution is not).
inline std::size_t one_of(Random& random, std::size_t n) { return static_cast<std::size_t>(random() % n); }
template <class T> const T& any(Random& random, const std::vector<T>& of) { return of[one_of(random, of.size())]; }

// ORRERY_PAIRS: how many, for a longer look; ORRERY_SEED: other ones.
inline std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

struct Pair {
    std::string improvement; // "inter_node.kind: roce -> infiniband"
    Json worse, better;      // whole scenarios
};

// A small job on a random cluster, and a random improvement of it that applies there.
Pair random_pair(Random& random);

// The same on other machines, schedules and kinds of data parallelism.
Pair wide_pair(Random& random);

// Pairs that the two above never draw: memory of hosts and disks, networks over wide areas, compressed gradients, dispatchers, algorithms
// in switches, sizes of networks, kernels of a few devices.
Pair rarer_pair(Random& random);

// The scenario with one field at two values, the second better.
inline Pair change(const std::string& name, const Json& base, const std::string& pointer, const Json& worse, const Json& better) {
    Pair p{name + ": " + worse.dump() + " -> " + better.dump(), base, base};
    p.worse[Json::json_pointer(pointer)] = worse;
    p.better[Json::json_pointer(pointer)] = better;
    return p;
}

// Where the field measured something else than physics: a better part made a collective slower because NCCL's tuner, which knows no times,
// then takes another algorithm or protocol. `text` is looked for in a pair's improvement and its scenario.
struct Anomaly {
    std::string improvement, scenario, why, source;
    double most = 0; // of the step
};
const std::vector<Anomaly>& known_anomalies();

} // namespace orrery::laws
