#include "exec/runtime/clients.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

std::vector<int> samples_of(const Federated& f) {
    std::vector<int> samples;
    for (const FederatedClient& c : f.table) samples.push_back(std::max(1, static_cast<int>(std::lround(c.samples))));
    if (f.table.empty()) samples.assign(f.clients, std::max(1, static_cast<int>(std::lround(f.samples))));
    return samples;
}

} // namespace

ClientsOnRanks clients_on_ranks(const Scenario& client) {
    ClientsOnRanks out;
    const Federated& f = *client.federated;
    const std::vector<int> samples = samples_of(f);
    const auto clients = static_cast<int>(samples.size());
    const auto refuse = [&](bool broken, const char* field, const std::string& what) {
        if (broken) out.problems.push_back({std::string("/federated/") + field, std::string("federated.") + field + what});
    };
    refuse(f.aggregation != Aggregation::fedavg, "aggregation",
           std::string(" = ") + name(f.aggregation) + " is simulated only: use fedavg");
    refuse(f.sampled != clients, "sampled",
           fmt::format(" = {} of {} clients is simulated only: on ranks a round has all of them, so set it to {}", f.sampled, clients,
                       clients));
    refuse(f.dropout > 0, "dropout", " is simulated only: set it to 0");
    refuse(f.deadline_s > 0, "deadline_s", " is simulated only: set it to 0");
    refuse(f.table.empty() && f.samples_sigma > 0, "samples_sigma",
           " draws clients, which is simulated only: on ranks name them in federated.table");
    refuse(f.local_steps == 0, "local_steps",
           " = 0, once through each client's samples, is simulated only: on ranks all clients take as many steps, so set it");
    if (client.strategy.workers())
        out.problems.push_back({"/strategy/synchronization/kind", "strategy.synchronization.kind of a client is not run on ranks, where "
                                                                  "clients are the workers: set it to synchronous"});
    if (clients < 2) refuse(true, "clients", " must be at least 2 on ranks");
    if (!out.problems.empty()) return out;
    out.overrides = {fmt::format("strategy.data_parallel={}", clients * client.strategy.data_parallel), "cluster.nodes=1",
                     fmt::format("cluster.devices_per_node={}", clients * client.world_size()),
                     fmt::format("training.global_batch_size={}", clients * client.training.global_batch_size),
                     fmt::format(R"(strategy.synchronization={{"kind": "fedavg", "inner_steps": {}, "workers": {}, "samples": [{}]}})",
                                 f.local_steps, clients, fmt::join(samples, ", "))};
    return out;
}

} // namespace orrery
