#include "gui/core/kinds.hpp"

#include "gui/core/tr.hpp"
#include "sim/plan/plan.hpp"

namespace orrery {

namespace {

// Colours of the dark theme: the same hues, light enough for dark backgrounds.
const Look& look(SliceKind kind) {
    static const Look looks[slice_kind_count] = {
        {QT_TRANSLATE_NOOP("orrery", "forward"), 0x0072b2, 0x3d9bd6, Pattern::solid},
        {QT_TRANSLATE_NOOP("orrery", "backward, inputs"), 0xe69f00, 0xe69f00, Pattern::solid},
        {QT_TRANSLATE_NOOP("orrery", "backward, weights"), 0xf0e442, 0xf0e442, Pattern::solid},
        {QT_TRANSLATE_NOOP("orrery", "recompute"), 0x56b4e9, 0x56b4e9, Pattern::dots},
        {QT_TRANSLATE_NOOP("orrery", "optimizer"), 0xcc79a7, 0xcc79a7, Pattern::solid},
        {QT_TRANSLATE_NOOP("orrery", "other compute"), 0x707070, 0xa8a8a8, Pattern::solid},
        {QT_TRANSLATE_NOOP("orrery", "collective"), 0x009e73, 0x14b88a, Pattern::solid},
        {QT_TRANSLATE_NOOP("orrery", "point to point"), 0xd55e00, 0xe8762a, Pattern::solid},
        {QT_TRANSLATE_NOOP("orrery", "copy"), 0x8c6d31, 0xb8964f, Pattern::solid},
        {QT_TRANSLATE_NOOP("orrery", "posted, no data yet"), 0x7fb8a4, 0x4f8a77, Pattern::diagonal},
        {QT_TRANSLATE_NOOP("orrery", "bubble"), 0xb0b0b0, 0x787878, Pattern::cross},
        {QT_TRANSLATE_NOOP("orrery", "waiting"), 0xd09a9a, 0x9a6464, Pattern::diagonal},
    };
    return looks[static_cast<std::size_t>(kind)];
}

} // namespace

QString label(SliceKind kind) { return tr(look(kind).label); }
QColor colour(SliceKind kind, bool dark) { return QColor::fromRgb(dark ? look(kind).dark : look(kind).light); }
Pattern pattern(SliceKind kind) { return look(kind).pattern; }

SliceKind kind_of_op(const TraceOp& op) {
    if (op.kind == kind_name(Exchange{})) return SliceKind::point_to_point;
    if (op.kind == kind_name(Copy{})) return SliceKind::copy;
    for (int k = 0; k <= static_cast<int>(CollectiveKind::shift_back); ++k)
        if (op.kind == name(static_cast<CollectiveKind>(k))) return SliceKind::collective;
    if (op.kind == kind_name(OptimizerStep{})) return SliceKind::optimizer; // on the host its phase is offload
    const auto is = [&](Phase p) { return op.phase == name(p); };
    if (is(Phase::forward)) return SliceKind::forward;
    if (is(Phase::recompute)) return SliceKind::recompute;
    if (is(Phase::backward_input)) return SliceKind::backward_input;
    if (is(Phase::backward_weight)) return SliceKind::backward_weight;
    if (is(Phase::optimizer)) return SliceKind::optimizer;
    return SliceKind::other;
}

std::vector<SliceKind> kinds_of_ops(const Trace& trace) {
    std::vector<SliceKind> out;
    out.reserve(trace.ops.size());
    for (const TraceOp& op : trace.ops) out.push_back(kind_of_op(op));
    return out;
}

QString cause_text(WaitCause cause) {
    switch (cause) {
    case WaitCause::none:
        return tr("waits");
    case WaitCause::warm_up:
        return tr("bubble: the pipeline warms up");
    case WaitCause::drain:
        return tr("bubble: the pipeline drains");
    case WaitCause::receive:
        return tr("waits for a receive");
    case WaitCause::collective:
        return tr("waits for a collective");
    case WaitCause::host:
        return tr("waits for the host");
    case WaitCause::memory:
        return tr("waits for memory");
    case WaitCause::dependency:
        return tr("waits for another queue");
    }
    return {};
}

} // namespace orrery
