// Collectives as plain functions over the buffers of all members, in the order of the communicator: sums are made member by member,
// so that an all-reduce gives the same bits as a reduce-scatter and an all-gather, on every executor that calls these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace orrery {

enum class Element : std::uint8_t { fp32, fp64, int64, boolean, bf16, fp16 };
std::int64_t bytes_of(Element e);

// A run of elements in memory. A member's side of a collective is one or several runs, concatenated.
struct Piece {
    std::byte* data;
    std::int64_t elements;
};
using Pieces = std::vector<Piece>;
std::int64_t elements(const Pieces& p);

// in[i] and out[i] are member i's. maximum: of the elements, instead of their sum. They may be the same memory, or out[i] its own part of
// in[i] (in place).
void all_reduce(std::span<const Pieces> in, std::span<const Pieces> out, Element element, bool maximum);
// The same for parts that lie together in one place. n: number of their first elements to use; all of out's.
void reduce_into(const Pieces& out, std::span<const Pieces> in, Element element, bool maximum, std::int64_t n);
inline void reduce_into(const Pieces& out, std::span<const Pieces> in, Element element, bool maximum) {
    reduce_into(out, in, element, maximum, elements(out));
}
// Member i gets the sum of every member's i-th part, of elements(out[i]); what lies beyond a member's input is zero, and padding.
// parts: uneven sizes; part i has parts[i] elements, without gaps; the rest of out stays as it is.
void reduce_scatter(std::span<const Pieces> in, std::span<const Pieces> out, Element element, const std::vector<std::int64_t>& parts = {});
// Every member gets all inputs, member by member; elements beyond its output are padding, and dropped. parts: number of elements of each.
void all_gather(std::span<const Pieces> in, std::span<const Pieces> out, Element element, const std::vector<std::int64_t>& parts = {});
// Member i's input is equal parts for every member; its output is what they sent to i, member by member.
void all_to_all(std::span<const Pieces> in, std::span<const Pieces> out, Element element);
// Parts of uneven size: counts[i][j] elements go from member i to member j; both sides are without gaps, what is left of out stays.
void all_to_all(std::span<const Pieces> in, std::span<const Pieces> out, Element element,
                const std::vector<std::vector<std::int64_t>>& counts);
// Member i's input goes to member i + by (around the ring).
void shift(std::span<const Pieces> in, std::span<const Pieces> out, Element element, int by);

// Elements [begin, begin + n) as bytes; those beyond the end are zero. And back; those beyond the end are dropped.
std::vector<std::byte> packed(const Pieces& from, std::int64_t begin, std::int64_t n, Element element);
void unpack(const std::byte* from, const Pieces& to, std::int64_t begin, std::int64_t n, Element element);

} // namespace orrery
