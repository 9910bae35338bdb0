#include "sim/plan/one_order.hpp"
#include "topology/at.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <tuple>

namespace orrery {
namespace {

// An action as actions elsewhere see it: its queues, and the communicators that tie it to other stages.
struct Ties {
    std::vector<QueueId> queues;
    std::vector<std::pair<CommId, int>> lines; // 0 a receive, 1 a send, 2 a collective over stages
};

class Ordering {
  public:
    Ordering(const Plan& plan, std::span<const Program> programs)
        : plan_(plan), programs_(programs), pairs_(plan.communicators.size()), calls_(plan.communicators.size()) {
        for (const Program& p : programs) {
            bases_.push_back(static_cast<std::int32_t>(communicates_.size()));
            communicates_.resize(communicates_.size() + p.actions.size(), 0);
        }
        after_.resize(2 * communicates_.size());
        waits_.resize(after_.size(), 0);
        for (std::size_t s = 0; s < programs.size(); ++s) link(s);
        link_partners();
    }

    OneOrder run() {
        std::vector<std::int32_t> places(after_.size(), std::numeric_limits<std::int32_t>::max());
        // Events that can happen: ends, and begins of which all earlier actions of their stage have ended; then begins of communication
        // alone with other stages; then the rest, the fewest actions ahead first: what stays inside its stage (a gather of parameters)
        // helps no other stage on, and where it begins early it can wait for little. Those that became the first kind while they waited
        // stand in two.
        std::deque<std::int32_t> in_turn, communication;
        std::vector<std::set<std::int32_t>> others(programs_.size()); // by stage
        std::vector<char> opened(after_.size(), 0);
        std::vector<std::int32_t> ended(programs_.size(), 0); // by stage: how many of its actions, from the first on
        const auto is_next = [&](std::int32_t e) {
            const std::size_t s = stage_of(e / 2);
            return e % 2 == 1 || e / 2 == bases_[s] + ended[s];
        };
        const auto open = [&](std::int32_t e) {
            opened[at(e)] = 1;
            if (is_next(e) || communicates_[at(e / 2)])
                (is_next(e) ? in_turn : communication).push_back(e);
            else
                others[stage_of(e / 2)].insert(e);
        };
        for (std::size_t e = 0; e < waits_.size(); ++e)
            if (waits_[e] == 0) open(static_cast<std::int32_t>(e));
        std::int32_t place = 0;
        const auto next = [&]() -> std::int32_t { // -1: none can
            if (auto& from = !in_turn.empty() ? in_turn : communication; !from.empty()) {
                const std::int32_t e = from.front();
                from.pop_front();
                return e;
            }
            std::int32_t nearest = std::numeric_limits<std::int32_t>::max();
            std::set<std::int32_t>* of = nullptr;
            for (std::size_t s = 0; s < others.size(); ++s)
                if (!others[s].empty() && *others[s].begin() / 2 - bases_[s] - ended[s] < nearest)
                    nearest = *others[s].begin() / 2 - bases_[s] - ended[s], of = &others[s];
            return of ? of->extract(of->begin()).value() : -1;
        };
        for (std::int32_t e = next(); e >= 0; e = next()) {
            if (places[at(e)] != std::numeric_limits<std::int32_t>::max()) continue;
            places[at(e)] = place++;
            for (std::int32_t later : after_[at(e)])
                if (--waits_[at(later)] == 0) open(later);
            advance(e, places, opened, ended, in_turn);
        }
        OneOrder order;
        for (std::size_t s = 0; s < programs_.size(); ++s) {
            order.begins.emplace_back();
            order.ends.emplace_back();
            for (std::size_t a = 0; a < programs_[s].actions.size(); ++a) {
                order.begins[s].push_back(places[at(2 * (bases_[s] + static_cast<std::int32_t>(a)))]);
                order.ends[s].push_back(places[at(2 * (bases_[s] + static_cast<std::int32_t>(a)) + 1)]);
            }
        }
        return order;
    }

