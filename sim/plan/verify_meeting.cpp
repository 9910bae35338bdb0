// Can all programs run to their end together? A dry run at the level of actions, without a clock: an action starts when the actions
// before it on each of its queues and those it depends on are done; it is done when its partners on other stages have started too.
// Nothing is sent ahead: a send waits for its receive, as with large messages. Who never gets done waits in a circle.
#include "sim/plan/verify_parts.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace orrery::verification {
namespace {

struct Events {                      // two an action: 2a it can start, 2a + 1 it is done; edges by source
    std::vector<std::int32_t> waits; // how many events each still waits for
    std::vector<std::pair<std::int32_t, std::int32_t>> edges;
    void edge(std::int32_t from, std::int32_t to) {
        edges.push_back({from, to});
        ++waits[at(to)];
    }
};

class Meeting {
  public:
    Meeting(const Plan& plan, const std::vector<Stage>& stages, Findings& findings) : plan_(plan), stages_(stages), findings_(findings) {
        std::int32_t n = 0;
        for (const Stage& s : stages_) {
            base_.push_back(n);
            n += static_cast<std::int32_t>(s.program->actions.size());
        }
        base_.push_back(n);
        events_.waits.assign(at(2 * n), 0);
    }

    void run() {
        for (std::size_t s = 0; s < stages_.size(); ++s) link_stage(s);
        link_partners();
        settle();
        report();
    }

  private:
    struct Partner {
        std::int32_t action;
        bool send;
    };

    void link_stage(std::size_t s);
    void link_partners();
    void settle();
    void report();

    const Plan& plan_;
    const std::vector<Stage>& stages_;
    Findings& findings_;
    std::vector<std::int32_t> base_;
    Events events_;
    std::vector<std::vector<Partner>> pairs_ = std::vector<std::vector<Partner>>(plan_.communicators.size()); // by communicator
    std::vector<std::vector<std::vector<std::int32_t>>> calls_ =
        std::vector<std::vector<std::vector<std::int32_t>>>(plan_.communicators.size()); // and stage
    std::vector<char> done_;
};

void Meeting::link_stage(std::size_t s) {
    const Stage& stage = stages_[s];
    struct Speaks {
        QueueMask queues = 0;
        std::vector<std::pair<CommId, int>> lines;
    }; // lines: 0 receive, 1 send, 2 collective
    std::vector<Speaks> of_range(stage.ranges.size());
    for (std::size_t r = 0; r < stage.ranges.size(); ++r) {
        const Range& range = stage.ranges[r];
        for (std::int32_t i = range.first; i < range.last; ++i) {
            const Op& op = plan_.blocks[at(range.block)].ops[at(i)];
            if (is_memory_op(op.work)) continue;
            of_range[r].queues |= stage.queues_of_op[at(range.block)][at(i)];
            if (const auto* c = std::get_if<Collective>(&op.work);
                c && (plan_.communicators[at(c->comm)].axes & mask(Axis::pp)) && plan_.stages > 1)
                of_range[r].lines.push_back({c->comm, 2});
            if (const auto* x = std::get_if<Exchange>(&op.work))
                for (const Transfer& t : x->transfers) of_range[r].lines.push_back({t.comm, t.send});
        }
    }
    const Program& program = *stage.program;
    std::vector<std::int32_t> last(at(stage.queues), -1);
    for (std::size_t i = 0; i < program.actions.size(); ++i) {
        const Action& a = program.actions[i];
        const std::int32_t self = base_[s] + static_cast<std::int32_t>(i);
        const Speaks& speaks = of_range[at(stage.range_of[i])];
        events_.edge(2 * self, 2 * self + 1);
        std::int32_t before = -1;
        for (QueueMask q = speaks.queues; q != 0; q &= q - 1) {
            std::int32_t& l = last[at(__builtin_ctzll(q))];
            if (l >= 0 && l != before) events_.edge(2 * l + 1, 2 * self);
            before = l;
            l = self;
        }
        std::int32_t waited = -1;
        for (std::int32_t d = a.deps_begin; d < a.deps_end; ++d) {
            const std::int32_t on = program.deps[at(d)].on_action;
            if (on >= 0 && on != waited) events_.edge(2 * (base_[s] + on) + 1, 2 * self);
            waited = on;
        }
        for (const auto& [comm, line] : speaks.lines) {
            if (line < 2) {
                pairs_[at(comm)].push_back({self, line == 1});
                continue;
            }
            auto& calls = calls_[at(comm)];
            calls.resize(stages_.size());
            calls[s].push_back(self);
        }
    }
}

void Meeting::link_partners() {
    for (const auto& ends : pairs_) {
        std::vector<std::int32_t> sends, receives;
        for (const Partner& p : ends) (p.send ? sends : receives).push_back(p.action);
        for (std::size_t k = 0; k < std::min(sends.size(), receives.size()); ++k) {
            events_.edge(2 * sends[k], 2 * receives[k] + 1);
            events_.edge(2 * receives[k], 2 * sends[k] + 1);
        }
    }
    for (const auto& calls : calls_) {
        std::size_t most = 0;
        for (const auto& list : calls) most = std::max(most, list.size());
        for (std::size_t k = 0; k < most; ++k)
            for (const auto& mine : calls)
                for (const auto& other : calls)
                    if (&mine != &other && k < mine.size() && k < other.size()) events_.edge(2 * other[k], 2 * mine[k] + 1);
    }
}

void Meeting::settle() {
    const std::size_t n = events_.waits.size();
    std::vector<std::int32_t> begin(n + 1, 0), to(events_.edges.size());
    for (const auto& e : events_.edges) ++begin[at(e.first) + 1];
    for (std::size_t i = 0; i < n; ++i) begin[i + 1] += begin[i];
    std::vector<std::int32_t> next(begin.begin(), begin.end() - 1);
    for (const auto& e : events_.edges) to[at(next[at(e.first)]++)] = e.second;
    std::vector<std::int32_t> open;
    done_.assign(n, 0);
    for (std::size_t i = 0; i < n; ++i)
        if (events_.waits[i] == 0) open.push_back(static_cast<std::int32_t>(i));
    while (!open.empty()) {
        const std::int32_t e = open.back();
        open.pop_back();
        done_[at(e)] = 1;
        for (std::int32_t k = begin[at(e)]; k < begin[at(e) + 1]; ++k)
            if (--events_.waits[at(to[at(k)])] == 0) open.push_back(to[at(k)]);
    }
}

// For each stage its first action that never ends, and what that still waits for.
void Meeting::report() {
    if (std::all_of(done_.begin(), done_.end(), [](char c) { return c != 0; })) return;
    const auto name_of = [&](std::int32_t action) {
        std::size_t s = 0;
        while (base_[s + 1] <= action) ++s;
        return place(plan_, *stages_[s].program, action - base_[s]);
    };
    for (std::size_t s = 0; s < stages_.size(); ++s)
        for (std::int32_t a = base_[s]; a < base_[s + 1]; ++a) {
            if (done_[at(2 * a + 1)]) continue;
            std::string whom;
            for (const auto& e : events_.edges)
                if ((e.second == 2 * a || e.second == 2 * a + 1) && !done_[at(e.first)] && e.first / 2 != a)
                    whom += (whom.empty() ? "" : "; ") + name_of(e.first / 2);
            findings_.add("deadlock", name_of(a), "waits for " + whom);
            break;
        }
}

} // namespace

void check_meeting(const Plan& plan, const std::vector<Stage>& stages, Findings& findings) { Meeting(plan, stages, findings).run(); }

} // namespace orrery::verification
