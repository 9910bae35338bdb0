// Changes of a scenario's text, and what comes of each: simulated, not judged.
#pragma once

#include "sim/report/report.hpp"
#include "sim/scenario/parse.hpp"

#include <optional>
#include <string>
#include <vector>

namespace orrery {

struct ChangedField {
    std::string pointer, value; // JSON text; empty: the field is taken out, so that its default holds
};
struct StrategyChange {
    std::string words; // "full recompute"
    std::vector<ChangedField> fields;
};
// The text with the change. Where a preset's name stands for an object, the object is written: "dgx-h100" -> {"preset": "dgx-h100", ..}.
std::string with(const std::string& json, const StrategyChange& change);
StrategyChange both(const StrategyChange& a, const StrategyChange& b); // the second wins

struct Trial {
    StrategyChange change;
    std::string json;                 // the changed text
    std::string refused;              // the rule that forbids it; empty: it is legal
    std::optional<Scenario> scenario; // where it is legal
    std::optional<Report> report;     // where it is legal; step_time_s is 0 where it does not fit and was not simulated
    bool fits() const { return report && report->memory.fits; }
    double peak() const { return report && !report->memory.stages.empty() ? static_cast<double>(fullest(report->memory).peak.count) : 0; }
};

std::string step_text(const Report& report); // "4.70 s (-12 +28 %)"

struct TryOptions {
    ParseOptions parsing;
    int jobs = 0;             // threads; 0: all cores
    bool simulate = true;     // false: memory alone, step_time_s is 0
    bool too_big_too = false; // simulate also what does not fit: its time if it did
};
Trial try_one(const std::string& json, const StrategyChange& change, const TryOptions& options);
std::vector<Trial> try_all(const std::string& json, const std::vector<StrategyChange>& changes,
                           const TryOptions& options); // in the same order

} // namespace orrery
