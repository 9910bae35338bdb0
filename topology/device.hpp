// A device (GPU, TPU or CPU socket) as data: peaks, memory, links, power and price, each with its source.
// Device files are scenarios/devices/*.json, embedded into the library; see topology/README.md.
#pragma once

#include "topology/units.hpp"

#include <map>
#include <string>
#include <vector>

namespace orrery {

// How the devices of a node are joined.
enum class IntraKind { nvswitch, nvlink_mesh, pcie, infinity_fabric, torus, shared_memory, none };

// Time of a kernel measured on the device: start_us + FLOPs / gflops_per_s + bytes of its operands / gb_per_s; a rate of 0 has no part in
// it.
struct KernelLaw {
    double start_us = 0, gflops_per_s = 0, gb_per_s = 0;
};

struct Device {
    std::string name;                // "h100-sxm-80gb"
    std::string title;               // "NVIDIA H100 SXM 80GB"
    std::string vendor;              // nvidia, amd, google, cpu
    std::string architecture;        // volta, ampere, hopper, blackwell, ada, cdna2, cdna3, tpu, cpu
    int processors = 0;              // SMs, CUs or cores
    Bytes memory;                    // what the driver shows, not the marketing figure
    BytesPerSecond memory_bandwidth; // datasheet peak
    Bytes l2_cache;
    std::map<std::string, FlopsPerSecond> peak;    // dense peak by precision: fp32 tf32 fp16 bf16 fp8 mxfp8 nvfp4; absent: not supported
    BytesPerSecond scale_up;                       // NVLink or its like, one direction, all links of the device together
    IntraKind scale_up_kind = IntraKind::nvswitch; // what those links are, where a cluster does not say how its devices are joined
    int dies = 1;                                  // of a package; each of them is a device
    double die_share = 0;                          // of its links, what leads to each other die of its package
    double power_w = 0;                            // board power limit as built
    double power_limit_w = 0;                      // as run here (a scenario may cap it); 0: power_w
    double price_usd_per_hour = 0;                 // 0: not known
    std::map<std::string, KernelLaw> kernels;      // measured, by kind of op ("linear dx fp32"); others follow the calibration's tables
    double launch_us = -1;                         // host time to launch a kernel, measured; -1: not known
    std::map<std::string, std::string> sources;    // field name -> "datasheet: ..", "measured: ..", "assumed: .."
};

} // namespace orrery
