// Does the caching allocator reserve what PyTorch's does?
#include "sim/memory/caching_allocator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace orrery {
namespace {

constexpr std::int64_t mib = 1 << 20;

Bytes reserved_for(std::int64_t bytes) {
    CachingAllocator a(1, Bytes::gigabytes(1000));
    a.allocate(Bytes{bytes}, 0);
    return a.reserved();
}

TEST(CachingAllocator, SegmentsHaveTheSizesOfPyTorchs) {
    EXPECT_EQ(reserved_for(1).count, 2 * mib);
    EXPECT_EQ(reserved_for(mib).count, 2 * mib);
    EXPECT_EQ(reserved_for(mib + 1).count, 20 * mib);
    EXPECT_EQ(reserved_for(10 * mib - 1024).count, 20 * mib);
    EXPECT_EQ(reserved_for(10 * mib).count, 10 * mib);
    EXPECT_EQ(reserved_for(31 * mib).count, 32 * mib);
}

TEST(CachingAllocator, FreeMemoryIsUsedAgainInParts) {
    CachingAllocator a(1, Bytes::gigabytes(1000));
    a.free(a.allocate(Bytes{40 * mib}, 0));
    const auto one = a.allocate(Bytes{20 * mib}, 0), two = a.allocate(Bytes{20 * mib}, 0);
    EXPECT_EQ(a.reserved().count, 40 * mib);
    a.free(one);
    a.free(two);
    a.allocate(Bytes{40 * mib}, 0); // neighbours were joined
    EXPECT_EQ(a.reserved().count, 40 * mib);
}

TEST(CachingAllocator, SegmentsAreNeverJoined) {
    CachingAllocator a(1, Bytes::gigabytes(1000));
    const auto one = a.allocate(Bytes{20 * mib}, 0), two = a.allocate(Bytes{20 * mib}, 0);
    a.free(one);
    a.free(two);
    a.allocate(Bytes{40 * mib}, 0);
    EXPECT_EQ(a.reserved().count, 80 * mib);
}

// A lasting buffer that finds no piece of its size takes a larger one, and what needs the larger one asks for more.
TEST(CachingAllocator, BestFitBreaksUpLargerPieces) {
    CachingAllocator a(1, Bytes::gigabytes(1000));
    for (int layer = 0; layer < 4; ++layer) {
        a.free(a.allocate(Bytes{400 * mib}, 0));
        a.allocate(Bytes{236 * mib}, 0);
    }
    EXPECT_EQ(a.reserved().count, 4 * 400 * mib);
}

TEST(CachingAllocator, StreamsShareNothing) {
    CachingAllocator a(2, Bytes::gigabytes(1000));
    a.free(a.allocate(Bytes{64 * mib}, 0));
    a.allocate(Bytes{64 * mib}, 1);
    EXPECT_EQ(a.reserved().count, 128 * mib);
}

// The end of an expandable segment grows by what it lacks; a hole that is too small stays.
TEST(CachingAllocator, ExpandableSegmentsGrowAtTheirEnd) {
    for (const bool expandable : {true, false}) {
        CachingAllocator a(1, Bytes::gigabytes(1000), expandable);
        const auto first = a.allocate(Bytes{100 * mib}, 0);
        a.free(first);
        const auto second = a.allocate(Bytes{130 * mib}, 0);
        EXPECT_EQ(a.reserved().count, (expandable ? 140 : 230) * mib);
        const auto third = a.allocate(Bytes{60 * mib}, 0);
        EXPECT_EQ(a.reserved().count, (expandable ? 200 : 230) * mib) << "10 MiB were left at the end, or 100 before";
        a.free(second);
        a.allocate(Bytes{150 * mib}, 0);
        EXPECT_EQ(a.reserved().count, (expandable ? 340 : 380) * mib) << "the hole has 130";
        a.free(third);
    }
}

TEST(CachingAllocator, AFullDeviceGetsFreeSegmentsBack) {
    CachingAllocator a(1, Bytes{100 * mib});
    a.free(a.allocate(Bytes{60 * mib}, 0));
    a.allocate(Bytes{80 * mib}, 0);
    EXPECT_EQ(a.reserved().count, 80 * mib);
    EXPECT_EQ(a.peak().count, 80 * mib);
    EXPECT_EQ(a.retries(), 1);
}

// The same rules with no index: segments as lists of pieces, all looked through.
class Plain {
  public:
    int allocate(std::int64_t bytes) {
        const std::int64_t size = std::max<std::int64_t>(512, (bytes + 511) / 512 * 512);
        const bool small = size <= mib;
        Segment* best = nullptr;
        std::size_t place = 0;
        for (Segment& s : segments_)
            for (std::size_t i = 0; i < s.pieces.size(); ++i)
                if (s.small == small && s.pieces[i].owner < 0 && s.pieces[i].size >= size &&
                    (!best || s.pieces[i].size < best->pieces[place].size))
                    best = &s, place = i;
        if (!best) {
            const std::int64_t whole = small ? 2 * mib : size < 10 * mib ? 20 * mib : (size + 2 * mib - 1) / (2 * mib) * (2 * mib);
            segments_.push_back({small, {{whole, -1}}});
            reserved += whole;
            best = &segments_.back();
            place = 0;
        }
        const std::int64_t rest = best->pieces[place].size - size;
        if (small ? rest >= 512 : rest > mib) {
            best->pieces.insert(best->pieces.begin() + static_cast<std::ptrdiff_t>(place) + 1, {rest, -1});
            best->pieces[place].size = size;
        }
        best->pieces[place].owner = next_;
        return next_++;
    }
    void free(int owner) {
        for (Segment& s : segments_)
            for (std::size_t i = 0; i < s.pieces.size(); ++i) {
                if (s.pieces[i].owner != owner) continue;
                s.pieces[i].owner = -1;
                const auto join = [&](std::size_t at) {
                    if (at + 1 >= s.pieces.size() || s.pieces[at].owner >= 0 || s.pieces[at + 1].owner >= 0) return;
                    s.pieces[at].size += s.pieces[at + 1].size;
                    s.pieces.erase(s.pieces.begin() + static_cast<std::ptrdiff_t>(at) + 1);
                };
                join(i);
                if (i > 0) join(i - 1);
                return;
            }
    }
    std::int64_t reserved = 0;

