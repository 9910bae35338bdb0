// Communicators over NCCL: nonblocking, so that a peer that is gone can be told from one that is late, and left. Internal.
#pragma once

#include "exec/cuda/plugin.hpp"

#include <cuda_runtime.h>

#include <functional>

namespace orrery::cuda {

using StreamOf = std::function<cudaStream_t(QueueId)>;

// Collective: every rank calls it with the same id. Throws, naming the communicator, when the others are not there by the deadline.
std::unique_ptr<CudaCommunicator> connect_nccl(const NcclId& id, int ranks, int rank, const std::string& name, StreamOf stream_of);
NcclId make_nccl_id();
std::string nccl_version();

} // namespace orrery::cuda
