// Where a job's states and activations may live besides its devices: the choices of strategy.offload that a search and advice look at.
#pragma once

#include "sim/scenario/scenario.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace orrery {

// How far from the devices the farthest of it lies: in the host's memory, on the node's NVMe.
enum class Reach : std::uint8_t { devices, host, disk };
template <> struct Spelling<Reach> { static constexpr const char* all[] = {"devices", "host", "disk"}; };

struct Home {
    Reach reach = Reach::devices;
    std::string words;                                       // "gradients and optimizer states on the host"; empty: all on the devices
    std::vector<std::pair<std::string, std::string>> fields; // JSON pointer, value as JSON text
};

// Every home that any scenario can have, all on the devices first.
const std::vector<Home>& all_homes();
// Those that this strategy can have, by the abilities of its framework and the node's NVMe. Gradients and parameters leave only where the
// checker lets them: of ranks that share them, or of one device.
std::vector<Home> homes_of(const Scenario& scenario);

} // namespace orrery
