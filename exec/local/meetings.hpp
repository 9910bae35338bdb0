// Posted communications, and those that can move: the state that executors of one process share. Not guarded: an executor with threads
// calls all but move() under its lock.
#pragma once

#include "exec/local/executor.hpp"
#include "exec/local/meeting.hpp"
#include "sim/plan/deadlock.hpp"

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace orrery {

// An op on a queue: a communication, or a computation that could not run at once.
struct Posted {
    Attendance side;
    std::int32_t issue = 0;
    std::int64_t when = 0;
    bool arrived = false;    // at the head of all its queues, and all it waits for is done
    bool moving = false;     // taken, not settled
    std::vector<char> moved; // of an exchange, by transfer: 1 while it moves, 2 when it has
    std::vector<QueueId> queues;
};

struct Issuer {
    Rank* rank = nullptr;
    std::size_t next = 0;                    // in its issue order
    std::vector<char> done;                  // by issue
    std::vector<std::deque<Posted*>> queues; // by QueueId
    std::vector<std::unique_ptr<Posted>> posted;

    const Issue& issue(std::size_t i) const { return rank->order->issues[i]; }
    bool finished() const { return next == done.size() && posted.empty(); }
    bool ready(const Issue& i) const {
        for (std::int32_t d : rank->order->deps_of(i))
            if (!done[d]) return false;
        return true;
    }
};

// Ends that move together: those of a collective, one op of one rank, or transfers of exchanges.
struct Move {
    struct End {
        Issuer* host;
        Posted* posted;
    };
    struct Transfer {
        End from;
        std::size_t k;
        End to;
        std::size_t l;
    };
    std::vector<End> ends;
    std::vector<Transfer> transfers;
};

class Meetings {
  public:
    explicit Meetings(World& world);
    void begin_step();
    std::vector<Issuer>& hosts() { return hosts_; }

    void post(Issuer& host, std::size_t issue, std::int64_t when);
    // Something at the head of the host's queues that can move now; it is taken, and nobody else gets it.
    std::optional<Move> take(Issuer& host);
    void move(const Move& m);
    void settle(const Move& m, std::int64_t begin, std::int64_t end, std::int64_t cpu, std::vector<OpTime>* record);

    Deadlock blocked() const; // who waits for whom, where nothing can move

  private:
    std::optional<Move> take(Issuer& host, Posted& p);
    std::optional<Move> take_collective(Posted& p);
    std::optional<Move> take_exchange(Issuer& host, Posted& p);
    Posted* arrived(int rank, QueueId queue);
    struct Peer {
        Issuer* host = nullptr;
        Posted* posted = nullptr;
        std::size_t transfer = 0;
    };
    Peer peer_of(Issuer& host, Posted& p, std::size_t k);
    void complete(Issuer& host, Posted& p);

    World& world_;
    std::vector<Issuer> hosts_;
    std::int32_t moves_ = 0;
};

// A communication, or what runs on a communicator's queue: posted, never run at once.
bool is_posted(const Op& op);

} // namespace orrery
