#include "sim/search/evaluate.hpp"

#include "sim/plan/lower.hpp"
#include "sim/report/report.hpp"
#include "sim/search/replan.hpp"
#include "sim/search/words.hpp"

#include <nlohmann/json.hpp>

#include <stdexcept>

namespace orrery {

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

void price(SearchPoint& p, const Cluster& cluster) {
    p.cost_usd = usd_per_second(cluster, static_cast<int>(p.row.world_size)) * p.row.step_time_s;
    p.energy_j = watts_of(cluster, static_cast<int>(p.row.world_size)) * p.row.step_time_s;
}

} // namespace

Evaluator::Evaluator(const StrategySpace& space, const std::vector<Objective>& objectives, const SearchOptions& options)
    : space_(space), objectives_(objectives), options_(options) {
    for (const SpaceMachine& machine : space.machines)
        if (machine.variations.base().cluster.device.name != space.machines.front().variations.base().cluster.device.name)
            name_devices_ = true;
    if (options.database.empty()) return;
    store_ = std::make_unique<SweepStore>(options.database);
    if (options.fresh) store_->clear();
    known_ = store_->rows();
}

void Evaluator::name(SearchPoint& p, const Scenario& s) const {
    const std::string device = name_devices_ ? ", " + s.cluster.device.name : "";
    p.kind = kind_of(s) + device;
    p.row.label = label_of(s) + device;
}

SweepRow Evaluator::row_of(const Scenario& s, const std::string& json, ReadyPlans* plans) const {
    const bool run = of_run(options_.by), replan = run && s.run && s.run->elastic == Elasticity::replan;
    return evaluate_scenario(s, run, replan ? replan_by_search(json, options_.space.parsing, 1) : Replan{}, plans);
}

SearchPoint Evaluator::point(Worker& w, const PointId& id, double bound) const {
    SearchPoint p;
    p.id = id;
    p.bound = bound;
    p.json = json_of(space_, id);
    const Scenario* resolved = w.resolved(space_, id);
    if (!resolved) throw std::logic_error("search: a legal point is refused: " + p.json);
    const std::string hash = point_hash({"", {}, p.json, std::nullopt});
    if (const auto it = known_.find(hash); it != known_.end() && (!of_run(options_.by) || complete(it->second, p.json))) {
        p.row = it->second;
    } else {
        p.row = row_of(*resolved, p.json, &w.plans);
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
    ParseOptions parsing = options_.space.parsing;
    parsing.overrides.clear(); // they are in the text
    const ParseResult parsed = parse_scenario(p.json, parsing);
    p.row.status = PointStatus::impossible;
    if (!parsed.scenario || !parsed.problems.empty() || !unsupported(*parsed.scenario).empty()) return p;
    p.row = row_of(*parsed.scenario, p.json, nullptr);
    name(p, *parsed.scenario);
    price(p, parsed.scenario->cluster);
    p.score = objectives_[at(space_.forms[at(from.id.form)].machine)].score(p.row);
    return p;
}

void Evaluator::keep(const std::vector<SearchPoint>& points) {
    std::vector<SweepRow> fresh;
    for (const SearchPoint& p : points)
        if (p.row.index == -1) fresh.push_back(p.row);
    if (store_ && !fresh.empty()) store_->commit(fresh);
}

} // namespace orrery
