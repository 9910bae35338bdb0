// Federated learning simulated round by round: who is asked, who answers in time, what that took and what of it was in vain.
#pragma once

#include "sim/report/terminal.hpp"
#include "sim/scenario/scenario.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace orrery {

// The time of a client's task on the scenario's own machine.
struct FederatedTask {
    double step_s = 0;                   // of a local step
    double batch = 1;                    // samples of it
    double down_bytes = 0, up_bytes = 0; // of the model that is sent, and of the update that comes back
};

struct FederatedSpread {
    double mean = 0, p10 = 0, p50 = 0, p90 = 0;
};

// How a client's task ended. late: it was still at work, or its answer was one too many, when the round ended. under_way: of fedbuff, still
// at work or not yet summed as the example ends.
enum class FederatedOutcome : std::uint8_t { counted, late, given_up, under_way };

// A client's task in the first seed's first rounds. Times since the first round began: it downloads from begin_s to train_s, trains to
// upload_s, uploads to end_s; where it was stopped before, what it did not come to is empty.
struct FederatedTaskSpan {
    int client = 0, place = 0; // place: a row of those at work at one time, from 0
    int round = 0;             // in which it was asked; of fedbuff steps the server had taken
    double begin_s = 0, train_s = 0, upload_s = 0, end_s = 0;
    FederatedOutcome outcome = FederatedOutcome::counted;
    double staleness = 0; // of fedbuff: steps that the server finished from its download to its answer's sum
};

// Under fedbuff a step of the server: from the end of the step before to its own.
struct FederatedRoundSpan {
    double begin_s = 0, end_s = 0; // with the server's own time
    int asked = 0, counted = 0, late = 0, given_up = 0;
};

struct FederatedExample {
    std::vector<FederatedTaskSpan> tasks; // of the rounds below, by begin
    std::vector<FederatedRoundSpan> rounds;
    int places = 0;
};

struct FederatedReport {
    int clients = 0;
    double asked = 0, counted = 0;             // clients a round, mean
    FederatedSpread round_s;                   // of fedbuff between two steps of the server
    double failed_share = 0;                   // rounds to whose deadline nobody had answered
    double wasted_share = 0;                   // of the clients' training time
    double down_bytes = 0, up_bytes = 0;       // a round, all that was sent
    double staleness = 0, worst_staleness = 0; // server steps since an update's weights were sent; of fedbuff
    double slowness_counted = 0;               // mean of those whose updates counted: below that of all where the slow are left behind
    double slowness_all = 0;
    double samples_counted = 0; // a round
    double rounds_to_target = 0, time_to_target_s = 0, bytes_to_target = 0;
    FederatedExample example; // where it was asked for
};

std::vector<FederatedClient> clients_of(const Federated& f, std::uint64_t seed);        // of the table, or drawn
double task_s(const Federated& f, const FederatedClient& c, const FederatedTask& task); // download, training, upload
double training_s(const Federated& f, const FederatedClient& c, const FederatedTask& task);
double download_s(const FederatedClient& c, const FederatedTask& task);

// example_rounds: number of rounds of the first seed that are kept as FederatedReport::example.
FederatedReport federated(const Federated& f, const FederatedTask& task, std::uint64_t seed = 0, int example_rounds = 0);

// For a scenario whose step takes this long on a client; the model's trained parameters travel back, all of it there.
FederatedTask federated_task(const Scenario& scenario, double step_s);

std::string to_text(const FederatedReport& r, const Scenario& scenario, const TextStyle& style);
std::string to_json(const FederatedReport& r);

} // namespace orrery
