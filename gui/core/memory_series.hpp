// Memory of a lane over time, as it is drawn: stacked by kind, each pixel column at its highest moment, so that no peak is lost at any
// zoom.
#pragma once

#include "gui/core/run.hpp"
#include "gui/core/tracks.hpp"

#include <QColor>
#include <QImage>
#include <QString>

#include <cstdint>
#include <vector>

namespace orrery {

struct MemorySeries {
    std::vector<QString> kinds;      // translated, from the bottom up
    std::vector<std::int64_t> at;    // ps: a level holds until the next sample
    std::vector<std::int64_t> bytes; // [sample * kinds.size() + kind]
    std::vector<std::int64_t> total; // by sample
    std::int64_t capacity = 0;       // of the device, or the node; 0: not known
    std::int64_t begin = 0, end = 0;
    std::int32_t peak = -1;     // the sample with the highest total, the first of equals; -1: no samples
    std::int32_t runs_out = -1; // the first sample beyond the capacity; -1: it fits
};

// Empty where the trace has no samples of that lane.
MemorySeries memory_of(const RunData& run, std::int32_t lane);
// The curve of the fullest node's memory (Space::host) or NVMe: empty where nothing lies there, or the run has no trace.
MemorySeries memory_of_node(const RunData& run, Space space);

// A memory against what it has, from the report: the fullest stage's device, the fullest node's memory, its NVMe.
struct MemoryTier {
    QString name;               // translated: "device of stage 3"
    std::int64_t peak = 0;      // bytes
    std::int64_t capacity = 0;  // 0: not known
    std::vector<QString> kinds; // what lies there at the peak: "parameters 16.1 GB", the most first
    bool fits() const { return capacity == 0 || peak <= capacity; }
};
std::vector<MemoryTier> memory_tiers(const RunData& run); // those in use; empty: there is no report
// The sample whose level holds at t; -1: before the first.
std::int32_t sample_at(const MemorySeries& series, std::int64_t t);
// By column the sample with the highest total that holds in it; -1: none.
std::vector<std::int32_t> highest_in_columns(const MemorySeries& series, const Columns& columns);

// Of MemoryKind, then of the reserve: "optimizer states", translated.
QString memory_kind_text(std::size_t kind);
QColor memory_colour(std::size_t kind, bool dark);
Pattern memory_pattern(std::size_t kind);
// Whether a pixel is inside the kind's pattern, where it takes the colour; beside it a paler shade (in the dark: a deeper one).
bool in_memory_pattern(std::size_t kind, int x, int y);
QColor memory_shade(std::size_t kind, bool dark);
QImage memory_swatch(std::size_t kind, bool dark); // for legends
QString bytes_text(std::int64_t bytes);            // "12.3 GB", 1e9 bytes

// The op that runs on the lane's computation queue at t: "l17.fc1.fwd (microbatch 3)"; empty: nothing.
QString running_at(const RunData& run, std::int32_t lane, std::int64_t t);

} // namespace orrery
