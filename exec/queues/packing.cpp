#include "exec/queues/packing.hpp"

#include "exec/queues/ejection.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <utility>

namespace orrery {
namespace {

// Blocks by the issues they span: a segment tree. A block is in the nodes that together cover its span; those that may meet a span are in
// the nodes above and below it.
class Spans {
  public:
    explicit Spans(std::int32_t issues) {
        while (size_ <= issues) size_ *= 2;
        nodes_.resize(2 * static_cast<std::size_t>(size_));
        below_.resize(nodes_.size(), 0);
    }
    void insert(std::int32_t block, std::int32_t first, std::int32_t last) { insert(1, 0, size_ - 1, block, first, last); }
    template <class F> void each(std::int32_t first, std::int32_t last, F&& f) const { each(1, 0, size_ - 1, first, last, f); }

  private:
    void insert(std::int32_t node, std::int32_t low, std::int32_t high, std::int32_t block, std::int32_t first, std::int32_t last) {
        if (last < low || high < first) return;
        below_[node] = 1;
        if (first <= low && high <= last) return nodes_[node].push_back(block);
        const std::int32_t middle = (low + high) / 2;
        insert(2 * node, low, middle, block, first, last);
        insert(2 * node + 1, middle + 1, high, block, first, last);
    }
    template <class F>
    void each(std::int32_t node, std::int32_t low, std::int32_t high, std::int32_t first, std::int32_t last, F&& f) const {
        if (last < low || high < first || !below_[node]) return;
        for (std::int32_t block : nodes_[node]) f(block);
        if (low == high) return;
        const std::int32_t middle = (low + high) / 2;
        each(2 * node, low, middle, first, last, f);
        each(2 * node + 1, middle + 1, high, first, last, f);
    }

    std::int32_t size_ = 1;
    std::vector<std::vector<std::int32_t>> nodes_;
    std::vector<char> below_; // whether anything is in a node or under it
};

class Packer {
  public:
    Packer(const std::vector<PackedBlock>& blocks, std::int32_t issues, std::int64_t alignment)
        : blocks_(blocks), issues_(issues), alignment_(alignment), seen_(blocks.size(), 0) {
        find_spans();
    }

    // First fit in that order; the offsets of all, and the end of the highest.
    std::int64_t place(const std::vector<std::int32_t>& order, std::vector<std::int64_t>& offsets) {
        Spans spans(issues_);
        std::int64_t end = 0;
        const auto put = [&](std::int32_t b) {
            const PackedBlock& x = block(b);
            spans.insert(b, std::max(0, x.begin), gone_[b]);
            end = std::max(end, offsets[b] + x.bytes);
        };
        for (std::size_t b = 0; b < blocks_.size(); ++b) {
            offsets[b] = blocks_[b].offset;
            if (offsets[b] >= 0) put(static_cast<std::int32_t>(b));
        }
        for (std::int32_t b : order) {
            offsets[b] = lowest(b, spans, offsets);
            put(b);
        }
        return end;
    }
    // The most bytes of blocks at a time, in issue order.
    std::int64_t most() const {
        std::vector<std::int64_t> change(static_cast<std::size_t>(issues_) + 2, 0);
        std::int64_t fixed = 0, level = 0, most = 0;
        for (const PackedBlock& x : blocks_) {
            change[x.begin + 1] += x.bytes;
            change[std::min(x.end, issues_) + 1] -= x.bytes;
            if (x.offset >= 0) fixed = std::max(fixed, x.offset + x.bytes);
        }
        for (std::int64_t c : change) most = std::max(most, level += c);
        return std::max(most, fixed);
    }

  private:
    const PackedBlock& block(std::int32_t b) const { return blocks_[b]; }

