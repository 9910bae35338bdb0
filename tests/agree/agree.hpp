// Shared by the agreement tests: a tiny model trained under some strategy, and the same on one rank.
#pragma once

#include "exec/executors/executors.hpp"
#include "exec/runtime/reference.hpp"
#include "exec/runtime/tensors.hpp"

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

namespace orrery::agree {

// A tiny model on a machine of as many ranks as the strategy asks for. fields: "strategy.tensor_parallel=2", ..
Scenario tiny(const std::vector<std::string>& fields = {});

// tests/agree/strategies.txt: a name and its fields a line.
struct Case {
    std::string name;
    std::vector<std::string> fields;
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
    MakeExecutor make{};
    bool rounds = false;
    int threads = 1; // of a rank
};
Trained train(const Scenario& scenario, const TrainOptions& options = {});
// Parameters of a world that begins as it is, after this number of training steps on the batches that its seed draws.
Gathered parameters_after(World& world, const std::string& executor, std::int64_t steps);

} // namespace orrery::agree
