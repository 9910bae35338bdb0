// The processes that have the other ranks of a job, whatever connects them: MPI, or the store that rank 0's process keeps.
#pragma once

#include "exec/mpi/heartbeats.hpp"
#include "exec/mpi/processes.hpp"
#include "exec/queues/executor.hpp"
#include "exec/queues/launch.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace orrery::simexec {

// Rank 0 refuses the job, and has said why: the others only end.
struct RefusedElsewhere : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Another rank has failed in the same way, and says so: this one ends with the same code.
struct SaidByAnother : std::runtime_error {
    SaidByAnother(const std::string& what, int exit) : std::runtime_error(what), code(exit) {}
    int code;
};

struct Others {
    using Numbers = std::vector<std::int64_t>;
    int rank = 0, size = 1;
    std::function<std::vector<Numbers>(const Numbers& mine)> gather;          // everyone's, by rank; as many from each; the same on all
    std::function<std::vector<std::string>(const std::string& mine)> collect; // everyone's bytes at rank 0; elsewhere nothing
    std::function<void()> meet;                                               // a barrier
    // Tells the others, before this process ends; whether this one says why: one does, of ranks that fail alike.
    std::function<bool(const std::exception&)> fail;
    std::shared_ptr<void> keeps{}; // what connects them

    bool any(bool mine) const;  // whether any of them says so; the same answer on all
    int first(bool mine) const; // the lowest rank that says so, -1: none; the same answer on all
    Numbers sum(const Numbers& mine) const;
};

constexpr double first_step_patience = 120; // seconds: a GPU's first step makes GEMM plans and workspaces

// patience: seconds they wait for each other. The functions they call throw LostPeer, or StoreTimeout and StoreLost of the fleet's store.
Others over(const OrreryTransport& transport, double patience);
Others over(const Fleet& fleet, const LaunchedRank& at, double patience);

// Names a process under MPI that is stopped, and ends this one. mpirun ends the others where a process ends so; MPI's own abort would have
// to wait for whoever is inside MPI.
std::unique_ptr<Heartbeats> heartbeats_of(const OrreryTransport& transport, double patience);

// The job of a rank, by the names a user knows, each as a number that stands for its contents.
using Terms = std::vector<std::pair<const char*, std::int64_t>>;
std::int64_t term(const std::string& text);

// The one that `speaks` says it, and only then does any of them go on to end the job.
void say_once(const Others& others, bool speaks, const std::string& what);

[[noreturn]] void end_all(const OrreryTransport& transport, const Others& others, const std::exception& e);
// Work of one rank under MPI: where it fails, one of the ranks that fail says why, and all end.
template <class F> void or_end_all(const OrreryTransport& transport, const Others& others, F&& work) {
    try {
        work();
    } catch (const std::exception& e) { end_all(transport, others, e); }
}

// Before the first step: a rank with another text or learning rate would train on without a word. Rank 0 says which rank has what else, and
// all throw SaidElsewhere.
void agree_on_terms(const Others& others, const Terms& terms);

} // namespace orrery::simexec
