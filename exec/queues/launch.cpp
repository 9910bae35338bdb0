#include "exec/queues/launch.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace orrery {
namespace {

using Variable = std::function<const char*(const char*)>;

struct Launcher {
    const char *by, *rank, *size, *local;
};
constexpr Launcher known[] = {{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
                              {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
                              {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
                              {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}};

int number(const Variable& variable, const char* name, int least, int most) {
    const char* text = variable(name);
    if (!text) throw std::runtime_error(fmt::format("{} is not set, and other variables of its launcher are", name));
    int value = 0;
    const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
    if (error != std::errc{} || *end || value < least || value > most)
        throw std::runtime_error(fmt::format("{}={} is not a number from {} to {}", name, text, least, most));
    return value;
}

} // namespace

std::optional<LaunchedRank> launched_rank(const Variable& variable) {
    for (const Launcher& l : known) {
        if (!variable(l.rank) || !variable(l.size)) continue;
        LaunchedRank r;
        r.by = l.by;
        r.size = number(variable, l.size, 1, 1 << 20);
        r.rank = number(variable, l.rank, 0, r.size - 1);
        r.local_rank = variable(l.local) ? number(variable, l.local, 0, 1 << 10) : r.rank;
        if (const char* master = variable("MASTER_ADDR")) r.master = master;
        if (variable("MASTER_PORT")) r.port = number(variable, "MASTER_PORT", 1, 65535);
        return r;
    }
    return std::nullopt;
}

std::optional<LaunchedRank> launched_rank() {
    return launched_rank([](const char* name) { return static_cast<const char*>(std::getenv(name)); });
}

} // namespace orrery
