#include "exec/local/collectives.hpp"

#include "exec/kernels/kernel.hpp"
#include "topology/check.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace orrery {
namespace {

// Each sum rounded, as a ring of NCCL does.
template <std::uint16_t (*to)(float), float (*from)(std::uint16_t)> struct SixteenBits {
    std::uint16_t bits = 0;
    SixteenBits& operator+=(SixteenBits other) {
        bits = to(from(bits) + from(other.bits));
        return *this;
    }
    friend bool operator<(SixteenBits a, SixteenBits b) { return from(a.bits) < from(b.bits); }
};
using Bf16 = SixteenBits<to_bf16, from_bf16>;
using Fp16 = SixteenBits<to_fp16, from_fp16>;

constexpr std::int64_t chunk = 2048; // elements summed at a time, on the stack

// Walks pieces from an offset; run() is how many elements follow in one run, 0 at the end.
class Cursor {
  public:
    Cursor(const Pieces& pieces, std::int64_t offset, std::int64_t size) : pieces_(&pieces), size_(size) { advance(offset); }
    std::int64_t run() const { return piece_ < pieces_->size() ? (*pieces_)[piece_].elements - at_ : 0; }
    std::byte* data() const { return (*pieces_)[piece_].data + at_ * size_; }
    void advance(std::int64_t n) {
        while (piece_ < pieces_->size() && n >= (*pieces_)[piece_].elements - at_) {
            n -= (*pieces_)[piece_].elements - at_;
            ++piece_;
            at_ = 0;
        }
        if (piece_ < pieces_->size()) at_ += n;
    }

  private:
    const Pieces* pieces_;
    std::int64_t size_;
    std::size_t piece_ = 0;
    std::int64_t at_ = 0;
};

// Copies n elements; where the destination ends the rest is dropped, where the source ends the rest is zero.
void copy(Cursor from, Cursor to, std::int64_t n, std::int64_t size) {
    while (n > 0 && to.run() > 0) {
        const std::int64_t have = from.run(), now = std::min({n, to.run(), have > 0 ? have : n});
        if (have > 0)
            std::memmove(to.data(), from.data(), static_cast<std::size_t>(now * size));
        else
            std::memset(to.data(), 0, static_cast<std::size_t>(now * size));
        from.advance(now);
        to.advance(now);
        n -= now;
    }
}

template <class T> struct Accumulator {
    std::array<T, chunk> sum;
    void take(const std::byte* data, std::int64_t n) { std::memcpy(sum.data(), data, static_cast<std::size_t>(n) * sizeof(T)); }
    void zero(std::int64_t n) { std::fill_n(sum.data(), n, T{}); }
    void add(const std::byte* data, std::int64_t n) {
        const T* x = reinterpret_cast<const T*>(data);
        for (std::int64_t i = 0; i < n; ++i) sum[i] += x[i];
    }
    void raise(const std::byte* data, std::int64_t n) {
        const T* x = reinterpret_cast<const T*>(data);
        for (std::int64_t i = 0; i < n; ++i) {
            T& s = sum[i];
            s = s < x[i] ? x[i] : s; // as std::max, in vector code
        }
    }
};

// The reduction of n elements of every `from`, written to every `to`. All advance alike, so that in place is safe.
template <class T> void reduce(std::vector<Cursor>& from, std::vector<Cursor>& to, std::int64_t n, bool maximum) {
    Accumulator<T> acc;
    while (n > 0) {
        std::int64_t now = std::min(n, chunk);
        for (const auto* list : {&from, &to})
            for (const Cursor& c : *list)
                if (c.run() > 0) now = std::min(now, c.run());
        for (std::size_t m = 0; m < from.size(); ++m) {
            if (m == 0)
                from[m].run() > 0 ? acc.take(from[m].data(), now) : acc.zero(now);
            else if (from[m].run() > 0)
                maximum ? acc.raise(from[m].data(), now) : acc.add(from[m].data(), now);
            from[m].advance(now);
        }
        for (Cursor& c : to) {
            if (c.run() > 0) std::memcpy(c.data(), acc.sum.data(), static_cast<std::size_t>(now) * sizeof(T));
            c.advance(now);
        }
        n -= now;
    }
}

void reduce(std::vector<Cursor> from, std::vector<Cursor> to, std::int64_t n, Element element, bool maximum) {
    switch (element) {
    case Element::fp32:
        reduce<float>(from, to, n, maximum);
        break;
    case Element::fp64:
        reduce<double>(from, to, n, maximum);
        break;
    case Element::int64:
        reduce<std::int64_t>(from, to, n, maximum);
        break;
    case Element::bf16:
        reduce<Bf16>(from, to, n, maximum);
        break;
    case Element::fp16:
        reduce<Fp16>(from, to, n, maximum);
        break;
    case Element::boolean:
        broken("a sum of booleans");
    }
}

std::vector<Cursor> cursors(std::span<const Pieces> sides, std::int64_t offset, std::int64_t size) {
    std::vector<Cursor> list;
    for (const Pieces& p : sides) list.emplace_back(p, offset, size);
    return list;
}

} // namespace

