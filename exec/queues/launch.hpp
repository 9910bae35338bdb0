// Which rank this process is, where a launcher has started one process a device: torchrun's variables, or those of Open MPI, Slurm or PMI.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace orrery {

struct LaunchedRank {
    int rank = 0, size = 1, local_rank = 0;
    int local_size = 0;               // ranks on this machine; 0: the launcher does not say
    std::string master = "127.0.0.1"; // of rank 0: MASTER_ADDR, or the first node of Slurm's list
    int port = 29500;                 // of our store: ORRERY_PORT, or MASTER_PORT; one more where torchrun's agent listens there itself
    std::string by;                   // "torchrun", "Open MPI", ..
};

// The first host of Slurm's form of a list: "gpu[03-05,9],login" is gpu03. Throws std::runtime_error.
std::string first_host(std::string_view nodes);

// Nothing where no launcher's variables are set. Throws std::runtime_error where they make no sense, saying which.
std::optional<LaunchedRank> launched_rank(const std::function<const char*(const char*)>& variable);
std::optional<LaunchedRank> launched_rank(); // of this process's environment

} // namespace orrery
