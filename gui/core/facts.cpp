// A slice in words.
#include "gui/core/queries.hpp"

#include <QCoreApplication>
#include <QLocale>

#include <algorithm>
#include <cmath>

namespace orrery {

namespace {

QString tr(const char* text) { return QCoreApplication::translate("orrery", text); }
constexpr std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct Unit {
    double ps;
    const char* name;
};
constexpr Unit units[] = {{1e12, "s"}, {1e9, "ms"}, {1e6, "µs"}, {1e3, "ns"}, {1, "ps"}};

QString metric(double value, const char* unit) {
    constexpr std::pair<double, const char*> steps[] = {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
    for (const auto& [size, prefix] : steps)
        if (std::abs(value) >= size) return QLocale().toString(value / size, 'g', 4) + " " + prefix + unit;
    return QLocale().toString(value, 'g', 4) + " " + unit;
}

} // namespace

const Span& span_of(const Trace& trace, SpanRef ref) { return trace.lanes[at(ref.lane)].spans[at(ref.span)]; }

QString duration_text(std::int64_t ps) {
    const double size = std::abs(static_cast<double>(ps));
    for (const Unit& u : units)
        if (size >= u.ps) return QLocale().toString(static_cast<double>(ps) / u.ps, 'g', 4) + " " + QString::fromUtf8(u.name);
    return "0 s";
}

QString time_text(std::int64_t ps, std::int64_t resolution) {
    const double size = std::max(std::abs(static_cast<double>(ps)), static_cast<double>(resolution));
    const Unit* unit = std::find_if(std::begin(units), std::end(units), [&](const Unit& u) { return size >= u.ps; });
    if (unit == std::end(units) || ps == 0) return "0 s";
    const double steps = unit->ps / static_cast<double>(std::max<std::int64_t>(1, resolution));
    const int digits = std::clamp(static_cast<int>(std::ceil(std::log10(steps) - 1e-9)), 0, 12);
    return QLocale().toString(static_cast<double>(ps) / unit->ps, 'f', digits) + " " + QString::fromUtf8(unit->name);
}

QString title(const Trace& trace, const Span& s) {
    if (s.kind == SpanKind::wait || s.op < 0) return cause_text(s.cause);
    const QString name = QString::fromStdString(trace.ops[at(s.op)].name);
    return s.kind == SpanKind::transfer_wait ? tr("%1 is posted, no data yet").arg(name) : name;
}

Facts facts(const Trace& trace, SpanRef ref) {
    const Span& s = span_of(trace, ref);
    const Lane& lane = trace.lanes[at(ref.lane)];
    const std::int64_t length = s.end.ps - s.begin.ps;
    Facts out{{tr("slice"), title(trace, s)}};
    const bool runs = s.kind == SpanKind::op && s.op >= 0;
    out.emplace_back(tr("kind"), label(runs ? kind_of_op(trace.ops[at(s.op)]) : kind_of(s, {})));
    out.emplace_back(tr("takes"), duration_text(length));
    out.emplace_back(tr("begins"), time_text(s.begin.ps, 1000000));
    out.emplace_back(tr("ends"), time_text(s.end.ps, 1000000));
    const QString ranks =
        lane.ranks > 1 ? tr("%1, shown for %2 ranks that do the same").arg(lane.rank).arg(lane.ranks) : QString::number(lane.rank);
    out.emplace_back(tr("rank"), ranks);
    out.emplace_back(tr("stage"), QString::number(lane.stage));
    out.emplace_back(tr("queue"), QString::fromStdString(trace.queues[at(s.queue)]));
    if (s.microbatch >= 0) out.emplace_back(tr("microbatch"), QString::number(s.microbatch));
    if (s.cause != WaitCause::none) out.emplace_back(tr("cause"), cause_text(s.cause));
    if (s.peer >= 0) out.emplace_back(tr("late rank"), tr("rank %1").arg(trace.lanes[at(s.peer)].rank));
    if (s.op < 0) return out;
    const TraceOp& op = trace.ops[at(s.op)];
    out.emplace_back(tr("op"), QString::fromStdString(op.kind));
    out.emplace_back(tr("phase"), QString::fromStdString(op.phase));
    if (op.layer >= 0) out.emplace_back(tr("layer"), QString::number(op.layer));
    const double seconds = static_cast<double>(length) * 1e-12;
    if (op.flops > 0) {
        out.emplace_back(tr("work"), metric(op.flops, "FLOP"));
        if (s.kind == SpanKind::op && length > 0) out.emplace_back(tr("rate"), metric(op.flops / seconds, "FLOP/s"));
    }
    if (op.bytes > 0) {
        out.emplace_back(tr("moves"), metric(static_cast<double>(op.bytes), "B"));
        if (s.kind == SpanKind::op && length > 0) out.emplace_back(tr("bandwidth"), metric(static_cast<double>(op.bytes) / seconds, "B/s"));
    }
    return out;
}

} // namespace orrery
