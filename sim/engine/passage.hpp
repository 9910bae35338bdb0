// Actions, the rest of one from the beginning of a layer, or one layer, run in one piece (a stretch, stretches.hpp). Where nothing but the
// stretch's own computation and the collectives inside its lane's own class can happen on a lane until it ends, it runs as one alike ran
// before: the course is kept from the first time, op by op, and later ones are one event. While the course of an action is kept, its layers
// may be run in one piece already.
//
// A course depends on the ops and on the lane's speed and collectives alone, because a stretch is run so only where
//   - all ops before it have ended, and all of its own are issued (where the host is late, as late as then); a collective that begins at
//     the same instant and lies before the first computation is its first op;
//   - its ops are computation, or collectives that no other lane takes part in and whose links no other bundle can fill;
//   - whatever stands behind it on any queue waits for an op that is not its own, or can begin only when it ends;
//   - the host issues meanwhile only behind ops that stand there already.
// Meanwhile the lane's state stays that of the beginning. Its account, what it sent and what its host issued are brought up when they are
// asked for, each at its own time, so that every figure is that of the run op by op.
#pragma once

#include "sim/engine/run.hpp"
#include "sim/engine/stretches.hpp"

#include <memory>
#include <unordered_map>
#include <vector>

namespace orrery {

// The course of a stretch; times from its beginning. Slots are counted from its first.
struct Passage {
    struct Turn {
        std::int64_t time;
        std::uint8_t as;
    }; // from then on the lane's time is charged to this
    struct Sent {
        std::int64_t time;
        std::int32_t queue, pattern;
    }; // a collective of a local queue that ended
    std::int64_t duration = 0;
    std::vector<Turn> turns;
    std::vector<Sent> sent;
    std::vector<std::int64_t> late;  // when the host launches those it has not launched at the beginning, from the last slot back
    std::vector<std::int64_t> ended; // by slot
    std::vector<std::int64_t> freed; // by slot: when it and all before it have ended
    std::vector<std::int64_t> ends;  // of its ops, in order of time
    std::vector<std::pair<std::int32_t, std::int32_t>> lasts; // queue, and its last slot
};

class Passages {
  public:
    explicit Passages(const Machine& machine);

    // The op at the head of the lane's compute queue is to begin: runs its stretch in one piece, or begins to keep its course. True: done.
    bool enter(EventLoop& run, std::int32_t lane);
    void leave(EventLoop& run, std::int32_t lane); // the stretch has ended
    // Brings up to now the account of a lane inside a stretch, and what it sent.
    static void charge(EventLoop& run, std::int32_t lane);
    static std::int64_t last_of(const WithinAction& in) { return in.first + static_cast<std::int64_t>(in.passage->ended.size()) - 1; }

    // Events on a lane whose course is being kept.
    bool keeps(std::int32_t lane) const { return outermost(lane) != nullptr; }
    void begins(std::int32_t lane, std::int64_t slot); // of another stretch: the course is of no use
    void ends(const EventLoop& run, std::int32_t lane, std::int64_t slot);
    void turns(const EventLoop& run, std::int32_t lane, std::uint8_t as);
    void sends(const EventLoop& run, std::int32_t lane, std::int32_t queue, std::int32_t pattern);
    void settles(const EventLoop& run, std::int32_t lane); // all of the instant at which it began has happened

    // The lane's state at the beginning of the longest stretch whose course is being kept: what a lane inside it shows (snapshot.cpp).
    struct Beginning {
        std::int32_t step = 0, action = 0;
        std::int64_t time = 0;
        std::int32_t op = 0; // the first, in Machine::ops
        bool settled = false;
        std::vector<std::uint64_t> by_op, by_place;
    };
    const Beginning& beginning(std::int32_t lane) const { return outermost(lane)->beginning; }

  private:
    struct Kept {
        std::int32_t start = -1, left = 0; // in stretches_; how many of its ops have not ended
        std::int64_t first = 0;
        std::uint64_t course_of = 0; // in known_
        Passage course;
        Beginning beginning;
    };
    using KeptByEnd = ByEnum<PieceEnd, Kept, piece_ends>;
    const Kept* outermost(std::int32_t lane) const {
        const KeptByEnd& k = kept_[at(lane)];
        return k[PieceEnd::segment].start >= 0 ? &k[PieceEnd::segment] : k[PieceEnd::unit].start >= 0 ? &k[PieceEnd::unit] : nullptr;
    }
    struct Shape { // of a segment
        std::uint32_t queues = 0;
        bool sync = false;
    };
    using Known = std::vector<std::unique_ptr<Passage>>;

    struct Piece {
        std::int32_t start, lead; // in stretches_; 1: with the collective before it
        PieceEnd end;
    };
    bool enter(EventLoop& run, std::int32_t lane, const Piece& piece);
    std::uint64_t course_of(std::int32_t lane, const Piece& piece); // equal: the same course
    const Passage* known(const EventLoop& run, std::int32_t lane, std::uint64_t course, std::int64_t last, std::int64_t late) const;
    void find_users();
    void find_kinds();
    bool unshared(std::int32_t lane, const BundleCost& cost) const;
    bool own(std::int32_t lane, const CompiledOp& op) const; // a collective inside the lane's class, whose links no other can fill
    bool closed(std::int32_t lane, std::int32_t start, PieceEnd end);
    bool leads(const EventLoop& run, std::int32_t lane, std::int64_t slot, std::int32_t next) const;
    static void take_back(EventLoop& run, std::int32_t lane, std::int64_t slot);
    bool alone(const EventLoop& run, std::int32_t lane, std::int64_t first, std::int64_t last) const;
    bool held_back(const EventLoop& run, std::int32_t lane, std::int64_t slot, std::int64_t first, std::int64_t last, const Passage& p,
                   std::int64_t after) const;
    bool followers_wait(const EventLoop& run, std::int32_t lane, std::int64_t first, std::int64_t last, const Passage& p) const;
    static void issue_freed(EventLoop& run, std::int32_t lane);
    bool host_appends(const EventLoop& run, std::int32_t lane, std::int64_t last, std::int64_t slots) const;
    void keep(const EventLoop& run, std::int32_t lane, const Piece& piece, std::int64_t late);
    void append(const EventLoop& run, std::int32_t lane, const WithinAction& done);
    void finish(Kept& kept);

    const Machine& m_;
    Stretches stretches_;
    std::vector<std::int32_t> user_; // by link that is shared: the one lane that is in all its bundles, < 0: there is none, or several
    std::vector<std::int32_t> kind_; // by lane: equal for lanes of one speed and of collectives alike
    std::int32_t kinds_ = 0;
    std::vector<Shape> shapes_;                                      // by segment
    ByEnum<PieceEnd, std::vector<std::uint8_t>, piece_ends> spoilt_; // by start: courses from it on that another op spoilt
    ByEnum<PieceEnd, std::vector<std::int8_t>, piece_ends> closed_;  // by start and kind; -1: not looked at
    std::unordered_map<std::uint64_t, Known> known_;
    std::vector<KeptByEnd> kept_; // by lane
};

} // namespace orrery
