#include "sim/search/evaluate.hpp"

#include "sim/memory/memory.hpp"
#include "sim/plan/lower.hpp"
#include "sim/report/report.hpp"
#include "sim/search/replan.hpp"
#include "sim/search/words.hpp"
#include "topology/at.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace orrery {

namespace {

void price(SearchPoint& p, const Cluster& cluster) {
    p.cost_usd = usd_per_second(cluster, static_cast<int>(p.row.world_size)) * p.row.step_time_s;
    p.energy_j = watts_of(cluster, static_cast<int>(p.row.world_size)) * p.row.step_time_s;
}

SweepRow row_of(const Scenario& s, const std::string& json, const SearchOptions& options, ReadyPlans* plans,
                ByEnum<Category, double, category_count>* parts_s = nullptr) {
    const bool run = of_run(options.by), replan = run && s.run && s.run->elastic == Elasticity::replan;
    return evaluate_scenario(s, run, replan ? replan_by_search(json, options.space.parsing, 1) : Replan{}, plans, options.intervals,
                             parts_s);
}

// The scenario of a point's text, in which overrides are.
std::optional<Scenario> scenario_of(const std::string& json, ParseOptions parsing) {
    parsing.overrides.clear();
    ParseResult parsed = parse_scenario(json, parsing);
    if (!parsed.scenario || !parsed.problems.empty() || !unsupported(*parsed.scenario).empty()) return std::nullopt;
    return std::move(parsed.scenario);
}

} // namespace

std::string hash_of(const std::string& json, const ParseOptions& parsing) {
    return point_hash({"", {}, json, std::nullopt, parsing.constants, parsing.base_dir});
}

SweepRow evaluate_text(const std::string& json, const SearchOptions& options, ReadyPlans& kept) {
    SweepRow row;
    row.status = PointStatus::impossible;
    const std::optional<Scenario> s = scenario_of(json, options.space.parsing);
    if (s) row = row_of(*s, json, options, &kept);
    row.hash = hash_of(json, options.space.parsing);
    return row;
}

namespace {

// Fields that label_of() says in its own words.
bool in_label(const std::string& pointer) {
    static constexpr std::string_view said[] = {"/strategy/tensor_parallel",
                                                "/strategy/context_parallel",
                                                "/strategy/pipeline_parallel",
                                                "/strategy/data_parallel",
                                                "/strategy/expert_parallel",
                                                "/strategy/virtual_pipeline",
                                                "/strategy/schedule",
                                                "/strategy/zero_stage",
                                                "/strategy/recompute",
                                                "/strategy/rank_order",
                                                "/strategy/sequence_parallel",
                                                "/strategy/context_parallel_kind",
                                                "/training/micro_batch_size",
                                                "/runtime/token_dispatcher",
                                                "/training/global_batch_size",
                                                "/training/sequence_length",
                                                "/cluster/nodes"};
    return std::ranges::find(said, pointer) != std::end(said) || pointer.starts_with("/strategy/overlap/") ||
           pointer.starts_with("/strategy/offload");
}

// Fields that a space gives several values, beside those.
std::vector<std::string> further_fields(const std::string& space) {
    std::vector<std::string> fields;
    const auto j = nlohmann::json::parse(space.empty() ? "{}" : space, nullptr, false);
    for (const auto& [pointer, values] : j.items())
        if (values.is_array() && values.size() > 1 && !in_label(pointer)) fields.push_back(pointer);
    return fields;
}

} // namespace

Evaluator::Evaluator(const StrategySpace& space, const std::vector<Objective>& objectives, const SearchOptions& options)
    : space_(space), objectives_(objectives), options_(options) {
    for (const SpaceMachine& machine : space.machines)
        if (machine.variations.base().cluster.device.name != space.machines.front().variations.base().cluster.device.name)
            name_devices_ = true;
    further_ = further_fields(options.space.space);
    if (options.database.empty()) return;
    store_ = std::make_unique<SweepStore>(options.database);
    if (options.fresh) store_->clear();
    known_ = store_->rows();
}

std::string Evaluator::further(const Scenario& s) const {
    std::string more = name_devices_ ? ", " + s.cluster.device.name : "";
    if (space_.steps_differ) more += fmt::format(", {} sequences of {} a step", s.training.global_batch_size, s.training.sequence_length);
    return more;
}

std::string Evaluator::kind(const Scenario& s) const { return kind_of(s) + further(s); }

void Evaluator::name(SearchPoint& p, const Scenario& s) const {
    const std::string more = further(s);
    p.kind = kind_of(s) + more;
    p.row.label = label_of(s) + more;
    if (further_.empty()) return;
    const auto j = nlohmann::json::parse(p.json);
    for (const std::string& field : further_) {
        const nlohmann::json::json_pointer pointer(field);
        if (!j.contains(pointer)) continue;
        const auto& value = j.at(pointer);
        const std::string word =
            fmt::format(", {} {}", field.substr(field.rfind('/') + 1), value.is_string() ? value.get<std::string>() : value.dump());
        p.row.label += word;
        if (!field.starts_with("/strategy") && !field.starts_with("/runtime")) p.kind += word;
    }
}

