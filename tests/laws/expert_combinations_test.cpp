// Does every combination of degrees 1, 2 and 4 over the five dimensions lower, verify, do the same work with the same parameters and
// tokens, and simulate folded as unfolded, whatever the schedule, the kind of context parallelism, the dispatcher and the order of ranks?
#include "tests/laws/mixture.hpp"

#include "sim/cost/cost.hpp"
#include "sim/engine/simulate.hpp"

#include <cmath>
#include <map>
#include <numeric>
#include <set>

namespace orrery::laws {
namespace {

using Overrides = std::vector<std::string>;

struct Pipeline {
    const char* schedule;
    int chunks;
};
constexpr Pipeline pipelines[] = {
    {"1f1b", 1}, {"interleaved-1f1b", 2}, {"dualpipe", 1}, {"dualpipe-v", 2}, {"zb-h1", 1}, {"zb-h2", 1}, {"zb-v", 2}, {"gpipe", 1}};
constexpr const char* kinds[] = {"ring", "allgather", "ulysses"};
constexpr const char* dispatchers[] = {"alltoall", "allgather", "deepep"};

Mixture small() {
    Mixture m;
    m.layers = 8, m.hidden = 64, m.heads = 16, m.vocab = 512, m.sequence = 64, m.micro_batch = 1, m.global_batch = 32, m.ffn = 64,
    m.experts = 4;
    return m;
}

// Sums over all ranks and a step.
struct Work {
    double flops = 0, tokens = 0, parameters = 0;
};

// Elements of every parameter, each tensor once, its shards together. Copies of the model that DualPipe holds are the same tensors.
double logical_parameters(const Plan& plan) {
    double sum = 0;
    std::set<TensorId> met;
    for (const Buffer& b : plan.buffers) {
        if (b.role != Role::parameter || !met.insert(b.tensor).second) continue;
        double n =
            std::accumulate(b.shape.begin(), b.shape.end(), 1.0, [](double x, std::int64_t d) { return x * static_cast<double>(d); });
        for (Axis a : {Axis::tp, Axis::ep})
            if (b.placement.on(a) == PlacementKind::sharded) n *= (b.expert ? plan.expert_mesh : plan.mesh).extent(a);
        sum += n;
    }
    return sum;
}

Work work_of(const Plan& plan) {
    Work w;
    for (int s = 0; s < plan.stages; ++s)
        each_op(plan, s, [&](const Block&, const Op& op) {
            if (op.phase == Phase::optimizer) return;
            w.flops += flops(op.work).count;
            if (const auto* loss = std::get_if<CrossEntropy>(&op.work); loss && loss->part == CrossEntropy::Part::loss)
                w.tokens += static_cast<double>(loss->tokens);
        });
    const double ranks = static_cast<double>(plan.mesh.ranks()) / plan.stages;
    w.flops *= ranks;
    w.tokens *= ranks / plan.mesh.extent(Axis::tp); // each of them computes the loss of all its tokens
    w.parameters = logical_parameters(plan);
    return w;
}

void expect_same_work(const Plan& plan, const Work& whole) {
    const Work w = work_of(plan);
    EXPECT_EQ(w.tokens, whole.tokens);
    EXPECT_EQ(w.parameters, whole.parameters);
    // Context ranks compute the masked halves of the blocks on the diagonal in parts of their own.
    EXPECT_NEAR(w.flops, whole.flops, plan.mesh.extent(Axis::cp) > 1 ? 0.03 * whole.flops : 1e-12 * whole.flops);
}

void expect_folds(const Plan& plan, const Scenario& s) {
    const Fabric fabric(s.cluster);
    const CostModel cost(s, fabric);
    SimulateOptions flat;
    flat.fold = false;
    const Simulation folded = simulate(plan, s, fabric, cost), unfolded = simulate(plan, s, fabric, cost, flat);
    ASSERT_FALSE(folded.deadlock) << to_text(*folded.deadlock);
    ASSERT_FALSE(unfolded.deadlock) << to_text(*unfolded.deadlock);
    const double step = static_cast<double>(unfolded.step_time.ps);
    EXPECT_NEAR(static_cast<double>(folded.step_time.ps), step, 1e-9 * step + 1);
    std::map<LinkId, double> bytes;
    for (const LinkUse& l : unfolded.links) bytes[l.link] = l.bytes;
    std::size_t twins = 0;
    for (const LinkUse& l : folded.links) {
        EXPECT_EQ(l.bytes, bytes[l.link]) << "link " << l.link;
        twins += static_cast<std::size_t>(l.twins);
    }
    EXPECT_EQ(twins, unfolded.links.size());
}

void expect_sound(const Plan& plan, const Work& whole) {
    const auto broken = verify(plan);
    ASSERT_TRUE(broken.empty()) << to_text(broken);
    expect_same_work(plan, whole);
}

// The i-th of the ways to run a combination: neighbours differ in all of them.
Overrides way(const Mixture& m, const Pipeline& pipeline, int i) {
    Overrides o{std::string("strategy.context_parallel_kind=") + kinds[i % 3]};
    if (m.pp > 1) {
        o.push_back(std::string("strategy.schedule=") + pipeline.schedule);
        o.push_back("strategy.virtual_pipeline=" + std::to_string(pipeline.chunks));
        o.push_back(std::string("strategy.overlap.pipeline=") + (i % 5 < 3 ? "true" : "false"));
    }
    if (i % 7 == 3) o.push_back("strategy.recompute=full");
    if (i % 7 == 5) o.push_back(R"(strategy.recompute=["norm", "activation"])");
    if (i % 4 == 1) o.push_back("strategy.overlap.expert_parallel=true");
    return o;
}

class Degrees : public testing::TestWithParam<int> {}; // the expert-parallel degree

TEST_P(Degrees, LowerVerifyAndFold) {
    const int ep = GetParam();
    std::map<bool, Work> whole; // by whether there is a shared expert
    for (const bool shared : {false, true}) {
        Mixture m = small();
        m.shared = shared;
        whole[shared] = work_of(lower(m.make()));
    }
    int tried = 0;
    for (int tp : {1, 2, 4})
        for (int pp : {1, 2, 4})
            for (int cp : {1, 2, 4})
                for (int dp : {1, 2, 4})
                    for (int etp : {1, 2}) {
                        Mixture m = small();
                        m.tp = tp, m.pp = pp, m.cp = cp, m.dp = dp, m.ep = ep, m.etp = etp;
                        if (tp * cp * dp % (ep * etp) != 0 || m.world() > 64 || (etp > 1 && tp == 1)) continue;
                        const int i = ++tried;
                        const Pipeline& pipeline = pipelines[static_cast<std::size_t>(i) % std::size(pipelines)];
                        m.dispatcher = dispatchers[i / 2 % 3];
                        m.zero = i % 2;
                        m.shared = i / 3 % 2;
                        const Overrides o = way(m, pipeline, i);
                        SCOPED_TRACE(fmt::format("tp {} pp {} cp {} dp {} ep {} etp {} {} {}", tp, pp, cp, dp, ep, etp, m.dispatcher,
                                                 fmt::join(o, " ")));
                        const Scenario s = m.make(o);
                        const Plan plan = lower(s);
                        const bool again = i % 7 == 3;
                        const auto broken = verify(plan);
                        ASSERT_TRUE(broken.empty()) << to_text(broken);
                        if (!again) expect_same_work(plan, whole[m.shared != 0]);
                        if (i % 4 == 0 && m.world() <= 32) expect_folds(plan, s);
                        if (HasFatalFailure()) return;
                    }
    EXPECT_GT(tried, 50);
}

INSTANTIATE_TEST_SUITE_P(Experts, Degrees, testing::Values(1, 2, 4), [](const auto& p) { return "ep" + std::to_string(p.param); });

class Schedules : public testing::TestWithParam<int> {}; // of `pipelines`

// Each schedule with each kind of context parallelism, with experts apart or not, tensor-parallel or not.
TEST_P(Schedules, GoWithEveryKindOfContextAndExperts) {
    const Pipeline& pipeline = pipelines[GetParam()];
    Mixture one = small();
    one.global_batch = 16;
    const Work whole = work_of(lower(one.make()));
    int i = 0;
    for (int tp : {1, 2})
        for (int ep : {1, 2, 4})
            for (int kind : {0, 1, 2}) {
                Mixture m = one;
                m.tp = tp, m.pp = 2, m.cp = 2, m.dp = 2, m.ep = ep;
                m.dispatcher = dispatchers[i % 3];
                const Overrides o{std::string("strategy.context_parallel_kind=") + kinds[kind],
                                  std::string("strategy.schedule=") + pipeline.schedule,
                                  "strategy.virtual_pipeline=" + std::to_string(pipeline.chunks),
                                  std::string("strategy.overlap.pipeline=") + (i % 2 ? "true" : "false"),
                                  std::string("strategy.zero_stage=") + (i % 4 < 2 ? "0" : "1")};
                SCOPED_TRACE(fmt::format("tp {} ep {} {} {}", tp, ep, m.dispatcher, fmt::join(o, " ")));
                const Scenario s = m.make(o);
                const Plan plan = lower(s);
                expect_sound(plan, whole);
                if (i++ % 3 == 0) expect_folds(plan, s);
                if (HasFatalFailure()) return;
            }
}

INSTANTIATE_TEST_SUITE_P(Experts, Schedules, testing::Range(0, static_cast<int>(std::size(pipelines))), [](const auto& p) {
    std::string name = pipelines[p.param].schedule;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

// Whoever is in a group agrees on who is, and groups of one stage stay there.
void expect_groups(const Plan& plan) {
    const int stride = plan.mesh.stride(Axis::pp), stages = plan.mesh.extent(Axis::pp);
    for (std::size_t c = 0; c < plan.communicators.size(); ++c) {
        const Communicator& comm = plan.communicators[c];
        for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
            const std::vector<int> group = members(plan, static_cast<CommId>(c), rank);
            if (group.empty()) continue;
            EXPECT_EQ(static_cast<int>(group.size()), size(plan, static_cast<CommId>(c))) << comm.name;
            EXPECT_EQ(std::count(group.begin(), group.end(), rank), 1) << comm.name << " of rank " << rank;
            for (int other : group) {
                EXPECT_EQ(members(plan, static_cast<CommId>(c), other), group) << comm.name << " of ranks " << rank << ", " << other;
                if (!(comm.axes & mask(Axis::pp))) { EXPECT_EQ(other / stride % stages, rank / stride % stages) << comm.name; }
            }
        }
    }
}

TEST(Experts, AnyOrderOfRanksWithAnyDegrees) {
    struct Case {
        int tp, cp, dp, pp, ep, etp;
        const char* order;
    };
    for (const Case& c : {Case{2, 1, 6, 3, 4, 1, "tp-pp-ep-dp"},
                          {3, 1, 4, 2, 2, 1, "tp-pp-dp-ep"},
                          {3, 2, 2, 2, 4, 1, "tp-cp-pp-ep-dp"},
                          {1, 3, 4, 3, 6, 1, "cp-pp-tp-ep-dp"},
                          {2, 3, 2, 2, 12, 1, "tp-dp-pp-cp-ep"},
                          {3, 1, 4, 2, 2, 3, "pp-tp-dp-cp-ep"},
                          {2, 1, 3, 3, 3, 2, "tp-pp-cp-ep-dp"},
                          {1, 1, 6, 3, 3, 1, "dp-pp-ep"}}) {
        Mixture m = small();
        m.layers = 6, m.hidden = 96, m.heads = 6, m.vocab = 384, m.sequence = 72, m.global_batch = 72, m.experts = 12, m.ffn = 96;
        m.tp = c.tp, m.cp = c.cp, m.dp = c.dp, m.pp = c.pp, m.ep = c.ep, m.etp = c.etp;
        m.cluster = fmt::format(R"({{"preset": "dgx-h100", "nodes": {}, "devices_per_node": 6}})", m.world() / 6);
        const Scenario s = m.make({std::string("strategy.rank_order=") + c.order});
        SCOPED_TRACE(fmt::format("tp {} cp {} dp {} pp {} ep {} etp {} {}", c.tp, c.cp, c.dp, c.pp, c.ep, c.etp, c.order));
        const Plan plan = lower(s);
        const auto broken = verify(plan);
        ASSERT_TRUE(broken.empty()) << to_text(broken);
        expect_groups(plan);
        expect_folds(plan, s);
    }
}

} // namespace
} // namespace orrery::laws
