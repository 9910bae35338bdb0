// All blocks are to find a place in a fixed number of bytes: a block without one takes the one where it puts out the least, and those that
// it puts out come next. A block weighs more each time it is put out, so that no few of them go round for ever (guided ejection search,
// Nagata and Braysy 2009). The blocks that lie somewhere are kept in the order of their begins and of their ends, so a block's places are
// weighed in one pass over each.
#include "exec/queues/ejection.hpp"

#include <algorithm>
#include <random>
#include <utility>

namespace orrery {
namespace {

constexpr std::int64_t stays = std::int64_t{1} << 40; // the weight of what may not be put out

class Ejection {
  public:
    Ejection(const std::vector<PackedBlock>& blocks, const Meets& meets, std::int64_t alignment)
        : blocks_(blocks), alignment_(alignment), words_((blocks.size() + 63) / 64), bits_(blocks.size() * words_, 0),
          neighbours_(blocks.size()), weight_(blocks.size(), 1) {
        for (std::size_t a = 0; a < blocks.size(); ++a)
            for (std::size_t b = 0; b < blocks.size(); ++b) {
                if (a == b || !meets[a][b]) continue;
                neighbours_[a].push_back(static_cast<std::int32_t>(b));
                bits_[a * words_ + b / 64] |= std::uint64_t{1} << (b % 64);
            }
    }

    // Whether all find a place. offsets: a packing, of which those that stick out of `room` are placed again, the largest first; anew:
    // all are, in the order of their begins.
    bool fit(std::vector<std::int64_t>& offsets, std::int64_t room, bool anew, std::int64_t seen_at_most) {
        std::vector<std::int32_t> out = begin(offsets, room, anew); // the last is the next
        const auto later = [&](std::int32_t x, std::int32_t y) { return std::pair(blocks_[x].begin, x) > std::pair(blocks_[y].begin, y); };
        if (anew)
            std::ranges::make_heap(out, later);
        else
            std::ranges::stable_sort(out, {}, [&](std::int32_t b) { return blocks_[b].bytes; });
        while (!out.empty()) {
            if (anew) std::ranges::pop_heap(out, later);
            const std::int32_t b = out.back();
            out.pop_back();
            const std::int64_t at = seen_ > seen_at_most ? -1 : cheapest(b, room);
            if (at < 0) return false;
            seen_ += static_cast<std::int64_t>(neighbours_[b].size());
            for (std::int32_t other : neighbours_[b]) {
                if (offsets[other] < 0 || offsets[other] >= at + blocks_[b].bytes || at >= offsets[other] + blocks_[other].bytes) continue;
                remove(other, std::exchange(offsets[other], -1));
                ++weight_[other];
                out.push_back(other);
                if (anew) std::ranges::push_heap(out, later);
            }
            offsets[b] = at;
            insert(b, at);
        }
        return true;
    }

  private:
    using Place = std::pair<std::int64_t, std::int32_t>; // an address, a block

    // The place where what lies there weighs least; of several that are free the lowest, else any.
    struct Best {
        std::int64_t last, at = -1, least = stays - 1;
        std::uint32_t alike = 0;
        void offer(std::int64_t offset, std::int64_t weight, std::minstd_rand& draw) {
            if (offset > last || weight > least || (weight == least && (weight == 0 || draw() % ++alike != 0))) return;
            if (weight < least) alike = 1;
            at = offset;
            least = weight;
        }
    };

    std::vector<std::int32_t> begin(std::vector<std::int64_t>& offsets, std::int64_t room, bool anew) {
        std::vector<std::int32_t> out;
        begins_.clear();
        ends_.clear();
        seen_ = 0;
        for (std::size_t i = 0; i < blocks_.size(); ++i) {
            const auto b = static_cast<std::int32_t>(i);
            weight_[i] = blocks_[i].offset >= 0 ? stays : 1;
            if (anew ? blocks_[i].offset < 0 : offsets[i] + blocks_[i].bytes > room) {
                out.push_back(b);
                offsets[i] = -1;
            } else {
                begins_.emplace_back(offsets[i], b);
                ends_.emplace_back(end_of(b, offsets[i]), b);
            }
        }
        std::ranges::sort(begins_);
        std::ranges::sort(ends_);
        return out;
    }
    std::int64_t down(std::int64_t at) const { return at / alignment_ * alignment_; }
    std::int64_t end_of(std::int32_t b, std::int64_t at) const { return down(at + blocks_[b].bytes + alignment_ - 1); }
    void insert(std::int32_t b, std::int64_t at) {
        const Place begin{at, b}, end{end_of(b, at), b};
        begins_.insert(std::ranges::lower_bound(begins_, begin), begin);
        ends_.insert(std::ranges::lower_bound(ends_, end), end);
    }
    void remove(std::int32_t b, std::int64_t at) {
        begins_.erase(std::ranges::lower_bound(begins_, Place{at, b}));
        ends_.erase(std::ranges::lower_bound(ends_, Place{end_of(b, at), b}));
    }
    bool meets(std::int32_t a, std::int32_t b) const {
        const auto bit = static_cast<std::size_t>(b);
        return bits_[static_cast<std::size_t>(a) * words_ + bit / 64] >> (bit % 64) & 1;
    }
    // The weight of neighbours of b from place `k` of the list on whose address is below `until`; k: behind them.
    std::int64_t weigh(const std::vector<Place>& list, std::size_t& k, std::int64_t until, std::int32_t b) {
        std::int64_t sum = 0;
        for (; k < list.size() && list[k].first < until; ++k, ++seen_)
            if (meets(b, list[k].second)) sum += weight_[list[k].second];
        return sum;
    }

