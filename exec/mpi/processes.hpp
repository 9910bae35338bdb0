// Ranks in processes of their own: one rank a process, messages by a transport that is loaded at run time.
#pragma once

#include "exec/local/executor.hpp"
#include "sim/ranks/ranks.hpp"

#include <stdexcept>
#include <string>
#include <vector>

namespace orrery {

// A peer has not come for longer than the patience, or ranks have different plans. Says which rank, op, communicator, and who is missing.
struct LostPeer : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Another rank has failed, and its process says why: this one only ends.
struct SaidElsewhere : LostPeer {
    using LostPeer::LostPeer;
};

// Another rank has found the same NaN or infinity, and its process says it.
struct NotFiniteElsewhere : NotFinite {
    using NotFinite::NotFinite;
};

// A rank's process ended without a word.
struct PeerGone : LostPeer {
    PeerGone(const std::string& what, int which) : LostPeer(what), rank(which) {}
    int rank;
};

// Everyone's numbers, by rank; as many from each.
std::vector<std::vector<std::int64_t>> gather_over_ranks(const OrreryTransport& transport, const std::vector<std::int64_t>& mine,
                                                         double patience);

// From this process's clock to rank 0's, in ns: from the quickest of several round trips. All ranks at once.
std::int64_t clock_offset(const OrreryTransport& transport, double patience);

// Everyone's bytes at rank 0, by rank; elsewhere nothing.
std::vector<std::string> collect_at_first(const OrreryTransport& transport, const std::string& mine, double patience);

// For a rank that has failed, before it says why and ends the job: where ranks fail within half a second (a NaN that they all have summed),
// the lowest says it, and the others wait here until it has ended the job. Memory that messages may still come into must stay.
void let_lower_ranks_speak(const OrreryTransport& transport);

// Times of a recorded step are told from rank 0's beginning of it, on its clock. patience: seconds without any progress before it gives up.
// The order of sums is the serial executor's, so that results are its to the bit.
std::unique_ptr<Executor> processes_executor(World& world, const OrreryTransport& transport, double patience);

} // namespace orrery
