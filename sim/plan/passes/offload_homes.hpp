// Homes on the host of what is worked on here: what they are like, and the ways there and back. Internal to the passes that offload.
#pragma once

#include "sim/plan/lowering.hpp"

#include <vector>

namespace orrery {

// A gradient as it is when it leaves the device: summed over tensor-parallel ranks.
Buffer summed_over_tensor_parallel(Buffer b);
// A parameter or a gradient of the device as it is on the host: of 16 bits it may have fp32 there (Practice::fp32_homes, crosses_in_fp32).
Buffer as_on_host(const Lowering& l, Buffer b);
// Where `b` lives from now on, on the host or behind it; on the device it is inside an action alone.
BufferId home_of(Lowering& l, BufferId b);

// A copy between the device, the host's memory and its NVMe, by where the buffers lie; it has the name of what leaves or comes.
Op copy_op(const Lowering& l, BufferId from, BufferId to);
// From the device to its home on the host: where that is wide by way of a wide copy, which is made where it is sent, so that there is one
// at a time.
std::vector<Op> to_home(Lowering& l, BufferId here, BufferId home);
// The same of what goes: its room here is free as soon as it has been read.
std::vector<Op> leave_for_home(Lowering& l, BufferId here, BufferId home);
// .. and back, where parameters are gathered or fetched: cast where they are copied, so that no computation waits for them.
std::vector<Op> from_home(Lowering& l, BufferId home, BufferId here);
// From the host to NVMe, which leaves the host without it.
void store(Lowering& l, BufferId home, std::vector<Op>& ops);

// A block of a bucket's, empty; and ops that are put into one.
Block block_of(const Lowering& l, const Bucket& b, BlockKind kind, const char* what);
void append(std::vector<Op>& to, std::vector<Op> ops);
void insert(Block& b, std::size_t place, std::vector<Op> ops);

} // namespace orrery
