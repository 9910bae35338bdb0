// Kernels of a device as somebody measured them (`simexec calibrate`): a law by kind of op, instead of the tables of scenarios/calibration.
#pragma once

#include "sim/plan/plan.hpp"
#include "topology/device.hpp"

#include <optional>
#include <string>

namespace orrery {

// Ops that share one law have in common: kind, direction or part, and type: "linear dx fp32", "cross-entropy sums fp32".
std::string kernel_key(const Plan& plan, const Op& op);

// Its time grows with FLOPs, and the bytes of its operands; of an embedding those of the rows it looks up, not of the table, of fused
// attention those its scores would take, each of which is exponentiated whatever the head's size.
struct KernelSize {
    double flops = 0, bytes = 0;
};
KernelSize kernel_size(const Plan& plan, const Op& op);

// The key of a law of this size alone, which a calibration at a scenario's own shapes has: "linear dx fp32 of 201326592 FLOPs, 1966080
// bytes".
std::string kernel_key(const std::string& key, const KernelSize& size);
// The same of the ops with one part in every layer, "norm2.grad.add": they find what they read in a cache, or not, as what runs before them
// leaves it, and two ops of one size may take 13 and 40 us. Keys ending in ", norm2.grad.add" go before that of the size.
std::string kernel_key(const std::string& key, const KernelSize& size, const std::string& part);
std::string part_of(const Op& op); // its name without chunk and layer

// Communication between ranks that share a processor's memory, which one thread moves: "all-gather fp32 of ranks", and what all members
// receive of it; a transfer has one receiver, and no type.
std::string communication_key(const Collective& c);
inline constexpr const char* transfer_key = "transfer of ranks";
KernelSize communication_size(const Collective& c, std::size_t members);

double law_us(const KernelLaw& law, const KernelSize& size);
// By the law of its part where there is one (of an op), else of its size, else of its kind; nothing where the device has neither.
std::optional<double> measured_us(const Device& device, const std::string& key, const KernelSize& size);
std::optional<double> measured_us(const Device& device, const Plan& plan, const Op& op);

} // namespace orrery
