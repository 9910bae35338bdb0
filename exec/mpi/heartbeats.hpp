// Signs of life between the processes of a job, beside MPI: a process that is stopped, or whose machine is gone, is named in seconds, long
// before anyone's patience for a communication ends.
#pragma once

#include "sim/ranks/ranks.hpp"

#include <functional>
#include <memory>

namespace orrery {

// Called by the process that noticed: the rank that is silent, and for how many seconds.
using Silence = std::function<void(int rank, double seconds)>;

// Datagrams of a few bytes, twice a second, between rank 0 and every other rank. Whoever has never been heard is not missed: where the
// network carries no such datagrams, nothing is noticed. One process says it: rank 0 of the others, rank 1 of rank 0 (where rank 1 is gone
// too, the next, a second later).
class Heartbeats {
  public:
    // All processes at once. seconds: without a sign of life. silent: called once, from another thread; it ends the process. Throws
    // LostPeer where a process does not come in `patience` seconds.
    Heartbeats(const OrreryTransport& transport, double patience, double seconds, Silence silent);
    ~Heartbeats(); // says goodbye: nobody misses this rank
    Heartbeats(const Heartbeats&) = delete;
    Heartbeats& operator=(const Heartbeats&) = delete;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace orrery