const SweepRow* Evaluator::known(const std::string& hash, const std::string& json) const {
    const auto it = known_.find(hash);
    if (it == known_.end()) return nullptr;
    return !of_run(options_.by) || has_run(it->second, json) ? &it->second : nullptr;
}

void Evaluator::fetch(const std::vector<std::vector<PointId>>& groups) {
    std::vector<std::vector<std::string>> asked;
    for (const std::vector<PointId>& group : groups) {
        std::vector<std::string> texts;
        for (const PointId& id : group)
            if (std::string json = json_of(space_, id); !known(hash_of(json, options_.space.parsing), json))
                texts.push_back(std::move(json));
        if (!texts.empty()) asked.push_back(std::move(texts));
    }
    fetched_.clear();
    for (std::vector<SweepRow>& rows : options_.elsewhere(asked))
        for (SweepRow& row : rows) fetched_.insert_or_assign(row.hash, std::move(row));
}

SearchPoint Evaluator::point(Worker& w, const PointId& id, double bound) const {
    SearchPoint p;
    p.id = id;
    p.bound = bound;
    p.json = json_of(space_, id);
    const Scenario* resolved = w.resolved(space_, id);
    if (!resolved) throw std::logic_error("search: a legal point is refused: " + p.json);
    const std::string hash = hash_of(p.json, options_.space.parsing);
    if (const SweepRow* row = known(hash, p.json)) {
        p.row = *row;
    } else {
        const auto it = fetched_.find(hash);
        p.row = it != fetched_.end() ? it->second : row_of(*resolved, p.json, options_, &w.plans, &p.parts_s);
        p.row.hash = hash;
        p.row.index = -1; // new
    }
    name(p, *resolved);
    price(p, resolved->cluster);
    p.score = objectives_[at(space_.forms[at(id.form)].machine)].score(p.row);
    return p;
}

SearchPoint Evaluator::refined(const SearchPoint& from, const Refinement& change) const {
    SearchPoint p;
    p.id = from.id;
    auto json = nlohmann::ordered_json::parse(from.json);
    json["strategy"]["layer_split"] = change.layers;
    if (!change.recomputed.empty()) json["strategy"]["recompute_layers"] = change.recomputed;
    p.json = json.dump();
    p.row.status = PointStatus::impossible;
    const std::optional<Scenario> scenario = scenario_of(p.json, options_.space.parsing);
    if (!scenario) return p;
    p.row = row_of(*scenario, p.json, options_, nullptr, &p.parts_s);
    p.row.hash = hash_of(p.json, options_.space.parsing);
    name(p, *scenario);
    price(p, scenario->cluster);
    p.score = objectives_[at(space_.forms[at(from.id.form)].machine)].score(p.row);
    return p;
}

std::optional<Scenario> Evaluator::scenario(const SearchPoint& point) const { return scenario_of(point.json, options_.space.parsing); }

void Evaluator::say_interval(SearchPoint& p) const {
    if (has_interval(p.row)) return;
    const std::optional<Scenario> s = scenario(p);
    PredictOptions predicting;
    predicting.meetings = false;
    predicting.shares_up_to = interval_shares;
    if (s) set_interval(p.row, predict(*s, lower(*s), predicting));
}

bool Evaluator::leaves(Worker& w, const PointId& id, double share) const {
    const Scenario* s = w.resolved(space_, id);
    if (!s) return false;
    try {
        const std::shared_ptr<const ReadyPlan> ready = w.plans.of(*s, true);
        const MemoryReport m = memory(ready->plan, ready->memory, *s, CacheOf::no_stage);
        return m.stages.empty() || static_cast<double>(fullest(m).peak.count) <= (1 - share) * static_cast<double>(m.capacity.count);
    } catch (const std::exception&) { return true; } // its row says so
}

std::int64_t Evaluator::lacks_on_node(Worker& w, const PointId& id) const {
    const Scenario* s = w.resolved(space_, id);
    if (!s) return 0;
    const MemoryReport m = memory(lower(*s), *s);
    std::int64_t bytes = 0;
    for (const NodeMemory* tier : {&m.host, &m.disk})
        if (!tier->fits()) bytes += (tier->used.peak - tier->capacity).count;
    return bytes;
}

void Evaluator::keep(const std::vector<SearchPoint>& points) {
    std::vector<SweepRow> fresh;
    for (const SearchPoint& p : points)
        if (p.row.index == -1) fresh.push_back(p.row);
    if (store_ && !fresh.empty()) store_->commit(fresh);
}

} // namespace orrery
