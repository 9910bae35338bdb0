// One rank on an asynchronous device, its communication as delays: do its kernels run, and its queues stand still as long as they are told?
#include "agree.hpp"

#include "exec/queues/executor.hpp"

#include <gtest/gtest.h>

namespace orrery::agree {
namespace {

TEST(QueuesReplay, CommunicationIsItsDelay) {
    for (const std::vector<std::string>& fields :
         {std::vector<std::string>{"strategy.tensor_parallel=2", "strategy.data_parallel=4", "strategy.zero_stage=1"},
          {"strategy.data_parallel=4", "strategy.expert_parallel=4", "strategy.framework=megatron", "model.moe.experts=4",
           "model.moe.top_k=2", "model.moe.expert_ffn_size=16"}}) {
        const Scenario scenario = tiny(fields);
        const auto world = make_world(scenario, DType::fp32, {1});
        world->facts.forced_routing = true;
        initialise(*world);
        load_batch(*world, {"", scenario.model.vocab_size, 1}, 0);
        const IssueOrder& order = *world->rank(1).order;
        const auto communicates = [](const Op& op) {
            return std::holds_alternative<Collective>(op.work) || std::holds_alternative<Exchange>(op.work);
        };
        constexpr std::int64_t delay = 1'000'000;
        Fleet fleet = cpu_fleet(*world);
        for (const Issue& i : order.issues) fleet.delays.push_back(communicates(*i.op) ? delay : 0);
        const auto executor = queues_executor(*world, std::move(fleet));
        std::vector<OpTime> record;
        executor->step(&record);
        int seen = 0, ran = 0;
        for (const OpTime& t : record) {
            const Op& op = *order.issues[t.issue].op;
            ++(communicates(op) ? seen : ran);
            if (!communicates(op)) continue;
            EXPECT_GE(t.end - t.posted, delay - 1000) << op.name;
        }
        EXPECT_GT(seen, 5);
        EXPECT_GT(ran, 50);
    }
}

} // namespace
} // namespace orrery::agree
