// The event loop's state and its steps. A lane issues its program's ops in order (host.cpp), each queue serves in order (run.cpp),
// collectives and transfers meet as bundles (comm.cpp); blame.cpp says what an idle lane waits for, snapshot.cpp compares states,
// replay.cpp skips periods, record.cpp keeps spans, deadlock.cpp reports.
#pragma once

#include "sim/engine/compile.hpp"
#include "sim/engine/heap.hpp"
#include "sim/engine/machine.hpp"
#include "sim/engine/sharing.hpp"

#include <array>
#include <memory>

namespace orrery {

inline constexpr std::uint32_t host_bit = 1u << 31;
inline constexpr int busy_other = category_count; // "other" while compute runs: apart until the end, for compute_busy
inline constexpr int account_count = category_count + 1;

// An issued op, from its issue until the ring comes round.
struct Slot {
    std::int64_t issue = 0;       // the host has launched it
    std::int32_t op = 0;          // in Machine::ops
    std::int32_t action = 0;      // in its program
    std::int32_t action_deps = 0; // first of its own in Machine::action_deps
    std::uint32_t waiters = 0;    // local queues, and the host, to wake at its end
    std::int32_t next = 0;        // how far the next op of its queue is; 0: none issued yet
    std::int16_t action_deps_count = 0;
    std::uint8_t heads = 0; // exchange: queues at whose head it stands
    bool ended = false;
};

enum class QueuePhase : std::uint8_t { empty, held, waiting, launching, running, posted, moving };
// held: a shadow or an exchange not at the head of all its queues. waiting: for a dependency. launching: for the host. running: a
// timed op. posted: for partners. moving: data (of an exchange: of one of its transfers) is on its way.

struct QueueState {
    std::int64_t head = -1; // slot index in the lane's stream, -1: none
    std::int64_t tail = -1;
    std::int64_t begin = 0;               // of the op at the head (posted: when it was)
    std::int64_t last = 0, remaining = 0; // timed: work left at `last`, in ps at full speed
    std::int16_t open = 0;                // exchange: transfers yet to end
    QueuePhase phase = QueuePhase::empty;
    double slow = 0; // timed: by this share, since `last`
};

// A lane inside an action that is run in one piece (passage.hpp), since when, and how much of its course has been accounted for.
struct Passage;
struct WithinAction {
    const Passage* passage = nullptr;
    std::int32_t op = 0;               // the first, in Machine::ops
    std::int64_t since = 0, first = 0; // first: slot of the action
    std::size_t freed = 0, turns = 0, sent = 0, ends = 0;
};

enum class HostBlock : std::uint8_t { none, window, sync, far_ahead }; // far_ahead: steps beyond those asked for

struct LaneState {
    std::int64_t issued = 0, oldest = 0;   // next slot to issue; oldest not ended (indices in the lane's stream)
    std::int64_t host = 0;                 // the host's clock
    std::int64_t unbroken = 0;             // slots from here on it has launched one after the other, without waiting between
    std::int32_t action = 0, position = 0; // issue cursor: action of the program, slot in its segment
    std::int32_t dep_cursor = 0;           // in Machine::action_deps
    std::int32_t step = 0;                 // of the issue cursor
    HostBlock blocked = HostBlock::none;
    bool dirty = false, busy = false; // busy: compute runs, as settled
    std::int32_t fluids = 0;          // communications moving data on this device
    double slows = 0;                 // the most that one of them slows computation
    std::int64_t since = 0;           // account is up to this time
    std::uint8_t account_as = static_cast<std::uint8_t>(Category::other);
    std::array<std::int64_t, account_count> account{};
    std::vector<std::int64_t> step_ends; // slots at which the steps being run end
    std::int32_t steps_done = 0;
    std::int64_t ended_to = 0; // slots from here on have not ended
    WithinAction inside;
};

enum class BundlePhase : std::uint8_t { idle, latency, fluid };

struct BundleState {
    BundlePhase phase = BundlePhase::idle;
    bool mismatch = false, dirty = false;
    bool started[2] = {false, false}; // channel: sender and receiver have posted
    std::int16_t queue[2] = {0, 0};   // channel: main queue of each side's exchange
    std::int32_t arrived = 0;         // collective
    std::int32_t cost = -1;           // in Machine::bundle_costs
    std::int32_t sharing = -1;        // id in Sharing
    std::int32_t busy = 0;            // members whose compute runs
    std::int64_t last = 0;
    double remaining = 0, rate = 0, cap = 0;
};

struct Recorder;
struct Replay;
struct Course;
class Passages;

struct EventLoop {
    const Machine& m;
    const SimulateOptions& options;
    std::int64_t now = 0;
    std::int64_t skipped = 0; // time of skipped periods: true time is now + skipped
    std::vector<LaneState> lanes;
    std::int64_t ring_size; // slots of a lane, a power of two: the host's window and an exchange's extra slots
    std::vector<Slot> ring; // ring_size a lane
    std::vector<QueueState> queues;
    std::vector<std::int32_t> queue_lane; // queue -> lane
    std::vector<BundleState> bundles;
    std::vector<std::int64_t> completions; // by bundle cost
    EventHeap heap;
    Sharing sharing;
    std::vector<std::int32_t> bundle_of_sharing;
    std::vector<std::vector<std::int32_t>> lane_fluids; // bundles moving data on each lane, where interference makes them matter
    std::vector<std::int32_t> dirty_lanes, dirty_bundles;
    bool sharing_changed = false, interferes = false, any_slows = false; // any_slows: some bundle slows computation
    std::int32_t step_limit = 0; // steps to run: no lane goes far beyond, even one that nothing holds back
    std::int32_t reference = 0;  // the lane whose step ends are the steps' ends: the first that does anything
    bool anchor = false;         // it has begun the computation of an action
    std::int32_t anchor_action = -1;
    SimulationStats stats;
    Recorder* recorder = nullptr;       // nullptr: no spans
    std::unique_ptr<Passages> passages; // nullptr: every op is an event

