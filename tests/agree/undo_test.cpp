// Updates on the host that do not wait for the gradient norm (SuperOffload): where it is too large they are undone and made again, and the
// job trains as one that waits.
#include "agree.hpp"

#include "exec/kernels/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace orrery::agree {
namespace {

const Fields one = {"training.micro_batch_size=2", "training.global_batch_size=2"},
             shards = {"strategy.data_parallel=4", "training.micro_batch_size=2", "strategy.framework=fsdp"},
             parameters = {"strategy.data_parallel=4", "training.micro_batch_size=2", "strategy.framework=fsdp2",
                           "strategy.recompute=full"},
             tensor = {"strategy.tensor_parallel=2", "strategy.data_parallel=2", "training.micro_batch_size=4", "strategy.framework=fsdp2",
                       "strategy.sequence_parallel=false"};
const Fields early = {"training.optimizer_in_backward=true", "strategy.optimizer_sync=post-validation"};

Fields job(const Fields& base, const std::string& limit, const std::string& optimizer = "adamw") {
    return with(base, {"strategy.offload.optimizer=cpu", "training.gradient_clipping=" + limit, "training.optimizer=" + optimizer});
}

// The norms of the first steps lie about 1: of these limits the first clips all of them and the last none.
TEST(UndoneSteps, TrainAsThoseThatWaitForTheNorm) {
    for (const Fields& base : {one, shards, parameters, tensor})
        for (const char* optimizer : {"adamw", "adam", "momentum", "sgd"})
            for (const char* limit : {"0.01", "1", "1e9"})
                for (const char* executor : {"serial", "threads", "queues"}) {
                    if (executor != std::string("serial") && optimizer + std::string(limit) != "adamw1") continue;
                    SCOPED_TRACE(base.back() + " " + optimizer + " " + limit + " " + executor);
                    const Fields waits = job(base, limit, optimizer);
                    const Trained x = train(tiny(waits), {.steps = 20}),
                                  y = train(tiny(with(waits, early)), {.steps = 20, .executor = executor});
                    expect_trained_alike(x, y);
                }
}

// Within the limit nothing is touched; beyond it the formulas in reverse leave rounding, in what a state of 32 bits has of it.
TEST(UndoneSteps, AreTheSameToTheBitWhereNoneIs) {
    for (const Fields& base : {one, shards, parameters}) {
        const auto in_single = [&](const char* limit, const Fields& more) {
            return train(tiny(with(job(base, limit), more)), {.steps = 5, .real = DType::fp32});
        };
        const Trained free = in_single("1e9", {}), early_free = in_single("1e9", early);
        expect_same_bits(free, early_free);
        const Trained clipped = in_single("0.1", {}), again = in_single("0.1", early);
        EXPECT_GT(difference(clipped.states, free.states).relative, 0.01) << "it clips";
        EXPECT_LE(difference(clipped.parameters, again.parameters, 1e-3).relative, 1e-4);
        EXPECT_LE(difference(clipped.first_gradients, again.first_gradients).relative, 1e-6);
    }
}

// With masters in fp32 of what computes in 16 bits.
TEST(UndoneSteps, ReturnToTheirMasters) {
    const Fields sixteen = with(parameters, {"training.precision=bf16"});
    const Trained x = train(tiny(job(sixteen, "0.05")), {.steps = 5}), y = train(tiny(with(job(sixteen, "0.05"), early)), {.steps = 5});
    EXPECT_LE(difference(x.parameters, y.parameters).relative, 1e-10);
    EXPECT_LE(difference(x.states, y.states).relative, 1e-10);
    const auto names = [](const std::vector<Problem>& problems) {
        std::string all;
        for (const Problem& p : problems) all += p.where + " ";
        return all;
    };
    Scenario without = tiny(with(job(sixteen, "0.05"), early));
    EXPECT_EQ(names(not_executable(without, false)), "");
    without.training.master_weights = false;
    EXPECT_EQ(names(not_executable(without, false)), "/training/master_weights ");
}

TEST(UndoneSteps, AreAsTheFactorSays) {
    constexpr double infinite = std::numeric_limits<double>::infinity();
    EXPECT_EQ(clipping_factor(0.25, 1), 1);
    EXPECT_NEAR(clipping_factor(4, 1), 0.5, 1e-6);
    EXPECT_EQ(clipping_factor(infinite, 1), 0);
    EXPECT_EQ(clipping_factor(std::nan(""), 1), 1); // as a job that waits has it: nothing is scaled
}

} // namespace
} // namespace orrery::agree
