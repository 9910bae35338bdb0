// Delayed updates against a sequential reference: one rank makes each step's gradients with weights that have not seen the step before's,
// and they are stepped on by hand.
#include "tests/agree/agree.hpp"

#include "exec/runtime/resume.hpp"
#include "sim/plan/lower.hpp"
#include "sim/plan/staleness.hpp"
#include "sim/plan/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace orrery::agree {
namespace {

constexpr int steps = 6;
constexpr double delayed_rate = 0.01;

Scenario delayed(std::vector<std::string> more = {}) {
    std::vector<std::string> fields{"strategy.offload.optimizer=cpu", "strategy.offload.delayed_update=true"};
    fields.insert(fields.end(), more.begin(), more.end());
    return tiny(fields);
}

// An update by hand: plain descent, or Adam with decoupled decay as torch.optim.AdamW has it. step: of the gradients, from 1 on.
struct ByHand {
    bool adam;
    Tensors first{}, second{};

    void update(Tensors& weights, const Tensors& gradients, int step) {
        if (first.empty()) {
            first = second = weights;
            for (Tensors* moments : {&first, &second})
                for (auto& [name, t] : *moments) std::fill(t.values.begin(), t.values.end(), 0.0);
        }
        const double b1 = 0.9, b2 = 0.999, size = delayed_rate / (1 - std::pow(b1, step)), root = 1 / std::sqrt(1 - std::pow(b2, step)),
                     keep = 1 - delayed_rate * 1e-2;
        for (auto& [name, t] : weights)
            for (std::size_t i = 0; i < t.values.size(); ++i) {
                double &w = t.values[i], &m = first.at(name).values[i], &v = second.at(name).values[i];
                const double g = gradients.at(name).values[i];
                if (!adam) {
                    w -= delayed_rate * g;
                    continue;
                }
                m = b1 * m + (1 - b1) * g;
                v = b2 * v + (1 - b2) * g * g;
                w = keep * w - size * m / (std::sqrt(v) * root + 1e-8);
            }
    }
};

// The weights after the last step: they have seen the gradients of all steps but the last.
Tensors delayed_by_hand(const Scenario& scenario) {
    Scenario plain = on_one_rank(scenario);
    plain.strategy.offload = {};
    const auto world = make_world(plain, DType::fp64);
    initialise(*world);
    const auto runs = make_executor("serial", *world);
    const Corpus corpus{"", plain.model.vocab_size, plain.training.seed};
    Tensors weights = gather(*world, Quantity::parameters).tensors, before;
    ByHand optimizer{plain.training.optimizer == Optimizer::adamw};
    for (int step = 0; step < steps; ++step) {
        scatter(*world, Quantity::parameters, weights);
        load_batch(*world, corpus, step);
        runs->step(nullptr);
        if (step > 0) optimizer.update(weights, before, step);
        before = gather(*world, Quantity::gradients).tensors;
    }
    return weights;
}

Tensors by_plan(const Scenario& scenario, const std::string& executor, double& disagreement) {
    const auto world = make_world(scenario, DType::fp64);
    initialise(*world);
    for (auto& r : world->ranks) r->memory.poison(true);
    Gathered all = parameters_after(*world, executor, steps);
    disagreement = all.disagreement;
    return std::move(all.tensors);
}

void expect_delayed(const Scenario& s, double tolerance) {
    EXPECT_TRUE(verify(lower(s)).empty()) << to_text(verify(lower(s)));
    const Tensors expected = delayed_by_hand(s);
    for (const char* executor : {"serial", "threads", "queues"}) {
        double disagreement = 1;
        const Difference d = difference(expected, by_plan(s, executor, disagreement));
        EXPECT_LE(d.relative, tolerance) << executor << " " << d.worst;
        EXPECT_EQ(disagreement, 0) << executor << ": the host's newest weights and the device's are the same when a step ends";
    }
}

const std::vector<std::string> on_deepspeed{"strategy.framework=deepspeed"};

std::vector<std::string> with(const std::vector<std::string>& a, const std::vector<std::string>& b) {
    std::vector<std::string> all = a;
    all.insert(all.end(), b.begin(), b.end());
    return all;
}

TEST(DelayedUpdate, IsTheSequentialOnesToTheBitOnOneRank) {
    expect_delayed(delayed({"training.optimizer=sgd"}), 0);
    expect_delayed(delayed(), 0);
    expect_delayed(delayed({"strategy.bucket_bytes=2000"}), 0);
    expect_delayed(delayed({"training.gradient_clipping=0.1"}), 0);
    expect_delayed(delayed({"strategy.offload.optimizer=nvme", "strategy.offload.sub_group_size=600", "strategy.offload.pipelined=true"}),
                   0);
}

TEST(DelayedUpdate, IsTheSequentialOnesUnderOtherStrategies) {
    expect_delayed(delayed({"strategy.data_parallel=2"}), 1e-12);
    expect_delayed(delayed(with(on_deepspeed, {"strategy.data_parallel=2", "strategy.zero_stage=1", "training.gradient_clipping=0.1"})),
                   1e-12);
    expect_delayed(delayed(with(on_deepspeed, {"strategy.data_parallel=4", "strategy.zero_stage=2"})), 1e-12);
    expect_delayed(delayed({"strategy.pipeline_parallel=2", "strategy.schedule=1f1b"}), 1e-12);
    expect_delayed(delayed({"strategy.data_parallel=2", "strategy.zero_stage=3", "strategy.framework=fsdp2"}), 1e-12);
}

// Gradients that live on the host: the next step adds up its own while these are used.
TEST(DelayedUpdate, HoldsGradientsOfTheHost) {
    expect_delayed(delayed(with(on_deepspeed, {"strategy.offload.gradients=cpu"})), 1e-12);
    expect_delayed(delayed(with(on_deepspeed, {"strategy.offload.gradients=cpu", "strategy.data_parallel=2", "strategy.zero_stage=2",
                                               "training.gradient_clipping=0.1"})),
                   1e-12);
    expect_delayed(delayed(with(on_deepspeed, {"strategy.offload.gradients=cpu", "strategy.data_parallel=2", "strategy.zero_stage=2",
                                               "training.global_batch_size=2"})),
                   1e-12);
}

TEST(DelayedUpdate, IsOneUpdateOldInTwoVersions) {
    const Staleness s = staleness(lower(delayed())), none = staleness(lower(tiny({"strategy.offload.optimizer=cpu"})));
    EXPECT_EQ(s.worst, 1);
    EXPECT_EQ(s.mean, 1);
    EXPECT_EQ(s.versions, 2);
    EXPECT_EQ(none.worst, 0);
}

template <class F> bool refused(const Scenario& s, F&& change, const std::string& rule) {
    Plan plan = lower(s);
    change(plan);
    const auto found = verify(plan);
    return std::any_of(found.begin(), found.end(), [&](const Violation& v) { return v.rule == rule; });
}

// An update that takes this step's gradients for those of the last, gradients that nobody keeps, and one that is added up anew before it is
// used are found.
TEST(DelayedUpdate, BrokenPlansAreFound) {
    EXPECT_TRUE(refused(
        delayed(),
        [](Plan& p) { // at the end
            auto& actions = p.programs[0].actions;
            for (std::size_t i = 0; i < actions.size(); ++i)
                if (p.blocks[actions[static_cast<std::int32_t>(i)].block].name.starts_with("optimizer.delayed")) {
                    std::rotate(actions.begin() + static_cast<std::ptrdiff_t>(i), actions.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                actions.end());
                    break;
                }
            for (Action& a : actions) a.deps_begin = a.deps_end = 0;
        },
        "gradient-early"));
    EXPECT_TRUE(refused(
        delayed(with(on_deepspeed, {"strategy.offload.gradients=cpu"})),
        [](Plan& p) {
            for (Block& b : p.blocks)
                for (Op& op : b.ops)
                    if (auto* w = std::get_if<Pointwise>(&op.work); w && w->kind == PointwiseKind::swap) op.in.clear(), op.out.clear();
        },
        "gradient-missing"));
    EXPECT_TRUE(refused(
        delayed(),
        [](Plan& p) {
            for (Block& b : p.blocks)
                for (Op& op : b.ops)
                    if (auto* w = std::get_if<OptimizerStep>(&op.work)) w->delayed = false;
        },
        "gradient-missing"));
}

Tensors go_on(const Scenario& scenario, const std::filesystem::path& folder) {
    const CheckpointFiles checkpoint(checkpoints_in(folder).at(0));
    const auto world = make_world(scenario, DType::fp64);
    restore(*world, checkpoint);
    const auto runs = make_executor("serial", *world);
    for (std::int64_t step = checkpoint.state().step; step < steps; ++step) {
        load_batch(*world, {"", scenario.model.vocab_size, scenario.training.seed}, step);
        runs->step(nullptr);
    }
    return gather(*world, Quantity::parameters).tensors;
}

// A checkpoint has the gradients that are still to be used: the run goes on to the bit, and on other ranks too.
TEST(DelayedUpdate, GoesOnFromACheckpointWithTheGradientsItHolds) {
    for (const auto& fields : {std::vector<std::string>{}, with(on_deepspeed, {"strategy.offload.gradients=cpu"})}) {
        const Scenario scenario = delayed(fields);
        const auto folder = fresh_folder("delayed");
        save_checkpoint(folder, {3, scenario.training.seed, {}}, pieces_of(*train(scenario, {.steps = 3}).world));
        double disagreement = 0;
        const Tensors whole = by_plan(scenario, "serial", disagreement);
        EXPECT_EQ(difference(whole, go_on(scenario, folder)).relative, 0);
        const Scenario other = delayed(with(on_deepspeed, {"strategy.data_parallel=2", "strategy.zero_stage=2"}));
        EXPECT_LE(difference(whole, go_on(other, folder)).relative, 1e-10);
    }
}

// One that has none begins as a run does, with a step whose update has nothing to use.
TEST(DelayedUpdate, GoesOnFromARunThatHeldNothing) {
    const Scenario plain = tiny({"strategy.offload.optimizer=cpu"}), scenario = delayed();
    const auto folder = fresh_folder("not-delayed");
    const Trained before = train(plain, {.steps = 5});
    save_checkpoint(folder, {5, plain.training.seed, {}}, pieces_of(*before.world));
    EXPECT_EQ(difference(before.parameters, go_on(scenario, folder)).relative, 0) << "one step more, whose gradients wait";
}

} // namespace
} // namespace orrery::agree
