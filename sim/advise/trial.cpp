#include "sim/advise/trial.hpp"

#include "sim/memory/ready.hpp"
#include "sim/plan/lower.hpp"
#include "sim/report/terminal.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <thread>

namespace orrery {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::vector<std::string> steps_of(const std::string& pointer) {
    std::vector<std::string> steps;
    for (std::size_t from = 1; from <= pointer.size();) {
        const std::size_t slash = std::min(pointer.find('/', from), pointer.size());
        steps.push_back(pointer.substr(from, slash - from));
        from = slash + 1;
    }
    return steps;
}

void change_field(OrderedJson& document, const ChangedField& field) {
    const std::vector<std::string> steps = steps_of(field.pointer);
    OrderedJson* at = &document;
    for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
        if (at->is_object() && !at->contains(steps[i]) && field.value.empty()) return; // nothing to take out
        at = &(*at)[steps[i]];
        if (at->is_string()) *at = OrderedJson{{"preset", *at}};
        if (!at->is_object()) *at = OrderedJson::object();
    }
    if (field.value.empty())
        at->erase(steps.back());
    else
        (*at)[steps.back()] = OrderedJson::parse(field.value);
}

Report report_of(const Scenario& scenario, const TryOptions& options) {
    const Plan plan = lower(scenario);
    const PlanMemory walked = walk(plan);
    if (!options.simulate) {
        const Fabric fabric(scenario.cluster);
        const CostModel cost(scenario, fabric);
        return report(scenario, plan, {}, memory(plan, walked, scenario, CacheOf::no_stage), cost);
    }
    PredictOptions predicting;
    predicting.meetings = false;
    predicting.only_if_fits = !options.too_big_too;
    predicting.walked = &walked;
    predicting.shares_up_to = interval_shares;
    return predict(scenario, plan, predicting).report;
}

} // namespace

std::string with(const std::string& json, const StrategyChange& change) {
    OrderedJson document = OrderedJson::parse(json);
    for (const ChangedField& f : change.fields) change_field(document, f);
    return document.dump();
}

StrategyChange both(const StrategyChange& a, const StrategyChange& b) {
    StrategyChange c = a;
    if (!b.words.empty()) c.words += (c.words.empty() ? "" : " and ") + b.words;
    constexpr std::string_view joint = " and "; // "a", "a and b", "a, b and c"
    for (std::size_t at = c.words.find(joint); at != c.words.rfind(joint); at = c.words.find(joint))
        c.words.replace(at, joint.size(), ", ");
    c.fields.insert(c.fields.end(), b.fields.begin(), b.fields.end());
    return c;
}

std::string step_text(const Report& r) {
    const std::string interval = to_text(r.error_bar.interval);
    return seconds_text(r.step_time_s) + (interval.empty() ? "" : " (" + interval + ")");
}

Trial try_one(const std::string& json, const StrategyChange& change, const TryOptions& options) {
    Trial t{change, with(json, change), "", {}, {}};
    try {
        ParseResult parsed = ready_scenario(t.json, options.parsing);
        if (!parsed.problems.empty() || !parsed.scenario) {
            t.refused = parsed.problems.empty() ? "it cannot be read" : parsed.problems.front().what;
            return t;
        }
        t.scenario = std::move(parsed.scenario);
        t.report = report_of(*t.scenario, options);
    } catch (const std::exception& e) { // a plan that cannot run, too: a change is refused, whatever the reason
        t.refused = e.what();
        t.report.reset();
    }
    return t;
}

std::vector<Trial> try_all(const std::string& json, const std::vector<StrategyChange>& changes, const TryOptions& options) {
    std::vector<Trial> trials(changes.size());
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
        for (std::size_t i = next++; i < changes.size(); i = next++) trials[i] = try_one(json, changes[i], options);
    };
    const std::size_t cores = options.jobs > 0 ? static_cast<std::size_t>(options.jobs) : std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::thread> threads;
    for (std::size_t k = 1; k < std::min(cores, changes.size()); ++k) threads.emplace_back(work);
    work();
    for (std::thread& t : threads) t.join();
    return trials;
}

} // namespace orrery
