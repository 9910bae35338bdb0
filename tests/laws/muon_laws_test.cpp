// Does Muon hold one moment of matrices, make whole matrices orthogonal once or on every rank, and move what that needs?
#include "tests/laws/mixture.hpp"
#include "tests/laws/scenarios.hpp"

#include "sim/cost/cost.hpp"
#include "sim/plan/passes/muon.hpp"
#include "sim/plan/verify.hpp"
#include "tests/laws/simulations.hpp"

#include <algorithm>

namespace orrery::laws {
namespace {

Gpt trained_by(const char* optimizer) {
    Gpt g;
    g.optimizer = optimizer;
    g.flash = true;
    return g;
}

std::string refused(const std::string& text) { return to_text(parse_scenario(text, {}).problems); }

double states(const Plan& plan) { return resident(plan, 0)[MemoryKind::optimizer_states]; }

// Elements of the first stage's layers in matrices, tensor parallelism counted.
double in_matrices(const Plan& plan) {
    double n = 0;
    for (const Buffer& b : plan.buffers)
        if (b.role == Role::parameter && b.stage == 0 && b.name.starts_with("w.l") && b.shape.size() == (b.expert ? 3u : 2u)) {
            double elements = 1;
            for (const std::int64_t d : b.shape) elements *= static_cast<double>(d);
            n += elements;
        }
    return n;
}

// FLOPs of the step's iterations on a rank of the first stage.
double iterations(const Plan& plan) {
    double sum = 0;
    for (const Block& block : plan.blocks)
        for (const Op& op : block.ops)
            if (std::holds_alternative<OptimizerStep>(op.work) && block.stage == 0) sum += flops(op.work).count;
    return sum;
}

double products(double rows, double cols) {
    const double m = std::min(rows, cols), n = std::max(rows, cols);
    return 5 * (4 * m * m * n + 2 * m * m * m);
}

// Bytes that gathers of the optimizer's block receive.
double gathered(const Plan& plan) {
    double sum = 0;
    for (const Block& block : plan.blocks)
        for (const Op& op : block.ops)
            if (const auto* c = std::get_if<Collective>(&op.work);
                c && block.kind == BlockKind::optimizer && c->kind == CollectiveKind::all_gather)
                sum += static_cast<double>(c->bytes.count) * c->times;
    return sum;
}

TEST(MuonLaws, MatricesOfLayersHaveOneMoment) {
    const Plan adamw = verified(trained_by("adamw").make()), muon = verified(trained_by("muon").make());
    EXPECT_NEAR(in_matrices(muon), 4 * 12 * 1024.0 * 1024.0, 1) << "queries, keys, values, output, two of the MLP";
    EXPECT_EQ(states(adamw) - states(muon), 4 * in_matrices(muon));
}

TEST(MuonLaws, ZeroOneDividesStatesByKind) {
    for (const char* framework : {"megatron", "deepspeed", "nanotron"}) {
        Gpt g = trained_by("muon");
        g.framework = framework;
        g.dp = 4;
        const double whole = states(verified(g.make()));
        g.zero = 1;
        EXPECT_NEAR(states(verified(g.make())), whole / 4, 1e-3 * whole) << framework;
    }
}

// Every plan is whole: buckets of both kinds, experts apart, stages, gathers along tensor-parallel ranks.
TEST(MuonLaws, PlansVerify) {
    for (const char* framework : {"megatron", "deepspeed", "nanotron", "ddp"})
        for (const int zero : {0, 1})
            for (const int tp : {1, 2})
                for (const int pp : {1, 2}) {
                    Gpt g = trained_by("muon");
                    g.framework = framework;
                    if (g.framework == "ddp" && (tp > 1 || pp > 1)) continue;
                    g.zero = zero;
                    g.tp = tp;
                    g.sp = tp > 1;
                    g.pp = pp;
                    g.dp = 2;
                    SCOPED_TRACE(g.text());
                    verified(g.make());
                }
    Mixture m;
    m.dp = 8;
    m.ep = 4;
    for (const int zero : {0, 1})
        for (const char* way : {"blockwise", "duplicated"})
            for (const int etp : {1, 2}) {
                m.zero = zero;
                m.tp = m.etp = etp;
                verified(m.make({"training.optimizer=muon", std::string("training.muon_matrices=") + way}));
            }
    m.bias = true; // of experts: one for each, and no matrix
    m.tp = m.etp = 1;
    verified(m.make({"training.optimizer=muon"}));
}

// Per layer: queries, and keys and values, of 1024 x 1024 each, the output projection, and two of 4096 x 1024.
TEST(MuonLaws, IteratesOverWholeMatrices) {
    const double one = 4 * (4 * products(1024, 1024) + 2 * products(4096, 1024));
    Gpt g = trained_by("muon");
    EXPECT_NEAR(iterations(verified(g.make())), one, 1e-9 * one);
    g.dp = 4;
    EXPECT_NEAR(iterations(verified(g.make())), one, 1e-9 * one) << "replicas each do all of it";
    g.zero = 1;
    g.framework = "nanotron";
    EXPECT_NEAR(iterations(verified(g.make())), one, 1e-9 * one) << "gathered: each rank does all of it";
    for (const char* framework : {"deepspeed", "megatron"}) { // matrices have owners
        g.framework = framework;
        const double dealt = iterations(verified(g.make()));
        EXPECT_GE(dealt, one / 4) << framework;
        EXPECT_LE(dealt, one / 4 + products(4096, 1024) + products(1024, 1024)) << framework;
    }
    g.zero = 0;
    g.dp = 1;
    g.tp = 2;
    EXPECT_LT(iterations(verified(g.make())), 0.6 * one) << "parts of matrices have fewer products";
    Scenario s = g.make();
    s.training.muon_matrices = MuonMatrices::duplicated;
    EXPECT_NEAR(iterations(verified(s)), one, 1e-9 * one) << "each tensor-parallel rank does whole ones";
}

TEST(MuonLaws, GathersAreOfWholeMatrices) {
    Gpt g = trained_by("muon");
    g.dp = 4;
    g.zero = 1;
    EXPECT_EQ(gathered(verified(g.make())), 0) << "owners have them whole";
    g.framework = "nanotron";
    const Plan shards = verified(g.make());
    EXPECT_NEAR(gathered(shards), 2 * in_matrices(shards), 1e-3 * 2 * in_matrices(shards)) << "in bf16";
    g.framework = "megatron";
    g.dp = 1;
    g.zero = 0;
    g.tp = 2;
    EXPECT_EQ(gathered(verified(g.make())), 0) << "blockwise";
    Scenario s = g.make();
    s.training.muon_matrices = MuonMatrices::duplicated;
    const Plan whole = verified(s);
    EXPECT_NEAR(gathered(whole), 4 * 2 * in_matrices(whole), 1) << "in fp32";
}

TEST(MuonLaws, OwnersShareTheUpdate) {
    Gpt g = trained_by("muon");
    g.hidden = 4096;
    g.heads = 32;
    g.layers = 8;
    g.dp = 8;
    g.microbatches = 1;
    const auto update = [&](const char* framework, int zero) {
        g.framework = framework;
        g.zero = zero;
        const Scenario s = g.make();
        double seconds = 0;
        const Plan plan = verified(s);
        const Fabric fabric(s.cluster);
        const CostModel cost(s, fabric);
        for (const Block& block : plan.blocks)
            for (const Op& op : block.ops)
                if (const auto* step = std::get_if<OptimizerStep>(&op.work); step && step->kind == OptimizerKind::muon)
                    seconds += cost.compute(plan, op).duration.seconds();
        return seconds;
    };
    const double replicas = update("megatron", 0), owners = update("megatron", 1), gathers = update("nanotron", 1);
    EXPECT_LT(owners, 0.25 * replicas);
    EXPECT_LT(owners, gathers);
    EXPECT_LT(gathers, 1.01 * replicas) << "products of all of it, other passes of a shard";
}

TEST(MuonLaws, TheFirstOwnerHasMost) {
    const std::vector<MatrixShape> all{{64, 64, 10}, {256, 64, 6}};
    for (const std::int64_t ranks : {1, 3, 4, 7, 16, 100}) {
        std::int64_t count = 0;
        for (const MatrixShape& m : of_first_owner(all, ranks)) count += m.count;
        EXPECT_EQ(count, (16 + ranks - 1) / ranks) << ranks;
    }
    const std::vector<MatrixShape> one = of_first_owner(all, 1), few = of_first_owner(all, 4);
    EXPECT_EQ(one, (std::vector<MatrixShape>{{256, 64, 6}, {64, 64, 10}}));
    EXPECT_EQ(few, (std::vector<MatrixShape>{{256, 64, 2}, {64, 64, 2}})) << "the 1st, 5th, 9th and 13th by size";
    EXPECT_EQ(of_first_owner(all, 100), (std::vector<MatrixShape>{{256, 64, 1}}));
}

TEST(MuonLaws, RefusesByName) {
    Gpt g = trained_by("muon");
    g.framework = "fsdp2";
    g.dp = 2;
    g.zero = 3;
    EXPECT_NE(refused(g.text()).find("strategy.zero_stage = 3 with training.optimizer = muon"), std::string::npos) << refused(g.text());
    g.framework = "megatron";
    g.zero = 1;
    g.extra_strategy = R"(, "offload": {"optimizer": "cpu"})";
    EXPECT_NE(refused(g.text()).find("strategy.offload.optimizer = cpu with training.optimizer = muon"), std::string::npos);
    g.zero = 0;
    g.framework = "ddp";
    g.extra_strategy = R"(, "synchronization": {"kind": "diloco", "inner_steps": 4})";
    EXPECT_NE(refused(g.text()).find("strategy.synchronization.kind = diloco with training.optimizer = muon"), std::string::npos);
}

TEST(MuonLaws, SaysWhereTheWayOfMatricesHasNoEffect) {
    const auto notes = [](const std::string& optimizer, int tp) {
        Gpt g = trained_by(optimizer.c_str());
        g.tp = tp;
        ParseOptions options;
        options.overrides = {"training.muon_matrices=duplicated"};
        const Scenario s = parse_scenario(g.text(), options).scenario.value();
        std::string text;
        for (const std::string& note : s.notes) text += note + "\n";
        return text;
    };
    EXPECT_NE(notes("adamw", 2).find("training.muon_matrices has no effect: training.optimizer is not muon"), std::string::npos);
    EXPECT_NE(notes("muon", 1).find("training.muon_matrices has no effect: there is one tensor-parallel rank"), std::string::npos);
    EXPECT_EQ(notes("muon", 2).find("muon_matrices"), std::string::npos);
}

} // namespace
} // namespace orrery::laws
