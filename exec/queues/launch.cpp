#include "exec/queues/launch.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace orrery {
namespace {

using Variable = std::function<const char*(const char*)>;

struct Launcher {
    const char *by, *rank, *size, *local, *local_size;
};
constexpr Launcher known[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"}};

int number(const Variable& variable, const char* name, int least, int most) {
    const char* text = variable(name);
    if (!text) throw std::runtime_error(fmt::format("{} is not set, and other variables of its launcher are", name));
    int value = 0;
    const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
    if (error != std::errc{} || *end || value < least || value > most)
        throw std::runtime_error(fmt::format("{}={} is not a number from {} to {}", name, text, least, most));
    return value;
}

// A batch script and an interactive shell are steps of one process, whatever the allocation's number of tasks: Slurm numbers such steps
// from the end (SLURM_BATCH_SCRIPT = 0xfffffffb, SLURM_INTERACTIVE_STEP = 0xfffffffa in slurm.h).
bool starts_ranks(const Variable& variable, const Launcher& l) {
    if (!variable(l.rank) || !variable(l.size)) return false;
    const char* const step = l.by == std::string_view("Slurm") ? variable("SLURM_STEP_ID") : nullptr;
    return !step || (std::string_view(step) != "4294967291" && std::string_view(step) != "4294967290");
}

// The tasks of this step, which may be fewer than those of the job.
const char* size_variable(const Variable& variable, const Launcher& l) {
    return l.by == std::string_view("Slurm") && variable("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : l.size;
}

// torchrun's agent keeps a store of its own at MASTER_PORT: ours is beside it.
int port_of(const Variable& variable) {
    if (variable("ORRERY_PORT")) return number(variable, "ORRERY_PORT", 1, 65535);
    const int port = variable("MASTER_PORT") ? number(variable, "MASTER_PORT", 1, 65535) : 29500;
    const char* const agent = variable("TORCHELASTIC_USE_AGENT_STORE");
    if (!agent || (std::string_view(agent) != "True" && std::string_view(agent) != "1")) return port;
    return port < 65535 ? port + 1 : port - 1;
}

// The address of rank 0, where nobody says it: Slurm places it on the step's first node.
std::string master_of(const Variable& variable) {
    if (const char* master = variable("MASTER_ADDR")) return master;
    for (const char* list : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})
        if (const char* nodes = variable(list)) return first_host(nodes);
    return "127.0.0.1";
}

} // namespace

std::string first_host(std::string_view nodes) {
    const std::size_t comma = nodes.find(','), open = nodes.find('[');
    if (open == std::string_view::npos || comma < open) return std::string(nodes.substr(0, comma));
    const std::size_t close = nodes.find(']', open);
    if (close == std::string_view::npos) throw std::runtime_error(fmt::format("{} is no list of nodes: a ] is missing", nodes));
    const std::string_view inside = nodes.substr(open + 1, close - open - 1);
    const std::string_view rest = nodes.substr(close + 1);
    return fmt::format("{}{}{}", nodes.substr(0, open), inside.substr(0, inside.find_first_of("-,")), rest.substr(0, rest.find(',')));
}

std::optional<LaunchedRank> launched_rank(const Variable& variable) {
    for (const Launcher& l : known) {
        if (!starts_ranks(variable, l)) continue;
        LaunchedRank r;
        r.by = l.by;
        r.size = number(variable, size_variable(variable, l), 1, 1 << 20);
        r.rank = number(variable, l.rank, 0, r.size - 1);
        r.local_rank = variable(l.local) ? number(variable, l.local, 0, 1 << 10) : r.rank;
        r.local_size = variable(l.local_size) ? number(variable, l.local_size, 1, 1 << 10) : 0;
        r.master = master_of(variable);
        r.port = port_of(variable);
        return r;
    }
    return std::nullopt;
}

std::optional<LaunchedRank> launched_rank() {
    return launched_rank([](const char* name) { return static_cast<const char*>(std::getenv(name)); });
}

} // namespace orrery
