// The fields of "strategy.synchronization" and of "strategy.gradient_compression": when replicas meet, and what travels.
#include "sim/scenario/fields.hpp"

namespace orrery {

const Fields& synchronization_fields() {
    static const Fields fields = {
        Field{
            "kind", ChoiceSlot{[](Scenario& s, int i) { s.strategy.synchronization.kind = static_cast<Synchronization::Kind>(i); }},
            "synchronous: gradients are reduced every step; local_sgd: each data-parallel replica (or group of them: workers) does "
            "inner_steps steps of its own, then the replicas' parameters are averaged; fedavg: the same, each weighs as much as it has "
            "samples; diloco: then an outer "
            "optimizer steps on the mean of what each moved; "
            "streaming_diloco: fragments of the layers do so one after another; parameter_server: each sends its gradients to servers that "
            "update the parameters it then fetches, and waits for no other; gossip: each averages its parameters with a few peers' every "
            "step; async_average: so it does with one random peer after another, beside its steps"}
            .one_of(words<Synchronization::Kind>()),
        Field{"inner_steps", LongSlot{[](Scenario& s) { return &s.strategy.synchronization.inner_steps; }},
              "steps of each replica between two meetings (local_sgd, fedavg, diloco, streaming_diloco)"}
            .least(1)
            .most(10000),
        Field{"workers", IntSlot{[](Scenario& s) { return &s.strategy.synchronization.workers; }},
              "of local_sgd, fedavg, diloco and streaming_diloco: each worker is data_parallel / workers replicas that follow one another "
              "in the order of ranks and share every step, with ZeRO or FSDP where zero_stage says so, in groups where "
              "shard_group_size does; 0: every replica is a worker"}
            .least(0)
            .most(1e6),
        Field{"samples", CustomSlot{read_samples},
              "of fedavg: sequences that each worker has, one number for each: its weight in the mean, and in runs on real devices all it "
              "ever sees, over and over; default: all alike, of one text"}
            .like(R"({"type":"array","minItems":1,"items":{"type":"integer","minimum":1}})"),
        Field{"outer_optimizer",
              ChoiceSlot{[](Scenario& s, int i) { s.strategy.synchronization.outer_optimizer = static_cast<OuterOptimizer>(i); }},
              "of diloco: none moves by the mean of what replicas moved, sgd by outer_learning_rate times that; nesterov keeps a momentum, "
              "as many fp32 numbers as parameters"}
            .one_of(words<OuterOptimizer>()),
        Field{"outer_learning_rate", NumberSlot{[](Scenario& s) { return &s.strategy.synchronization.outer_learning_rate; }},
              "for runs on real devices"}
            .least(0)
            .most(1e3),
        Field{"outer_momentum", NumberSlot{[](Scenario& s) { return &s.strategy.synchronization.outer_momentum; }},
              "of nesterov, for runs on real devices"}
            .least(0)
            .most(1),
        Field{"outer_device", ChoiceSlot{[](Scenario& s, int i) { s.strategy.synchronization.outer_on_host = i == 1; }},
              "of diloco: where what the workers had in common and the outer momentum live; cpu: in the hosts' memory, from where they are "
              "copied to the device and back whenever the workers meet"}
            .one_of({"device", "cpu"}),
        Field{"payload_dtype", ChoiceSlot{[](Scenario& s, int i) {
                  constexpr DType types[] = {DType::fp32, DType::fp16, DType::bf16, DType::int8, DType::int4, DType::fp4};
                  s.strategy.synchronization.payload_dtype = types[i];
              }},
              "what diloco's replicas send of what they moved, or those of a parameter_server of their gradients; int8, int4 and fp4 "
              "(E3M0) in "
              "blocks with a scale each, added up in fp32"}
            .one_of({"fp32", "fp16", "bf16", "int8", "int4", "fp4"}),
        Field{"fragments", IntSlot{[](Scenario& s) { return &s.strategy.synchronization.fragments; }},
              "of streaming_diloco: parts of each stage's layers, each sent once in inner_steps"}
            .least(1)
            .most(1000),
        Field{"fragment_order", ChoiceSlot{[](Scenario& s, int i) { s.strategy.synchronization.strided = i == 0; }},
              "strided: a fragment's layers lie all over the model; sequential: they follow one another"}
            .one_of({"strided", "sequential"}),
        Field{"overlap_steps", LongSlot{[](Scenario& s) { return &s.strategy.synchronization.overlap_steps; }},
              "steps from sending a fragment (streaming_diloco) or the parameters (gossip) to merging what came back; 0: the steps wait"}
            .least(0)
            .most(10000),
        Field{"mixing", NumberSlot{[](Scenario& s) { return &s.strategy.synchronization.mixing; }},
              "share of what came back in a merged fragment, for runs on real devices; all of it where overlap_steps is 0"}
            .least(0)
            .most(1),
        Field{"servers", IntSlot{[](Scenario& s) { return &s.strategy.synchronization.servers; }},
              "of parameter_server: nodes whose hosts hold equal parts of the parameters and update them; 0: all"}
            .least(0)
            .most(1e6),
        Field{"staleness_bound", LongSlot{[](Scenario& s) { return &s.strategy.synchronization.staleness_bound; }},
              "of parameter_server: steps that a replica may be ahead of the slowest before it waits; -1: any"}
            .least(-1)
            .most(1e6),
        Field{"degree", IntSlot{[](Scenario& s) { return &s.strategy.synchronization.degree; }},
              "of gossip: peers that a replica sends its parameters to every step"}
            .least(1)
            .most(64),
    };
    return fields;
}

const Fields& compression_fields() {
    static const Fields fields = {
        choice<&Scenario::strategy, &Strategy::gradient_compression>(
            "kind", "fp16, bf16: cast (DeepSpeed's communication_data_type, hooks of DDP and FSDP); int8, int4: in blocks with a scale "
                    "each, under ZeRO to the shards' owners; powersgd: factors of low rank; top-k: the largest elements and their places, "
                    "both of whole buckets under ZeRO too, of whose sums each rank keeps its part; with zero_stage 0 alone: onebit-adam, "
                    "onebit-lamb: signs of the momentum, whole after the backward pass; zero-one-adam: the same of the parameters' drift, "
                    "every local_steps steps"),
        Field{"rank", IntSlot{[](Scenario& s) { return &s.strategy.compression.rank; }}, "of powersgd's factors"}.least(1).most(4096),
        Field{"min_ratio", NumberSlot{[](Scenario& s) { return &s.strategy.compression.min_ratio; }},
              "powersgd leaves a matrix whole where its factors would have more than 1 / min_ratio of its elements"}
            .least(0)
            .most(1e6),
        Field{"density", NumberSlot{[](Scenario& s) { return &s.strategy.compression.density; }},
              "share of a bucket's elements that top-k sends"}
            .over(0)
            .most(1),
        Field{"error_feedback", BoolSlot{[](Scenario& s) { return &s.strategy.compression.error_feedback; }},
              "what powersgd, top-k and signs do not send is kept, a number a parameter, and added to the next step's"},
        Field{"hierarchical", BoolSlot{[](Scenario& s) { return &s.strategy.compression.hierarchical; }},
              "int8 and int4 between nodes alone, whole sums inside them (Bagua's ByteGrad)"},
        Field{"start_step", LongSlot{[](Scenario& s) { return &s.strategy.compression.start_step; }},
              "steps that a run takes with whole gradients before it compresses"}
            .least(0)
            .most(1e9),
        Field{"local_steps", LongSlot{[](Scenario& s) { return &s.strategy.compression.local_steps; }},
              "of zero-one-adam: steps of each replica from one exchange to the next"}
            .least(1)
            .most(10000),
        choice<&Scenario::strategy, &Strategy::compression, &Compression::phase>(
            "phase", "which steps are predicted: those that compress, or those of the warm-up before start_step"),
    };
    return fields;
}

} // namespace orrery
