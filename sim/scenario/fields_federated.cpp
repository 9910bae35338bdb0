// The fields of "federated". Defaults are the members' own in federated.hpp; over-selection and the spread of speeds are FedScale's
// (arXiv:2105.11367), the discount of stale updates FedBuff's (arXiv:2106.06639).
#include "sim/scenario/fields.hpp"

#include <nlohmann/json.hpp>

namespace orrery {

const Fields& federated_fields() {
    static const Fields fields = {
        Field{"clients", IntSlot{[](Scenario& s) { return &s.federated->clients; }}, "clients that are drawn, where there is no table"}
            .least(1)
            .most(1e6),
        Field{"table", CustomSlot{read_clients},
              "a CSV file with a client a line: columns slowness (times the scenario's step) and samples, and where it has them "
              "down_mbit_per_s, up_mbit_per_s, available"}
            .like(R"({"type":"string"})"),
        Field{"slowness_sigma", NumberSlot{[](Scenario& s) { return &s.federated->slowness_sigma; }},
              "of drawn clients: spread of the natural logarithm of their slowness, whose median is 1"}
            .least(0)
            .most(3),
        Field{"samples", NumberSlot{[](Scenario& s) { return &s.federated->samples; }}, "of drawn clients: samples of one, the median"}
            .least(1)
            .most(1e9),
        Field{"samples_sigma", NumberSlot{[](Scenario& s) { return &s.federated->samples_sigma; }}, "spread of their natural logarithm"}
            .least(0)
            .most(3),
        Field{"down_mbit_per_s", NumberSlot{[](Scenario& s) { return &s.federated->down_mbit_per_s; }},
              "from the server to a client, the median; of a table that has no such column"}
            .least(1e-3)
            .most(1e6)
            .in("Mbit/s"),
        Field{"up_mbit_per_s", NumberSlot{[](Scenario& s) { return &s.federated->up_mbit_per_s; }},
              "from a client to the server, the median; of a table that has no such column"}
            .least(1e-3)
            .most(1e6)
            .in("Mbit/s"),
        Field{"link_sigma", NumberSlot{[](Scenario& s) { return &s.federated->link_sigma; }},
              "spread of the natural logarithm of a drawn client's links, both by one factor"}
            .least(0)
            .most(3),
        Field{"available", NumberSlot{[](Scenario& s) { return &s.federated->available; }},
              "share of the clients that may be asked at a time; of a table that has no such column"}
            .over(0)
            .most(1),
        Field{"dropout", NumberSlot{[](Scenario& s) { return &s.federated->dropout; }},
              "share of the tasks that clients give up on the way"}
            .least(0)
            .most(0.99),
        Field{
            "aggregation", ChoiceSlot{[](Scenario& s, int i) { s.federated->aggregation = static_cast<Aggregation>(i); }},
            "fedavg: rounds, each of the first `sampled` answers; fedbuff: clients train all the time, the server steps on every `buffer` "
            "answers"}
            .one_of(words<Aggregation>()),
        Field{"sampled", IntSlot{[](Scenario& s) { return &s.federated->sampled; }},
              "answers that make a round; with fedbuff the clients at work at one time"}
            .least(1)
            .most(1e5),
        Field{"overcommit", NumberSlot{[](Scenario& s) { return &s.federated->overcommit; }}, "with fedavg: clients asked, over sampled"}
            .least(1)
            .most(100),
        Field{"deadline_s", NumberSlot{[](Scenario& s) { return &s.federated->deadline_s; }},
              "with fedavg: a round ends with what it has by then; 0: there is none"}
            .least(0)
            .most(1e9)
            .in("s"),
        Field{"buffer", IntSlot{[](Scenario& s) { return &s.federated->buffer; }}, "with fedbuff: answers to a step of the server"}
            .least(1)
            .most(1e5),
        Field{"staleness_exponent", NumberSlot{[](Scenario& s) { return &s.federated->staleness_exponent; }},
              "with fedbuff: an update that is n steps stale weighs 1 / (1 + n) to this power"}
            .least(0)
            .most(10),
        Field{"local_steps", LongSlot{[](Scenario& s) { return &s.federated->local_steps; }},
              "steps of a client's task, each of training.global_batch_size samples; 0: once through its samples"}
            .least(0)
            .most(1e9)
            .in("steps"),
        Field{"server_s", NumberSlot{[](Scenario& s) { return &s.federated->server_s; }},
              "time of the server's own step; with fedbuff clients go on meanwhile"}
            .least(0)
            .most(1e6)
            .in("s"),
        Field{"target_rounds", NumberSlot{[](Scenario& s) { return &s.federated->target_rounds; }},
              "rounds of `sampled` fresh updates to the target, an input: the report has the rounds, time and bytes that come to it; with "
              "fedbuff, where sampled is another number, state what has the same product"}
            .least(0)
            .most(1e9),
        Field{"rounds", IntSlot{[](Scenario& s) { return &s.federated->rounds; }}, "simulated; with fedbuff steps of the server"}
            .least(1)
            .most(100000),
        Field{"seeds", IntSlot{[](Scenario& s) { return &s.federated->seeds; }}, "simulated runs"}.least(1).most(1000),
    };
    return fields;
}

} // namespace orrery
