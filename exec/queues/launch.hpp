// Which rank this process is, where a launcher has started one process a device: torchrun's variables, or those of Open MPI, Slurm or PMI.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace orrery {

struct LaunchedRank {
    int rank = 0, size = 1, local_rank = 0;
    std::string master = "127.0.0.1"; // of rank 0: MASTER_ADDR, MASTER_PORT
    int port = 29500;
    std::string by; // "torchrun", "Open MPI", ..
};

// Nothing where no launcher's variables are set. Throws std::runtime_error where they make no sense, saying which.
std::optional<LaunchedRank> launched_rank(const std::function<const char*(const char*)>& variable);
std::optional<LaunchedRank> launched_rank(); // of this process's environment

} // namespace orrery
