// Stand-ins of the CUDA runtime and NCCL for tests without a GPU: the calls that exec/cuda makes, on host memory and threads, strict where
// the real ones are (a communicator in progress may not be used, one host thread a communicator, a stream belongs to its device), and made
// to fail or hang where a test wants it. One set a process.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace orrery::fake {

void reset(int devices);                                      // devices there are; nothing wrong, nothing logged
void launch(cudaStream_t stream, std::function<void()> work); // a kernel: runs on the stream, in order

// How often a nonblocking communicator answers "in progress" before it is done.
void set_progress_polls(int polls);
// The next call of that name fails by `result`: of NCCL ("ncclAllReduce", ..) by a member with this rank in its communicator, of the
// runtime ("cudaMemcpyAsync") by this device. rank -1: any.
void fail_call(const std::string& call, int rank, int result);
// From its n-th collective or transfer on, that device's kernels of NCCL never start (as if the process had stopped).
void hang_device(int device, int after_calls);
void hang_abort(bool on); // ncclCommAbort does not return
// Of each stream: whoever launches more waits until there is room, as CUDA's queue of launches makes it. 0: any number.
void limit_launches(int most);
// What a communicator takes of the memory that cudaMemGetInfo tells: when it is made, and for each peer it has exchanged words with.
inline constexpr std::size_t communicator_bytes = std::size_t{4} << 20, connection_bytes = std::size_t{1} << 20;

struct Launched {
    std::string comm;
    std::string call;
    std::size_t count = 0; // elements
};
std::vector<Launched> launched(int device); // NCCL's calls, in the order the host made them
int aborted();                              // communicators that were aborted
std::vector<std::string> misuse();          // calls that the real library would not have allowed
int live_streams();
int live_events();
int live_allocations();

} // namespace orrery::fake
