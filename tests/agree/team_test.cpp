// Do the threads that share a rank's kernels change what it trains? On any number of threads from two on the results are the same bits;
// one thread's differ by what the library of matrix products rounds where it is given a part of one.
#include "agree.hpp"

#include "exec/kernels/gemm.hpp"
#include "exec/kernels/team.hpp"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <atomic>
#include <chrono>

namespace orrery::agree {
namespace {

TEST(Team, EveryPartRunsOnceHoweverManyThereAre) {
    Team team(3);
    EXPECT_EQ(team.threads(), 3);
    for (int call = 0; call < 2000; ++call) {
        std::vector<std::atomic<int>> seen(static_cast<std::size_t>(call % 17));
        team.run(std::ssize(seen), [&](std::int64_t i) { ++seen[i]; });
        for (const auto& n : seen) EXPECT_EQ(n, 1);
        if (call % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5)); // its threads fall asleep
    }
}

TEST(Team, PartsFollowEachOtherAndCoverAll) {
    Team team(2);
    for (const std::int64_t n : {0, 1, 5, 1000, 12345}) {
        std::vector<std::atomic<int>> seen(static_cast<std::size_t>(n));
        split(&team, n, 7, [&](std::int64_t from, std::int64_t to) {
            for (std::int64_t i = from; i < to; ++i) ++seen[i];
        });
        for (const auto& x : seen) EXPECT_EQ(x, 1);
    }
}

// Each way to transpose, cut by rows and by columns.
TEST(Team, AMatrixProductIsTheWholeOnes) {
    Team team(2);
    for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{530, 64}, {64, 530}})
        for (const bool ta : {false, true})
            for (const bool tb : {false, true}) {
                const std::int64_t k = 300;
                std::vector<double> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n)),
                    whole(static_cast<std::size_t>(m * n), 1), shared = whole;
                for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<double>(i % 101) - 50;
                for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<double>(i % 89) - 44;
                gemm(ta, tb, m, n, k, 2.0, a.data(), ta ? m : k, b.data(), tb ? k : n, 1.0, whole.data(), n);
                gemm(&team, ta, tb, m, n, k, 2.0, a.data(), ta ? m : k, b.data(), tb ? k : n, 1.0, shared.data(), n);
                EXPECT_EQ(whole, shared) << m << " x " << n << " " << ta << tb; // sums of integers have no rounding
            }
}

// Two threads have as much to do each, in the shapes of small models too; a part is wide enough, and worth a hand-over.
TEST(Team, AProductHasAsManyPartsForEachOfTwoThreads) {
    EXPECT_EQ(parts_of_product(128, 128, 512), 2); // weights of an attention's output
    EXPECT_EQ(parts_of_product(384, 128, 512), 4); // of queries, keys and values: not 3
    EXPECT_EQ(parts_of_product(1024, 768, 3072), 8);
    EXPECT_EQ(parts_of_product(64, 100, 4096), 1);
    EXPECT_EQ(parts_of_product(4096, 16, 16), 1);
    for (std::int64_t m = 32; m <= 8192; m += 32)
        for (const std::int64_t n : {64, 200, 512, 3000}) {
            const std::int64_t parts = parts_of_product(m, n, 128);
            EXPECT_TRUE(parts == 1 || parts % 2 == 0) << m << " x " << n;
            EXPECT_TRUE(parts == 1 || std::max(m, n) / parts >= 64) << m << " x " << n;
            EXPECT_TRUE(parts == 1 || m * n * 128 / parts >= 1 << 20) << m << " x " << n;
            EXPECT_LE(parts, 16);
        }
}

std::int64_t page_faults() {
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
    return use.ru_minflt;
}

// Threads keep what their parts need for themselves: a step that gave it back and took it anew had the system make pages, some hundreds
// for each call of attention, one thread after the other.
TEST(Team, StepsTakeNoNewPagesOfTheSystem) {
    const Scenario scenario = tiny({"model.hidden_size=128", "model.ffn_size=256", "training.sequence_length=128",
                                    "training.global_batch_size=8", "training.micro_batch_size=4"});
    for (const int threads : {1, 2}) {
        const auto world = make_world(scenario, executed_plan(scenario), DType::fp32);
        share_kernels(*world, threads);
        initialise(*world);
        const auto executor = serial_executor(*world);
        load_batch(*world, {"", scenario.model.vocab_size, 0}, 0);
        for (int step = 0; step < 2; ++step) executor->step(nullptr);
        const std::int64_t before = page_faults();
        for (int step = 0; step < 2; ++step) executor->step(nullptr);
        EXPECT_LT(page_faults() - before, 100) << threads << " threads";
    }
}

using Fields = std::vector<std::string>;

class SharedKernels : public testing::TestWithParam<std::pair<std::string, Fields>> {};

TEST_P(SharedKernels, TrainTheSame) {
    Fields fields{"model.hidden_size=128",       "model.ffn_size=256",           "model.vocab_size=512",
                  "training.sequence_length=96", "training.global_batch_size=4", "training.micro_batch_size=4",
                  "training.gradient_clipping=1"};
    fields.insert(fields.end(), GetParam().second.begin(), GetParam().second.end());
    const auto with = [&](int threads, const char* executor = "serial") {
        return train(tiny(fields), {.steps = 2, .real = DType::fp32, .executor = executor, .threads = threads});
    };
    const Trained one = with(1), two = with(2), three = with(3), apart = with(2, "threads");
    EXPECT_EQ(two.losses, three.losses);
    EXPECT_EQ(difference(two.parameters, three.parameters).relative, 0) << difference(two.parameters, three.parameters).worst;
    EXPECT_EQ(difference(two.states, three.states).relative, 0) << difference(two.states, three.states).worst;
    EXPECT_EQ(difference(two.parameters, apart.parameters).relative, 0);
    EXPECT_LT(difference(one.first_gradients, two.first_gradients, 1e-6).relative, 1e-5);
    EXPECT_NEAR(one.losses.back(), two.losses.back(), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(
    Models, SharedKernels,
    testing::Values(std::pair<std::string, Fields>{"gpt", {}},
                    std::pair<std::string, Fields>{"llama",
                                                   {"model.position=rope", "model.activation=swiglu", "model.norm=rmsnorm",
                                                    "model.kv_heads=2", "model.bias=false", "model.tied_embeddings=false"}},
                    std::pair<std::string, Fields>{"stored_scores", {"strategy.flash_attention=false", "runtime.attention_kernel=unfused"}},
                    std::pair<std::string, Fields>{
                        "experts", {"model.moe.experts=4", "model.moe.top_k=2", "model.moe.expert_ffn_size=64", "model.activation=swiglu"}},
                    std::pair<std::string, Fields>{"two_ranks", {"strategy.tensor_parallel=2", "strategy.framework=megatron"}}),
    [](const auto& tested) { return tested.param.first; });

} // namespace
} // namespace orrery::agree
