#include "gui/search/found_points.hpp"

#include <nlohmann/json.hpp>
#include <QCoreApplication>
#include <QLocale>

#include <algorithm>

namespace orrery {
namespace {

constexpr std::size_t most_shown = 200;
constexpr double tie = 0.02; // steps repeat no better

// Not a QObject: the context of its texts.
struct FoundPointsText {
    Q_DECLARE_TR_FUNCTIONS(orrery::FoundPoints)
};

QString percent(double share) { return QLocale().toString(share * 100, 'f', 1); }

} // namespace

std::string with_free_strategy(const std::string& text) {
    nlohmann::ordered_json j = nlohmann::ordered_json::parse(text, nullptr, false);
    if (!j.is_object()) return text;
    if (const auto s = j.find("strategy"); s != j.end() && s->is_object())
        for (const char* field : {"data_parallel", "tensor_parallel", "sequence_parallel", "pipeline_parallel", "virtual_pipeline",
                                  "context_parallel", "expert_parallel", "expert_tensor_parallel", "schedule", "layer_split", "zero_stage",
                                  "shard_group_size", "recompute", "recompute_layers"})
            s->erase(field);
    if (const auto t = j.find("training"); t != j.end() && t->is_object()) t->erase("micro_batch_size");
    j.erase("run"); // a search is of the step
    return j.dump();
}

std::string usual_schedules(const std::string& text) {
    std::vector<std::string> schedules{"none", "1f1b", "interleaved-1f1b"};
    const nlohmann::json j = nlohmann::json::parse(text, nullptr, false);
    if (j.is_object() && j.contains("strategy") && j["strategy"].is_object() && j["strategy"].contains("schedule") &&
        j["strategy"]["schedule"].is_string()) {
        const std::string own = j["strategy"]["schedule"].get<std::string>();
        if (std::ranges::find(schedules, own) == schedules.end()) schedules.push_back(own);
    }
    return nlohmann::json{{"/strategy/schedule", schedules}}.dump();
}

void FoundPoints::clear() { *this = {}; }

void FoundPoints::add(const std::vector<SweepRow>& rows) {
    for (const SweepRow& row : rows) {
        const auto [it, fresh] = number_.emplace(row.hash, first_number + static_cast<int>(number_.size()));
        if (!fresh) continue;
        if (row.status == PointStatus::fits)
            fits_.push_back(row);
        else
            ++too_big_;
    }
    std::ranges::stable_sort(fits_, {}, &SweepRow::step_time_s);
}

void FoundPoints::finish(const SearchResult& result) {
    std::vector<SweepRow> rows;
    for (const SearchPoint& p : result.points) {
        rows.push_back(p.row);
        if (rows.back().cost_usd <= 0) rows.back().cost_usd = p.cost_usd, rows.back().energy_j = p.energy_j;
    }
    add(rows);
    for (const SearchPoint& p : result.points) json_[number_.at(p.row.hash)] = p.json;
    over_ = true;
    proven_ = result.proven;
}

std::vector<SweptPoint> FoundPoints::points() const {
    std::vector<SweptPoint> out;
    for (const SweepRow& row : fits_) {
        if (out.size() == most_shown) break;
        Figures f;
        f.devices = static_cast<double>(row.world_size);
        f.step_s = row.step_time_s;
        f.tokens_per_s = row.tokens_per_s;
        f.mfu = row.mfu;
        f.bubble = row.bubble_fraction;
        f.peak_bytes = static_cast<double>(row.peak_bytes);
        f.capacity_bytes = static_cast<double>(row.capacity_bytes);
        f.fits = true;
        f.narrow = row.narrow();
        f.interval = row.step_time_interval;
        if (row.cost_usd > 0) f.cost_usd = row.cost_usd;
        f.note = !out.empty() ? behind(row, fits_.front())
                 : !over_     ? FoundPointsText::tr("the best so far")
                 : proven_    ? FoundPointsText::tr("the best: no other is faster by the model")
                              : FoundPointsText::tr("the best that was found; the search was stopped");
        out.push_back({number_.at(row.hash), QString::fromStdString(row.label), std::move(f)});
    }
    return out;
}

std::string FoundPoints::scenario(int number) const {
    const auto it = json_.find(number);
    return it == json_.end() ? std::string() : it->second;
}

QString behind(const SweepRow& row, const SweepRow& best) {
    const double late = row.step_time_s / best.step_time_s - 1, extra = row.step_time_s - best.step_time_s;
    const QString room = row.narrow() && !best.narrow() ? FoundPointsText::tr("; fits narrowly") : QString();
    if (late <= tie) return FoundPointsText::tr("a tie: within %1 %").arg(tie * 100) + room;
    const QString slower = FoundPointsText::tr("%1 % slower").arg(percent(late));
    const double bubble = row.bubble_fraction * row.step_time_s - best.bubble_fraction * best.step_time_s;
    // FLOPs executed, recompute included, against the best's; they take about that share of its busy time.
    const double again = best.hfu > 0 ? row.hfu * row.step_time_s / (best.hfu * best.step_time_s) - 1 : 0;
    const double recompute = again * (1 - best.bubble_fraction) * best.step_time_s;
    if (bubble >= recompute && bubble > 0.4 * extra)
        return FoundPointsText::tr("%1: bubble %2 % against %3 %")
                   .arg(slower, percent(row.bubble_fraction), percent(best.bubble_fraction)) +
               room;
    if (recompute > 0.4 * extra) return FoundPointsText::tr("%1: %2 % more FLOPs, recomputed").arg(slower, percent(again)) + room;
    return FoundPointsText::tr("%1: communication and smaller kernels").arg(slower) + room;
}

} // namespace orrery
