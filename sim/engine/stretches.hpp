// Where a segment may be run in one piece from (passage.hpp), and which pieces are alike. A piece begins with the first computation of a
// layer (a unit of its block) and ends before that of the next layer, or with the segment; layers alike have ops of equal kinds, times and
// dependencies, whatever their names.
#pragma once

#include "sim/engine/compile.hpp"
#include "sim/engine/machine.hpp"

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace orrery {

enum class PieceEnd : std::uint8_t { segment, unit };
inline constexpr int piece_ends = 2;

struct OpRun {
    std::int32_t begin = 0, end = 0; // in Machine::ops
    std::int32_t alike = -1;         // equal: the same ops
};

class Stretches {
  public:
    explicit Stretches(const Machine& machine);

    std::int32_t starting_at(std::int32_t op) const { return start_of_[at(op)]; } // -1: none
    std::int32_t count() const { return static_cast<std::int32_t>(starts_.size()); }
    OpRun of(std::int32_t start, PieceEnd end);
    std::int32_t end_of(std::int32_t start, PieceEnd end) const {
        return end == PieceEnd::unit ? starts_[at(start)].unit_end : starts_[at(start)].segment_end;
    }

  private:
    struct Start {
        std::int32_t op = 0, unit_end = 0, segment_end = 0;
        std::int32_t unit = -1, segment = -1; // alike; -1: not looked at
    };
    std::int32_t unit_alike(Start& start);
    std::int32_t segment_alike(std::int32_t start);
    std::uint64_t hash(const Start& start) const;
    bool same(const Start& a, const Start& b) const;

    const Machine& m_;
    std::vector<std::int32_t> start_of_; // by op
    std::vector<Start> starts_;
    std::unordered_multimap<std::uint64_t, std::int32_t> units_; // hash -> a start whose unit has it
    std::unordered_map<std::uint64_t, std::int32_t> chains_;     // unit, and what follows it, each by its number
    std::int32_t numbers_ = 0;
};

} // namespace orrery
