#include "agree.hpp"

#include "sim/plan/lower.hpp"
#include "sim/scenario/parse.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace orrery::agree {
namespace {

// A value that is zero but for rounding has no relative error: gradients of key biases, which softmax cancels.
constexpr double negligible = 1e-9;

int product(const std::vector<std::string>& fields) {
    int ranks = 1;
    for (const std::string& f : fields)
        for (const char* degree : {"tensor_parallel=", "pipeline_parallel=", "context_parallel=", "data_parallel="})
            if (const auto at = f.find(degree); at != std::string::npos) ranks *= std::stoi(f.substr(at + std::string(degree).size()));
    return ranks;
}

} // namespace

Scenario tiny(const std::vector<std::string>& fields) {
    const std::string text = R"({"name": "tiny",
        "model": {"name": "tiny", "layers": 2, "hidden_size": 16, "attention_heads": 4, "vocab_size": 32, "ffn_size": 32},
        "cluster": {"preset": "local-cpu", "nodes": 1, "devices_per_node": )" + std::to_string(product(fields)) + R"(},
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
    return *parsed.scenario;
}

Scenario alone(Scenario s) {
    Strategy& st = s.strategy;
    st.data_parallel = st.tensor_parallel = st.pipeline_parallel = st.virtual_pipeline = st.context_parallel = st.expert_parallel = st.expert_tensor_parallel = 1;
    st.sequence_parallel = false;
    st.schedule = "none";
    st.zero_stage = st.shard_group_size = 0;
    st.layers_per_chunk = {s.model.layers};
    st.recompute = RecomputeKind::none;
    return s;
}

Trained train(const Scenario& scenario, const TrainOptions& options) {
    Trained t;
    Plan plan = lower(scenario);
    if (options.change) options.change(plan);
    t.world = make_world(scenario, std::move(plan), options.real);
    initialise(*t.world);
    for (auto& r : t.world->ranks) r->memory.poison(true);
    const auto executor = serial_executor(*t.world);
    const Corpus corpus{"", scenario.model.vocab_size, scenario.training.seed};
    for (int step = 0; step < options.steps; ++step) {
        load_batch(*t.world, corpus, step);
        executor->step(nullptr);
        t.losses.push_back(mean_loss(*t.world));
        if (step > 0) continue;
        Gathered gradients = gather(*t.world, Quantity::gradients);
        t.first_gradients = std::move(gradients.tensors);
        t.disagreement = gradients.disagreement;
    }
    Gathered parameters = gather(*t.world, Quantity::parameters), states = gather(*t.world, Quantity::states);
    t.parameters = std::move(parameters.tensors);
    t.states = std::move(states.tensors);
    t.disagreement = std::max({t.disagreement, parameters.disagreement, states.disagreement});
    return t;
}

Difference difference(const Tensors& a, const Tensors& b) {
    Difference d;
    const auto worse = [&](double by, const std::string& name) {
        if (by > d.relative || std::isnan(by)) d = {std::isnan(by) ? 1e300 : by, name};
    };
    for (const auto& [name, x] : a) {
        const auto other = b.find(name);
        if (other == b.end() || other->second.shape != x.shape) {
            worse(1e300, name + " (missing, or of another shape)");
            continue;
        }
        double largest = negligible;
        for (double v : x.values) largest = std::max(largest, std::abs(v));
        for (std::size_t i = 0; i < x.values.size(); ++i) worse(std::abs(x.values[i] - other->second.values[i]) / largest, name);
    }
    for (const auto& [name, x] : b)
        if (!a.contains(name)) worse(1e300, name + " (not in the other)");
    return d;
}

} // namespace orrery::agree
