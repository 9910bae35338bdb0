// Do a measured and a predicted step name the same causes of waiting, in shares that agree?
#include "agree.hpp"

#include "exec/local/timeline.hpp"
#include "exec/local/waits.hpp"
#include "sim/report/report.hpp"

#include <gtest/gtest.h>

#include <map>

namespace orrery::agree {
namespace {

// Of the step, by cause: how long the compute queues of the ranks wait, on average.
std::map<WaitCause, double> shares(const Trace& t) {
    std::map<WaitCause, double> of;
    for (const Lane& lane : t.lanes)
        for (const Span& s : lane.spans)
            if (s.kind == SpanKind::wait && s.queue == compute_queue)
                of[s.cause] += lane.ranks * (s.end - s.begin).seconds() / (t.end - t.begin).seconds();
    double ranks = 0;
    for (const Lane& lane : t.lanes) ranks += lane.ranks;
    for (auto& [cause, share] : of) share /= ranks;
    return of;
}

Scenario pipeline(const std::vector<std::string>& more) {
    std::vector<std::string> fields{"model.layers=4",
                                    "model.hidden_size=128",
                                    "model.ffn_size=512",
                                    "model.vocab_size=512",
                                    "training.sequence_length=64",
                                    "training.global_batch_size=8",
                                    "training.micro_batch_size=1",
                                    "runtime.allocator=plan",
                                    "runtime.launch_us=0"};
    fields.insert(fields.end(), more.begin(), more.end());
    return tiny(fields);
}

// Ops timed one by one, then arranged side by side: nothing that other programs do on this machine is in it.
Trace measured(const Scenario& scenario) {
    const auto world = make_world(scenario, DType::fp32);
    initialise(*world);
    const auto executor = serial_executor(*world);
    std::vector<OpTime> record, again;
    for (int step = 0; step < 8; ++step) { // the first warms up; of each op the shortest time: what else the machine does only adds to it
        load_batch(*world, {"", scenario.model.vocab_size, 1}, step);
        again.clear();
        executor->step(&again);
        if (step < 2) record = again;
        for (std::size_t i = 0; i < record.size(); ++i) { // they come in the same order in every step
            record[i].cpu = std::min(record[i].cpu, again[i].cpu);
            record[i].end = record[i].begin + std::min(record[i].end - record[i].begin, again[i].end - again[i].begin);
        }
    }
    return trace_of(*world, side_by_side(*world, record), "measured: a test");
}

TEST(Waits, OfAPipelineHaveTheCausesThatArePredicted) {
    for (const std::vector<std::string>& strategy :
         {std::vector<std::string>{"strategy.pipeline_parallel=2", "strategy.schedule=1f1b"},
          {"strategy.pipeline_parallel=4", "strategy.schedule=gpipe"},
          {"strategy.pipeline_parallel=2", "strategy.schedule=1f1b", "strategy.data_parallel=2"}}) {
        const Scenario scenario = pipeline(strategy);
        PredictOptions options;
        options.simulate.trace = true;
        const Prediction predicted = predict(scenario, executed_plan(scenario), options);
        ASSERT_TRUE(predicted.simulation.trace);
        auto a = shares(*predicted.simulation.trace), b = shares(measured(scenario));
        for (const WaitCause cause : {WaitCause::receive, WaitCause::drain, WaitCause::warm_up, WaitCause::collective, WaitCause::host,
                                      WaitCause::memory, WaitCause::dependency})
            EXPECT_NEAR(a[cause], b[cause], 0.1) << name(cause) << " under " << strategy[1] << ", predicted and measured";
        for (const WaitCause cause : {WaitCause::receive, WaitCause::warm_up}) { // both are there, or the test says nothing
            EXPECT_GT(a[cause], 0.005) << name(cause);
            EXPECT_GT(b[cause], 0.005) << name(cause);
        }
    }
}

// By hand: one rank, a computation, a transfer that is posted at 100, whose partner comes at 150, and what reads it.
TEST(Waits, ArePartedWhereTheReasonChanges) {
    const Scenario scenario = pipeline({"strategy.pipeline_parallel=2", "strategy.schedule=1f1b"});
    const auto world = make_world(scenario, DType::fp32);
    initialise(*world);
    const IssueOrder& order = *world->rank(1).order; // its first computation of a pass reads what it receives
    const auto is_exchange = [](const Issue& i) { return std::holds_alternative<Exchange>(i.op->work); };
    const auto receive = std::ranges::find_if(order.issues, is_exchange);
    ASSERT_NE(receive, order.issues.end());
    const auto at = static_cast<std::int32_t>(receive - order.issues.begin());
    const auto reads = std::ranges::find_if(
        order.issues, [&](const Issue& i) { return i.op->queue == compute_queue && std::ranges::count(order.deps_of(i), at) > 0; });
    ASSERT_NE(reads, order.issues.end());
    const auto reader = static_cast<std::int32_t>(reads - order.issues.begin());
    const OpTime moved{1, at, 0, 100, 150, 200, 0, {}}, read{1, reader, -1, 200, 200, 300, 0, {}};
    std::vector<const OpTime*> times(order.issues.size(), nullptr);
    times[at] = &moved;
    times[reader] = &read;
    const std::vector<Span> waits = waits_of(world->plan, order, times, Time{300'000});
    ASSERT_EQ(waits.size(), 3u);
    EXPECT_EQ(waits[0].cause, WaitCause::host); // it was not posted yet
    EXPECT_EQ(waits[0].end.ps, 100'000);
    EXPECT_EQ(waits[1].cause, WaitCause::warm_up); // the partner has not come
    EXPECT_EQ(waits[1].end.ps, 150'000);
    EXPECT_EQ(waits[2].cause, WaitCause::receive); // data move
    EXPECT_EQ(waits[2].end.ps, 200'000);
}

} // namespace
} // namespace orrery::agree
