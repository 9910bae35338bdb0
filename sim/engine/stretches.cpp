#include "sim/engine/stretches.hpp"

#include "topology/mix.hpp"

#include <algorithm>

namespace orrery {

namespace {

std::int16_t unit_of(const Machine& m, const Segment& segment, std::int32_t op) {
    return m.plan->blocks[at(segment.block)].ops[at(m.ops[at(op)].source)].unit;
}

bool same_op(const Machine& m, const CompiledOp& a, const CompiledOp& b) {
    return a.duration == b.duration && a.kind == b.kind && a.queue == b.queue && a.category == b.category && a.pattern == b.pattern &&
           a.deps_count == b.deps_count &&
           std::equal(m.deps.begin() + a.deps_begin, m.deps.begin() + a.deps_begin + a.deps_count, m.deps.begin() + b.deps_begin);
}

} // namespace

Stretches::Stretches(const Machine& machine) : m_(machine), start_of_(machine.ops.size(), -1) {
    for (const Segment& s : m_.segments) {
        const auto first = starts_.size();
        std::int32_t unit = -1;
        for (std::int32_t o = s.begin; o < s.end; ++o) {
            if (m_.ops[at(o)].queue != 0) continue;
            const std::int32_t of = m_.plan ? unit_of(m_, s, o) : 0;
            if (of == unit) continue;
            unit = of;
            if (starts_.size() > first) starts_.back().unit_end = o;
            start_of_[at(o)] = static_cast<std::int32_t>(starts_.size());
            starts_.push_back({o, s.end, s.end});
        }
    }
}

std::uint64_t Stretches::hash(const Start& start) const {
    std::uint64_t h = static_cast<std::uint64_t>(start.unit_end - start.op);
    for (std::int32_t o = start.op; o < start.unit_end; ++o) {
        const CompiledOp& op = m_.ops[at(o)];
        h = mix(h, static_cast<std::uint64_t>(op.duration) ^ static_cast<std::uint64_t>(op.queue) << 56 ^
                       static_cast<std::uint64_t>(op.deps_count) << 48);
    }
    return h;
}

bool Stretches::same(const Start& a, const Start& b) const {
    const std::int32_t n = a.unit_end - a.op;
    if (n != b.unit_end - b.op) return false;
    for (std::int32_t i = 0; i < n; ++i)
        if (!same_op(m_, m_.ops[at(a.op + i)], m_.ops[at(b.op + i)])) return false;
    return std::all_of(m_.durations_of_kind.begin(), m_.durations_of_kind.end(), [&](const std::vector<std::int64_t>& by_op) {
        return std::equal(by_op.begin() + a.op, by_op.begin() + a.unit_end, by_op.begin() + b.op);
    });
}

std::int32_t Stretches::unit_alike(Start& start) {
    if (start.unit >= 0) return start.unit;
    const std::uint64_t h = hash(start);
    const auto [first, last] = units_.equal_range(h);
    for (auto it = first; it != last; ++it)
        if (same(start, starts_[at(it->second)])) return start.unit = starts_[at(it->second)].unit;
    units_.emplace(h, start_of_[at(start.op)]);
    return start.unit = numbers_++;
}

// From the last unit of the segment back.
std::int32_t Stretches::segment_alike(std::int32_t start) {
    std::int32_t last = start;
    while (starts_[at(last)].segment < 0 && starts_[at(last)].unit_end != starts_[at(last)].segment_end) ++last;
    for (;; --last) {
        Start& s = starts_[at(last)];
        if (s.segment < 0) {
            const std::int32_t unit = unit_alike(s);
            if (s.unit_end == s.segment_end)
                s.segment = unit;
            else {
                const std::uint64_t key =
                    static_cast<std::uint64_t>(unit) << 32 | static_cast<std::uint32_t>(starts_[at(last) + 1].segment);
                const auto [it, fresh] = chains_.try_emplace(key, numbers_);
                numbers_ += fresh;
                s.segment = it->second;
            }
        }
        if (last == start) return s.segment;
    }
}

OpRun Stretches::of(std::int32_t start, PieceEnd end) {
    Start& s = starts_[at(start)];
    return end == PieceEnd::unit ? OpRun{s.op, s.unit_end, unit_alike(s)} : OpRun{s.op, s.segment_end, segment_alike(start)};
}

} // namespace orrery
