// All blocks are to find a place in a fixed number of bytes: a block without one takes the one where it puts out the least, and those that
// it puts out come next. A block weighs more each time it is put out, so that no few of them go round for ever (guided ejection search,
// Nagata and Braysy 2009).
#include "exec/queues/ejection.hpp"

#include <algorithm>
#include <random>
#include <utility>

namespace orrery {
namespace {

constexpr std::int64_t most_seen = 48'000'000; // neighbours that are looked at: two or three seconds

class Ejection {
  public:
    Ejection(const std::vector<PackedBlock>& blocks, const Meets& meets, std::int64_t alignment)
        : blocks_(blocks), alignment_(alignment), neighbours_(blocks.size()), weight_(blocks.size(), 1) {
        for (std::size_t a = 0; a < blocks.size(); ++a)
            for (std::size_t b = 0; b < blocks.size(); ++b)
                if (a != b && meets[a][b]) neighbours_[a].push_back(static_cast<std::int32_t>(b));
    }

    // Whether all find a place. offsets: a packing, of which those that stick out of `room` are placed again, the largest first; anew:
    // all are, in the order of their begins.
    bool fit(std::vector<std::int64_t>& offsets, std::int64_t room, bool anew, std::int64_t seen_at_most) {
        std::ranges::fill(weight_, 1);
        std::vector<std::int32_t> out; // the last is the next
        for (std::size_t b = 0; b < blocks_.size(); ++b)
            if (anew ? blocks_[b].offset < 0 : offsets[b] + blocks_[b].bytes > room) {
                out.push_back(static_cast<std::int32_t>(b));
                offsets[b] = -1;
            }
        if (!anew) std::ranges::stable_sort(out, {}, [&](std::int32_t b) { return blocks_[b].bytes; });
        const auto later = [&](std::int32_t x, std::int32_t y) { return std::pair(blocks_[x].begin, x) > std::pair(blocks_[y].begin, y); };
        if (anew) std::ranges::make_heap(out, later);
        for (std::int64_t seen = 0; !out.empty();) {
            if (anew) std::ranges::pop_heap(out, later);
            const std::int32_t b = out.back();
            out.pop_back();
            seen += 1 + static_cast<std::int64_t>(neighbours_[b].size());
            const std::int64_t at = seen > seen_at_most ? -1 : cheapest(b, room, offsets);
            if (at < 0) return false;
            for (std::int32_t other : neighbours_[b]) {
                if (offsets[other] < 0 || offsets[other] >= at + blocks_[b].bytes || at >= offsets[other] + blocks_[other].bytes) continue;
                offsets[other] = -1;
                ++weight_[other];
                out.push_back(other);
                if (anew) std::ranges::push_heap(out, later);
            }
            offsets[b] = at;
        }
        return true;
    }

  private:
    struct Edge {
        std::int64_t at, weight;
    };

    // The place where what lies there weighs least; of several that are free the lowest, else any. -1: what lies there stays.
    std::int64_t cheapest(std::int32_t b, std::int64_t room, const std::vector<std::int64_t>& offsets) {
        constexpr std::int64_t stays = std::int64_t{1} << 40;
        const std::int64_t bytes = blocks_[b].bytes, last = room - bytes;
        if (last < 0) return -1;
        const auto up = [&](std::int64_t at) { return (at + alignment_ - 1) / alignment_ * alignment_; };
        edges_.assign({{0, 0}, {last / alignment_ * alignment_, 0}});
        for (std::int32_t other : neighbours_[b]) { // in the way from where this one's end would pass its begin
            const std::int64_t at = offsets[other];
            if (at < 0) continue;
            const std::int64_t weight = blocks_[other].offset >= 0 ? stays : weight_[other];
            const std::int64_t from = at < bytes ? 0 : (at - bytes) / alignment_ * alignment_ + alignment_;
            if (at >= bytes) edges_.push_back({from - alignment_, 0}); // the place right under it
            edges_.push_back({from, weight});
            edges_.push_back({up(at + blocks_[other].bytes), -weight});
        }
        std::ranges::sort(edges_, {}, &Edge::at);
        std::int64_t best = -1, least = stays, sum = 0;
        std::uint32_t alike = 0;
        for (std::size_t i = 0; i < edges_.size();) {
            const std::int64_t at = edges_[i].at;
            for (; i < edges_.size() && edges_[i].at == at; ++i) sum += edges_[i].weight;
            if (at > last || sum > least || (sum == least && (sum == 0 || draw_() % ++alike != 0))) continue;
            if (sum < least) alike = 1;
            best = at;
            least = sum;
        }
        return best;
    }

    const std::vector<PackedBlock>& blocks_;
    const std::int64_t alignment_;
    std::vector<std::vector<std::int32_t>> neighbours_;
    std::vector<std::int64_t> weight_;
    std::vector<Edge> edges_;
    std::minstd_rand draw_{1};
};

} // namespace

void squeeze(const std::vector<PackedBlock>& blocks, const Meets& meets, std::int64_t alignment, std::int64_t enough, std::int64_t& best,
             std::vector<std::int64_t>& offsets) {
    Ejection search(blocks, meets, alignment);
    const std::int64_t each = std::clamp<std::int64_t>(5000 * static_cast<std::int64_t>(blocks.size()), 1'000'000, 10'000'000);
    for (int i = 0; i < most_seen / each && best > enough; ++i) {
        const std::int64_t room = best - std::max<std::int64_t>(1, (best - enough) >> (i / 2 % 4)); // all the way, half, a quarter of it ..
        std::vector<std::int64_t> found = offsets;
        if (!search.fit(found, room, i % 2 == 1, each)) continue;
        best = 0;
        for (std::size_t b = 0; b < blocks.size(); ++b) best = std::max(best, found[b] + blocks[b].bytes);
        offsets = std::move(found);
    }
}

} // namespace orrery
