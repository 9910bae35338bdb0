// Advice on one scenario: verdict, what limits it, what a better machine or another strategy would give. Every figure is simulated.
#pragma once

#include "sim/advise/fix.hpp"
#include "sim/report/terminal.hpp"

#include <functional>

namespace orrery {

// How long the step's critical path is in each resource (sim/trace/critical_path), and how the step's length follows each group of
// constants (Report::shares): what hides behind something longer has a place in neither.
struct OnPath {
    std::string resource; // "matrix products", "tensor-parallel network", "launches, host"
    double seconds = 0;
};

// A rate of the machine 10 % higher.
struct FasterPart {
    std::string part;
    double step_time_s = 0; // then
    double gain = 0;        // of the step time, as a fraction
};

struct NextBottleneck {
    std::string first, next; // groups of constants: the largest share now, and when that is 2, 4 or 8 times as fast
    double first_share = 0, next_share = 0, times = 0, step_time_s = 0; // the first so many times as fast
};

struct WhyNot {
    Trial trial;
    std::string answer;         // "does not fit: ..", "4.1 % slower: 1.2 s more bubble"
    double against = 0;         // step time over the scenario's, minus 1; 0: it does not fit or is refused
    bool inside = false;        // which is the faster is not certain: the interval of the difference has both signs
    double least = 0, most = 0; // of `against`, four times of five; both 0: not known
};

struct Guided {
    std::optional<Trial> strategy; // what the field's guide takes; nothing: none of its strategies is legal and fits
    bool confirmed = false;        // nothing that was simulated here is more than 2 % faster
    std::string answer;
};

struct Advice {
    std::string name;
    Scenario scenario;
    Report report;
    std::string verdict;
    std::vector<OnPath> path; // longest first
    std::optional<NextBottleneck> next;
    std::vector<FasterPart> faster; // largest gain first
    std::vector<Trial> better;      // one change each: fit and are faster, fastest first
    std::vector<Trial> otherwise;   // faster too, but another training: a loss curve of its own (other_trainings()), fastest first
    std::vector<Trial> safer;       // fit by more than the error of memory, where the job itself does not
    std::optional<Fix> fix;         // where it does not fit
    std::vector<WhyNot> why_not;    // three at most
    Guided guide;
    int simulated = 0; // predictions made
};

struct AdviseOptions {
    ParseOptions parsing; // overrides are taken too
    int jobs = 0;
    std::function<void(const std::string& doing)> progress{};
};
struct AdviceResult {
    std::optional<Advice> advice;
    std::vector<Problem> problems;
};
AdviceResult advise(const std::string& json, const AdviseOptions& options);

// The scenario's text with its overrides, for changes of it.
std::string whole_text(const std::string& json, const ParseOptions& parsing);

std::string to_text(const Advice& advice, const TextStyle& style);
std::string to_json(const Advice& advice);

} // namespace orrery
