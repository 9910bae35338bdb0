// Weights of a World from safetensors files with Hugging Face's names, and into such files. Every process reads and writes the parts that
// its ranks hold.
#pragma once

#include "exec/runtime/world.hpp"
#include "exec/weights/names.hpp"
#include "exec/weights/safetensors.hpp"

#include <filesystem>
#include <functional>
#include <string>

namespace orrery {

struct WeightWays {
    bool read = false, written = false; // which of both a run does
};
// Whether files can hold this scenario's model, and its parameters can go these ways here. A sentence; empty: they can.
std::string why_no_weights(const Scenario& scenario, WeightWays ways);

// Parameters and master copies of the world's ranks, in place of their first values; adapters, moments and whatever else keep theirs.
// Throws std::runtime_error: a tensor is missing, has another shape or type, or is none of this model's.
void load_weights(World& world, const SafeTensors& files);

// Given whether this process failed, says which one is the first that did (-1: none); the same answer on all of them, when all have asked.
using FirstFailed = std::function<int(bool here)>;

// Writes folder/model.safetensors (or several and an index) and config.json: master copies where there are some, else parameters, LoRA's
// adapters merged into the matrices beside which they stand. process:
// its number, the first makes the files; all must see the folder. Files appear under their names when they are whole. Throws Unwritten on
// the first process that failed, UnwrittenElsewhere on all others.
void export_weights(const World& world, const std::filesystem::path& folder, WeightType type, int process, const FirstFailed& first_failed);

} // namespace orrery