  private:
    struct Piece {
        std::int64_t size;
        int owner;
    };
    struct Segment {
        bool small;
        std::vector<Piece> pieces;
    };
    std::vector<Segment> segments_;
    int next_ = 0;
};

// (Of pieces of one size the one with the lower address is taken: here the first, as segments are in the order of theirs.)
TEST(CachingAllocator, AgreesWithAPlainOne) {
    for (unsigned seed = 0; seed < 20; ++seed) {
        std::mt19937 random(seed);
        CachingAllocator fast(1, Bytes::gigabytes(100000));
        Plain plain;
        struct Both {
            CachingAllocator::Block fast;
            int plain;
        };
        std::vector<Both> live;
        for (int i = 0; i < 2000; ++i) {
            if (live.size() > 20 && random() % 2 == 0) {
                const std::size_t at = random() % live.size();
                fast.free(live[at].fast);
                plain.free(live[at].plain);
                live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
            } else {
                const std::int64_t scale = random() % 3 == 0 ? 400'000 : random() % 2 == 0 ? 6'000'000 : 300'000'000;
                const auto size = static_cast<std::int64_t>(random() % static_cast<unsigned>(scale)) / 512 * 512 + 512;
                live.push_back({fast.allocate(Bytes{size}, 0), plain.allocate(size)});
            }
            ASSERT_EQ(fast.reserved().count, plain.reserved) << "seed " << seed << ", step " << i;
        }
    }
}

} // namespace
} // namespace orrery
