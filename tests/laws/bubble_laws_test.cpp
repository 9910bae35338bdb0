// Do whole plans, lowered from scenarios and simulated, lose the time their schedules' papers say? Each chunk's forward, input-gradient and
// weight-gradient part lasts one unit, links and everything else cost nothing; what is read are spans of the trace and the plan's actions.
// Sources: arXiv:1811.06965 (GPipe), 2104.04473 (1F1B, interleaved), 2401.10241 (zero bubble), 2405.15362 (V).
#include "sim/engine/compile.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/memory/memory.hpp"
#include "sim/schedules/schedule.hpp"
#include "tests/laws/scenarios.hpp"

#include <unordered_map>

namespace orrery::laws {
namespace {

constexpr std::int64_t unit = 1'000'000; // ps

struct Pipeline {
    std::string schedule;
    int p = 4, v = 1, m = 8;
    bool overlap = true, post_validation = false;
    int group = 0; // microbatch_group_size; 0: left out

    Gpt gpt() const {
        Gpt g;
        g.layers = p * v;
        g.hidden = 4096; // wide and short: the parts the planner sees are equal, and transfers next to nothing
        g.heads = 32;
        g.vocab = 512;
        g.sequence = 16;
        g.micro_batch = 1;
        g.microbatches = m;
        g.pp = p;
        g.vp = v;
        g.flash = true;
        g.tied = false;
        g.schedule = schedule;
        g.extra_strategy = fmt::format(R"(, "overlap": {{"pipeline": {}}}, "optimizer_sync": "{}")", overlap,
                                       post_validation ? "post-validation" : "global");
        if (group > 0) g.extra_strategy += fmt::format(R"(, "microbatch_group_size": {})", group);
        return g;
    }
    std::string where() const {
        return fmt::format("{} p{} v{} m{} {}{}", schedule, p, v, m, overlap ? "overlapped" : "blocking",
                           post_validation ? " post-validation" : "");
    }
};

// The last computation of a block takes the block's whole time, so that nothing of it can run before its input is there.
std::unordered_map<const Op*, std::int64_t> unit_times(const Plan& plan) {
    std::unordered_map<const Op*, std::int64_t> times;
    bool split = false;
    for (const Block& block : plan.blocks) split = split || block.kind == BlockKind::weight;
    for (const Block& block : plan.blocks) {
        const bool forward = block.kind == BlockKind::forward, backward = block.kind == BlockKind::backward;
        if (!forward && !backward && block.kind != BlockKind::weight) continue;
        const Op* last = nullptr;
        for (const Op& op : block.ops)
            if (op.queue == compute_queue && !is_memory_op(op.work)) last = &op;
        if (last) times[last] = backward && !split ? 2 * unit : unit;
    }
    return times;
}

Costs free_but_for(const std::unordered_map<const Op*, std::int64_t>& times) {
    Costs costs;
    costs.compute = [&times](const Op& op) {
        const auto found = times.find(&op);
        return ComputeCost{Time{found == times.end() ? 0 : found->second}, 1};
    };
    costs.collective = [](const Collective&, std::span<const int>) { return CommCost{}; };
    costs.loads = [](const Collective&, const CommCost&, std::span<const int>) { return std::vector<LinkLoad>{}; };
    costs.transfer = [](Bytes, int, int) { return CommCost{}; };
    costs.transfer_loads = [](int, int) { return std::vector<LinkLoad>{}; };
    return costs;
}

struct Measured {
    double step = 0;          // steady period, in units
    std::vector<double> busy; // of each pipeline rank in one step
    Plan plan;
};

Measured measure(const Pipeline& pipeline) {
    Measured result;
    const Scenario s = pipeline.gpt().make();
    result.plan = lower(s);
    const auto times = unit_times(result.plan);
    SimulateOptions options;
    options.trace = true;
    const Simulation simulation = run(compile(result.plan, free_but_for(times), Wires{}, {options.fold, false}), options);
    EXPECT_FALSE(simulation.deadlock.has_value()) << pipeline.where() << "\n" << (simulation.deadlock ? to_text(*simulation.deadlock) : "");
    if (simulation.deadlock || !simulation.trace) return result;
    result.step = double(simulation.step_time.ps) / unit;
    const Trace& trace = *simulation.trace;
    EXPECT_EQ((trace.end - trace.begin).ps, simulation.step_time.ps) << pipeline.where();
    for (const Lane& lane : trace.lanes) {
        double busy = 0;
        for (const Span& span : lane.spans)
            if (span.kind == SpanKind::op && trace.queues[std::size_t(span.queue)] == "compute")
                busy += double((span.end - span.begin).ps) / unit;
        result.busy.push_back(busy);
    }
    return result;
}

// Every rank computes the ideal time, whatever the schedule; the step is longer by the bubble.
void expect_bubble(const Pipeline& pipeline, double units) {
    const Measured measured = measure(pipeline);
    const double ideal = 3.0 * pipeline.v * pipeline.m;
    ASSERT_EQ(measured.busy.size(), std::size_t(pipeline.p)) << pipeline.where();
    for (double busy : measured.busy) EXPECT_DOUBLE_EQ(busy, ideal) << pipeline.where();
    EXPECT_DOUBLE_EQ(measured.step - ideal, units) << pipeline.where();
}

TEST(BubbleLaws, NaiveModelParallelismKeepsOneDeviceBusy) {
    for (int p : {2, 4})
        for (bool overlap : {true, false}) expect_bubble({"none", p, 1, 6, overlap}, 3.0 * 6 * (p - 1));
}

TEST(BubbleLaws, GPipeAnd1F1BLosePMinus1OverM) {
    for (const char* schedule : {"gpipe", "1f1b"})
        for (int p : {2, 3, 4})
            for (int m : {2, 8, 11})
                for (bool overlap : {true, false}) expect_bubble({schedule, p, 1, m, overlap}, 3.0 * (p - 1)); // ideal 3 m
}

TEST(BubbleLaws, InterleavedLosesPMinus1OverVM) {
    for (int p : {2, 3, 4})
        for (int v : {2, 3})
            for (int groups : {1, 3}) expect_bubble({"interleaved-1f1b", p, v, groups * p, true}, 3.0 * (p - 1)); // ideal 3 v m
}

TEST(BubbleLaws, InterleavedLosesTheSameWhateverItsGroups) {
    for (const bool overlap : {true, false})
        for (int p : {2, 4})
            for (int group : {p + 1, 2 * p})
                for (int m : {2 * group, 2 * group + p}) // the last group whole, or of p
                    expect_bubble({"interleaved-1f1b", p, 2, m, overlap, false, group}, 3.0 * (p - 1));
}

TEST(BubbleLaws, ZeroBubbleH1LosesAThirdOf1F1B) {
    for (int p : {2, 3, 4})
        for (bool overlap : {true, false}) expect_bubble({"zb-h1", p, 1, 3 * p, overlap}, p - 1.0);
}

TEST(BubbleLaws, ZeroBubbleH2AndVLoseNothingWithPostValidation) {
    for (int p : {2, 3, 4})
        for (bool overlap : {true, false}) {
            expect_bubble({"zb-h2", p, 1, 3 * p, overlap, true}, 0);
            expect_bubble({"zb-v", p, 2, 3 * p, overlap, true}, 0);
        }
}

// A global gradient norm is a barrier: what remains is the slant of the parallelogram.
TEST(BubbleLaws, ZeroBubbleH2AndVLoseTheSlantToABarrier) {
    for (int p : {2, 4}) {
        expect_bubble({"zb-h2", p, 1, 3 * p}, p - 1.0);
        expect_bubble({"zb-v", p, 2, 3 * p}, p - 1.0);
    }
}

// (chunk, microbatch) pairs between forward and the end of backward, or of the weight part, read from the plan's actions.
std::vector<int> in_flight(const Plan& plan) {
    std::vector<int> peaks;
    bool split = false;
    for (const Block& block : plan.blocks) split = split || block.kind == BlockKind::weight;
    for (const Program& program : plan.programs) {
        int held = 0, peak = 0;
        for (const Action& action : program.actions) {
            const BlockKind kind = plan.blocks[std::size_t(action.block)].kind;
            if (kind == BlockKind::forward) peak = std::max(peak, ++held);
            if (kind == (split ? BlockKind::weight : BlockKind::backward)) --held;
        }
        EXPECT_EQ(held, 0);
        peaks.push_back(peak);
    }
    return peaks;
}

TEST(InFlightLaws, FollowThePapers) {
    const int p = 4, m = 16;
    const auto peaks = [&](const char* schedule, int v) { return in_flight(lower(Pipeline{schedule, p, v, m}.gpt().make())); };
    EXPECT_EQ(peaks("none", 1), (std::vector<int>{1, 1, 1, 1}));
    EXPECT_EQ(peaks("gpipe", 1), (std::vector<int>{16, 16, 16, 16}));
    EXPECT_EQ(peaks("1f1b", 1), (std::vector<int>{4, 3, 2, 1}));
    EXPECT_EQ(peaks("interleaved-1f1b", 2), (std::vector<int>{11, 9, 7, 5})); // 2 (p - rank - 1) + (v - 1) p + 1
    // (v - 1) times the group instead of p: Megatron's get_pp_rank_microbatches.
    EXPECT_EQ(in_flight(lower(Pipeline{"interleaved-1f1b", p, 2, m, true, false, 8}.gpt().make())), (std::vector<int>{15, 13, 11, 9}));
    for (int peak : peaks("zb-h1", 1)) EXPECT_LE(peak, p);
    for (int peak : peaks("zb-h2", 1)) EXPECT_LE(peak, 2 * p - 1);
    for (int peak : peaks("zb-v", 2)) EXPECT_LE(peak, 2 * p);
}

// The output layer makes the last stage the slowest; its weight gradients of the first microbatches run while the others drain. Nothing but
// their place changes: as many products, no step slower, and for each of them the last stage keeps the input and the logits' gradient, of
// 2 bytes: tokens x (hidden + vocabulary) x 2.
TEST(DeferredOutputs, MoveIntoTheDrainAndKeepWhatTheyAreMadeOf) {
    Gpt g;
    g.pp = 4;
    g.microbatches = 12;
    g.flash = true;
    g.tied = false;
    g.dropout = 0;
    g.gradient_dtype = "fp32"; // of narrower ones the step would make others, which could be the peak
    struct Outcome {
        double seconds = 0, flops = 0;
        std::vector<std::int64_t> peaks;
    };
    const auto outcome = [&](const std::string& schedule, int deferred) {
        g.schedule = schedule;
        g.vp = schedule == "interleaved-1f1b" ? 2 : 1;
        g.layers = 16;
        g.extra_strategy = fmt::format(R"(, "deferred_output_gradients": {})", deferred);
        const Scenario s = scenario(g.text());
        const Plan plan = lower(s);
        const Fabric fabric(s.cluster);
        const Simulation simulation = simulate(plan, s, fabric, CostModel(s, fabric));
        EXPECT_FALSE(simulation.deadlock);
        Outcome o{simulation.step_time.seconds(), 0, {}};
        for (const LaneResult& lane : simulation.lanes) o.flops += lane.hardware_flops * lane.ranks;
        for (const StageMemory& stage : memory(plan, s).stages) o.peaks.push_back(stage.allocated_peak.count);
        return o;
    };
    for (const char* schedule : {"1f1b", "interleaved-1f1b"}) {
        const Outcome none = outcome(schedule, 0);
        Outcome before = none;
        for (int deferred : {1, 2}) {
            const Outcome now = outcome(schedule, deferred);
            EXPECT_LE(now.seconds, before.seconds) << schedule << " " << deferred;
            EXPECT_DOUBLE_EQ(now.flops, none.flops);
            for (std::size_t stage = 0; stage < 3; ++stage) EXPECT_EQ(now.peaks[stage], none.peaks[stage]) << schedule;
            EXPECT_LE(now.peaks[3] - none.peaks[3], deferred * 2 * 512ll * (1024 + 51200) * 2) << schedule << " " << deferred;
            EXPECT_GT(now.peaks[3], before.peaks[3]);
            before = now;
        }
        EXPECT_LT(before.seconds, none.seconds) << schedule;
    }
    // Nothing drains: a single stage takes the same step.
    g.pp = 1;
    EXPECT_EQ(outcome("none", 4).seconds, outcome("none", 0).seconds);
}

} // namespace
} // namespace orrery::laws
