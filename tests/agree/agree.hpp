// Shared by the agreement tests: a tiny model trained under some strategy, and the same on one rank.
#pragma once

#include "exec/executors/executors.hpp"
#include "exec/runtime/reference.hpp"
#include "exec/runtime/tensors.hpp"
#include "sim/memory/memory.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

namespace orrery::agree {

using Fields = std::vector<std::string>; // "strategy.tensor_parallel=2", ..
Fields with(Fields fields, const Fields& more);

// A tiny model on a machine of as many ranks as the strategy asks for.
Scenario tiny(const Fields& fields = {});

// tests/agree/strategies.txt: a name and its fields a line.
struct Case {
    std::string name;
    Fields fields;
};
void PrintTo(const Case& c, std::ostream* out);
std::vector<Case> strategies();

struct Trained {
    std::unique_ptr<World> world;
    std::vector<double> losses; // by step
    Tensors first_gradients;    // behind the first step
    Tensors parameters, states; // behind the fifth, or the last
    double disagreement = 0;    // of replicas, anywhere
};

using MakeExecutor = std::function<std::unique_ptr<Executor>(World&)>;
struct TrainOptions {
    int steps = 5;
    DType real = DType::fp64;
    std::string executor = "serial";
    std::function<void(Plan&)> change{};
    bool forced_routing = true;
    bool routed = false; // by the plan that has room for what the router chooses
    MakeExecutor make{};
    bool rounds = false;
    int threads = 1; // of a rank
};
Trained train(const Scenario& scenario, const TrainOptions& options = {});
// The same training: gradients within 1e-12 of each tensor's, parameters, states and losses within 1e-10, replicas equal.
void expect_trained_alike(const Trained& expected, const Trained& found);
// The same to the bit.
void expect_same_bits(const Trained& expected, const Trained& found);
// The peak of every rank, to the byte. Inline: not all tests that link the rest link what predicts memory.
inline void expect_peaks_as_predicted(const Scenario& scenario, const Trained& t) {
    const MemoryReport predicted = memory(t.world->plan, scenario);
    for (const auto& rank : t.world->ranks)
        EXPECT_EQ(rank->memory.device().highest, predicted.stages[rank->stage].allocated_peak.count) << "rank " << rank->rank;
}
// Parameters of a world that begins as it is, after this number of training steps on the batches that its seed draws.
Gathered parameters_after(World& world, const std::string& executor, std::int64_t steps);

// A place for a test's files, with nothing in it.
inline std::filesystem::path fresh_folder(const char* name) {
    const auto folder = std::filesystem::path(testing::TempDir()) / name;
    std::filesystem::remove_all(folder);
    return folder;
}

} // namespace orrery::agree
