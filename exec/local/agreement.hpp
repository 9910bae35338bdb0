// Does a strategy train like one rank? Both for a few steps, on whatever device and executor, gathered and compared.
#pragma once

#include "exec/local/executor.hpp"
#include "exec/runtime/reference.hpp"

#include <functional>
#include <string>
#include <vector>

namespace orrery {

// Why a strategy trains other numbers than one rank does, by design: a comparison would only say that. Empty: it trains the same numbers.
std::string unlike_one_rank(const Scenario& scenario);

// Whether experts take tokens by position where a strategy is compared with one rank: the router's own choice gives other drops where ranks
// hold other groups of tokens, and numbers of rows that only it knows.
bool routes_by_position(const Scenario& scenario);

struct Learning {
    int steps = 5;
    DType real = DType::fp64;
    bool forced_routing = false; // experts take tokens by position
    Backend machine = cpu_machine();
    std::function<std::unique_ptr<Executor>(World&)> executor = [](World& w) { return serial_executor(w); };
    std::vector<int> ranks;                                            // of this process; empty: all
    std::function<Gathered(const World&, Quantity)> gathered = gather; // of several processes in one of them, elsewhere nothing
};

struct Learned {
    Tensors gradients, parameters, states; // of the first step; at the end
    std::vector<double> losses;
    double disagreement = 0;         // of replicas among themselves
    bool gradients_gone = false;     // freed by updates in the backward pass
    std::vector<std::int64_t> peaks; // bytes of device memory, by rank; 0: of another process
};
Learned learn(const Scenario& scenario, const Learning& how);

// Allowed differences: sums are made in other orders. In fp32 and bf16 parameters are not compared: an optimizer that divides by a
// gradient's size makes whole steps of rounding where gradients are nothing else.
struct Limits {
    double loss, gradients, parameters;
};
Limits limits_of(DType real);

struct Agreement {
    struct Row {
        std::string what;
        Difference difference;
        double limit;
        bool agrees;
    }; // limit infinite: only told
    std::vector<Row> rows;
    bool agrees() const;
};
Agreement agreement(const Learned& one, const Learned& many, const Limits& limits);

} // namespace orrery