    // For each block the issue from which on whoever begins comes after it: found in what all later blocks follow.
    void find_spans() {
        const std::size_t n = blocks_.size(), width = n > 0 ? blocks_[0].last.size() : 0;
        constexpr std::int32_t always = std::numeric_limits<std::int32_t>::max();
        gone_.resize(n);
        for (std::size_t b = 0; b < n; ++b) gone_[b] = std::max(blocks_[b].begin, std::min(blocks_[b].end, issues_) - 1);
        std::vector<std::int32_t> least(n + 1, always);
        for (std::size_t q = 0; q < width; ++q) {
            for (std::size_t b = n; b-- > 0;) least[b] = std::min(least[b + 1], blocks_[b].begin < 0 ? always : blocks_[b].follows[q]);
            for (std::size_t b = 0; b < n; ++b) {
                if (blocks_[b].last[q] < 0) continue;
                const auto later = static_cast<std::size_t>(std::ranges::lower_bound(least, blocks_[b].last[q]) - least.begin());
                gone_[b] = std::max(gone_[b], later < n ? blocks_[later].begin : issues_);
            }
        }
    }
    std::int64_t lowest(std::int32_t b, const Spans& spans, const std::vector<std::int64_t>& offsets) {
        taken_.clear();
        ++round_;
        const PackedBlock& x = block(b);
        spans.each(std::max(0, x.begin), gone_[b], [&](std::int32_t other) {
            if (std::exchange(seen_[other], round_) == round_) return;
            const PackedBlock& y = block(other);
            const std::int64_t at = offsets[other];
            if (!before(x, y) && !before(y, x)) taken_.emplace_back(at, at + y.bytes);
        });
        std::ranges::sort(taken_);
        std::int64_t at = 0;
        for (const auto& [begin, end] : taken_) {
            if (begin - at >= x.bytes) break;
            at = std::max(at, (end + alignment_ - 1) / alignment_ * alignment_);
        }
        return at;
    }

    const std::vector<PackedBlock>& blocks_;
    const std::int32_t issues_;
    const std::int64_t alignment_;
    std::vector<std::int32_t> gone_, seen_;
    std::int32_t round_ = 0;
    std::vector<std::pair<std::int64_t, std::int64_t>> taken_;
};

constexpr std::size_t work = 40000;               // blocks placed for each order: rounds are as many as that allows, 1 to 8
constexpr std::size_t most_related = 4096;        // blocks whose every pair is looked at: 2 MiB of bits
constexpr std::int64_t least_searched = 8 << 20;  // bytes; a percent of fewer is worth no seconds
constexpr std::int64_t most_seen = 1'200'000'000; // blocks that a search looks at: some five seconds

Meets meets_of(const std::vector<PackedBlock>& blocks) {
    Meets meets(blocks.size(), std::vector<bool>(blocks.size(), false));
    for (std::size_t a = 0; a < blocks.size(); ++a)
        for (std::size_t b = 0; b < a; ++b) meets[a][b] = meets[b][a] = !before(blocks[a], blocks[b]) && !before(blocks[b], blocks[a]);
    return meets;
}

// First fit once more, for fewer blocks: which pairs may meet is found once, so a placement takes a fraction of the time.
class PairPacker {
  public:
    PairPacker(const std::vector<PackedBlock>& blocks, const Meets& meets, std::int64_t alignment)
        : blocks_(blocks), meet_(meets), alignment_(alignment) {}

    std::int64_t place(const std::vector<std::int32_t>& order, std::vector<std::int64_t>& offsets) {
        placed_.clear();
        std::int64_t end = 0;
        const auto put = [&](std::int32_t b, std::int64_t at) {
            offsets[b] = at;
            end = std::max(end, at + blocks_[b].bytes);
            placed_.insert(std::ranges::upper_bound(placed_, std::pair{at, b}), {at, b});
        };
        for (std::size_t b = 0; b < blocks_.size(); ++b)
            if (blocks_[b].offset >= 0) put(static_cast<std::int32_t>(b), blocks_[b].offset);
        for (std::int32_t b : order) put(b, lowest(static_cast<std::size_t>(b)));
        return end;
    }

  private:
    std::int64_t lowest(std::size_t b) const {
        std::int64_t at = 0;
        for (const auto& [begin, other] : placed_) {
            if (!meet_[b][other]) continue;
            if (begin - at >= blocks_[b].bytes) break;
            at = std::max(at, (begin + blocks_[other].bytes + alignment_ - 1) / alignment_ * alignment_);
        }
        return at;
    }

