// The look of a slice: a dozen kinds of spans, each with a colour (Okabe and Ito's, safe for the colour-blind) and, where
// nothing is computed or moved, a pattern: never told apart by colour alone.
#pragma once

#include "sim/trace/trace.hpp"
#include "topology/indexed.hpp"

#include <QColor>
#include <QString>

#include <array>
#include <cstdint>
#include <vector>

namespace orrery {

enum class SliceKind : std::uint8_t {
    forward,
    backward_input,
    backward_weight,
    recompute,
    optimizer,
    other, // computing
    collective,
    point_to_point,
    copy,          // data moves
    transfer_wait, // posted, its data not yet moving; posting early is no waiting: what waits shows as `wait` or `bubble`
    bubble,        // warm-up, drain: what a schedule costs
    wait           // for a receive, a collective, the host, memory
};
inline constexpr int slice_kind_count = 12;
using KindTimes = ByEnum<SliceKind, std::int64_t, slice_kind_count>; // picoseconds

enum class Pattern : std::uint8_t { solid, diagonal, dots, cross };

struct Look { // of a kind in a chart: dark, on dark backgrounds
    const char* label;
    QRgb light, dark;
    Pattern pattern;
};

QString label(SliceKind kind); // for people, translated
QColor colour(SliceKind kind, bool dark);
Pattern pattern(SliceKind kind);
constexpr bool is_waiting(SliceKind k) { return k >= SliceKind::transfer_wait; }
constexpr bool is_computing(SliceKind k) { return k <= SliceKind::other; }
constexpr bool is_moving(SliceKind k) { return k >= SliceKind::collective && k <= SliceKind::copy; }

SliceKind kind_of_op(const TraceOp& op);
// By index of Trace::ops: looked up for each span drawn.
std::vector<SliceKind> kinds_of_ops(const Trace& trace);
inline SliceKind kind_of(const Span& s, const std::vector<SliceKind>& by_op) {
    if (s.kind == SpanKind::transfer_wait) return SliceKind::transfer_wait;
    if (s.kind == SpanKind::wait || s.op < 0) {
        const bool schedule = s.cause == WaitCause::warm_up || s.cause == WaitCause::drain;
        return schedule ? SliceKind::bubble : SliceKind::wait;
    }
    return by_op[s.op];
}

QString cause_text(WaitCause cause); // "waits for a receive", translated

} // namespace orrery
