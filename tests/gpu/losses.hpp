// The losses of some steps on a corpus of random tokens, which a run on a GPU has to share with one on the CPU.
#pragma once

#include "exec/local/executor.hpp"
#include "exec/runtime/corpus.hpp"
#include "exec/runtime/world.hpp"

#include <vector>

namespace orrery::test {

inline std::vector<double> losses_of(World& world, Executor& executor, int steps = 10) {
    const Corpus corpus{"", world.scenario.model.vocab_size, world.scenario.training.seed};
    std::vector<double> out;
    for (int step = 0; step < steps; ++step) {
        load_batch(world, corpus, step);
        executor.step(nullptr);
        out.push_back(mean_loss(world));
    }
    return out;
}

} // namespace orrery::test
