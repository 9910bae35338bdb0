// The factor of the loss in fp16 training, which keeps small gradients from vanishing (Micikevicius et al., arXiv:1710.03740), moved as
// torch.amp.GradScaler moves it with its defaults. It enters where gradients begin (the losses' and the routers' own) and leaves where an
// optimizer reads them, in fp32. Where the norm of all gradients is no number the step is left out: that norm is the same on all ranks, so
// that their factors are too.
#pragma once

#include "exec/kernels/kernel.hpp"

namespace orrery {

struct LossScale {
    static constexpr int growth_interval = 2000; // steps without an overflow, after which the factor is doubled
    double factor = 65536;                       // a power of two: multiplying by it rounds nothing
    std::int64_t good_steps = 0;                 // since the factor was moved last
    std::int64_t skipped = 0;                    // steps that were left out, since training began
    bool checked = false, overflowed = false;    // the step's norm is known; and is no number
};

// What losses are multiplied by, and the updates that were made before this step.
inline double loss_factor(const KernelContext& c) { return c.scaling ? c.scaling->factor : 1; }
inline std::int64_t updates_before(const KernelContext& c) { return c.step - (c.scaling ? c.scaling->skipped : 0); }
inline bool leaves_out_update(const KernelContext& c) { return c.scaling && c.scaling->overflowed; }

// Behind a step whose norm is known: halves the factor where gradients have overflowed, which counts as a step left out, or counts a good
// step. False: they have although the factor is 1 already (where DeepSpeed's loss_scaler.py gives up too).
bool move_on(LossScale& scale);

} // namespace orrery