    EventLoop(const Machine& machine, const SimulateOptions& how);
    ~EventLoop();

    Slot& slot(std::int64_t lane, std::int64_t index) { return ring[at(lane * ring_size + (index & (ring_size - 1)))]; }
    const Slot& slot(std::int64_t lane, std::int64_t index) const { return ring[at(lane * ring_size + (index & (ring_size - 1)))]; }
    QueueState& queue(std::int64_t lane, std::int64_t q) { return queues[at(m.lanes[at(lane)].queues + q)]; }
    const QueueState& queue(std::int64_t lane, std::int64_t q) const { return queues[at(m.lanes[at(lane)].queues + q)]; }
    const CompiledProgram& program(std::int64_t lane) const { return m.programs[at(m.lanes[at(lane)].program)]; }
    std::int32_t queue_entity(std::int32_t lane, int q) const { return m.lanes[at(lane)].queues + q; }
    std::int32_t bundle_entity(std::int32_t b) const { return static_cast<std::int32_t>(queues.size()) + b; }
    // The slot `distance` back from `index` that has not ended; -1: it has.
    std::int64_t unmet(std::int32_t lane, std::int64_t index, std::int32_t distance) const {
        std::int64_t on = index - distance;
        return on >= lanes[at(lane)].oldest && !slot(lane, on).ended ? on : -1;
    }
    // Calls f(slot index) for each unmet dependency in order until it returns true.
    template <class F> bool any_unmet(std::int32_t lane, std::int64_t index, F&& f) const {
        const Slot& s = slot(lane, index);
        const CompiledOp& op = m.ops[at(s.op)];
        for (std::int32_t d = op.deps_begin, end = d + op.deps_count; d < end; ++d)
            if (std::int64_t on = unmet_inside(lane, index, d); on >= 0 && f(on)) return true;
        for (std::int32_t d = s.action_deps, end = d + s.action_deps_count; d < end; ++d)
            if (std::int64_t on = unmet(lane, index, m.action_deps[at(d)].distance); on >= 0 && f(on)) return true;
        return false;
    }
    std::int64_t unmet_inside(std::int32_t lane, std::int64_t index, std::int32_t d) const { return unmet(lane, index, m.deps[at(d)]); }

    // host.cpp
    void issue(std::int32_t lane) { issue(lane, now); }
    void issue(std::int32_t lane, std::int64_t when); // as at that time, before now only where nothing issued can begin
    // run.cpp
    void reach_head(std::int32_t lane, int q);
    void make_ready(std::int32_t lane, int q);
    void begin(std::int32_t lane, int q);
    void complete(std::int32_t lane, int q);
    void handle(std::int32_t entity);
    void settle();
    void mark(std::int32_t lane) {
        if (!lanes[at(lane)].dirty) {
            lanes[at(lane)].dirty = true;
            dirty_lanes.push_back(lane);
        }
    }
    void charge(std::int32_t lane); // brings its account up to now
    // Runs until the reference lane (all: every lane) has ended `steps` steps, or this step has met the one before (course.hpp); false:
    // nothing can happen any more.
    bool run_steps(std::int32_t steps, Replay* replay, Course* course, bool all);
    bool done(std::int32_t steps, bool all) const;
    // comm.cpp
    void arrive(std::int32_t lane, int q);
    void post(std::int32_t lane, int q);
    void start_bundle(std::int32_t b);
    void bundle_event(std::int32_t b);
    void finish_bundle(std::int32_t b);
    void mark_bundle(std::int32_t b) {
        if (!bundles[at(b)].dirty) {
            bundles[at(b)].dirty = true;
            dirty_bundles.push_back(b);
        }
    }
    void settle_bundles();
    void compute_turned(std::int32_t lane, bool on); // its compute went busy or idle: communication on it slows or recovers
};

// blame.cpp: why the compute queue of a lane is idle.
struct Why {
    Category category = Category::other;
    WaitCause cause = WaitCause::none;
    std::int32_t peer = -1;
};
Why why_idle(const EventLoop& run, std::int32_t lane);

// snapshot.cpp: the state relative to now and to where each lane stands; equal words mean equal futures as far as the programs agree.
void snapshot(const EventLoop& run, std::vector<std::uint64_t>& words);
// The state relative to now and to the beginning of step `step` (from 1): equal words mean equal futures.
void place_in_step(const EventLoop& run, std::int32_t step, std::vector<std::uint64_t>& words);
std::uint64_t fingerprint(const EventLoop& run); // cheap, of a part of it
// All that the course of a stretch, up to slot `last`, does not say of its lane at the beginning. place_known: as place_in_step(), else as
// snapshot().
void state_at_beginning(const EventLoop& run, std::int32_t lane, std::int64_t last, bool place_known, std::vector<std::uint64_t>& words);

std::int64_t slots_of_lane(const Machine& machine); // a power of two that the window and an exchange need
Deadlock deadlock(const EventLoop& run);

} // namespace orrery
