// Compressed gradients: what travels, and where it pays.
#include "tests/laws/scenarios.hpp"

#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"

namespace orrery::laws {
namespace {

Gpt replicas(const std::string& compression, const std::string& gbit_per_s = "25", const std::string& gradients = "fp32") {
    Gpt g;
    g.dp = 8;
    g.flash = true;
    g.gradient_dtype = gradients;
    g.framework = "ddp";
    g.cluster =
        R"({"preset": "dgx-a100-80gb", "nodes": 8, "devices_per_node": 1, "inter_node": {"kind": "ethernet", "nics_per_node": 1, "gbit_per_s": )" +
        gbit_per_s + "}}";
    if (!compression.empty()) g.extra_strategy = R"(, "gradient_compression": ")" + compression + "\"";
    return g;
}

std::int64_t reduced(const Plan& plan) {
    std::int64_t bytes = 0;
    for (const Action& a : plan.programs[0].actions)
        for (std::int32_t i = a.first; i < a.last; ++i) {
            const Op& op = plan.blocks[static_cast<std::size_t>(a.block)].ops[static_cast<std::size_t>(i)];
            const auto* c = std::get_if<Collective>(&op.work);
            if (c && c->kind == CollectiveKind::all_reduce && op.phase == Phase::gradient_reduce) bytes += c->bytes.count;
        }
    return bytes;
}

TEST(GradientCompression, OfSixteenBitsSendsHalfOfThirtyTwo) {
    const std::int64_t whole = reduced(lower(replicas("").make()));
    for (const char* kind : {"fp16", "bf16"}) {
        const Plan plan = lower(replicas(kind).make());
        EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
        EXPECT_EQ(2 * reduced(plan), whole) << kind;
    }
    EXPECT_EQ(reduced(lower(replicas("fp16", "25", "fp16").make())), whole / 2); // they are that already
}

// Half the bytes is twice the speed where links are all that counts, and less the more they let through.
TEST(GradientCompression, PaysTheMoreTheSlowerTheLink) {
    const auto gain = [](const std::string& gbit_per_s) {
        return predict(replicas("", gbit_per_s).make()).report.step_time_s /
               predict(replicas("bf16", gbit_per_s).make()).report.step_time_s;
    };
    EXPECT_GT(gain("1"), 1.6);
    EXPECT_LT(gain("1"), 2);
    EXPECT_GT(gain("1"), gain("25"));
    EXPECT_GT(gain("25"), gain("400"));
}

TEST(GradientCompression, TakesTheSameTimeFoldedAndUnfolded) {
    const Scenario s = replicas("bf16").make();
    PredictOptions whole;
    whole.simulate.fold = false;
    const double time = predict(s).report.step_time_s;
    EXPECT_NEAR(predict(s, whole).report.step_time_s, time, 1e-9 * time);
}

// In blocks each rank adds up one slice: an all-to-all there and a gather back, of a quarter (an eighth) of the bytes each.
TEST(GradientCompression, InBlocksSendsAQuarterAndAnEighth) {
    const auto sent = [](const Plan& plan) {
        std::int64_t bytes = 0;
        for (const Action& a : plan.programs[0].actions)
            for (std::int32_t i = a.first; i < a.last; ++i) {
                const Op& op = plan.blocks[static_cast<std::size_t>(a.block)].ops[static_cast<std::size_t>(i)];
                const auto* c = std::get_if<Collective>(&op.work);
                if (c && op.phase == Phase::gradient_reduce) bytes += c->bytes.count * (c->kind == CollectiveKind::all_reduce ? 2 : 1);
            }
        return static_cast<double>(bytes);
    };
    const double whole = sent(lower(replicas("").make()));
    for (const auto& [kind, share] : {std::pair{"int8", 0.25}, {"int4", 0.125}}) {
        const Plan plan = lower(replicas(kind).make());
        EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
        EXPECT_NEAR(sent(plan) / whole, share, 0.005) << kind;
    }
}

// On slow links fewer bits win by what they save of the wire; the faster the link, the less there is to save.
TEST(GradientCompression, FewerBitsWinTheMoreTheSlowerTheLink) {
    const auto time = [](const std::string& kind, const std::string& gbit_per_s) {
        Gpt g = replicas(kind, gbit_per_s);
        return predict(g.make()).report.step_time_s;
    };
    EXPECT_LT(time("int4", "1"), time("int8", "1"));
    EXPECT_LT(time("int8", "1"), time("bf16", "1"));
    EXPECT_LT(time("bf16", "1"), time("", "1"));
    EXPECT_GT(time("", "1") / time("int4", "1"), 4);
    EXPECT_LT(time("", "400") / time("int4", "400"), time("", "25") / time("int4", "25"));
}

} // namespace
} // namespace orrery::laws
