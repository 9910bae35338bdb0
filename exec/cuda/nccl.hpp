// Communicators over NCCL: nonblocking, so that a peer that is gone can be told from one that is late, and left. Internal.
#pragma once

#include "exec/queues/device.hpp"

#include <cuda_runtime.h>
#include <nccl.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace orrery::cuda {

// Shared by the communicators of a device: all of NCCL's calls of a device come from one host thread, and a group may have calls of
// several.
struct Group {
    std::function<cudaStream_t(QueueId)> stream_of;
    std::function<bool()> give_up; // another rank has failed: whoever waits for it stops
    double patience = 120;         // seconds for a communicator to come up, or for a call to be enqueued: connections are made lazily
    bool open = false;
    std::vector<std::pair<ncclComm_t, std::string>> touched; // since begin_group
};

void begin_group(Group& group);
void end_group(Group& group); // returns when nothing of the group is in progress on the host any more

// Collective: every rank calls it with the same id. Throws, naming the communicator, when the others are not there by the deadline.
std::unique_ptr<StreamCommunicator> connect_nccl(const WorldId& id, int ranks, int rank, const std::string& name,
                                                 std::shared_ptr<Group> group);
WorldId make_nccl_id();
std::string nccl_version();

} // namespace orrery::cuda