    const std::vector<PackedBlock>& blocks_;
    const Meets& meet_;
    const std::int64_t alignment_;
    std::vector<std::pair<std::int64_t, std::int32_t>> placed_; // by offset
};

double weight(const PackedBlock& x, int order) {
    const auto bytes = static_cast<double>(x.bytes), time = static_cast<double>(x.end - x.begin);
    return order == 0 ? bytes : order == 1 ? bytes * time : time;
}

std::vector<std::int32_t> movable(const std::vector<PackedBlock>& blocks) {
    std::vector<std::int32_t> list;
    for (std::size_t b = 0; b < blocks.size(); ++b)
        if (blocks[b].offset < 0) list.push_back(static_cast<std::int32_t>(b));
    return list;
}

// By block: the most bytes that are alive at a time while it is, in issue order.
std::vector<double> crowds(const std::vector<PackedBlock>& blocks) {
    std::int32_t issues = 0;
    for (const PackedBlock& x : blocks) issues = std::max(issues, x.begin + 1);
    std::vector<std::int64_t> level(static_cast<std::size_t>(issues) + 2, 0); // behind each issue, and before the first
    for (const PackedBlock& x : blocks) {
        level[x.begin + 1] += x.bytes;
        level[std::min(x.end, issues) + 1] -= x.bytes;
    }
    std::partial_sum(level.begin(), level.end(), level.begin());
    std::vector<double> crowd;
    for (const PackedBlock& x : blocks)
        crowd.push_back(static_cast<double>(*std::max_element(level.begin() + x.begin + 1, level.begin() + std::min(x.end, issues) + 1)));
    return crowd;
}

// An order for first fit: by the measures of weight(), or those first that are there when the most is alive. steepness: how many steps of
// urgency a factor of e is.
struct Measure {
    int weight;
    bool crowded;
    double steepness;
    int rounds;
};
constexpr Measure measures[] = {{0, true, 4, 120}, {0, false, 4, 40}, {1, false, 2, 40}, {2, false, 3, 40}};

// Placements better than the best one so far. Blocks that stick out become more urgent with every round, by unequal steps, and the order
// remembers it: a few large blocks among many small ones seldom fit in an order by one measure.
void improve(const std::vector<PackedBlock>& blocks, const Meets& meets, std::int64_t alignment, std::int64_t enough, std::int64_t& best,
             std::vector<std::int64_t>& best_offsets) {
    PairPacker packer(blocks, meets, alignment);
    std::minstd_rand draw(1);
    std::vector<std::int64_t> offsets(blocks.size());
    std::vector<double> urgency(blocks.size());
    const std::vector<double> crowd = crowds(blocks);
    for (const Measure& m : measures) {
        std::vector<std::int32_t> list = movable(blocks);
        for (std::size_t b = 0; b < blocks.size(); ++b) {
            urgency[b] = m.steepness * std::log(std::max(1.0, weight(blocks[b], m.weight)));
            if (m.crowded) urgency[b] += 10 * m.steepness * std::log(std::max(1.0, crowd[b]));
        }
        for (int round = 0; round < m.rounds && best > enough; ++round) {
            std::ranges::stable_sort(list, std::ranges::greater{}, [&](std::int32_t b) { return urgency[b]; });
            if (const std::int64_t end = packer.place(list, offsets); end < best) best = end, best_offsets = offsets;
            const std::int64_t aim = enough + (best - enough) / 2;
            for (std::int32_t l : list)
                if (const auto b = static_cast<std::size_t>(l); offsets[b] + blocks[b].bytes > aim)
                    urgency[b] += 1 + static_cast<double>(draw() % 1024) / 1024;
        }
    }
}

// By block: which of few places it takes in turn. A buffer's instances (of microbatches, of steps) share as many places as the buffer that
// has the most in use at a time, all in one rhythm: a schedule that repeats itself then has a packing that does.
std::vector<std::int32_t> turns(const std::vector<PackedBlock>& blocks, const Meets& meets) {
    std::map<std::int64_t, std::vector<std::size_t>> kinds;
    for (std::size_t b = 0; b < blocks.size(); ++b)
        kinds[blocks[b].offset < 0 && blocks[b].kind >= 0 ? blocks[b].kind : -1 - static_cast<std::int64_t>(b)].push_back(b);
    const auto fits = [&](const std::vector<std::size_t>& list, std::size_t places) { // no two that share one meet, and they are as long
        for (std::size_t i = 0; i < list.size(); ++i)
            for (std::size_t j = i + places; j < list.size(); j += places)
                if (meets[list[i]][list[j]] || blocks[list[i]].bytes != blocks[list[j]].bytes) return false;
        return true;
    };
    std::size_t rhythm = 1;
    for (const auto& [kind, list] : kinds)
        while (!fits(list, rhythm)) ++rhythm;
    std::vector<std::int32_t> place(blocks.size(), -1);
    std::int32_t next = 0;
    for (const auto& [kind, list] : kinds) {
        std::size_t places = rhythm;
        while (!fits(list, places)) places += rhythm;
        for (std::size_t i = 0; i < list.size(); ++i) place[list[i]] = next + static_cast<std::int32_t>(i % places);
        next += static_cast<std::int32_t>(std::min(places, list.size()));
    }
    return place;
}

// Blocks of which each meets all others take so much together: no packing takes less. Found greedily, from each block on.
std::int64_t bound_of(const std::vector<PackedBlock>& blocks, const Meets& meets) {
    std::vector<std::size_t> order(blocks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t b) { return blocks[b].bytes; });
    std::int64_t most = 0;
    std::vector<std::size_t> all;
    for (const std::size_t first : order) {
        all.assign(1, first);
        std::int64_t bytes = blocks[first].bytes;
        for (const std::size_t b : order) {
            if (b == first || !std::ranges::all_of(all, [&](std::size_t a) { return meets[a][b]; })) continue;
            all.push_back(b);
            bytes += blocks[b].bytes;
        }
        most = std::max(most, bytes);
    }
    return most;
}

// The places of turns() packed as blocks of their own: few, where there are many microbatches.
void pack_in_turns(const std::vector<PackedBlock>& blocks, const Meets& meets, std::int64_t alignment, std::int64_t enough,
                   std::int64_t& best, std::vector<std::int64_t>& best_offsets) {
    const std::vector<std::int32_t> place = turns(blocks, meets);
    const auto count = static_cast<std::size_t>(*std::ranges::max_element(place)) + 1;
    std::vector<PackedBlock> places(count);
    Meets together(count, std::vector<bool>(count, false));
    for (std::size_t b = blocks.size(); b-- > 0;)
        places[place[b]] = {blocks[b].bytes, blocks[b].begin, blocks[b].end, {}, {}, blocks[b].offset};
    for (std::size_t a = 0; a < blocks.size(); ++a)
        for (std::size_t b = 0; b < blocks.size(); ++b)
            if (meets[a][b]) together[place[a]][place[b]] = true;
    std::vector<std::int32_t> order = movable(places);
    std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::int32_t p) { return places[p].bytes; });
    std::vector<std::int64_t> offsets(count);
    std::int64_t end = PairPacker(places, together, alignment).place(order, offsets);
    const std::int64_t goal = std::max(enough, bound_of(places, together));
    squeeze(places, together, alignment, {goal, std::numeric_limits<std::int64_t>::max()}, most_seen / 3, end, offsets);
    if (end >= best) return;
    best = end;
    for (std::size_t b = 0; b < blocks.size(); ++b) best_offsets[b] = offsets[place[b]];
}

} // namespace

