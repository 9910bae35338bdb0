#include "gui/core/figures.hpp"

#include <QLocale>

#include <algorithm>
#include <cmath>
#include <utility>

namespace orrery {
namespace {

const QString dash = QStringLiteral("\u2013");

QString digits(double value, int significant) {
    const double magnitude = value == 0 ? 0 : std::floor(std::log10(std::abs(value)));
    return QLocale().toString(value, 'f', std::max(0, significant - 1 - static_cast<int>(magnitude)));
}

} // namespace

std::optional<double> Figures::headroom_bytes() const {
    if (!peak_bytes || !capacity_bytes) return std::nullopt;
    return *capacity_bytes - *peak_bytes;
}

std::optional<double> Figures::exposed(Category c) const {
    if (!breakdown || !step_s || *step_s <= 0) return std::nullopt;
    return (*breakdown)[c] / *step_s;
}

Figures figures(const RunData& data) {
    Figures f;
    if (data.report) {
        const Report& r = *data.report;
        f.devices = r.world_size;
        f.step_s = r.step_time_s;
        f.tokens_per_s = r.tokens_per_s;
        f.mfu = r.mfu;
        f.bubble = r.bubble_fraction;
        if (r.step_time_s > 0) f.stragglers = r.breakdown_s[Category::straggler_wait] / r.step_time_s;
        f.breakdown = r.breakdown_s;
        if (r.cost_usd > 0) f.cost_usd = r.cost_usd;
        if (!r.memory.stages.empty()) f.peak_bytes = static_cast<double>(fullest(r.memory).peak.count);
        f.capacity_bytes = static_cast<double>(r.memory.capacity.count);
        f.fits = r.memory.fits;
        f.narrow = r.narrow();
        f.interval = r.error_bar.interval;
        f.why_not = QString::fromStdString(why_not(r.memory) + (f.narrow && !r.memory.fits ? "\n" : "") + how_narrow(r));
        if (!data.way_out.empty()) f.why_not += QLatin1Char('\n') + QString::fromStdString(data.way_out);
    } else if (data.trace) {
        f.step_s = data.trace->step_s();
        double ranks = 0;
        for (const Lane& lane : data.trace->lanes) ranks += lane.ranks;
        f.devices = ranks;
    }
    return f;
}

QString seconds_words(std::optional<double> s) {
    if (!s) return dash;
    if (*s == 0) return QStringLiteral("0 s");
    if (std::abs(*s) >= 1) return digits(*s, 3) + QStringLiteral(" s");
    if (std::abs(*s) >= 1e-3) return digits(*s * 1e3, 3) + QStringLiteral(" ms");
    return digits(*s * 1e6, 3) + QStringLiteral(" \u00b5s");
}

QString interval_words(const TimeInterval& interval) {
    if (!interval.known()) return {};
    return QStringLiteral("\u2212%1 +%2 %")
        .arg(QLocale().toString(interval.faster * 100, 'f', 0), QLocale().toString(interval.slower * 100, 'f', 0));
}

QString step_words(std::optional<double> s, const TimeInterval& interval) {
    const QString step = seconds_words(s);
    return s && interval.known() ? step + QStringLiteral(", ") + interval_words(interval) : step;
}

QString gigabytes_words(std::optional<double> bytes) {
    return bytes ? QLocale().toString(*bytes / 1e9, 'f', 1) + QStringLiteral(" GB") : dash;
}

QString rate_words(double bytes_per_s) {
    for (const auto& [size, unit] : {std::pair{1e12, " TB/s"}, std::pair{1e9, " GB/s"}, std::pair{1e6, " MB/s"}, std::pair{1e3, " kB/s"}})
        if (bytes_per_s >= size) return digits(bytes_per_s / size, 3) + QLatin1String(unit);
    return digits(bytes_per_s, 3) + QStringLiteral(" B/s");
}

QString percent_words(std::optional<double> share) {
    return share ? QLocale().toString(*share * 100, 'f', 1) + QStringLiteral(" %") : dash;
}

QString count_words(std::optional<double> n) {
    if (!n) return dash;
    struct Unit {
        double size;
        const char* letter;
    };
    for (const Unit& u : {Unit{1e12, " T"}, Unit{1e9, " G"}, Unit{1e6, " M"}, Unit{1e4, " k"}}) {
        const double size = u.size == 1e4 ? 1e3 : u.size;
        if (std::abs(*n) >= u.size) return digits(*n / size, 3) + QLatin1String(u.letter);
    }
    return QLocale().toString(*n, 'f', *n < 100 && *n != std::floor(*n) ? 1 : 0);
}

} // namespace orrery
