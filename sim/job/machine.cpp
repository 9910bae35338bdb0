// See machine.hpp. Where nodes are alike only their counts matter, and that is what is kept.
#include "sim/job/machine.hpp"

#include <algorithm>
#include <functional>
#include <limits>

namespace orrery {

JobNodes::JobNodes(const TrainingJob& job, int number)
    : job_(job), random_(~(job.seed * 0x2545f4914f6cdd1du + static_cast<std::uint64_t>(number) * 0x9e3779b97f4a7c15u)),
      named_(job.run.failures.lemon_factor > 1 || job.run.failures.remove_lemons_after > 0 ||
             job.run.failures.distribution == FailureLaw::trace),
      ordered_(named_), anonymous_spares_(job.spares) {
    if (!named_) return;
    const int all = job.nodes + job.spares;
    node_in_.resize(job.nodes);
    slot_of_.assign(all, -1);
    failures_.assign(all, 0);
    lemon_.assign(all, 0);
    away_.assign(all, 0);
    back_.assign(all, 0);
    for (int n = 0; n < all; ++n) {
        const auto i = static_cast<std::size_t>(n);
        lemon_[i] = random_.share() < job.run.failures.lemon_share;
        if (n < job.nodes) node_in_[i] = slot_of_[i] = n, all_weights_ += weight(n);
    }
    for (int n = all; n-- > job.nodes;) spares_.push_back(n);
    weights_ = all_weights_;
}

double JobNodes::weight(int node) const { return lemon_[node] ? job_.run.failures.lemon_factor : 1; }

int JobNodes::struck_of_some(const MachineEvent& event, int slot) {
    if (!named_) return std::ranges::find(empty_, slot) == empty_.end() ? slot : -1;
    if (job_.run.failures.distribution == FailureLaw::trace && event.kind == MachineEvent::Kind::failure) return slot_of_[slot];
    if (event.kind == MachineEvent::Kind::group) return node_in_[slot] >= 0 ? slot : -1; // a rack strikes its own
    if (random_.share() * all_weights_ >= weights_) return -1;                           // those that failed so often are gone
    const double most = job_.run.failures.lemon_factor;
    for (int tries = 0; tries < 100'000; ++tries) {
        const int drawn = random_.below(job_.nodes), node = node_in_[drawn];
        if (node >= 0 && random_.share() * most < weight(node)) return drawn;
    }
    return -1;
}

bool JobNodes::leaves(int slot, double now, double back) {
    if (named_) {
        const int node = node_in_[slot];
        if (node < 0) return false;
        const auto i = static_cast<std::size_t>(node);
        const int limit = job_.run.failures.remove_lemons_after;
        const bool gone = limit > 0 && ++failures_[i] >= limit;
        if (back <= now && !gone) return true;
        weights_ -= weight(node);
        slot_of_[i] = -1;
        node_in_[slot] = -1;
        away_[i] = 1;
        back_[i] = back;
        if (!gone) add_repair({back, node});
        if (!gone) down_s_ += back - now;
        if (!spares_.empty()) {
            const int spare = spares_.back();
            spares_.pop_back();
            node_in_[slot] = spare;
            slot_of_[spare] = slot;
            weights_ += weight(spare);
            return true;
        }
        empty_.push_back(slot);
        return false;
    }
    add_repair({back, -1});
    down_s_ += back - now;
    if (anonymous_spares_ == 0) settle(now);
    if (anonymous_spares_ > 0) return --anonymous_spares_, true;
    empty_.push_back(slot);
    order();
    return false;
}

// Who is back by now stands by. The order does not matter where no place waits.
void JobNodes::settle(double now) {
    std::size_t kept = 0;
    for (const Back& b : repairs()) { // no branch: their order is none
        repairs_[kept] = b;
        kept += b.first > now;
    }
    anonymous_spares_ += static_cast<int>(away_nodes_ - kept);
    away_nodes_ = kept;
    if (ordered_) std::ranges::make_heap(repairs(), std::greater<>());
}

void JobNodes::order() {
    if (!ordered_) std::ranges::make_heap(repairs(), std::greater<>());
    ordered_ = true;
}

void JobNodes::add_repair(Back back) {
    put(back, true);
    if (ordered_) std::ranges::push_heap(repairs(), std::greater<>());
}

void JobNodes::outage(int node, double now, double back) {
    const auto i = static_cast<std::size_t>(node);
    if (away_[i]) { // a second fault of a node that is away: it is back when both are mended
        if (back <= back_[i]) return;
        down_s_ += back - std::max(now, back_[i]);
        back_[i] = back;
        add_repair({back, node});
        return;
    }
    if (back <= now) return;
    std::erase(spares_, node);
    away_[i] = 1;
    back_[i] = back;
    down_s_ += back - now;
    add_repair({back, node});
}

int JobNodes::arrives(double now) {
    int filled = 0;
    while (away_nodes_ > 0 && repairs_.front().first <= now) {
        const auto [at, node] = repairs_.front();
        std::ranges::pop_heap(repairs(), std::greater<>());
        --away_nodes_;
        if (named_ && at < back_[node]) continue; // a later fault holds it
        if (named_) away_[node] = 0;
        if (!empty_.empty()) {
            const int slot = empty_.back();
            empty_.pop_back();
            ++filled;
            if (named_) {
                node_in_[slot] = node;
                slot_of_[node] = slot;
                weights_ += weight(node);
            }
        } else if (named_) {
            spares_.push_back(node);
        } else {
            ++anonymous_spares_;
        }
    }
    if (!named_ && empty_.empty()) ordered_ = false;
    return filled;
}

double JobNodes::next_arrival() const {
    if (away_nodes_ == 0) return std::numeric_limits<double>::infinity();
    return ordered_ ? repairs_.front().first : std::ranges::min_element(repairs())->first;
}

double JobNodes::down_s(double now) const {
    double ahead = 0; // what is still to come
    std::vector<Back> sorted(repairs().begin(), repairs().end());
    std::ranges::sort(sorted);
    for (const auto& [at, node] : sorted)
        if (!named_ || at >= back_[node]) ahead += std::max(0.0, at - now);
    return down_s_ - ahead;
}

bool JobNodes::lose_memory(int slot) {
    if (std::ranges::find(lost_memory_, slot) == lost_memory_.end()) lost_memory_.push_back(slot);
    if (lost_memory_.size() <= static_cast<std::size_t>(job_.run.checkpoint.replicas)) return false;
    // The shard of place i lies in its own memory and at i + d, i + 2 d ..: as far apart as can be, so that a rack holds one copy.
    const int copies = job_.run.checkpoint.replicas + 1, apart = std::max(1, job_.nodes / copies);
    for (int c = 0; c < copies; ++c) {
        const int owner = ((slot - c * apart) % job_.nodes + job_.nodes) % job_.nodes;
        bool alive = false;
        for (int k = 0; k < copies && !alive; ++k)
            alive = std::ranges::find(lost_memory_, (owner + k * apart) % job_.nodes) == lost_memory_.end();
        if (!alive) return true;
    }
    return false;
}

} // namespace orrery
