// The fields of "run", "cluster.storage", "training.data" and "training.convergence". Defaults, where a source has them: rates and parts of
// failures, Llama 3 405B, 54 days (arXiv:2407.21783, table 5: 419 failures of 2,048 nodes); repairs, InfiniteHBD's trace of 400 nodes;
// watchdogs, PyTorch's 10 minutes. The rest is assumed, and reports say so.
#include "sim/scenario/fields.hpp"
#include "sim/scenario/whole_run_text.hpp"

#include <nlohmann/json.hpp>

namespace orrery {
namespace {

constexpr double longest_s = 1e9; // 32 years

Field number(const char* key, NumberSlot slot, const char* help, double least, double most, const char* unit = "") {
    return Field{key, slot, help}.least(least).most(most).in(unit);
}
Field seconds(const char* key, NumberSlot slot, const char* help) { return number(key, slot, help, 0, longest_s, "s"); }
Field share(const char* key, NumberSlot slot, const char* help) { return number(key, slot, help, 0, 1); }
Field daily(const char* key, NumberSlot slot, const char* help) { return number(key, slot, help, 0, 1000, "1/day"); }

template <FailingPart part> Field weight(const char* help) {
    return number(
        name(part), [](Scenario& s) { return &s.run->failures.by[part]; }, help, 0, 1e6);
}

const Fields& part_fields() {
    static const Fields fields = {
        weight<FailingPart::gpu>("a device: its processor, SRAM, thermal"),
        weight<FailingPart::hbm>("its memory"),
        weight<FailingPart::nvlink>("links between devices of a node"),
        weight<FailingPart::nic>("a network card"),
        weight<FailingPart::network>("a switch or a cable"),
        weight<FailingPart::host>("processor, memory, board or unplanned maintenance of a node"),
        weight<FailingPart::storage>("a node's disks"),
        weight<FailingPart::power>("a power supply"),
        weight<FailingPart::software>("software: the node is not repaired"),
        weight<FailingPart::hang>("a rank that stops without a word: detect_s.hang finds it"),
        weight<FailingPart::sdc>("silent data corruption: detect_s.sdc finds it, and saves made since are lost"),
    };
    return fields;
}

const Fields& lemon_fields() {
    static const Fields fields = {
        share(
            "share", [](Scenario& s) { return &s.run->failures.lemon_share; }, "of the nodes"),
        number(
            "factor", [](Scenario& s) { return &s.run->failures.lemon_factor; },
            "how many times as often as the others they fail; the rate of all together stays", 1, 1e4),
        Field{"remove_after", IntSlot{[](Scenario& s) { return &s.run->failures.remove_lemons_after; }},
              "failures after which a node is taken out for good; 0: never"}
            .least(0)
            .most(1e6),
    };
    return fields;
}

const Fields& burst_fields() {
    static const Fields fields = {
        number(
            "size", [](Scenario& s) { return &s.run->failures.burst_size; }, "failures of a burst in the mean; the rate of all stays", 1,
            1000),
        number(
            "hours", [](Scenario& s) { return &s.run->failures.burst_hours; }, "in the mean between two failures of a burst", 1e-6, 1e5,
            "h"),
    };
    return fields;
}

template <auto group> const Fields& group_fields() {
    static const Fields fields = {
        Field{"nodes", IntSlot{[](Scenario& s) { return &(s.run->failures.*group).nodes; }}, "of a group"}.least(0).most(1e6),
        daily(
            "per_day", [](Scenario& s) { return &(s.run->failures.*group).per_day; }, "failures of one group as a whole"),
    };
    return fields;
}

const Fields& failure_fields() {
    static const Fields fields = {
        daily(
            "per_node_day", [](Scenario& s) { return &s.run->failures.per_node_day; },
            "failures of a node in a day; 0.004: Llama 3 405B's; others' 0.002 to 0.025"),
        Field{"by", SectionSlot{part_fields, [](Scenario& s) { s.run->failures.by = {}; }},
              "weights of what breaks; default: Llama 3 405B's counts"},
        Field{"distribution", ChoiceSlot{[](Scenario& s, int i) { s.run->failures.distribution = static_cast<FailureLaw>(i); }},
              "of a node's time to its next failure; trace: a file's failures"}
            .one_of(words<FailureLaw>()),
        number(
            "shape", [](Scenario& s) { return &s.run->failures.shape; },
            "of weibull; below 1: failures soon after a repair, above 1: late ones; the rate stays per_node_day", 0.2, 20),
        Field{"file", CustomSlot{read_fault_trace},
              "of a trace: CSV with the columns node, start_day, end_day; it is repeated where the run is longer"}
            .like(R"({"type":"string"})"),
        Field{"lemons", SectionSlot{lemon_fields, [](Scenario&) {}}, "nodes that fail more often than others"},
        Field{"bursts", SectionSlot{burst_fields, [](Scenario&) {}}, "failures that come together"},
        share(
            "transient", [](Scenario& s) { return &s.run->failures.transient; },
            "of hardware failures: the same node starts again; all others are repaired"),
        Field{"racks", SectionSlot{group_fields<&WholeRun::Failures::racks>, [](Scenario&) {}}, "whole racks that fail"},
        Field{"switches", SectionSlot{group_fields<&WholeRun::Failures::switches>, [](Scenario&) {}}, "leaf switches that fail"},
        daily(
            "planned_per_day", [](Scenario& s) { return &s.run->failures.planned_per_day; },
            "planned interruptions of the whole run: it saves before"),
        seconds(
            "planned_s", [](Scenario& s) { return &s.run->failures.planned_s; }, "how long one takes, before the restart"),
    };
    return fields;
}

template <auto of, bool with_factor> Fields degraded_fields() {
    Fields fields;
    fields.push_back(daily(
        "per_node_day", [](Scenario& s) { return &((*s.run).*of).per_node_day; }, "how often it happens to a node in a day"));
    if (with_factor)
        fields.push_back(number(
            "factor", [](Scenario& s) { return &((*s.run).*of).factor; }, "how many times slower", 1, 1000));
    fields.push_back(number(
        "hours", [](Scenario& s) { return &((*s.run).*of).hours; }, "how long it lasts in the mean; detect_s.slow may end it", 1e-6, 1e5,
        "h"));
    return fields;
}
template <auto of, bool with_factor> const Fields& degraded() {
    static const Fields fields = degraded_fields<of, with_factor>();
    return fields;
}

const Fields& detect_fields() {
    static const Fields fields = {
        seconds(
            "crash", [](Scenario& s) { return &s.run->detect.crash; }, "until a crash is noticed"),
        seconds(
            "hang", [](Scenario& s) { return &s.run->detect.hang; }, "a watchdog's patience"),
        seconds(
            "sdc", [](Scenario& s) { return &s.run->detect.sdc; }, "until wrong numbers are noticed"),
        seconds(
            "slow", [](Scenario& s) { return &s.run->detect.slow; }, "until a slow node is exchanged"),
    };
    return fields;
}

const Fields& restart_fields() {
    static const Fields fields = {
        seconds(
            "schedule_s", [](Scenario& s) { return &s.run->restart.schedule_s; }, "to find nodes and start processes"),
        seconds(
            "init_s", [](Scenario& s) { return &s.run->restart.init_s; }, "to join the ranks: what does not grow with their number"),
        seconds(
            "init_s_per_1024_ranks", [](Scenario& s) { return &s.run->restart.init_s_per_1024_ranks; }, "and what grows"),
        seconds(
            "load_s", [](Scenario& s) { return &s.run->restart.load_s; },
            "to load a checkpoint; default: its bytes at the rate of what holds it"),
        seconds(
            "compile_s", [](Scenario& s) { return &s.run->restart.compile_s; }, "to compile and load kernels"),
        Field{"warmup_steps", IntSlot{[](Scenario& s) { return &s.run->restart.warmup_steps; }}, "slow steps after a start"}.least(0).most(
            1e6),
        number(
            "warmup_factor", [](Scenario& s) { return &s.run->restart.warmup_factor; }, "how many times as long they take", 1, 1000),
        number(
            "repeat", [](Scenario& s) { return &s.run->restart.repeat; }, "chance that a start fails and is made again", 0, 0.99),
        seconds(
            "regroup_s", [](Scenario& s) { return &s.run->restart.regroup_s; },
            "elastic stepwise: until the survivors go on without a restart"),
    };
    return fields;
}

const Fields& repair_fields() {
    static const Fields fields = {
        Field{"days", CustomSlot{read_repair_deciles},
              "nine deciles of a repair's length; default: InfiniteHBD's, 0.009 to 13.4 days, mean 5.54"}
            .in("days")
            .like(R"({"type":"array","items":{"type":"number","minimum":0},"minItems":9,"maxItems":9})"),
        number(
            "mean_days", [](Scenario& s) { return &s.run->repair.mean_days; },
            "mean of a repair; without days: exponential, with: what lies above the ninth decile is exponential so that this is the mean",
            0, 1e4, "days")
            .over(0),
    };
    return fields;
}

const Fields& spare_fields() {
    static const Fields fields = {
        Field{"nodes", IntSlot{[](Scenario& s) { return &s.run->spares.nodes; }},
              "beside cluster.nodes; default: as many as are enough in 99 of 100 moments"}
            .least(0)
            .most(1e6),
        Field{"warm", BoolSlot{[](Scenario& s) { return &s.run->spares.warm; }}, "they run with the software started"},
        seconds(
            "cold_s", [](Scenario& s) { return &s.run->spares.cold_s; }, "what the start of a cold one takes longer"),
    };
    return fields;
}

const Fields& save_fields() {
    static const Fields fields = {
        Field{"every", CustomSlot{read_save_interval},
              "steps or seconds from save to save, {\"steps\": n} or {\"seconds\": s}; auto: the best found"}
            .like(
                R"({"oneOf":[{"const":"auto"},{"type":"object","properties":{"steps":{"type":"integer","minimum":1,"maximum":1000000000000},"seconds":{"type":"number","minimum":0.001,"maximum":1000000000}},"minProperties":1,"maxProperties":1,"additionalProperties":false}]})"),
        Field{"kind", ChoiceSlot{[](Scenario& s, int i) { s.run->checkpoint.kind = static_cast<CheckpointKind>(i); }},
              "sync: steps wait for storage; async: for the copy to host memory; peer: copies in other nodes' memory; local: the node's "
              "NVMe; tiers: both; the last three save to storage too, every storage_every saves"}
            .one_of(words<CheckpointKind>()),
        Field{"replicas", IntSlot{[](Scenario& s) { return &s.run->checkpoint.replicas; }}, "peer, tiers: other nodes that hold a copy"}
            .least(1)
            .most(64),
        Field{"storage_every", IntSlot{[](Scenario& s) { return &s.run->checkpoint.storage_every; }},
              "peer, local, tiers: saves from one on storage to the next"}
            .least(1)
            .most(1e6),
        number(
            "fraction", [](Scenario& s) { return &s.run->checkpoint.fraction; },
            "incremental: share of the bytes that a save between full ones writes", 0.001, 1),
        Field{"full_every", IntSlot{[](Scenario& s) { return &s.run->checkpoint.full_every; }},
              "incremental: saves from a full one to the "
              "next"}
            .least(1)
            .most(1e6),
        Field{"keep", IntSlot{[](Scenario& s) { return &s.run->checkpoint.keep; }},
              "saves that a run can go back to after silent corruption; 0: all"}
            .least(0)
            .most(1e6),
        number(
            "gb", [](Scenario& s) { return &s.run->checkpoint.gigabytes; }, "size of a save; default: the plan's own states", 0, 1e9, "GB")
            .over(0),
        seconds(
            "save_s", [](Scenario& s) { return &s.run->checkpoint.save_s; },
            "how long a save holds the steps up; default: its bytes at the rate of what takes them"),
        number(
            "copy_gb_per_s", [](Scenario& s) { return &s.run->checkpoint.copy_gb_per_s; },
            "async, peer, local, tiers: of a device to host memory; default: cluster.host.pcie_gb_per_s", 1e-3, 1e6, "GB/s"),
        seconds(
            "barrier_s", [](Scenario& s) { return &s.run->checkpoint.barrier_s; }, "of all ranks around a save"),
    };
    return fields;
}

const Fields& evaluation_fields() {
    static const Fields fields = {
        Field{"every_steps", LongSlot{[](Scenario& s) { return &s.run->evaluate_every_steps; }}, "0: none"}.least(0).most(1e12).in("steps"),
        seconds(
            "seconds", [](Scenario& s) { return &s.run->evaluation_s; }, "of one evaluation; training waits"),
    };
    return fields;
}

} // namespace

const Fields& whole_run_fields() {
    static const Fields fields = {
        Field{"steps", LongSlot{[](Scenario& s) { return &s.run->steps; }}, "optimizer steps of the run"}.least(1).most(1e12),
        Field{"tokens", NumberSlot{[](Scenario& s) { return &s.run->tokens; }}, "tokens to train on"}.over(0).most(1e18),
        Field{"days", NumberSlot{[](Scenario& s) { return &s.run->days; }}, "days on the calendar"}.over(0).most(36500).in("days"),
        Field{"practice", ChoiceSlot{[](Scenario& s, int i) { s.run->practice = static_cast<RunPractice>(i); }},
              "software that starts the run again; sets the fields below that are left out (simrun list practices)"}
            .one_of(words<RunPractice>()),
        Field{"failures", SectionSlot{failure_fields, [](Scenario&) {}}, "what breaks, and how often"},
        Field{"slow_node", SectionSlot{degraded<&WholeRun::slow_node, true>, [](Scenario&) {}}, "nodes that go slow for some time"},
        Field{"slow_link", SectionSlot{degraded<&WholeRun::slow_link, true>, [](Scenario&) {}}, "a node's NICs that go slow"},
        Field{"lost_nic", SectionSlot{degraded<&WholeRun::lost_nic, false>, [](Scenario&) {}},
              "one NIC of a node that goes down: the others carry its traffic"},
        Field{"detect_s", SectionSlot{detect_fields, [](Scenario&) {}}, "how soon trouble is noticed"},
        Field{"restart", SectionSlot{restart_fields, [](Scenario&) {}}, "what it takes to go on after a failure"},
        Field{"repair", SectionSlot{repair_fields, [](Scenario&) {}}, "how long a broken node is away"},
        Field{"spares", SectionSlot{spare_fields, [](Scenario&) {}}, "nodes that stand by"},
        Field{"checkpoint", SectionSlot{save_fields, [](Scenario&) {}}, "what is saved, where and how often"},
        Field{"elastic", ChoiceSlot{[](Scenario& s, int i) { s.run->elastic = static_cast<Elasticity>(i); }},
              "without a spare: none waits for a repair; drop-replica goes on with a replica less, shrink-batch with its sequences left "
              "out; replan with the best strategy for the nodes left; reroute: peers take the lost node's microbatches; stepwise: "
              "survivors go on without a restart"}
            .one_of(words<Elasticity>()),
        Field{"evaluation", SectionSlot{evaluation_fields, [](Scenario&) {}}, "pauses to evaluate"},
        Field{"seeds", IntSlot{[](Scenario& s) { return &s.run->seeds; }}, "simulated runs, each with failures of its own"}.least(1).most(
            100'000),
    };
    return fields;
}

const Fields& storage_fields() {
    static const auto rate = [](const char* key, ScaledSlot slot, const char* help) {
        return Field{key, slot, help}.least(1e-3).most(1e6).in("GB/s");
    };
    static const Fields fields = {
        rate(
            "write_gb_per_s", [](Scenario& s, double v) { s.cluster.storage.write = BytesPerSecond::gigabytes(v); },
            "all clients together; default: 0.5 a node, assumed"),
        rate(
            "read_gb_per_s", [](Scenario& s, double v) { s.cluster.storage.read = BytesPerSecond::gigabytes(v); },
            "all clients together; default: 1 a node, assumed"),
        rate(
            "per_node_gb_per_s", [](Scenario& s, double v) { s.cluster.storage.per_node = BytesPerSecond::gigabytes(v); },
            "one node; default: its network cards"),
        Field{"latency_us", ScaledSlot{[](Scenario& s, double v) { s.cluster.storage.latency = Time::microseconds(v); }}, "of a request"}
            .least(0)
            .most(1e9)
            .in("us"),
        Field{"requests_per_node", IntSlot{[](Scenario& s) { return &s.cluster.storage.requests_per_node; }},
              "in flight at once: a node reaches requests x request_mb / latency; 0: no such limit"}
            .least(0)
            .most(1e6),
        Field{"request_mb", ScaledSlot{[](Scenario& s, double v) { s.cluster.storage.request = Bytes::gigabytes(v / 1000); }},
              "size of a request"}
            .least(1e-3)
            .most(1e6)
            .in("MB"),
    };
    return fields;
}

const Fields& data_fields() {
    static const Fields fields = {
        number(
            "bytes_per_sample", [](Scenario& s) { return &s.training.data->bytes_per_sample; }, "read for one sequence or picture", 0, 1e15,
            "bytes"),
        number(
            "bytes_spread", [](Scenario& s) { return &s.training.data->bytes_spread; },
            "standard deviation of that: steps wait for large ones where few batches lie ready", 0, 1e15, "bytes"),
        number(
            "cpu_ms_per_sample", [](Scenario& s) { return &s.training.data->cpu_ms_per_sample; }, "to decode one, on one core", 0, 1e9,
            "ms"),
        Field{"workers", IntSlot{[](Scenario& s) { return &s.training.data->workers; }},
              "readers of a device, a core each; 0: the training process reads itself, between steps"}
            .least(0)
            .most(10000),
        Field{"prefetch", IntSlot{[](Scenario& s) { return &s.training.data->prefetch; }}, "batches that each reader holds ready"}
            .least(1)
            .most(10000),
        number(
            "reader_mb_per_s", [](Scenario& s) { return &s.training.data->reader_mb_per_s; },
            "what one reader gets at most; default: storage and network alone limit it", 1e-3, 1e9, "MB/s"),
    };
    return fields;
}

const Fields& convergence_fields() {
    static const Fields fields = {
        Field{"target", TextSlot{[](Scenario& s) { return &s.training.convergence->target; }}, "what is to be reached, for reports"},
        number(
            "min_samples", [](Scenario& s) { return &s.training.convergence->min_samples; },
            "sequences to the target with the smallest batches", 1, 1e18, "sequences"),
        number(
            "min_steps", [](Scenario& s) { return &s.training.convergence->min_steps; }, "steps to the target with the largest batches", 1,
            1e15, "steps"),
        number(
            "critical_batch_size", [](Scenario& s) { return &s.training.convergence->critical_batch_size; },
            "the batch that takes twice min_samples and twice min_steps; = min_samples / min_steps", 1e-3, 1e15, "sequences"),
        number(
            "replica_penalty", [](Scenario& s) { return &s.training.convergence->replica_penalty; },
            "share of samples more where replicas train parameters of their own between meetings (local SGD, DiLoCo, gossip); not with "
            "parameter_server",
            0, 100),
        number(
            "staleness_penalty", [](Scenario& s) { return &s.training.convergence->staleness_penalty; },
            "share of samples more for each update that gradients are old in the mean", 0, 100),
    };
    return fields;
}

} // namespace orrery
