// Processes that mpirun started: how many, and the messages between them.
#pragma once

#include "sim/ranks/transport.h"

#include <chrono>
#include <string>

namespace orrery {

// Whether mpirun, mpiexec or srun started this process as one of several (Open MPI, MPICH, Intel MPI, PMIx).
bool started_as_ranks();

// Loads exec_mpi.so from beside the program, once. Throws std::runtime_error with the reason and a way out: `instead` says what to do
// without MPI, "use --executor threads".
const OrreryTransport& open_transport(const std::string& instead);

constexpr std::chrono::microseconds between_looks{200}; // at messages under way: ranks that wait leave their cores to others
void wait(const OrreryTransport& t, void* request);

} // namespace orrery
