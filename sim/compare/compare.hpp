// Two traces side by side, whoever made them: predicted against measured, or one strategy against another. Every time is a mean over
// ranks of one step, so that folded and unfolded traces, and runs of unlike size, can be set beside each other.
#pragma once

#include "sim/report/report.hpp"
#include "sim/trace/trace.hpp"

#include <string>
#include <vector>

namespace orrery {

struct Share {
    double seconds = 0, count = 0;
}; // a step's mean over ranks: time in it, and how many spans
struct Pair {
    std::string name;
    Share a, b;
    double difference() const { return a.seconds - b.seconds; }
};
// One op of the model on the ranks of a stage, all microbatches of a step together.
struct OpPair {
    std::string name, kind;
    int stage = 0;
    Share a, b;
};
struct MemoryPair {
    std::string name;
    double a = 0, b = 0;
}; // bytes at the peak of the fullest rank

struct Side {
    std::string name, source;
    double step_s = 0;
    int ranks = 0;
    std::uint64_t plan_hash = 0;
};

struct Comparison {
    Side a, b;
    bool measured = false;   // b was measured, a predicts it: differences are errors, a / b - 1
    std::vector<Pair> parts; // what a step goes to, adding up to it: where both are simulated (add_reports)
    // Two scenarios: B's measured step over A's is between these, four times of five; 0: not known.
    double least_ratio = 0, most_ratio = 0;
    int known_pairs = 0;                            // of validated runs that say so
    std::vector<Pair> kinds, queues, phases, waits; // largest first; waits by cause, on the compute queue
    std::vector<Pair> alike; // ops that differ in nothing but their layer together ("l*.fc1.fwd"), the largest difference first
    std::vector<OpPair> ops; // in both, the largest difference in time first
    std::vector<std::string> only_a, only_b; // ops that the other side lacks
    // Over ops in both with any time: geometric mean of a / b, and the factor that nine in ten are within; 0: there are none.
    double mean_ratio = 0, decile_ratio = 0;
    std::vector<MemoryPair> memory; // by kind at the peak; last "peak" itself
    std::vector<MemoryPair> stages; // peak of each stage
    std::vector<std::string> notes; // what to mind: another plan, no memory in a trace, ..
};

// The one that was measured, if only one was, comes second.
Comparison compare(const Trace& a, const Trace& b);
// Where both were simulated: their steps as reports have them (a trace shows a step from its first op to its last, and steps follow one
// another at less), what they go to, and how sure they are.
void add_reports(Comparison& comparison, const Report& a, const Report& b);

// The `most` single ops with the largest differences; below 0: all.
std::string to_json(const Comparison& comparison, int most = -1);
// worst: how many ops to list.
std::string to_text(const Comparison& comparison, int worst = 10, const TextStyle& style = {});

} // namespace orrery