bool before(const PackedBlock& a, const PackedBlock& b) {
    if (a.end > b.begin) return false;
    for (std::size_t q = 0; q < a.last.size(); ++q)
        if (a.last[q] > b.follows[q]) return false;
    return true;
}

std::int64_t pack(std::vector<PackedBlock>& blocks, std::int32_t issues, std::int64_t alignment) {
    Packer packer(blocks, issues, alignment);
    const std::int64_t most = packer.most(), enough = most + most / 80;
    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    const std::size_t rounds = std::clamp<std::size_t>(work / (blocks.size() + 1), 1, 8);
    std::vector<std::int64_t> offsets(blocks.size()), best_offsets;
    for (int order = 0; order < 3 && best > enough; ++order) {
        std::vector<std::int32_t> list = movable(blocks);
        const auto weight_of = [&](std::int32_t b) { return weight(blocks[b], order); };
        std::ranges::stable_sort(list, [&](std::int32_t x, std::int32_t y) { return weight_of(x) > weight_of(y); });
        for (std::size_t round = 0; round < rounds && best > enough; ++round) {
            if (const std::int64_t end = packer.place(list, offsets); end < best) best = end, best_offsets = offsets;
            std::ranges::stable_partition(list, [&](std::int32_t b) { return offsets[b] + blocks[b].bytes > enough; });
        }
    }
    const bool few = blocks.size() <= most_related, worth_seconds = most >= least_searched;
    if (best > enough && (few || (worth_seconds && blocks.size() <= 3 * most_related))) {
        const Meets meets = meets_of(blocks);
        if (few) improve(blocks, meets, alignment, enough, best, best_offsets);
        if (best > enough && worth_seconds) pack_in_turns(blocks, meets, alignment, enough, best, best_offsets);
        if (best > enough && worth_seconds && few)
            squeeze(blocks, meets, alignment, {enough, most + most / 52}, most_seen, best, best_offsets);
    }
    for (std::size_t b = 0; b < blocks.size(); ++b) blocks[b].offset = best_offsets[b];
    return blocks.empty() ? 0 : best;
}

} // namespace orrery
