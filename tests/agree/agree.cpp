#include "agree.hpp"

#include "sim/scenario/parse.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace orrery::agree {
namespace {

int product(const Fields& fields) {
    int ranks = 1;
    for (const std::string& f : fields)
        for (const char* degree : {".tensor_parallel=", ".pipeline_parallel=", ".context_parallel=", ".data_parallel="})
            if (const auto at = f.find(degree); at != std::string::npos) ranks *= std::stoi(f.substr(at + std::string(degree).size()));
    return ranks;
}

} // namespace

Fields with(Fields fields, const Fields& more) {
    fields.insert(fields.end(), more.begin(), more.end());
    return fields;
}

Scenario tiny(const Fields& fields) {
    const std::string text = R"({"name": "tiny",
        "model": {"name": "tiny", "layers": 2, "hidden_size": 16, "attention_heads": 4, "vocab_size": 32, "ffn_size": 32},
        "cluster": {"preset": "local-cpu", "nodes": 1, "devices_per_node": )" +
                             std::to_string(product(fields)) + R"(},
        "training": {"global_batch_size": 8, "micro_batch_size": 1, "sequence_length": 8, "precision": "fp32", "optimizer": "adamw",
                     "learning_rate": 0.01, "gradient_clipping": 0, "seed": 7},
        "strategy": {"framework": "ddp"}})";
    ParseOptions options;
    options.overrides = fields;
    const ParseResult parsed = parse_scenario(text, options);
    if (!parsed.scenario) {
        ADD_FAILURE() << to_text(parsed.problems);
        std::abort();
    }
    for (const Problem& p : unsupported(*parsed.scenario)) ADD_FAILURE() << p.what;
    for (const Problem& p : not_executable(*parsed.scenario, true)) ADD_FAILURE() << p.what;
    return *parsed.scenario;
}

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> strategies() {
    std::ifstream file(ORRERY_SOURCE_DIR "/tests/agree/strategies.txt");
    std::vector<Case> cases;
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        Case c;
        words >> c.name;
        if (c.name.empty() || c.name[0] == '#') continue;
        for (std::string field; words >> field;) c.fields.push_back(field);
        cases.push_back(std::move(c));
    }
    return cases;
}

Trained train(const Scenario& scenario, const TrainOptions& options) {
    Trained t;
    Plan plan = options.routed ? routed_plan(scenario) : executed_plan(scenario);
    if (options.change) options.change(plan);
    t.world = make_world(scenario, std::move(plan), options.real);
    t.world->facts.forced_routing =
        options.forced_routing && scenario.model.moe && !scenario.model.moe->pads(); // experts' rows in known numbers
    if (options.rounds) round_storage(*t.world);
    share_kernels(*t.world, options.threads);
    initialise(*t.world);
    for (auto& r : t.world->ranks) r->memory.poison(true);
    const auto executor = options.make ? options.make(*t.world) : make_executor(options.executor, *t.world);
    const Corpus corpus{"", scenario.model.vocab_size, scenario.training.seed};
    const auto take = [&](Quantity what) {
        executor->fetch();
        Gathered g = gather(*t.world, what);
        t.disagreement = std::max(t.disagreement, g.disagreement);
        return std::move(g.tensors);
    };
    for (int step = 0; step < options.steps; ++step) {
        load_batch(*t.world, corpus, step);
        executor->step(nullptr);
        t.losses.push_back(mean_loss(*t.world));
        if (step == 0) t.first_gradients = take(Quantity::gradients);
        if (step != std::min(4, options.steps - 1)) continue;
        t.parameters = take(Quantity::parameters);
        t.states = take(Quantity::states);
    }
    return t;
}

Gathered parameters_after(World& world, const std::string& executor, std::int64_t steps) {
    const auto runs = make_executor(executor, world);
    const Corpus corpus{"", world.scenario.model.vocab_size, world.scenario.training.seed};
    for (std::int64_t step = 0; step < steps; step += world.plan.steps) {
        load_batch(world, corpus, step);
        runs->step(nullptr);
    }
    runs->fetch();
    return gather(world, Quantity::parameters);
}

void expect_trained_alike(const Trained& expected, const Trained& found) {
    const Difference gradients = difference(expected.first_gradients, found.first_gradients),
                     parameters = difference(expected.parameters, found.parameters), states = difference(expected.states, found.states);
    EXPECT_LE(gradients.relative, 1e-12) << gradients.worst;
    EXPECT_LE(parameters.relative, 1e-10) << parameters.worst;
    EXPECT_LE(states.relative, 1e-10) << states.worst;
    for (std::size_t i = 0; i < expected.losses.size(); ++i) EXPECT_NEAR(found.losses[i], expected.losses[i], 1e-10) << "step " << i;
    EXPECT_EQ(found.disagreement, 0);
}

void expect_same_bits(const Trained& expected, const Trained& found) {
    const Difference gradients = difference(expected.first_gradients, found.first_gradients),
                     parameters = difference(expected.parameters, found.parameters), states = difference(expected.states, found.states);
    EXPECT_EQ(found.losses, expected.losses);
    EXPECT_EQ(gradients.relative, 0) << gradients.worst;
    EXPECT_EQ(parameters.relative, 0) << parameters.worst;
    EXPECT_EQ(states.relative, 0) << states.worst;
    EXPECT_EQ(found.disagreement, 0);
}

} // namespace orrery::agree