std::int64_t bytes_of(Element e) {
    switch (e) {
    case Element::fp32:
        return 4;
    case Element::boolean:
        return 1;
    case Element::bf16:
    case Element::fp16:
        return 2;
    default:
        return 8;
    }
}

std::int64_t elements(const Pieces& p) {
    std::int64_t n = 0;
    for (const Piece& piece : p) n += piece.elements;
    return n;
}

void all_reduce(std::span<const Pieces> in, std::span<const Pieces> out, Element element, bool maximum) {
    const std::int64_t n = elements(in[0]), size = bytes_of(element);
    for (std::size_t m = 0; m < in.size(); ++m)
        require(elements(in[m]) == n && elements(out[m]) == n, "members of an all-reduce differ in size");
    reduce(cursors(in, 0, size), cursors(out, 0, size), n, element, maximum);
}

void reduce_into(const Pieces& out, std::span<const Pieces> in, Element element, bool maximum, std::int64_t n) {
    std::vector<Cursor> to;
    to.emplace_back(out, 0, bytes_of(element));
    reduce(cursors(in, 0, bytes_of(element)), std::move(to), n, element, maximum);
}

std::vector<std::byte> packed(const Pieces& from, std::int64_t begin, std::int64_t n, Element element) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(n * bytes_of(element)));
    const Pieces to{{bytes.data(), n}};
    copy(Cursor(from, begin, bytes_of(element)), Cursor(to, 0, bytes_of(element)), n, bytes_of(element));
    return bytes;
}

void unpack(const std::byte* from, const Pieces& to, std::int64_t begin, std::int64_t n, Element element) {
    const Pieces source{{const_cast<std::byte*>(from), n}};
    copy(Cursor(source, 0, bytes_of(element)), Cursor(to, begin, bytes_of(element)), n, bytes_of(element));
}

void reduce_scatter(std::span<const Pieces> in, std::span<const Pieces> out, Element element, const std::vector<std::int64_t>& parts) {
    const std::int64_t size = bytes_of(element), shard = elements(out[0]);
    require(!parts.empty() || elements(in[0]) <= shard * static_cast<std::int64_t>(out.size()),
            "a reduce-scatter's parts do not hold its sum");
    std::int64_t begin = 0;
    for (std::size_t r = 0; r < out.size(); ++r) {
        std::vector<Cursor> to;
        to.emplace_back(out[r], 0, size);
        const std::int64_t n = parts.empty() ? shard : parts[r];
        require(n <= elements(out[r]), "a reduce-scatter's output does not hold its part");
        reduce(cursors(in, begin, size), std::move(to), n, element, false);
        begin += n;
    }
}

void all_gather(std::span<const Pieces> in, std::span<const Pieces> out, Element element, const std::vector<std::int64_t>& parts) {
    const std::int64_t size = bytes_of(element), shard = elements(in[0]);
    std::int64_t begin = 0;
    for (std::size_t r = 0; r < in.size(); ++r) {
        const std::int64_t n = parts.empty() ? shard : parts[r];
        for (const Pieces& to : out) copy(Cursor(in[r], 0, size), Cursor(to, begin, size), n, size);
        begin += n;
    }
}

void all_to_all(std::span<const Pieces> in, std::span<const Pieces> out, Element element) {
    const std::int64_t members = static_cast<std::int64_t>(in.size()), part = elements(in[0]) / members;
    require(part * members == elements(in[0]), "an all-to-all's input does not divide by its members");
    all_to_all(in, out, element, std::vector(in.size(), std::vector(in.size(), part)));
}

void all_to_all(std::span<const Pieces> in, std::span<const Pieces> out, Element element,
                const std::vector<std::vector<std::int64_t>>& counts) {
    const std::int64_t size = bytes_of(element);
    for (std::size_t j = 0; j < out.size(); ++j) {
        std::int64_t received = 0;
        for (std::size_t i = 0; i < in.size(); ++i) {
            std::int64_t before = 0;
            for (std::size_t k = 0; k < j; ++k) before += counts[i][k];
            require(received + counts[i][j] <= elements(out[j]), "an all-to-all's output does not hold what is sent");
            copy(Cursor(in[i], before, size), Cursor(out[j], received, size), counts[i][j], size);
            received += counts[i][j];
        }
    }
}

void shift(std::span<const Pieces> in, std::span<const Pieces> out, Element element, int by) {
    const int members = static_cast<int>(in.size());
    for (int i = 0; i < members; ++i) {
        const auto to = static_cast<std::size_t>(((i + by) % members + members) % members);
        require(elements(in[i]) == elements(out[to]), "a shift's ends differ in size");
        copy(Cursor(in[i], 0, bytes_of(element)), Cursor(out[to], 0, bytes_of(element)), elements(out[to]), bytes_of(element));
    }
}

} // namespace orrery
