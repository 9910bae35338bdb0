#include "gui/core/memory_series.hpp"

#include "gui/core/queries.hpp"
#include "topology/at.hpp"

#include <QCoreApplication>
#include <QLocale>

#include <algorithm>
#include <array>
#include <utility>

namespace orrery {

namespace {

// In the order of MemoryKind, the reserve behind them.
constexpr std::size_t look_count = 7;
const Look& look(std::size_t kind) {
    static const std::array<Look, look_count> all = {{
        {QT_TRANSLATE_NOOP("orrery", "parameters"), 0x0072b2, 0x3d9bd6, Pattern::solid},
        {QT_TRANSLATE_NOOP("orrery", "gradients"), 0x56b4e9, 0x8fd0f5, Pattern::diagonal},
        {QT_TRANSLATE_NOOP("orrery", "optimizer states"), 0xcc79a7, 0xcc79a7, Pattern::solid},
        {QT_TRANSLATE_NOOP("orrery", "activations"), 0xe69f00, 0xe69f00, Pattern::solid},
        {QT_TRANSLATE_NOOP("orrery", "communication"), 0x009e73, 0x14b88a, Pattern::dots},
        {QT_TRANSLATE_NOOP("orrery", "workspace"), 0xf0e442, 0xf0e442, Pattern::solid},
        {QT_TRANSLATE_NOOP("orrery", "reserved by the runtime"), 0x909090, 0x8a8a8a, Pattern::cross},
    }};
    return all[std::min(kind, look_count - 1)];
}

void add_sample(MemorySeries& out, const MemorySample& s) {
    std::int64_t sum = 0;
    for (std::int64_t b : s.bytes) sum += b;
    const auto index = static_cast<std::int32_t>(out.at.size());
    out.at.push_back(s.at.ps);
    out.bytes.insert(out.bytes.end(), s.bytes.begin(), s.bytes.end());
    out.total.push_back(sum);
    if (out.peak < 0 || sum > out.total[at(out.peak)]) out.peak = index;
    if (out.runs_out < 0 && out.capacity > 0 && sum > out.capacity) out.runs_out = index;
}

MemoryTier tier(const QString& where, std::int64_t peak, std::int64_t capacity, const ByEnum<MemoryKind, Bytes, memory_kind_count>& of,
                std::int64_t reserve) {
    MemoryTier out{where, peak, capacity, {}};
    std::vector<std::pair<std::int64_t, std::size_t>> kinds;
    for (std::size_t k = 0; k < of.size(); ++k) kinds.push_back({of[k].count, k});
    kinds.push_back({reserve, of.size()});
    std::stable_sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [bytes, k] : kinds)
        if (bytes > 0) out.kinds.push_back(memory_kind_text(k) + " " + bytes_text(bytes));
    return out;
}

} // namespace

QString memory_kind_text(std::size_t kind) { return QCoreApplication::translate("orrery", look(kind).label); }

QColor memory_colour(std::size_t kind, bool dark) { return QColor::fromRgb(dark ? look(kind).dark : look(kind).light); }
Pattern memory_pattern(std::size_t kind) { return look(kind).pattern; }

bool in_memory_pattern(std::size_t kind, int x, int y) {
    const Pattern p = memory_pattern(kind);
    return p == Pattern::solid || (p == Pattern::diagonal && (x + y) % 6 < 3) || (p == Pattern::dots && (x % 4 >= 2 || y % 4 >= 2)) ||
           (p == Pattern::cross && ((x + y) % 8 == 0 || (x - y + 8000) % 8 == 0));
}

QColor memory_shade(std::size_t kind, bool dark) {
    const QColor c = memory_colour(kind, dark);
    return dark ? c.darker(150) : c.lighter(135);
}

QImage memory_swatch(std::size_t kind, bool dark) {
    QImage out(14, 14, QImage::Format_RGB32);
    for (int y = 0; y < out.height(); ++y)
        for (int x = 0; x < out.width(); ++x)
            out.setPixelColor(x, y, in_memory_pattern(kind, x, y) ? memory_colour(kind, dark) : memory_shade(kind, dark));
    return out;
}

QString bytes_text(std::int64_t bytes) {
    const double size = static_cast<double>(bytes);
    if (bytes == 0) return "0 GB"; // as the axis has it
    if (size < 1e3) return QLocale().toString(size, 'f', 0) + " B";
    if (size < 1e6) return QLocale().toString(size / 1e3, 'f', 1) + " kB";
    if (size < 1e9) return QLocale().toString(size / 1e6, 'f', 1) + " MB";
    return QLocale().toString(size / 1e9, 'f', size < 1e11 ? 2 : 1) + " GB";
}

