// A slice in words.
#include "gui/core/figures.hpp"
#include "gui/core/memory_series.hpp"
#include "gui/core/queries.hpp"
#include "gui/core/tr.hpp"
#include "topology/at.hpp"

#include <QLocale>

#include <algorithm>
#include <cmath>

namespace orrery {

namespace {

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
        const QString bytes = metric(static_cast<double>(op.bytes), "B");
        out.emplace_back(tr("moves"), op.calls > 1 ? tr("%1 in %2 calls").arg(bytes).arg(op.calls) : bytes);
        if (s.kind == SpanKind::op && length > 0) out.emplace_back(tr("bandwidth"), metric(static_cast<double>(op.bytes) / seconds, "B/s"));
    }
    return out;
}

namespace {

// The version of the weights that a slice uses: n is the one that its gradient is added to.
QString weights_text(const RunData& run, const Span& s, int stage) {
    if (at(stage) >= run.weight_ages.size() || s.op < 0 || s.microbatch < 0) return {};
    const SliceKind kind = kind_of_op(run.trace->ops[at(s.op)]);
    if (kind != SliceKind::forward && kind != SliceKind::backward_input && kind != SliceKind::backward_weight &&
        kind != SliceKind::recompute)
        return {};
    const std::vector<std::int64_t>& ages = run.weight_ages[at(stage)];
    const std::int64_t age = ages.empty() ? 0 : at(s.microbatch) < ages.size() ? ages[at(s.microbatch)] : -1;
    if (age < 0) return {};
    return age == 0 ? tr("version n: none of the updates is missing") : tr("version n - %1: its gradient is added to version n").arg(age);
}

QString number(double value, int digits) { return QLocale().toString(value, 'f', digits); }
QString bytes_words(double bytes) { return bytes_text(static_cast<std::int64_t>(bytes)); }

void add_loose(Facts& out, const LooseReport& l, bool served) {
    out.emplace_back(tr("staleness"), (served ? tr("gradients: %1 updates in the mean, %2 at most")
                                              : tr("parameters that come: %1 steps in the mean, %2 at most"))
                                          .arg(number(l.staleness, 2), number(l.worst_staleness, 0)));
    if (served) out.emplace_back(tr("versions in use"), tr("up to %1").arg(l.versions));
    out.emplace_back(tr("sent in a step"), tr("%1 by all workers").arg(bytes_words(l.bytes_per_step)));
    out.emplace_back(tr("shown here"), tr("one worker's step; the view Workers has what workers send and wait for"));
}

void add_meetings(Facts& out, const WorkerMeetings& m) {
    out.emplace_back(tr("workers step"), tr("%1 % of the time").arg(number(100 * m.compute_utilization, 1)));
    if (m.steps > 1)
        out.emplace_back(tr("a meeting"),
                         tr("every %1 steps, adds %2").arg(QLocale().toString(m.steps, 'g', 4), seconds_words(m.sync_time_s)));
    if (m.bytes_between_nodes > 0) out.emplace_back(tr("leaves nodes in a step"), bytes_words(m.bytes_between_nodes));
}

void add_federated(Facts& out, const FederatedReport& f, bool stream) {
    out.emplace_back(stream ? tr("between server steps") : tr("a round"),
                     tr("%1 in the mean (p10 %2, p90 %3)")
                         .arg(seconds_words(f.round_s.mean), seconds_words(f.round_s.p10), seconds_words(f.round_s.p90)));
    if (stream)
        out.emplace_back(tr("staleness"),
                         tr("updates: %1 server steps in the mean, %2 at most").arg(number(f.staleness, 2), number(f.worst_staleness, 0)));
    out.emplace_back(tr("clients send"), tr("%1 down, %2 up each time").arg(bytes_words(f.down_bytes), bytes_words(f.up_bytes)));
    out.emplace_back(tr("training in vain"), percent_words(f.wasted_share));
}

} // namespace

Facts facts(const RunData& run, SpanRef ref) {
    Facts out = facts(*run.trace, ref);
    const QString weights = weights_text(run, span_of(*run.trace, ref), run.trace->lanes[at(ref.lane)].stage);
    if (!weights.isEmpty()) out.insert(out.begin() + 2, {tr("weights"), weights}); // in sight in a low panel
    return out;
}

Facts facts_of_run(const RunData& run) {
    Facts out;
    if (!run.report) return out;
    const Report& r = *run.report;
    if (r.staleness.worst > 0) {
        out.emplace_back(tr("staleness"),
                         tr("gradients: %1 updates in the mean, %2 at most").arg(number(r.staleness.mean, 2)).arg(r.staleness.worst));
        out.emplace_back(tr("versions held"), tr("up to %1 of the weights on a stage").arg(r.staleness.versions));
    }
    if (r.loose.step_s > 0) add_loose(out, r.loose, run.scenario && run.scenario->strategy.served());
    if (r.meetings.steps > 0) add_meetings(out, r.meetings);
    if (run.federated) add_federated(out, *run.federated, run.scenario->federated->aggregation == Aggregation::fedbuff);
    return out;
}

} // namespace orrery
