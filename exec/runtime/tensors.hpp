// Logical tensors, whole, from the ranks' shards and back: by the placements of the plan alone, so that what one strategy trained can be
// compared with another's, or trained on by it.
#pragma once

#include "exec/runtime/world.hpp"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

struct Tensor {
    std::vector<std::int64_t> shape;
    std::vector<double> values;
    friend bool operator==(const Tensor&, const Tensor&) = default;
};

// By the logical tensor's name: "l0.qkv.weight". Rows that only pad a vocabulary are left out.
using Tensors = std::map<std::string, Tensor>;

// The optimizer's tensors: gradients (after a step: those it used), parameters, and its states ("master", "moment1", "moment2"). outer: of
// workers with an outer optimizer, "common", which they had when they last met, and "momentum".
enum class Quantity : std::uint8_t { gradients, parameters, states, outer };

// disagreement: where several ranks hold the same elements, the largest difference between them. It must be zero.
struct Gathered {
    Tensors tensors;
    double disagreement = 0;
};

// States are named "moment1/l0.qkv.weight"; masters are the values of tensors, with more digits.
inline constexpr std::string_view master_prefix = "master/";
std::string tensor_of_master(std::string_view state); // "l0.qkv.weight" of "master/l0.qkv.weight"; empty: other states

// All ranks must be in this process.
Gathered gather(const World& world, Quantity what);

// Parts of gathered tensors into every shard and replica this process holds; tensors that are not there are left as they are.
void scatter(World& world, Quantity what, const Tensors& tensors);

// The place between steps of what comes from NVMe to the host for a while: states, parameters, gradients.
std::map<BufferId, BufferId> homes_on_disk(const Plan& plan);
// The place on the host of what is copied to the device for a while: states of an outer optimizer among it.
std::map<BufferId, BufferId> homes_on_host(const Plan& plan);
BufferId home_of(const std::map<BufferId, BufferId>& homes, BufferId b); // b itself where it has no other

// A part of a logical tensor in a rank's memory: `count` elements from `begin` of its own part of the tensor, in `data`.
struct TensorPart {
    std::string name;
    BufferId tensor;
    std::int64_t begin, count;
    std::byte* data;
    DType stored;
    CommId shards = -1; // over whose members the rank's part of the tensor is divided once more; -1: it is whole
};
std::vector<TensorPart> parts_of(const World& world, const Rank& rank, Quantity what);

} // namespace orrery