    // -1: what lies there stays.
    std::int64_t cheapest(std::int32_t b, std::int64_t room) {
        if (room < blocks_[b].bytes) return -1;
        Best best{down(room - blocks_[b].bytes)};
        above_each(b, best);
        if (best.least > 0) below_each(b, best);
        return best.at;
    }
    // At 0 and right above each neighbour, from the lowest to one that is free.
    void above_each(std::int32_t b, Best& best) {
        const std::int64_t bytes = blocks_[b].bytes;
        std::size_t begun = 0, ended = 0;
        std::int64_t sum = weigh(begins_, begun, bytes, b);
        best.offer(0, sum, draw_);
        while (ended < ends_.size() && ends_[ended].first <= best.last && best.least > 0) {
            const std::int64_t at = ends_[ended].first, gone = weigh(ends_, ended, at + 1, b);
            if (gone == 0) continue;
            sum += weigh(begins_, begun, at + bytes, b) - gone;
            best.offer(at, sum, draw_);
        }
    }
    // Right below each neighbour, and as high as can be.
    void below_each(std::int32_t b, Best& best) {
        const std::int64_t bytes = blocks_[b].bytes;
        std::size_t begun = 0, ended = 0;
        std::int64_t sum = weigh(begins_, begun, bytes, b);
        while (begun < begins_.size() && down(begins_[begun].first - bytes) <= best.last) {
            const std::int64_t begin = begins_[begun].first, at = down(begin - bytes);
            sum -= weigh(ends_, ended, at + 1, b);
            const std::int64_t more = weigh(begins_, begun, begin + 1, b);
            if (more > 0) best.offer(at, sum, draw_);
            sum += more;
        }
        sum -= weigh(ends_, ended, best.last + 1, b);
        best.offer(best.last, sum, draw_);
    }

    const std::vector<PackedBlock>& blocks_;
    const std::int64_t alignment_;
    const std::size_t words_;         // of a row of bits
    std::vector<std::uint64_t> bits_; // by two blocks: whether they meet
    std::vector<std::vector<std::int32_t>> neighbours_;
    std::vector<std::int64_t> weight_;
    std::vector<Place> begins_, ends_; // of the blocks that lie somewhere; ends are aligned
    std::int64_t seen_ = 0;
    std::minstd_rand draw_{1};
};

} // namespace

void squeeze(const std::vector<PackedBlock>& blocks, const Meets& meets, std::int64_t alignment, const Goals& goals,
             std::int64_t seen_at_most, std::int64_t& best, std::vector<std::int64_t>& offsets) {
    Ejection search(blocks, meets, alignment);
    std::int64_t each = std::clamp<std::int64_t>(20'000 * static_cast<std::int64_t>(blocks.size()), 8'000'000, 80'000'000);
    std::int64_t seen = 0;
    for (int i = 0; best > goals.enough; ++i) {
        if (i > 0 && i % 8 == 0) each *= 2;
        const std::int64_t limit = best > goals.bearable ? 4 * seen_at_most : seen_at_most, now = std::min(each, limit - seen);
        if (now <= 0) return;
        seen += now;
        const std::int64_t more = (best - goals.enough) >> (i / 2 % 4); // all that is too much, half, a quarter of it ..
        const std::int64_t room = best - std::max<std::int64_t>(1, more);
        std::vector<std::int64_t> found = offsets;
        if (!search.fit(found, room, i % 2 == 1, now)) continue;
        best = 0;
        for (std::size_t b = 0; b < blocks.size(); ++b) best = std::max(best, found[b] + blocks[b].bytes);
        offsets = std::move(found);
    }
}

} // namespace orrery
