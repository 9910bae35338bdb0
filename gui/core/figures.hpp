// The figures a run is compared by, as numbers; a run of a trace alone has few of them. No widgets here.
#pragma once

#include "gui/core/run.hpp"
#include "topology/indexed.hpp"

#include <QMetaType>
#include <QString>

#include <array>
#include <optional>

namespace orrery {

using Breakdown = ByEnum<Category, double, category_count>; // seconds, by Category

struct Figures {
    std::optional<double> devices, step_s, tokens_per_s, mfu, bubble, stragglers, cost_usd;
    std::optional<Breakdown> breakdown;
    std::optional<double> peak_bytes, capacity_bytes; // of the fullest stage
    std::optional<bool> fits;
    bool narrow = false;   // by less than predictions of memory are off by
    QString why_not;       // where it does not fit, and how narrow it is
    TimeInterval interval; // of the step time
    QString note;          // of a search: why it is behind the best

    std::optional<double> headroom_bytes() const;
    std::optional<double> exposed(Category c) const; // share of the step
};
Figures figures(const RunData& data);

// A point of a sweep that was predicted, beside the runs. In what views share it stands under a number below zero.
struct SweptPoint {
    int number = 0; // in the sweep
    QString name;
    Figures figures;
};
constexpr RunId id_of_swept(int number) { return -number - 1; }
constexpr int swept_number(RunId id) { return -id - 1; }

// As people read them: "6.80 s", "74.2 GB", "40.0 %"; a dash where there is none.
QString seconds_words(std::optional<double> s);
QString interval_words(const TimeInterval& interval);                      // "-5 +16 %", with a minus sign; empty: not known
QString step_words(std::optional<double> s, const TimeInterval& interval); // "6.80 s, -5 +16 %"
QString gigabytes_words(std::optional<double> bytes);
QString rate_words(double bytes_per_s); // "450 GB/s"
QString percent_words(std::optional<double> share);
QString count_words(std::optional<double> n); // "2.47 M"

} // namespace orrery

Q_DECLARE_METATYPE(orrery::Breakdown)
