// What the agreement tests share: a tiny model trained under some strategy, and the same on one rank.
#pragma once

#include "exec/local/executor.hpp"
#include "exec/runtime/tensors.hpp"
#include "exec/runtime/world.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace orrery::agree {

// A tiny model on a machine of as many ranks as the strategy asks for. fields: "strategy.tensor_parallel=2", ..
Scenario tiny(const std::vector<std::string>& fields = {});

// The same model and batch on one rank: no parallelism, microbatches of the same size.
Scenario alone(Scenario scenario);

struct Trained {
    std::unique_ptr<World> world;
    std::vector<double> losses;             // by step
    Tensors first_gradients;                // behind the first step
    Tensors parameters, states;             // behind the last
    double disagreement = 0;                // of replicas, anywhere
};

struct TrainOptions { int steps = 5; DType real = DType::fp64; std::function<void(Plan&)> change{}; };
Trained train(const Scenario& scenario, const TrainOptions& options = {});

// The largest difference of two sets of tensors, relative to each tensor's largest value; names are compared too. worst: its name.
struct Difference { double relative = 0; std::string worst; };
Difference difference(const Tensors& a, const Tensors& b);

} // namespace orrery::agree
