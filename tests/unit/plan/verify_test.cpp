// Are good plans good, and is each kind of fault called by its name?
#include "tests/unit/plan/mutations.hpp"
#include "tests/unit/plan/plans.hpp"
#include "topology/at.hpp"

#include <algorithm>

namespace orrery::test {
namespace {

bool reports(const std::vector<Violation>& violations, const std::string& rule) {
    return std::any_of(violations.begin(), violations.end(), [&](const Violation& v) { return v.rule == rule; });
}

template <class Wanted> std::pair<std::int32_t, std::int32_t> find_op(const Plan& plan, Wanted wanted) {
    for (std::size_t b = 0; b < plan.blocks.size(); ++b)
        for (std::size_t i = 0; i < plan.blocks[b].ops.size(); ++i)
            if (wanted(plan.blocks[b], plan.blocks[b].ops[i])) return {static_cast<std::int32_t>(b), static_cast<std::int32_t>(i)};
    ADD_FAILURE() << "the plan has no such op";
    return {0, 0};
}

Op& op_at(Plan& plan, std::pair<std::int32_t, std::int32_t> where) { return plan.blocks[at(where.first)].ops[at(where.second)]; }

const auto named = [](const char* name) { return [name](const Block&, const Op& op) { return op.name == name; }; };

TEST(Verify, FindsNothingInWhatLoweringMakes) {
    for (const Example& e : examples()) {
        SCOPED_TRACE(e.name);
        EXPECT_EQ(to_text(verify(plan_of(e.overrides))), "");
    }
}

TEST(Verify, NamesAForgottenNormReduction) {
    Plan plan = plan_of(sp2);
    const auto where = find_op(plan, named("finalize.tp"));
    drop_op(plan, where.first, where.second);
    const std::vector<Violation> found = verify(plan);
    EXPECT_TRUE(reports(found, "gradient-partial")) << to_text(found);
    EXPECT_NE(to_text(found).find("still a summand over tp"), std::string::npos) << to_text(found);
}

TEST(Verify, NamesAForgottenTiedEmbeddingReduction) {
    Plan plan = plan_of(pp2);
    const auto where = find_op(plan, named("finalize.embedding")); // on the first stage only
    drop_op(plan, where.first, where.second);
    const std::vector<Violation> found = verify(plan);
    EXPECT_TRUE(reports(found, "gradient-partial")) << to_text(found);
    EXPECT_TRUE(reports(found, "collective-mismatch")) << to_text(found);
}

TEST(Verify, NamesAMicrobatchWithoutItsWeightGradients) {
    Plan plan = plan_of(pp2 + std::vector<std::string>{"strategy.schedule=zb-h1"});
    auto& actions = plan.programs[0].actions;
    const auto w =
        std::find_if(actions.begin(), actions.end(), [&](const Action& a) { return plan.blocks[at(a.block)].kind == BlockKind::weight; });
    ASSERT_NE(w, actions.end());
    drop_action(plan, 0, static_cast<std::int32_t>(w - actions.begin()));
    EXPECT_TRUE(reports(verify(plan), "block-coverage"));
}

// A joined block has the ops of its parts, each once and on its part's port.
TEST(Verify, NamesAJoinedBlockWithoutOneOfItsOps) {
    const Plan whole =
        plan_of({"model.layers=4", "strategy.pipeline_parallel=4", "training.global_batch_size=16", "strategy.schedule=dualpipe"});
    const auto joined = std::find_if(whole.blocks.begin(), whole.blocks.end(), [](const Block& b) { return b.parts.size() > 1; });
    ASSERT_NE(joined, whole.blocks.end());
    const auto is_linear = [](const Op& op) { return std::holds_alternative<Linear>(op.work); };
    const auto broken = [&](auto&& change) {
        Plan plan = whole;
        auto& ops = plan.blocks[at(joined - whole.blocks.begin())].ops;
        change(*std::find_if(ops.begin(), ops.end(), is_linear), *std::find_if(ops.rbegin(), ops.rend(), is_linear));
        return to_text(verify(plan));
    };
    const char* const found = "has not the ops of the blocks it stands for";
    EXPECT_EQ(broken([](Op&, Op&) {}), "");
    EXPECT_NE(broken([](Op& first, Op& last) { last = first; }).find(found), std::string::npos) << "one twice, another not";
    EXPECT_NE(broken([](Op& first, Op&) { ++first.layer; }).find(found), std::string::npos);
    EXPECT_NE(broken([](Op& first, Op&) { std::swap(first.in[0], first.in[1]); }).find(found), std::string::npos);
}

TEST(Verify, NamesAnUnorderedAccess) {
    Plan plan = plan_of({"strategy.framework=fsdp", "strategy.zero_stage=3"});
    for (Action& a : plan.programs[0].actions) a.deps_begin = a.deps_end = 0;
    EXPECT_TRUE(reports(verify(plan), "unordered"));
    plan = plan_of(tp2);
    for (Op& op : plan.blocks[at(find_op(plan, named("l0.qkv")).first)].ops) op.deps.clear();
    EXPECT_TRUE(reports(verify(plan), "unordered"));
}

// Activations on the host are followed op by op: what one microbatch of many lacks is found, and at its place.
TEST(Verify, NamesTheWaitThatOneMicrobatchOfManyLacks) {
    const Plan whole = plan_of({"strategy.offload.activations=cpu", "training.global_batch_size=512", "model.layers=2"});
    const std::size_t middle = whole.programs[0].actions.size() / 2;
    int found = 0;
    for (std::size_t i = middle; i < middle + 6; ++i)
        for (std::int32_t d = whole.programs[0].actions[i].deps_begin; d < whole.programs[0].actions[i].deps_end; ++d) {
            Plan plan = whole;
            Program& program = plan.programs[0];
            for (std::int32_t k = d + 1; k < program.actions[i].deps_end; ++k) program.deps[at(k) - 1] = program.deps[at(k)];
            --program.actions[i].deps_end;
            const std::vector<Violation> violations = verify(plan);
            if (!reports(violations, "unordered")) continue;
            ++found;
            EXPECT_NE(to_text(violations).find(fmt::format("action {} ", i)), std::string::npos) << to_text(violations);
        }
    EXPECT_GT(found, 0);
}

// Order may come by way of a third queue: the quick check cannot see that, the exact one must.
TEST(Verify, AcceptsOrderByWayOfOtherOps) {
    Plan plan = plan_of({"strategy.framework=fsdp", "strategy.zero_stage=3"});
    Program& program = plan.programs[0];
    // A block of one host op waits for each gather; the forward action waits for it instead.
    Block relay;
    relay.name = "relay";
    relay.stage = 0;
    Op op;
    op.name = "relay";
    op.work = HostSync{};
    op.queue = host_queue;
    relay.ops.push_back(op);
    const std::int32_t block = static_cast<std::int32_t>(plan.blocks.size());
    plan.blocks.push_back(relay);
    std::vector<Action> actions;
    std::vector<ActionDep> deps;
    std::vector<std::int32_t> moved_to(program.actions.size());
    const std::int32_t old_count = static_cast<std::int32_t>(program.actions.size());
    std::vector<std::pair<std::size_t, std::int32_t>> previous; // dependencies on the step before, fixed when the count is known
    for (std::size_t i = 0; i < program.actions.size(); ++i) {
        Action a = program.actions[i];
        std::vector<ActionDep> mine;
        for (std::int32_t d = a.deps_begin; d < a.deps_end; ++d) {
            ActionDep dep = program.deps[at(d)];
            const bool before = dep.on_action < 0;
            const bool gather = !before && plan.blocks[at(program.actions[at(dep.on_action)].block)].kind == BlockKind::gather;
            if (gather && plan.blocks[at(a.block)].kind == BlockKind::forward) {
                Action between{
                    block, 0, 1, {-1, -1, -1, -1}, static_cast<std::int32_t>(deps.size()), static_cast<std::int32_t>(deps.size()) + 1};
                deps.push_back({0, moved_to[at(dep.on_action)], dep.on_op});
                actions.push_back(between);
                mine.push_back({dep.op, static_cast<std::int32_t>(actions.size()) - 1, 0});
            } else {
                if (!before) dep.on_action = moved_to[at(dep.on_action)];
                mine.push_back(dep);
            }
        }
        a.deps_begin = static_cast<std::int32_t>(deps.size());
        for (const ActionDep& dep : mine) {
            if (dep.on_action < 0) previous.push_back({deps.size(), old_count + dep.on_action});
            deps.push_back(dep);
        }
        a.deps_end = static_cast<std::int32_t>(deps.size());
        moved_to[i] = static_cast<std::int32_t>(actions.size());
        actions.push_back(a);
    }
    for (const auto& [where, action] : previous) deps[where].on_action = moved_to[at(action)] - static_cast<std::int32_t>(actions.size());
    program.actions = actions;
    program.deps = deps;
    EXPECT_EQ(to_text(verify(plan)), "");
    // And without the relay's own wait it is unordered again.
    for (Action& a : program.actions)
        if (a.block == block) a.deps_end = a.deps_begin;
    EXPECT_TRUE(reports(verify(plan), "unordered"));
}

TEST(Verify, NamesTransfersThatDoNotMatch) {
    const Plan good = plan_of(pp2);
    const auto where = find_op(good, [](const Block&, const Op& op) { return std::holds_alternative<Exchange>(op.work); });
    Plan plan = good;
    std::get<Exchange>(op_at(plan, where).work).transfers[0].bytes = {12};
    EXPECT_TRUE(reports(verify(plan), "transfer-mismatch"));
    plan = good;
    for (Action& a : plan.programs[1].actions)
        if (plan.blocks[at(a.block)].kind == BlockKind::exchange && a.microbatch[0] >= 0) {
            a.microbatch[0] = a.microbatch[0] == 0 ? 1 : 0;
            break;
        }
    EXPECT_TRUE(reports(verify(plan), "transfer-mismatch"));
    plan = good;
    auto& actions = plan.programs[1].actions;
    const auto x =
        std::find_if(actions.begin(), actions.end(), [&](const Action& a) { return plan.blocks[at(a.block)].kind == BlockKind::exchange; });
    drop_action(plan, 1, static_cast<std::int32_t>(x - actions.begin()));
    EXPECT_TRUE(reports(verify(plan), "transfer-unmatched"));
}

// Two stages: the first sends, then receives; the second the other way round.
Plan there_and_back() {
    Plan plan;
    plan.name = "there and back";
    plan.mesh.size[at(static_cast<int>(Axis::pp))] = 2;
    plan.mesh.order = {Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::dpr, Axis::dpw, Axis::pp};
    plan.stages = 2;
    plan.communicators = {{"pp.up.0-1", mask(Axis::pp), {0, 1}}, {"pp.down.1-0", mask(Axis::pp), {1, 0}}};
    for (std::int16_t stage : {0, 1}) {
        Program program;
        program.stage = stage;
        for (const bool send : {stage == 0, stage != 0}) {
            Buffer b;
            b.name = "s" + std::to_string(stage) + (send ? ".out" : ".in");
            b.bytes = {8};
            b.scope = Scope::run;
            b.stage = b.chunk = stage;
            plan.buffers.push_back(b);
            Op op;
            op.name = send ? "send" : "receive";
            const CommId comm = (stage == 0) == send ? CommId{0} : CommId{1};
            const BufferId id = static_cast<BufferId>(plan.buffers.size()) - 1;
            op.work = Exchange{{{comm, send, b.bytes, id, 0}}};
            op.queue = queue_of(comm);
            (send ? op.in : op.out).push_back(id);
            Block block;
            block.name = op.name;
            block.kind = BlockKind::exchange;
            block.stage = stage;
            block.ops.push_back(op);
            plan.blocks.push_back(block);
            Action a;
            a.block = static_cast<std::int32_t>(plan.blocks.size()) - 1;
            a.last = 1;
            a.microbatch[0] = 0;
            if (!program.actions.empty()) { // the second waits for the first
                program.deps.push_back({0, 0, 0});
                a.deps_end = 1;
            }
            program.actions.push_back(a);
        }
        plan.programs.push_back(program);
    }
    return plan;
}

TEST(Verify, SaysWhoWaitsForWhomWhenProgramsStandStill) {
    EXPECT_FALSE(reports(verify(there_and_back()), "deadlock"));
    Plan plan = there_and_back();
    std::swap(plan.programs[1].actions[0].block, plan.programs[1].actions[1].block); // stage 1 sends before it receives
    const std::vector<Violation> found = verify(plan);
    ASSERT_TRUE(reports(found, "deadlock")) << to_text(found);
    EXPECT_NE(to_text(found).find("stage 0, action 0 (send microbatch 0): waits for stage 1, action 1 (receive microbatch 0)"),
              std::string::npos)
        << to_text(found);
}

// A value that claims to be whole, split or a sum where it is not.
TEST(Verify, NamesPlacementsThatDoNotFit) {
    const auto with = [](const std::vector<std::string>& overrides, const std::string& buffer, PlacementKind kind, int dim = 0) {
        Plan plan = plan_of(overrides);
        const auto it = std::find_if(plan.buffers.begin(), plan.buffers.end(), [&](const Buffer& b) { return b.name == buffer; });
        if (it == plan.buffers.end())
            ADD_FAILURE() << "no buffer " << buffer;
        else
            it->placement.set(Axis::tp, kind, dim);
        return verify(plan);
    };
    EXPECT_TRUE(reports(with(tp2, "c0.l0.proj", PlacementKind::invariant), "reduced-not-partial"));
    EXPECT_TRUE(reports(with(tp2, "c0.l0.proj.reduced", PlacementKind::partial), "placement")) << "what an all-reduce leaves";
    EXPECT_TRUE(reports(with(tp2, "c0.l0.norm1", PlacementKind::partial), "partial-read")) << "a linear reads a sum still to be made";
    EXPECT_TRUE(reports(with(sp2, "c0.l0.norm1.entered", PlacementKind::sharded, 0), "placement"))
        << "a column-parallel linear needs all rows";
    EXPECT_TRUE(reports(with(sp2, "g.l0.norm1.weight", PlacementKind::invariant), "placement")) << "a sum over split rows";
    EXPECT_TRUE(reports(with(tp2, "g.l0.fc2.weight", PlacementKind::sharded, 0), "placement")) << "split along the other dimension";
    EXPECT_TRUE(reports(with(tp2, "c0.l0.fc1", PlacementKind::invariant), "placement"));
}

// A bucket that is not what its buffers and ops make of it.
TEST(Verify, NamesBucketsThatAreNotWhatTravels) {
    const std::vector<std::string> sharded{"strategy.zero_stage=1", "strategy.bucket_bytes=1000000"};
    const auto with = [&](const auto& change) {
        Plan plan = plan_of(sharded);
        EXPECT_TRUE(verify(plan).empty());
        change(plan, *std::find_if(plan.buckets.begin(), plan.buckets.end(), [](const TensorBucket& b) { return b.tensors.size() > 1; }));
        return verify(plan);
    };
    EXPECT_TRUE(reports(with([](Plan&, TensorBucket& b) { std::swap(b.tensors[0], b.tensors[1]); }), "bucket")) << "not side by side";
    EXPECT_TRUE(reports(with([](Plan&, TensorBucket& b) { b.shard /= 2; }), "bucket"));
    EXPECT_TRUE(reports(with([](Plan&, TensorBucket& b) { b.reduced_in = DType::fp64; }), "bucket"));
    const auto misordered = [](Plan& plan, TensorBucket&) {
        for (Block& block : plan.blocks)
            for (Op& op : block.ops)
                if (std::holds_alternative<Collective>(op.work) && block.kind == BlockKind::reduce && op.in.size() > 1)
                    std::swap(op.in[0], op.in[1]);
    };
    EXPECT_TRUE(reports(with(misordered), "bucket"));
    EXPECT_TRUE(reports(with([](Plan& plan, TensorBucket&) {
                            for (Buffer& b : plan.buffers) b.tensor = -1;
                        }),
                        "bucket"));
    EXPECT_TRUE(reports(with([](Plan&, TensorBucket& b) { b.tensors[0].tensor = 1 << 20; }), "structure"));
}

TEST(Verify, NamesWhatIsNotThere) {
    Plan plan = plan_of({});
    plan.blocks[0].ops[0].in.push_back(static_cast<BufferId>(plan.buffers.size()));
    EXPECT_TRUE(reports(verify(plan), "structure"));
    plan = plan_of({});
    plan.programs[0].actions[0].last += 1000;
    EXPECT_TRUE(reports(verify(plan), "structure"));
    plan = plan_of({});
    plan.buffers[0].storage = 0;
    EXPECT_TRUE(reports(verify(plan), "structure")) << "a view of itself";
}

TEST(Verify, LimitsHowOftenItSaysTheSame) {
    Plan plan = plan_of(sp2);
    for (Block& b : plan.blocks)
        for (Op& op : b.ops) op.deps.clear();
    const std::vector<Violation> found = verify(plan);
    EXPECT_GT(found.size(), 5u);
    EXPECT_LT(found.size(), 100u);
    EXPECT_NE(to_text(found).find(" more"), std::string::npos);
}

} // namespace
} // namespace orrery::test
