// The ends of a step whose gradients live on the host or on NVMe: the first of its runs leaves them there, where they are clipped. Internal
// to offload_optimizer.
#pragma once

#include "sim/plan/lowering.hpp"

namespace orrery {

// The square of the norm and the factor, both on the host, by which gradients are clipped when they come from NVMe; -1: they are not.
struct GroupClip {
    BufferId total = -1, factor = -1;
};

// A block that has grown runs whole, as before.
void run_whole(Lowering& l, std::int32_t block);

// The device has no zeros to write for sums that live elsewhere, and nobody has: the first run's gradients are the sums so far.
void spare_zeros(Lowering& l, int stage);
// Gradients that are reduced once a step go to their homes when the last sum over ranks is made, ahead of the norm.
void send_once(Lowering& l, std::int32_t block);
// The norm and the clipping of gradients that live on the host: there, with a number's way to the device where ranks add theirs. Of those
// that live on NVMe the norm is made as they pass the host, and the step that reads them clips them.
GroupClip clip_on_host(Lowering& l, std::int32_t block);
// The clipping of the gradients of one step.
Op clip_group(const Lowering& l, const GroupClip& clip, const Op& step);

} // namespace orrery
