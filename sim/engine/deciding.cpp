// Why rates stay the same. x_l is the share of its capacity that link l is loaded to. A link A that is left out is covered by others:
// x_A <= sum of c_B x_B whatever the rates, and all c_B together are at most 1 - margin. (B may be left out as well.) Take the rates that
// the kept links alone give, where each kept link has x <= 1. Let A be the fullest of the links left out. If x_A were over 1, no link would
// be fuller than A, and x_A <= (1 - margin) x_A: it is not. So every x is at most 1, and that of each link left out at most 1 - margin. By
// (1) of sharing.cpp links with room are full at no level, and (2) never chooses them: with all links the answer is the same. The margin
// is far above the grid's rounding; the grid itself is set by the largest capacity kept, which only rates below 2^-21 of it can tell.
#include "sim/engine/deciding.hpp"

#include "topology/at.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace orrery {

namespace {

constexpr double margin = 1e-6;
// No cover is looked for where a link has more bundles than this, or a bundle more links.
constexpr std::size_t most_users = 1024, most_rivals = 64;

// What crosses a shared link, by bundle cost.
struct Crossed {
    struct User {
        std::int32_t cost;
        double taken;
        bool operator<(const User& o) const { return cost != o.cost ? cost < o.cost : taken < o.taken; }
    };
    std::vector<User> users;
    double capacity = 0;
};

std::span<const LinkWeight> shared_of(const Machine& m, const BundleCost& cost) {
    return {m.shared.data() + cost.shared_begin, at(cost.shared_end - cost.shared_begin)};
}

std::vector<Crossed> crossed_links(const Machine& m) {
    std::vector<Crossed> links(m.shared_capacity.size());
    for (std::size_t l = 0; l < links.size(); ++l) links[l].capacity = m.shared_capacity[l];
    for (std::size_t k = 0; k < m.bundle_costs.size(); ++k)
        for (const LinkWeight& use : shared_of(m, m.bundle_costs[k]))
            links[at(use.link)].users.push_back({static_cast<std::int32_t>(k), use.taken});
    return links;
}

// Looks for links that cover a link. Each round takes the bundle that is covered least, and of its links the one that covers most of all
// bundles for its share of the room.
class Cover {
  public:
    Cover(const Machine& m, const std::vector<Crossed>& links) : m_(m), links_(links) {}

    bool found(std::size_t link) {
        const std::vector<Crossed::User>& users = links_[link].users;
        if (users.size() > most_users) return false;
        left_.clear();
        for (const Crossed::User& user : users) left_.push_back(user.taken / links_[link].capacity);
        for (double room = 1 - margin;;) {
            const auto most = static_cast<std::size_t>(std::ranges::max_element(left_) - left_.begin());
            if (users.empty() || left_[most] <= 0) return true;
            const auto rivals = shared_of(m_, m_.bundle_costs[at(users[most].cost)]);
            if (rivals.size() > most_rivals) return false;
            Rival best;
            for (const LinkWeight& r : rivals)
                if (at(r.link) != link && links_[at(r.link)].capacity > 0)
                    if (const Rival rival = rival_of(at(r.link), users, left_[most] / (r.taken / links_[at(r.link)].capacity));
                        rival.covers > best.covers * (rival.share / best.share))
                        best = rival;
            room -= best.share;
            if (best.covers <= 0 || room < 0) return false;
            each_common(best.link, users, [&](std::size_t u, double taken) { left_[u] -= best.share * taken; });
            left_[most] = 0;
        }
    }

  private:
    struct Rival {
        std::size_t link = 0;
        double share = 1, covers = 0; // of its own load; of the other's bundles together
    };

    // f(place in `users`, share of the rival's capacity that it takes) for each that crosses both.
    template <class F> void each_common(std::size_t rival, const std::vector<Crossed::User>& users, F&& f) const {
        auto theirs = links_[rival].users.begin();
        const auto end = links_[rival].users.end();
        for (std::size_t u = 0; u < users.size(); ++u) {
            while (theirs != end && theirs->cost < users[u].cost) ++theirs;
            if (theirs != end && theirs->cost == users[u].cost) f(u, theirs->taken / links_[rival].capacity);
        }
    }

    Rival rival_of(std::size_t link, const std::vector<Crossed::User>& users, double share) const {
        Rival r{link, share, 0};
        each_common(link, users, [&](std::size_t u, double taken) { r.covers += std::min(std::max(0.0, left_[u]), share * taken); });
        return r;
    }

    const Machine& m_;
    const std::vector<Crossed>& links_;
    std::vector<double> left_; // by user: not covered yet, as a share of the link's capacity
};

} // namespace

void keep_deciding_links(Machine& m) {
    std::vector<Crossed> links = crossed_links(m);
    std::vector<char> kept(links.size());
    Cover cover(m, links);
    for (std::size_t l = 0; l < links.size(); ++l) kept[l] = !cover.found(l);
    std::size_t next = 0;
    std::erase_if(links, [&](const Crossed&) { return !kept[next++]; });
    std::ranges::stable_sort(links, [](const Crossed& a, const Crossed& b) {
        const auto order = [](const Crossed& x, const Crossed& y) {
            return std::lexicographical_compare(x.users.begin(), x.users.end(), y.users.begin(), y.users.end());
        };
        if (order(a, b) || order(b, a)) return order(a, b);
        return a.capacity < b.capacity;
    });
    std::vector<std::vector<LinkWeight>> of_cost(m.bundle_costs.size());
    m.shared_capacity.clear();
    for (const Crossed& link : links) {
        const auto number = static_cast<std::int32_t>(m.shared_capacity.size());
        m.shared_capacity.push_back(link.capacity);
        for (const Crossed::User& user : link.users) of_cost[at(user.cost)].push_back({number, 0, user.taken});
    }
    m.shared.clear();
    for (std::size_t k = 0; k < of_cost.size(); ++k) {
        m.bundle_costs[k].shared_begin = static_cast<std::int32_t>(m.shared.size());
        m.shared.insert(m.shared.end(), of_cost[k].begin(), of_cost[k].end());
        m.bundle_costs[k].shared_end = static_cast<std::int32_t>(m.shared.size());
    }
}

} // namespace orrery