  private:
    std::size_t stage_of(std::int32_t action) const { return at(std::ranges::upper_bound(bases_, action) - bases_.begin() - 1); }
    // Behind event e: how many of its stage's first actions have ended; the next one, where it waits, is in turn.
    void advance(std::int32_t e, const std::vector<std::int32_t>& places, const std::vector<char>& opened, std::vector<std::int32_t>& ended,
                 std::deque<std::int32_t>& in_turn) const {
        if (e % 2 == 0) return;
        const std::size_t s = stage_of(e / 2);
        const auto actions = static_cast<std::int32_t>(programs_[s].actions.size());
        const std::int32_t before = ended[s];
        while (ended[s] < actions && places[at(2 * (bases_[s] + ended[s]) + 1)] != std::numeric_limits<std::int32_t>::max()) ++ended[s];
        if (ended[s] > before && ended[s] < actions && opened[at(2 * (bases_[s] + ended[s]))])
            in_turn.push_back(2 * (bases_[s] + ended[s]));
    }
    // Events, two an action: 2a it begins, 2a + 1 it ends.
    void edge(std::int32_t from, std::int32_t to) {
        after_[at(from)].push_back(to);
        ++waits_[at(to)];
    }
    const Ties& ties_of(const Action& a) {
        const auto [it, fresh] = ties_.try_emplace({a.block, a.first, a.last});
        Ties& t = it->second;
        if (!fresh) return t;
        const auto add = [](auto& list, const auto& x) {
            if (std::ranges::find(list, x) == list.end()) list.push_back(x);
        };
        for (std::int32_t i = a.first; i < a.last; ++i) {
            const Op& op = plan_.blocks[at(a.block)].ops[at(i)];
            if (is_memory_op(op.work)) continue;
            add(t.queues, op.queue);
            if (const auto* c = std::get_if<Collective>(&op.work); c && (plan_.communicators[at(c->comm)].axes & mask(Axis::pp)))
                t.lines.emplace_back(c->comm, 2);
            if (const auto* x = std::get_if<Exchange>(&op.work))
                for (const Transfer& transfer : x->transfers) {
                    add(t.queues, queue_of(transfer.comm));
                    t.lines.emplace_back(transfer.comm, transfer.send ? 1 : 0);
                }
        }
        return t;
    }
    void link(std::size_t stage) {
        const Program& program = programs_[stage];
        std::vector<std::int32_t> last(at(first_comm_queue) + plan_.communicators.size(), -1); // by queue
        for (std::size_t i = 0; i < program.actions.size(); ++i) {
            const Action& a = program.actions[i];
            const std::int32_t self = bases_[stage] + static_cast<std::int32_t>(i);
            const Ties& ties = ties_of(a);
            edge(2 * self, 2 * self + 1);
            communicates_[at(self)] = !ties.lines.empty() && std::ranges::find(ties.queues, compute_queue) == ties.queues.end();
            for (QueueId q : ties.queues) {
                if (last[at(q)] >= 0) edge(2 * last[at(q)] + 1, 2 * self);
                last[at(q)] = self;
            }
            for (std::int32_t d = a.deps_begin; d < a.deps_end; ++d)
                if (const std::int32_t on = program.deps[at(d)].on_action; on >= 0) edge(2 * (bases_[stage] + on) + 1, 2 * self);
            for (const auto& [comm, line] : ties.lines) {
                if (line < 2)
                    pairs_[at(comm)][line].push_back(self);
                else
                    calls_[at(comm)][stage].push_back(self);
            }
        }
    }
    // The k-th send of a communicator meets its k-th receive, the k-th collective those of the other stages.
    void link_partners() {
        for (const auto& [receives, sends] : pairs_)
            for (std::size_t k = 0; k < std::min(sends.size(), receives.size()); ++k) {
                edge(2 * sends[k], 2 * receives[k] + 1);
                edge(2 * receives[k], 2 * sends[k] + 1);
            }
        for (const auto& of_stage : calls_)
            for (const auto& [stage, mine] : of_stage)
                for (const auto& [other, theirs] : of_stage)
                    for (std::size_t k = 0; stage != other && k < std::min(mine.size(), theirs.size()); ++k)
                        edge(2 * theirs[k], 2 * mine[k] + 1);
    }

    const Plan& plan_;
    const std::span<const Program> programs_;
    std::vector<std::int32_t> bases_;
    std::vector<char> communicates_; // by action: with other stages, and does nothing else
    std::vector<std::vector<std::int32_t>> after_;
    std::vector<std::int32_t> waits_;
    std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, Ties> ties_;
    std::vector<std::array<std::vector<std::int32_t>, 2>> pairs_;         // by communicator: receives, sends
    std::vector<std::map<std::size_t, std::vector<std::int32_t>>> calls_; // by communicator and stage
};

} // namespace

OneOrder one_order(const Plan& plan, std::span<const Program> programs) { return Ordering(plan, programs).run(); }

} // namespace orrery
