// Federated learning as a scenario says it: clients that train copies of the model on data of their own, and a server that sums what they
// send. The scenario's cluster, strategy and batch are one client's; clients differ from it by their own speed.
#pragma once

#include "sim/scenario/words.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace orrery {

// One of a table, or drawn. slowness: times as long as the scenario's own step. available: the share of the time that it may be asked.
struct FederatedClient {
    double slowness = 1, samples = 0, down_mbit_per_s = 0, up_mbit_per_s = 0, available = 1;
    bool operator==(const FederatedClient&) const = default;
};

// fedavg: rounds; the server waits for the first `sampled` of those it asked, or the deadline. fedbuff: clients train all the time, and the
// server steps on every `buffer` arrivals, whatever weights they began with (FedBuff, arXiv:2106.06639).
enum class Aggregation : std::uint8_t { fedavg, fedbuff };
template <> struct Spelling<Aggregation> { static constexpr const char* all[] = {"fedavg", "fedbuff"}; };

struct Federated {
    std::vector<FederatedClient> table; // empty: `clients` are drawn
    std::string table_file;
    int clients = 1000;
    double slowness_sigma = 0.6;                                     // of drawn ones: lognormal, median 1 (FedScale)
    double samples = 100, samples_sigma = 0;                         // median, lognormal
    double down_mbit_per_s = 50, up_mbit_per_s = 20, link_sigma = 0; // medians; both links of a client by one factor
    double available = 1;                                            // share of the clients that may be asked
    double dropout = 0;                                              // share of the tasks that are given up on the way
    Aggregation aggregation = Aggregation::fedavg;
    int sampled = 100;               // clients whose updates make a round; of fedbuff those that train at one time
    double overcommit = 1.3;         // clients asked, over `sampled` (FedScale)
    double deadline_s = 0;           // of a round; 0: none
    int buffer = 10;                 // of fedbuff
    double staleness_exponent = 0.5; // of fedbuff: an update weighs 1 / (1 + staleness)^this
    std::int64_t local_steps = 0;    // of a client in a round; 0: once through its samples
    double server_s = 0;             // of the server's step; of fedbuff clients go on meanwhile
    double target_rounds = 0;        // rounds of `sampled` fresh updates to the target; 0: not asked
    int rounds = 200;                // simulated, or of fedbuff server steps
    int seeds = 8;
    bool operator==(const Federated&) const = default;
};

} // namespace orrery
