// A cycle: the steps from one save to the next, and the save. Private to this room.
#pragma once

#include "sim/job/job.hpp"

#include <algorithm>

namespace orrery {

// Times of a cycle of k steps. Work accrues evenly over work_s, then steps stand still until length_s.
struct SaveCycle {
    double steps = 1, work_s = 1, length_s = 1;
    double train_s = 1;                      // of work_s, what the steps take without a save beside them
    double train_share = 1, steps_per_s = 1; // of a second of work: how much of it is the steps' own, and how many it does
    double per_length = 1;                   // 1 / length_s: a product is there long before a quotient
    double durable_s = 0;                    // after the cycle's end, until its save can be gone back to
    SaveCycle(const TrainingJob& job, double step_s) : steps(static_cast<double>(job.save_every)) {
        const SaveCost& save = job.save;
        train_s = steps * step_s;
        // While a save is written, for write_s, steps take write_factor times as long.
        const double slow = save.write_factor > 1 ? std::min(save.write_s, train_s * save.write_factor) * (1 - 1 / save.write_factor) : 0;
        work_s = train_s + slow;
        const double stored = save.storage_s / std::max(1, job.run.checkpoint.storage_every);
        length_s = std::max({work_s + save.block_s, save.write_s, stored}); // the next save waits for the last
        per_length = 1 / length_s;
        durable_s = save.write_s;
        train_share = train_s / work_s;
        steps_per_s = steps / work_s;
    }
};

} // namespace orrery
