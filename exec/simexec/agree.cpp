// `simexec agree SCENARIO.json`: does its strategy train like one rank? Both for a few steps in fp64, gathered and compared.
#include "exec/local/executor.hpp"
#include "exec/runtime/reference.hpp"
#include "exec/simexec/command.hpp"
#include "sim/memory/memory.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace orrery::simexec {
namespace {

struct Run { Tensors gradients, parameters, states; std::vector<double> losses; double disagreement = 0; bool memory = true; };

// forced: experts take tokens by position. The router's own choice gives other drops where ranks hold other groups of tokens, and numbers of
// rows that only it knows.
Run train(const Scenario& scenario, int steps, bool forced) {
    Run run;
    const auto world = make_world(scenario, DType::fp64);
    world->facts.forced_routing = forced;
    initialise(*world);
    for (auto& r : world->ranks) r->memory.poison(true);
    const auto executor = serial_executor(*world);
    const Corpus corpus{"", scenario.model.vocab_size, scenario.training.seed};
    const auto take = [&](Quantity what) {
        Gathered g = gather(*world, what);
        run.disagreement = std::max(run.disagreement, g.disagreement);
        return std::move(g.tensors);
    };
    for (int i = 0; i < steps; ++i) {
        load_batch(*world, corpus, i);
        executor->step(nullptr);
        run.losses.push_back(mean_loss(*world));
        if (i == 0) run.gradients = take(Quantity::gradients);
    }
    run.parameters = take(Quantity::parameters);
    run.states = take(Quantity::states);
    const MemoryReport predicted = memory(world->plan, scenario);
    for (const auto& r : world->ranks) run.memory = run.memory && r->memory.device().highest == predicted.stages[static_cast<std::size_t>(r->stage)].allocated_peak.count;
    return run;
}

} // namespace

int run_agree(const std::string& file, const Options& options, int steps) {
    const std::optional<Scenario> scenario = load(file, options, true);
    if (!scenario) return bad_input;
    const Strategy& st = scenario->strategy;
    const bool forced = scenario->model.moe && (scenario->model.moe->capacity_factor <= 0 || st.tensor_parallel > 1 || st.context_parallel > 1);
    const Run many = train(*scenario, steps, forced), one = train(on_one_rank(*scenario), steps, forced);
    struct Row { std::string what; Difference difference; double limit; };
    Difference loss;
    for (std::size_t i = 0; i < one.losses.size(); ++i)
        if (const double by = std::abs(one.losses[i] - many.losses[i]) / one.losses[i]; !(by <= loss.relative)) loss = {by, fmt::format("step {}", i)};
    const Row rows[] = {{"loss", loss, 1e-12},
                        {"gradients of the first step", difference(one.gradients, many.gradients), 1e-11},
                        {"parameters", difference(one.parameters, many.parameters), 1e-9},
                        {"optimizer states", difference(one.states, many.states), 1e-9},
                        {"replicas among themselves", {many.disagreement, ""}, 0}};
    Table table{{"what", "largest difference", "of", ""}, {false, true, false, false}, {}};
    nlohmann::ordered_json json{{"name", scenario->name}, {"world_size", scenario->world_size()}, {"steps", steps}};
    bool agrees = many.memory;
    for (const Row& r : rows) {
        const bool good = r.difference.relative <= r.limit;
        agrees = agrees && good;
        table.rows.push_back({r.what, fmt::format("{:.2g}", r.difference.relative), r.difference.worst, good ? "agrees" : fmt::format("over {:.0e}", r.limit)});
        json["differences"].push_back({{"what", r.what}, {"relative", r.difference.relative}, {"worst", r.difference.worst}, {"agrees", good}});
    }
    table.rows.push_back({"peak memory, every rank", "", "", many.memory ? "as predicted, to the byte" : "not as predicted"});
    json["memory_as_predicted"] = many.memory;
    json["agrees"] = agrees;
    const TextStyle style = output_style(options);
    const std::string text = fmt::format("{}: {} ranks against one, {} steps in fp64{}\n", scenario->name, scenario->world_size(), steps, forced ? "; experts take tokens by position" : "") + to_text(table, style);
    if (!deliver(options.json ? json.dump(2) + "\n" : text, options)) return bad_input;
    return agrees ? done : failed;
}

} // namespace orrery::simexec
