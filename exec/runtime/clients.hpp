// Federated learning on ranks: each client of a scenario with `federated` is a replica with samples of its own (kind fedavg).
#pragma once

#include "sim/scenario/parse.hpp"

namespace orrery {

// The overrides that make the scenario of one client that of all of them, or why it cannot run so. A round has every client,
// which all take the same number of steps: who is asked, who answers late and who gives up are simulated alone.
struct ClientsOnRanks {
    std::vector<std::string> overrides;
    std::vector<Problem> problems;
};
ClientsOnRanks clients_on_ranks(const Scenario& client);

} // namespace orrery
