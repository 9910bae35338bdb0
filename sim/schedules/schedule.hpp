// A pipeline schedule: per pipeline rank the order of its compute actions. One file a schedule; the catalog is built by CMake from
// the files of this folder (see README.md here). Communication is not a schedule's business: the exchange pass inserts it. Whoever reads a
// scenario or makes a plan asks the schedule, never its name.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

// backward: input and weight gradients in one. input and weight: the two halves where a schedule splits them; a schedule that does may
// still run both at once, as one backward step.
enum class StepKind : std::uint8_t { forward, backward, input, weight };

struct ScheduleStep {
    StepKind kind;
    std::int16_t chunk; // global chunk, in model order
    std::int32_t microbatch;
    // Runs as one block with the step after it: a forward and a backward of different chunks or microbatches, each one's communication
    // under the other's computation. Both need their input before the block begins, and both results are there when it ends.
    bool joined = false;
    friend bool operator==(const ScheduleStep&, const ScheduleStep&) = default;
};

struct ScheduleShape {
    int stages = 1;                // p
    int chunks_per_stage = 1;      // v
    std::int64_t microbatches = 1; // m
    // Relative times of the parts of one chunk's step, for schedules that plan with them (zero bubble): never zero.
    double forward = 1, input = 1, weight = 1, communication = 0;
    bool post_validation = false; // the optimizer needs no barrier (ZB-H2, ZB-V)
    bool join =
        false; // join forwards and backwards also where the schedule has steps of one kind alone (interleaved 1F1B; none, with one stage)
    double owed = 1;        // what a microbatch holds between its input and its weight step, of what it held before: in (0, 1]
    std::int64_t group = 0; // microbatches that a chunk runs one after another, where the schedule groups them; 0: as many as stages
};

struct Schedule {
    std::vector<std::vector<ScheduleStep>> ranks;
};

// Why a shape cannot be: the count to change, and a sentence that begins with the schedule's name ("zb-v needs virtual_pipeline = 2, not
// 1").
enum class ShapeCount : std::uint8_t { stages, chunks_per_stage, microbatches, group };
struct ShapeProblem {
    ShapeCount count;
    std::string what;
    std::int64_t instead = 0; // the nearest larger count that fits; 0: the sentence says the way out itself
};

// How sends and receives between stages wait where a scenario is silent. blocking: each where it stands. overlappable: they pass under
// computation where the framework has an option for it. asynchronous: always under computation.
enum class ScheduleTransfers : std::uint8_t { blocking, overlappable, asynchronous };

struct ScheduleInfo {
    const char* name;                                         // "interleaved-1f1b"
    const char* title;                                        // "Interleaved 1F1B (Megatron)"
    const char* source;                                       // paper
    const char* summary;                                      // one line for `simrun list schedules`
    bool splits_backward;                                     // uses input and weight steps
    int (*stage_of)(int chunk, int stages);                   // which pipeline rank holds a global chunk
    std::vector<ShapeProblem> (*check)(const ScheduleShape&); // all that is wrong with a shape; empty: make() accepts it
    Schedule (*make)(const ScheduleShape&);
    // Pipelines that run through the same ranks, each with chunks (a copy of the model) and a share of the microbatches of its own:
    // of n chunks and m microbatches in all, direction d has n / directions and m / directions from the d-th such part on.
    int directions = 1;
    int usual_chunks = 1; // chunks a stage (virtual_pipeline) where a scenario leaves them out
    ScheduleTransfers transfers = ScheduleTransfers::blocking;
    // Joined steps hide other collectives than those of experts too, so that a model without experts may ask for them.
    bool joins_without_experts = false;
    bool groups_microbatches = false; // ScheduleShape::group says how many
    // Steps flow into each other without a drain: a stage updates its weights while microbatches that read older ones are under way.
    bool asynchronous = false;
};

// The chunk that needs what a forward step (gradient: an input step) of `chunk` makes; -1 at the end of its direction of `length` chunks.
constexpr int receiver_of(int chunk, bool gradient, int length) {
    const int place = chunk % length;
    return gradient ? (place == 0 ? -1 : chunk - 1) : (place == length - 1 ? -1 : chunk + 1);
}
// The chunk whose result a step of `chunk` needs; -1: none.
constexpr int sender_of(int chunk, bool gradient, int length) { return receiver_of(chunk, !gradient, length); }

const std::deque<ScheduleInfo>& schedules();              // those of the folder sorted by name, then those registered
const ScheduleInfo* find_schedule(std::string_view name); // nullptr: no such schedule
std::vector<std::string> schedule_names();

// Adds a schedule of another room or a test to the catalog, for the rest of the program; before anything reads the catalog in another
// thread. Throws std::invalid_argument where the name is taken.
void register_schedule(const ScheduleInfo& info);

// "0: F0.0 F0.1 (F0.2;B1.0) ..": kind, chunk, microbatch; a line a rank. Chunk left out where each rank has one.
std::string to_text(const Schedule& schedule);

} // namespace orrery
