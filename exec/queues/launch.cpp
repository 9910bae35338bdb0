#include "exec/queues/launch.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace orrery {
namespace {

using Variable = std::function<const char*(const char*)>;

struct Launcher {
    const char *by, *rank, *size, *local, *local_size;
    const char* job[2]; // what tells its jobs apart
};
constexpr Launcher known[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", {"TORCHELASTIC_RUN_ID"}},
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE"}},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", {"PMI_JOBID"}},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE", {"SLURM_JOB_ID", "SLURM_STEP_ID"}}};

int number(const Variable& variable, const char* name, int least, int most) {
    const char* text = variable(name);
    if (!text) throw std::runtime_error(fmt::format("{} is not set, and other variables of its launcher are", name));
    int value = 0;
    const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
    if (error != std::errc{} || *end || value < least || value > most)
        throw std::runtime_error(fmt::format("{}={} is not a number from {} to {}", name, text, least, most));
    return value;
}

bool is_slurm(std::string_view by) { return by == "Slurm"; }

// Slurm starts ranks in steps of its own. A batch script and a shell have an allocation's number of tasks in their environment too, but
// are one process: no step's number is set there (slurm/src/common/env.c: setup_env sets SLURM_STEP_ID where it is not negative, and
// env_array_for_batch_job never), or it is one of the two that Slurm counts from the end (slurm.h: SLURM_BATCH_SCRIPT = 0xfffffffb,
// SLURM_INTERACTIVE_STEP = 0xfffffffa).
bool in_slurm_step(const Variable& variable) {
    const char* const step = variable("SLURM_STEP_ID");
    return step && std::string_view(step) != "4294967291" && std::string_view(step) != "4294967290";
}

// Slurm speaks PMI too (slurm/src/plugins/mpi/pmi2/mpi_pmi2.c sets PMI_RANK), and says more in its own variables.
bool is_slurms_pmi(const Variable& variable) {
    const char *const pmi = variable("PMI_JOBID"), *const job = variable("SLURM_JOB_ID"), *const step = variable("SLURM_STEP_ID");
    return pmi && job && step && variable("SLURM_PROCID") && fmt::format("{}.{}", job, step) == pmi;
}

bool starts_ranks(const Variable& variable, const Launcher& l) {
    if (!variable(l.rank) || !variable(l.size)) return false;
    if (l.by == std::string_view("PMI") && is_slurms_pmi(variable)) return false;
    return !is_slurm(l.by) || in_slurm_step(variable);
}

std::string job_of(const Variable& variable, const Launcher& l) {
    std::string job;
    for (const char* name : l.job)
        if (const char* value = name ? variable(name) : nullptr) job += fmt::format("{}{}={}", job.empty() ? "" : " ", name, value);
    return job;
}

// The tasks of this step, which may be fewer than those of the job.
const char* size_variable(const Variable& variable, const Launcher& l) {
    return is_slurm(l.by) && variable("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : l.size;
}

// Jobs of Slurm share nodes: each step of each job has a port of its own, below those that systems give to connections (from 32768 on).
// Jobs of one node have numbers close to each other, so steps are far apart.
int slurm_port(const Variable& variable) {
    constexpr std::int64_t first = 20000, ports = 10000, between_steps = 3001;
    constexpr int most = std::numeric_limits<int>::max();
    const std::int64_t job = number(variable, "SLURM_JOB_ID", 0, most), step = number(variable, "SLURM_STEP_ID", 0, most);
    return static_cast<int>(first + (job + between_steps * step) % ports);
}

// torchrun's agent keeps a store of its own at MASTER_PORT: ours is beside it.
int port_of(const Variable& variable, const LaunchedRank& rank) {
    if (variable("ORRERY_PORT")) return number(variable, "ORRERY_PORT", 1, 65535);
    if (!variable("MASTER_PORT")) return is_slurm(rank.by) && variable("SLURM_JOB_ID") ? slurm_port(variable) : MeetingPlace{}.port;
    const int port = number(variable, "MASTER_PORT", 1, 65535);
    const char* const agent = variable("TORCHELASTIC_USE_AGENT_STORE");
    if (!agent || (std::string_view(agent) != "True" && std::string_view(agent) != "1")) return port;
    return port < 65535 ? port + 1 : port - 1;
}

// The address of rank 0, where nobody says it: Slurm places it on the step's first node.
std::string master_of(const Variable& variable) {
    if (const char* master = variable("MASTER_ADDR")) return master;
    for (const char* list : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})
        if (const char* nodes = variable(list)) return first_host(nodes);
    return MeetingPlace{}.host;
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
        r.job = job_of(variable, l);
        return r;
    }
    return std::nullopt;
}

MeetingPlace meeting_place(const LaunchedRank& rank, const Variable& variable) { return {master_of(variable), port_of(variable, rank)}; }

namespace {

const char* of_environment(const char* name) { return std::getenv(name); }

} // namespace

std::optional<LaunchedRank> launched_rank() { return launched_rank(of_environment); }
std::optional<LaunchedRank> launched_if_clear() {
    try {
        return launched_rank();
    } catch (const std::exception&) { return std::nullopt; }
}
MeetingPlace meeting_place(const LaunchedRank& rank) { return meeting_place(rank, of_environment); }

} // namespace orrery
