#include "sim/engine/passage.hpp"

#include "topology/mix.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>

namespace orrery {

namespace {

constexpr std::int64_t fewest_ops = 4;   // of an action that is worth it
constexpr std::uint8_t most_spoilt = 8;  // courses from one op on that came to nothing: it is not tried again
constexpr std::size_t most_courses = 4;  // of one action: its host may come late in several ways
constexpr std::int64_t more_issued = 32; // slots that the host may issue beyond those that an action frees: an exchange takes several

// The class of the collectives on a lane's queue, where no other lane is in it; nullptr: another is, or there are none.
const BundleClass* own_collective(const Machine& m, const MachineLane& lane, std::int32_t queue) {
    const std::int32_t id = m.lane_comms[at(lane.queues + queue)].collective;
    if (id < 0) return nullptr;
    const BundleClass& c = m.bundles[at(id)];
    return c.members_end - c.members_begin == 1 && !c.channel ? &c : nullptr;
}

} // namespace

Passages::Passages(const Machine& machine)
    : m_(machine), stretches_(machine), shapes_(machine.segments.size()), kept_(machine.lanes.size()) {
    find_users();
    find_kinds();
    for (std::size_t end = 0; end < piece_ends; ++end) {
        closed_[end].assign(at(stretches_.count()) * at(kinds_), -1);
        spoilt_[end].assign(at(stretches_.count()), 0);
    }
    for (std::size_t s = 0; s < shapes_.size(); ++s)
        for (std::int32_t o = m_.segments[s].begin; o < m_.segments[s].end; ++o) {
            shapes_[s].queues |= 1u << m_.ops[at(o)].queue;
            shapes_[s].sync = shapes_[s].sync || m_.ops[at(o)].kind == OpClass::sync;
        }
}

// By speed, and queue by queue by what a collective of its own costs there. Queues behind the last with one do not tell lanes apart.
void Passages::find_kinds() {
    std::map<std::vector<std::uint64_t>, std::int32_t> kinds;
    std::int32_t lane_number = -1;
    for (const MachineLane& lane : m_.lanes) {
        ++lane_number;
        std::vector<std::uint64_t> words{std::bit_cast<std::uint64_t>(lane.slowness), static_cast<std::uint64_t>(lane.kind)};
        const auto queues = static_cast<std::int32_t>(m_.programs[at(lane.program)].queues.size());
        for (std::int32_t q = 1; q < queues; ++q) {
            const BundleClass* own = own_collective(m_, lane, q);
            if (!own) continue;
            words.insert(words.end(), {static_cast<std::uint64_t>(q), static_cast<std::uint64_t>(costs_end(m_, *own) - own->costs)});
            for (std::int32_t i = own->costs; i < costs_end(m_, *own); ++i) {
                const BundleCost& cost = m_.bundle_costs[at(i)];
                words.insert(words.end(), {static_cast<std::uint64_t>(cost.latency), std::bit_cast<std::uint64_t>(cost.payload),
                                           std::bit_cast<std::uint64_t>(cost.cap), std::bit_cast<std::uint64_t>(cost.limit),
                                           std::bit_cast<std::uint64_t>(cost.slows),
                                           static_cast<std::uint64_t>(cost.shared_end - cost.shared_begin), cost.kind});
                for (std::int32_t u = cost.shared_begin; u < cost.shared_end; ++u) {
                    const LinkWeight& use = m_.shared[at(u)];
                    words.insert(words.end(),
                                 {std::bit_cast<std::uint64_t>(use.taken), std::bit_cast<std::uint64_t>(m_.shared_capacity[at(use.link)]),
                                  user_[at(use.link)] == lane_number});
                }
            }
        }
        kind_.push_back(kinds.try_emplace(std::move(words), static_cast<std::int32_t>(kinds.size())).first->second);
    }
    kinds_ = static_cast<std::int32_t>(kinds.size());
}

// A collective's members begin it together, a transfer's too: a link whose bundles all have one lane in common is used when that lane
// says so.
void Passages::find_users() {
    constexpr std::int32_t none = -1, several = -2;
    user_.assign(m_.shared_capacity.size(), none);
    std::vector<std::vector<std::int32_t>> common(user_.size());
    for (const BundleClass& c : m_.bundles) {
        std::vector<std::int32_t> members;
        for (std::int32_t i = c.members_begin; i < c.members_end; ++i) members.push_back(m_.members[at(i)].lane);
        std::sort(members.begin(), members.end());
        for (std::int32_t k = c.costs; k < costs_end(m_, c); ++k)
            for (std::int32_t u = m_.bundle_costs[at(k)].shared_begin; u < m_.bundle_costs[at(k)].shared_end; ++u) {
                const auto link = at(m_.shared[at(u)].link);
                if (user_[link] == none) {
                    user_[link] = several;
                    common[link] = members;
                } else
                    std::erase_if(common[link], [&](std::int32_t l) { return !std::binary_search(members.begin(), members.end(), l); });
            }
    }
    for (std::size_t link = 0; link < user_.size(); ++link)
        if (common[link].size() == 1) user_[link] = common[link].front();
}

std::uint64_t Passages::course_of(std::int32_t lane, const Piece& piece) {
    const OpRun run = stretches_.of(piece.start, piece.end);
    std::uint64_t key = mix(static_cast<std::uint64_t>(run.alike), static_cast<std::uint64_t>(kind_[at(lane)]));
    if (piece.lead > 0) {
        const CompiledOp& lead = m_.ops[at(run.begin - 1)];
        key = mix(key, static_cast<std::uint64_t>(lead.pattern) << 8 | lead.queue);
    }
    return key;
}

// The course met with the same lateness; nullptr: none is known.
const Passage* Passages::known(const EventLoop& run, std::int32_t lane, std::uint64_t course, std::int64_t last, std::int64_t late) const {
    const auto it = known_.find(course);
    if (it == known_.end()) return nullptr;
    for (const auto& p : it->second) {
        bool same = at(late) == p->late.size();
        for (std::int64_t i = 0; same && i < late; ++i) same = run.slot(lane, last - i).issue - run.now == p->late[at(i)];
        if (same) return p.get();
    }
    return nullptr;
}

// No bundle that another lane can begin loads a link of it.
bool Passages::unshared(std::int32_t lane, const BundleCost& cost) const {
    return std::all_of(m_.shared.begin() + cost.shared_begin, m_.shared.begin() + cost.shared_end,
                       [&](const LinkWeight& use) { return user_[at(use.link)] == lane; });
}

bool Passages::own(std::int32_t lane, const CompiledOp& op) const {
    const BundleClass* const own = op.kind == OpClass::collective ? own_collective(m_, m_.lanes[at(lane)], op.queue) : nullptr;
    return own && unshared(lane, m_.bundle_costs[at(own->costs + op.pattern)]);
}

bool Passages::closed(std::int32_t lane, std::int32_t start, PieceEnd end) {
    std::int8_t& known = closed_[end][at(start) * at(kinds_) + at(kind_[at(lane)])];
    if (known >= 0) return known != 0;
    const OpRun s = stretches_.of(start, end);
    bool all = true;
    for (std::int32_t o = s.begin; o < s.end && all; ++o) {
        const CompiledOp& op = m_.ops[at(o)];
        all = (op.kind == OpClass::timed && op.queue == 0) || own(lane, op);
    }
    known = all;
    return all;
}

// A layer may begin with a collective that its first computation does not wait for: both begin at one instant.
bool Passages::leads(const EventLoop& run, std::int32_t lane, std::int64_t slot, std::int32_t next) const {
    const std::int32_t op = run.slot(lane, slot).op;
    if (op + 1 != next || run.slot(lane, slot).action != run.slot(lane, slot + 1).action || !own(lane, m_.ops[at(op)])) return false;
    const QueueState& Q = run.queue(lane, m_.ops[at(op)].queue);
    return Q.head == slot && Q.phase == QueuePhase::moving && Q.begin == run.now;
}

// Nothing is under way on the lane, and nothing of the action but the op that is to begin can begin by itself.
bool Passages::alone(const EventLoop& run, std::int32_t lane, std::int64_t first, std::int64_t last) const {
    const auto queues = static_cast<std::int32_t>(run.program(lane).queues.size());
    for (std::int32_t q = 1; q < queues; ++q) {
        const QueueState& Q = run.queue(lane, q);
        if (Q.head < 0) continue;
        if (Q.head == first) continue; // it leads
        if (Q.phase != QueuePhase::empty && Q.phase != QueuePhase::waiting && Q.phase != QueuePhase::held) return false;
        if (Q.head > first && Q.head <= last && !run.any_unmet(lane, Q.head, [](std::int64_t) { return true; })) return false;
    }
    return run.lanes[at(lane)].fluids == 0;
}

// A later op does not begin before the action ends, though all on its queue up to it has ended by `after`.
bool Passages::held_back(const EventLoop& run, std::int32_t lane, std::int64_t slot, std::int64_t first, std::int64_t last,
                         const Passage& p, std::int64_t after) const {
    const CompiledOp& op = m_.ops[at(run.slot(lane, slot).op)];
    if (op.kind == OpClass::shadow) slot -= op.pattern;
    if (slot <= last) return false;
    const bool waits = run.any_unmet(lane, slot, [&](std::int64_t on) {
        if (on > last) return true;
        after = std::max(after, p.ended[at(on - first)]);
        return false;
    });
    return waits || after == p.duration;
}

bool Passages::followers_wait(const EventLoop& run, std::int32_t lane, std::int64_t first, std::int64_t last, const Passage& p) const {
    for (const auto& [q, offset] : p.lasts) {
        const std::int32_t next = run.slot(lane, first + offset).next;
        if (next == 0 || !held_back(run, lane, first + offset + next, first, last, p, p.ended[at(offset)])) return false;
    }
    const auto queues = static_cast<std::int32_t>(run.program(lane).queues.size());
    for (std::int32_t q = 1; q < queues; ++q)
        if (const QueueState& Q = run.queue(lane, q); Q.head > last && !held_back(run, lane, Q.head, first, last, p, 0)) return false;
    return true;
}

// Ops that the host will issue meanwhile come on queues that hold something behind the action; or it waits for something behind it.
bool Passages::host_appends(const EventLoop& run, std::int32_t lane, std::int64_t last, std::int64_t slots) const {
    const LaneState& l = run.lanes[at(lane)];
    if (l.blocked == HostBlock::sync) {
        std::int64_t on = -1; // what it waits for
        run.any_unmet(lane, l.issued, [&](std::int64_t slot) { return on = slot, true; });
        return on > last;
    }
    if (l.blocked != HostBlock::window) return false;
    const auto& actions = run.program(lane).actions;
    std::uint32_t queues = 0;
    std::size_t action = at(l.action);
    std::int64_t step = l.step;
    const std::int64_t room = std::max<std::int64_t>(0, m_.window - (l.issued - l.oldest));
    for (std::int64_t n = -l.position; n < slots + room + more_issued;) {
        const std::int32_t segment = actions[action].segment;
        if (shapes_[at(segment)].sync) return false;
        queues |= shapes_[at(segment)].queues;
        n += m_.segments[at(segment)].end - m_.segments[at(segment)].begin;
        if (++action < actions.size()) continue;
        if (step++ > run.step_limit + m_.window / run.program(lane).step_slots) return false; // it may stop there
        action = 0;
    }
    for (; queues; queues &= queues - 1) {
        const QueueState& Q = run.queue(lane, std::countr_zero(queues));
        if (Q.head < 0 || Q.tail <= last) return false;
    }
    return true;
}

bool Passages::enter(EventLoop& run, std::int32_t lane) {
    const QueueState& Q = run.queue(lane, 0);
    const std::int64_t oldest = run.lanes[at(lane)].oldest;
    if (Q.head > oldest + 1) return false;
    const std::int32_t op = run.slot(lane, Q.head).op, start = stretches_.starting_at(op);
    if (start < 0) return false;
    const std::int32_t lead = Q.head == oldest ? 0 : 1;
    if (lead > 0 && !leads(run, lane, oldest, op)) return false;
    if (enter(run, lane, {start, lead, PieceEnd::segment})) return true;
    return stretches_.end_of(start, PieceEnd::unit) != stretches_.end_of(start, PieceEnd::segment) &&
           enter(run, lane, {start, lead, PieceEnd::unit});
}

bool Passages::enter(EventLoop& run, std::int32_t lane, const Piece& piece) {
    LaneState& l = run.lanes[at(lane)];
    QueueState& Q = run.queue(lane, 0);
    const auto& [start, lead, end] = piece;
    const std::int32_t op = run.slot(lane, Q.head).op - lead;
    const std::int64_t slots = stretches_.end_of(start, end) - op;
    const std::int64_t first = Q.head - lead, last = first + slots - 1;
    if (slots < fewest_ops || last >= l.issued || spoilt_[end][at(start)] == most_spoilt || !closed(lane, start, end)) return false;
    if (!alone(run, lane, first, last) || !host_appends(run, lane, last, slots)) return false;
    std::int64_t late = 0;
    while (late < slots && run.slot(lane, last - late).issue > run.now) ++late;
    const Passage* p = known(run, lane, course_of(lane, piece), last, late);
    if (!p) {
        if (kept_[at(lane)][end].start < 0) keep(run, lane, piece, late);
        return false;
    }
    if (!followers_wait(run, lane, first, last, *p)) return false;
    if (lead > 0) take_back(run, lane, first);
    run.charge(lane);
    l.inside = {p, op, run.now, first, 0, 1, 0, 0};
    l.account_as = p->turns.front().as;
    Q.phase = QueuePhase::running;
    Q.last = run.now;
    Q.remaining = 0;
    Q.slow = 0;
    run.heap.set(run.queue_entity(lane, 0), run.now + p->duration);
    return true;
}

// The collective that leads has begun at this instant, which shows nowhere yet: it is part of the piece.
void Passages::take_back(EventLoop& run, std::int32_t lane, std::int64_t slot) {
    const std::int32_t q = run.m.ops[at(run.slot(lane, slot).op)].queue;
    const std::int32_t id = run.m.lane_comms[at(run.queue_entity(lane, q))].collective;
    run.heap.remove(run.bundle_entity(id));
    run.bundles[at(id)] = {};
    run.queue(lane, q).phase = QueuePhase::waiting;
}

void Passages::charge(EventLoop& run, std::int32_t lane) {
    LaneState& l = run.lanes[at(lane)];
    WithinAction& in = l.inside;
    const Passage& p = *in.passage;
    const std::int64_t elapsed = run.now - in.since;
    for (; in.turns < p.turns.size() && p.turns[in.turns].time <= elapsed; ++in.turns) {
        const std::int64_t then = in.since + p.turns[in.turns].time;
        l.account[l.account_as] += then - l.since;
        l.since = then;
        l.account_as = p.turns[in.turns].as;
    }
    l.account[l.account_as] += run.now - l.since;
    l.since = run.now;
    for (; in.sent < p.sent.size() && p.sent[in.sent].time <= elapsed; ++in.sent) {
        const std::int32_t id = run.m.lane_comms[at(run.queue_entity(lane, p.sent[in.sent].queue))].collective;
        ++run.completions[at(run.m.bundles[at(id)].costs + p.sent[in.sent].pattern)];
    }
    for (; in.ends < p.ends.size() && p.ends[in.ends] <= elapsed; ++in.ends) ++run.stats.replayed_ops;
}

// The ops that the host issued as the action's ops ended.
void Passages::issue_freed(EventLoop& run, std::int32_t lane) {
    LaneState& l = run.lanes[at(lane)];
    WithinAction& in = l.inside;
    const std::vector<std::int64_t>& freed = in.passage->freed;
    const std::int64_t elapsed = run.now - in.since;
    while (in.freed < freed.size() && freed[in.freed] <= elapsed) {
        const std::int64_t time = freed[in.freed];
        while (in.freed < freed.size() && freed[in.freed] == time) ++in.freed;
        l.oldest = in.first + static_cast<std::int64_t>(in.freed);
        if (in.freed == freed.size())
            while (l.oldest < l.issued && run.slot(lane, l.oldest).ended) ++l.oldest; // a gather ahead may have ended before
        if (l.blocked == HostBlock::window) run.issue(lane, in.since + time);
    }
}

void Passages::leave(EventLoop& run, std::int32_t lane) {
    charge(run, lane);
    LaneState& l = run.lanes[at(lane)];
    const Passage& p = *l.inside.passage;
    const std::int64_t first = l.inside.first;
    std::array<std::int64_t, 32> heads{}; // by place in p.lasts; read before the host's next slots take the room of those that ended
    for (std::size_t i = 0; i < p.lasts.size(); ++i) heads[i] = first + p.lasts[i].second + run.slot(lane, first + p.lasts[i].second).next;
    issue_freed(run, lane);
    const std::int64_t last = last_of(l.inside);
    append(run, lane, l.inside);
    l.inside = {};
    for (std::size_t i = 0; i < p.lasts.size(); ++i) {
        QueueState& Q = run.queue(lane, p.lasts[i].first);
        Q.head = heads[i];
        Q.phase = QueuePhase::empty;
    }
    run.mark(lane);
    const auto queues = static_cast<std::int32_t>(run.program(lane).queues.size());
    for (std::int32_t q = 1; q < queues; ++q)
        if (const QueueState& Q = run.queue(lane, q); Q.head > last && Q.phase == QueuePhase::waiting) run.make_ready(lane, q);
    for (const auto& [q, offset] : p.lasts)
        if (const QueueState& Q = run.queue(lane, q); Q.head >= 0 && Q.phase == QueuePhase::empty) run.reach_head(lane, q);
}

void Passages::keep(const EventLoop& run, std::int32_t lane, const Piece& piece, std::int64_t late) {
    Kept& k = kept_[at(lane)][piece.end];
    const LaneState& l = run.lanes[at(lane)];
    OpRun s = stretches_.of(piece.start, piece.end);
    s.begin -= piece.lead;
    k.start = piece.start;
    k.first = l.oldest;
    k.left = s.end - s.begin;
    k.course_of = course_of(lane, piece);
    k.course = {};
    k.course.ended.resize(at(k.left));
    for (std::int64_t i = 0; i < late; ++i) k.course.late.push_back(run.slot(lane, l.oldest + k.left - 1 - i).issue - run.now);
    k.beginning = {0, 0, run.now, s.begin, false, {}, {}};
}

void Passages::begins(std::int32_t lane, std::int64_t slot) {
    for (std::size_t end = 0; end < piece_ends; ++end) {
        Kept& k = kept_[at(lane)][end];
        if (k.start < 0 || slot < k.first + static_cast<std::int64_t>(k.course.ended.size())) continue;
        std::uint8_t& spoilt = spoilt_[end][at(k.start)];
        spoilt = std::min<std::uint8_t>(spoilt + 1, most_spoilt);
        k.start = -1;
    }
}

void Passages::ends(const EventLoop& run, std::int32_t lane, std::int64_t slot) {
    for (Kept& k : kept_[at(lane)]) {
        if (k.start < 0) continue;
        k.course.ended[at(slot - k.first)] = k.course.duration = run.now - k.beginning.time;
        k.course.ends.push_back(k.course.duration);
        if (--k.left == 0) finish(k);
    }
}

// A layer of the action whose course is kept has been run in one piece.
void Passages::append(const EventLoop& run, std::int32_t lane, const WithinAction& done) {
    Kept& k = kept_[at(lane)][PieceEnd::segment];
    if (k.start < 0) return;
    const Passage& p = *done.passage;
    Passage& course = k.course;
    const std::int64_t since = done.since - k.beginning.time;
    for (const Passage::Turn& t : p.turns)
        if (course.turns.empty() || course.turns.back().as != t.as) course.turns.push_back({since + t.time, t.as});
    for (const Passage::Sent& sent : p.sent) course.sent.push_back({since + sent.time, sent.queue, sent.pattern});
    const std::int64_t into = done.first - k.first;
    for (std::size_t i = 0; i < p.ended.size(); ++i) course.ended[at(into) + i] = since + p.ended[i];
    for (std::int64_t t : p.ends) course.ends.push_back(since + t);
    course.duration = run.now - k.beginning.time;
    k.left -= static_cast<std::int32_t>(p.ended.size());
    if (k.left == 0) finish(k);
}

void Passages::finish(Kept& k) {
    Passage& p = k.course;
    std::int64_t freed = 0;
    for (std::int64_t t : p.ended) p.freed.push_back(freed = std::max(freed, t));
    std::map<std::int32_t, std::int32_t> last;
    for (std::size_t i = 0; i < p.ended.size(); ++i) last[m_.ops[at(k.beginning.op) + i].queue] = static_cast<std::int32_t>(i);
    p.lasts.assign(last.begin(), last.end());
    Known& known = known_[k.course_of];
    const bool there = std::any_of(known.begin(), known.end(), [&](const auto& other) { return other->late == p.late; });
    if (!there && known.size() < most_courses && !p.turns.empty()) known.push_back(std::make_unique<Passage>(std::move(p)));
    k.start = -1;
}

void Passages::settles(const EventLoop& run, std::int32_t lane) {
    for (Kept& k : kept_[at(lane)]) {
        if (k.start < 0 || k.beginning.settled) continue;
        k.beginning.settled = true;
        k.beginning.step = run.lanes[at(lane)].step;
        k.beginning.action = run.lanes[at(lane)].action;
        const std::int64_t last = k.first + static_cast<std::int64_t>(k.course.ended.size()) - 1;
        state_at_beginning(run, lane, last, false, k.beginning.by_op);
        state_at_beginning(run, lane, last, true, k.beginning.by_place);
    }
}

void Passages::turns(const EventLoop& run, std::int32_t lane, std::uint8_t as) {
    settles(run, lane);
    for (Kept& k : kept_[at(lane)])
        if (auto& list = k.course.turns; k.start >= 0 && (list.empty() || list.back().as != as))
            list.push_back({run.now - k.beginning.time, as});
}

void Passages::sends(const EventLoop& run, std::int32_t lane, std::int32_t queue, std::int32_t pattern) {
    for (Kept& k : kept_[at(lane)])
        if (k.start >= 0) k.course.sent.push_back({run.now - k.beginning.time, queue, pattern});
}

} // namespace orrery