MemorySeries memory_of(const RunData& run, std::int32_t lane) {
    MemorySeries out;
    if (!run.trace || lane < 0 || at(lane) >= run.trace->lanes.size()) return out;
    const Trace& trace = *run.trace;
    const Lane& l = trace.lanes[at(lane)];
    if (run.report) out.capacity = run.report->memory.capacity.count;
    out.begin = trace.begin.ps;
    out.end = trace.end.ps;
    for (std::size_t k = 0; k < trace.memory_kinds.size(); ++k) {
        const bool ours =
            k < memory_kind_count ? trace.memory_kinds[k] == name(static_cast<MemoryKind>(k)) : trace.memory_kinds[k] == "reserved";
        out.kinds.push_back(ours ? memory_kind_text(k) : QString::fromStdString(trace.memory_kinds[k]));
    }
    for (const MemorySample& s : l.memory) add_sample(out, s);
    if (!out.at.empty()) out.begin = std::min(out.begin, out.at.front()), out.end = std::max(out.end, out.at.back());
    return out;
}

MemorySeries memory_of_node(const RunData& run, Space space) {
    MemorySeries out;
    const TierCurve& curve = space == Space::host ? run.host_memory : run.disk_memory;
    if (!run.trace || !run.report || curve.samples.empty()) return out;
    out.capacity = (space == Space::host ? run.report->memory.host : run.report->memory.disk).capacity.count;
    out.begin = std::min(run.trace->begin.ps, curve.samples.front().at.ps);
    out.end = std::max(run.trace->end.ps, curve.samples.back().at.ps);
    for (std::size_t k = 0; k < memory_kind_count; ++k) out.kinds.push_back(memory_kind_text(k));
    for (const MemorySample& s : curve.samples) add_sample(out, s);
    return out;
}

std::vector<MemoryTier> memory_tiers(const RunData& run) {
    std::vector<MemoryTier> out;
    if (!run.report || run.report->memory.stages.empty()) return out;
    const auto tr = [](const char* text) { return QCoreApplication::translate("orrery", text); };
    const MemoryReport& m = run.report->memory;
    const StageMemory& stage = fullest(m);
    out.push_back(tier(tr("device of stage %1").arg(stage.stage), stage.peak.count, m.capacity.count, stage.by_kind, stage.reserved.count));
    const bool served = run.plan && run.plan->served;
    const auto node = [&](const QString& where, const NodeMemory& there) {
        if (there.used.peak.count > 0) out.push_back(tier(where, there.used.peak.count, there.capacity.count, there.used.by_kind, 0));
    };
    node(served ? tr("memory of a node that serves") : tr("memory of the fullest node"), m.host);
    node(tr("NVMe of the fullest node"), m.disk);
    return out;
}

std::int32_t sample_at(const MemorySeries& s, std::int64_t t) {
    return static_cast<std::int32_t>(std::upper_bound(s.at.begin(), s.at.end(), t) - s.at.begin()) - 1;
}

std::vector<std::int32_t> highest_in_columns(const MemorySeries& s, const Columns& columns) {
    std::vector<std::int32_t> out(at(columns.count), -1);
    std::int32_t now = sample_at(s, columns.begin);
    Edges edge(columns);
    for (std::int32_t& best : out) {
        while (at(now + 1) < s.at.size() && s.at[at(now + 1)] <= *edge) ++now; // what ends where the column begins is not in it
        best = now;
        edge.next();
        while (at(now + 1) < s.at.size() && s.at[at(now + 1)] < *edge) {
            ++now;
            if (best < 0 || s.total[at(now)] > s.total[at(best)]) best = now;
        }
    }
    return out;
}

QString running_at(const RunData& run, std::int32_t lane, std::int64_t t) {
    if (!run.tracks) return {};
    for (const Track& track : run.tracks->tracks) {
        if (track.lane != lane || track.queue != 0) continue;
        const std::int32_t i = slice_at(*run.tracks, track, t);
        if (i < 0) continue;
        const Span& s = slice(*run.tracks, track, i);
        const QString what = title(*run.trace, s);
        return s.microbatch < 0 ? what : QCoreApplication::translate("orrery", "%1 (microbatch %2)").arg(what).arg(s.microbatch);
    }
    return {};
}

} // namespace orrery
