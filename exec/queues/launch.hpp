// Which rank this process is, where a launcher has started one process a device: torchrun's variables, or those of Open MPI, Slurm or PMI.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace orrery {

struct LaunchedRank {
    int rank = 0, size = 1, local_rank = 0;
    int local_size = 0; // ranks on this machine; 0: the launcher does not say
    std::string by;     // "torchrun", "Open MPI", ..
    std::string job;    // all its processes have this in common, and another job's have not; "": its launcher says no such thing
};

// The address of the store that rank 0's process keeps.
struct MeetingPlace {
    std::string host = "127.0.0.1"; // MASTER_ADDR, or the first node of Slurm's list
    int port = 29500; // ORRERY_PORT, or MASTER_PORT (one more where torchrun's agent listens there itself), or one by Slurm's job
};

// The first host of Slurm's form of a list: "gpu[03-05,9],login" is gpu03. Throws std::runtime_error.
std::string first_host(std::string_view nodes);

// Nothing where no launcher's variables are set. Throws std::runtime_error where they make no sense, saying which.
std::optional<LaunchedRank> launched_rank(const std::function<const char*(const char*)>& variable);
std::optional<LaunchedRank> launched_rank();     // of this process's environment
std::optional<LaunchedRank> launched_if_clear(); // the same; nothing where they make no sense either
// Looked up where ranks meet, and by nobody else: what is wrong with it harms nobody else. Throws std::runtime_error.
MeetingPlace meeting_place(const LaunchedRank& rank, const std::function<const char*(const char*)>& variable);
MeetingPlace meeting_place(const LaunchedRank& rank);

} // namespace orrery
