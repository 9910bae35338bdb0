#include "exec/local/standstill.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery {
namespace {

class Standstill {
  public:
    Standstill(const World& world, const std::vector<Stand>& stands) : world_(world), stands_(stands) {}
    Deadlock blocked() const {
        Deadlock d;
        for (const Stand& s : stands_) describe(s, d);
        return d;
    }

  private:
    using At = std::optional<std::size_t>;

    const Issue& issue(const Stand& s, std::size_t i) const { return s.rank->order->issues[i]; }
    const Stand& of(int rank) const { return stands_[rank]; }
    const std::vector<int>& members(CommId c, const Stand& s) const { return world_.members[c][s.rank->rank]; }
    const std::string& named(CommId c) const { return world_.plan.communicators[c].name; }
    std::string at(const Stand& s, std::size_t i) const { return place(world_.plan, issue(s, i)); }

    // The first of what it has issued, or would issue next, that is not done.
    At oldest(const Stand& s) const {
        for (std::size_t i = 0; i < s.done.size(); ++i)
            if (!s.done[i] && !is_memory_op(issue(s, i).op->work)) return i;
        return std::nullopt;
    }
    std::string where(const Stand& s) const {
        const At first = oldest(s);
        return first ? " (which stands at " + at(s, *first) + ")" : "";
    }
    // Communications that have arrived at the head of the communicator's queue.
    At head(const Stand& s, CommId c) const {
        for (std::size_t i = 0; i < s.done.size(); ++i)
            if (!s.done[i])
                if (const auto queues = queues_of(*issue(s, i).op); std::ranges::find(queues, queue_of(c)) != queues.end())
                    return s.arrived[i] ? At(i) : std::nullopt;
        return std::nullopt;
    }
    std::optional<CollectiveKind> kind(const Stand& s, std::size_t i) const {
        const auto* c = std::get_if<Collective>(&issue(s, i).op->work);
        return c ? std::optional(c->kind) : std::nullopt;
    }
    // A transfer moves when its partner is there, whatever the others of its exchange wait for.
    bool has_partner(const Stand& peer, const Transfer& t, std::int32_t ordinal) const {
        for (std::size_t i = 0; i < peer.done.size(); ++i)
            if (const auto* x = std::get_if<Exchange>(&issue(peer, i).op->work))
                for (std::size_t l = 0; l < x->transfers.size(); ++l)
                    if (x->transfers[l].comm == t.comm && x->transfers[l].send != t.send &&
                        peer.rank->order->ordinals[static_cast<std::size_t>(issue(peer, i).transfers_begin) + l] == ordinal)
                        return peer.done[i] || peer.arrived[i];
        return false;
    }

    std::string waits_for(const Stand& s, std::size_t i) const {
        if (const auto* c = std::get_if<Collective>(&issue(s, i).op->work)) {
            for (int m : members(c->comm, s))
                if (const At end = head(of(m), c->comm); end && kind(of(m), *end) != c->kind)
                    return "the members of communicator " + named(c->comm) + " called different collectives";
            for (int m : members(c->comm, s))
                if (!head(of(m), c->comm)) return fmt::format("rank {} on communicator {}{}", m, named(c->comm), where(of(m)));
        }
        if (const auto* x = std::get_if<Exchange>(&issue(s, i).op->work))
            for (std::size_t k = 0; k < x->transfers.size(); ++k) {
                const Transfer& t = x->transfers[k];
                const std::int32_t ordinal = s.rank->order->ordinals[static_cast<std::size_t>(issue(s, i).transfers_begin) + k];
                for (int m : members(t.comm, s))
                    if (m != s.rank->rank && !has_partner(of(m), t, ordinal))
                        return fmt::format("the {} of rank {} on communicator {}{}", t.send ? "receive" : "send", m, named(t.comm),
                                           where(of(m)));
            }
        return "its partners";
    }

    void describe(const Stand& s, Deadlock& d) const {
        for (std::size_t i = 0; i < s.done.size(); ++i)
            if (s.arrived[i] && !s.done[i]) return d.blocked.push_back({s.rank->rank, at(s, i), waits_for(s, i)});
        const At first = oldest(s);
        if (!first) return;
        std::string on = "its place in its queues";
        for (std::int32_t dep : s.rank->order->deps_of(issue(s, *first)))
            if (!s.done[dep]) {
                on = at(s, static_cast<std::size_t>(dep));
                break;
            }
        d.blocked.push_back({s.rank->rank, at(s, *first), on});
    }

    const World& world_;
    const std::vector<Stand>& stands_;
};

} // namespace

Deadlock blocked(const World& world, const std::vector<Stand>& stands) { return Standstill(world, stands).blocked(); }

} // namespace orrery
