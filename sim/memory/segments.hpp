// The memory that the caching allocator reserves for a stage's program: its allocations and frees in issue order, through two steps.
#pragma once

#include "sim/memory/caching_allocator.hpp"
#include "sim/plan/plan.hpp"

namespace orrery {

// The stream a buffer is allocated on where software has streams of its own for it: 1 what is gathered, 2 what is reduced, else 0.
int allocation_stream(const Buffer& b);
// Allocated throughout: all the step, unless the program allocates or frees it.
bool lasts(const Buffer& b, const Program& program, Space space);

struct AllocatorUse {
    bool streams = false;    // what is gathered and what is reduced is allocated on streams of its own
    bool expandable = false; // segments grow
    bool late_moments =
        false; // an optimizer's moments come with its first update (torch.optim's _init_group), into what a step has left free
};
// Best fit turns on single temporaries, and a plan has not all that software has: of the plan's own sequence, and of one with another
// temporary beside each sum, the one that reserves less counts. limit: what the device has for segments.
// A long step is followed for its first ten thousand allocations and more: by then a pipeline repeats itself.
Bytes reserved_peak(const Plan& plan, const Program& program, AllocatorUse use, Bytes limit);

} // namespace orrery
