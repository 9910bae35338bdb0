// Does any small scenario crash, stand still, break a rule of verify, or depend on folding or replay? Thousands of random ones,
// seeded: the same on every machine. ORRERY_FUZZ=n runs n of them from a seed of ORRERY_FUZZ_SEED.
#include "tests/fuzz/fuzz.hpp"

namespace orrery::fuzz {
namespace {

std::string random_scenario(std::uint64_t seed) {
    Random r{seed};
    const int tp = r.of({1, 1, 2, 4}), pp = r.of({1, 2, 2, 4}), dp = r.of({1, 2, 4});
    std::string schedule =
        pp == 1 ? "1f1b" : r.of<const char*>({"none", "gpipe", "1f1b", "1f1b", "interleaved-1f1b", "zb-h1", "zb-h2", "zb-v"});
    const int vp = schedule == "interleaved-1f1b" ? r.of({2, 2, 3}) : schedule == "zb-v" ? 2 : 1;
    const int layers = pp * vp * r.of({1, 1, 2}) + (r.chance(20) ? r.of({-1, 1}) : 0);
    const int microbatches = schedule == "interleaved-1f1b" && r.chance(80) ? pp * r.of({1, 2, 3}) : r.of({1, 2, 4, 5, 8});
    const int heads = r.of({4, 8, 8, 6}), kv = r.chance(30) ? r.of({2, 4}) : heads;
    const bool sp = tp > 1 && r.chance(60);
    const std::string framework = r.of<const char*>({"megatron", "megatron", "fsdp", "fsdp2", "deepspeed", "ddp"});
    const int zero = framework == "ddp" ? 0 : framework == "fsdp" || framework == "fsdp2" ? r.of({2, 3}) : r.of({0, 1, 1, pp == 1 ? 3 : 1});
    const int world = tp * pp * dp, per_node = r.of({world, world >= 4 ? 4 : world, world >= 8 ? 8 : world});
    const std::string precision = r.of<const char*>({"bf16", "bf16", "fp16", "fp32"});
    std::string extra;
    if (r.chance(25) && zero >= 1 && dp > 1) extra += fmt::format(R"(, "shard_group_size": {})", r.of({1, 2, dp}));
    if (r.chance(40))
        extra += fmt::format(R"(, "overlap": {{"pipeline": {}, "grad_reduce": {}, "tensor_parallel": {}, "param_gather": {}}})",
                             r.chance(50), r.chance(50), r.chance(50), r.chance(50));
    if (r.chance(25))
        extra += fmt::format(R"(, "rank_order": "{}")",
                             r.of<const char*>({"tp-pp-cp-ep-dp", "tp-cp-ep-dp-pp", "pp-dp-ep-cp-tp", "dp-tp-pp-cp-ep"}));
    if (r.chance(20)) extra += fmt::format(R"(, "bucket_bytes": {})", r.of({1000, 100000, 10000000}));
    if ((schedule == "zb-h2" || schedule == "zb-v") && r.chance(50)) extra += R"(, "optimizer_sync": "post-validation")";
    const int batch = microbatches * dp + (r.chance(5) ? 1 : 0);
    return fmt::format(
        R"({{"name": "fuzz {}", "model": {{"layers": {}, "hidden_size": {}, "attention_heads": {}, "kv_heads": {}, "vocab_size": {}, "activation": "{}", "norm": "{}",
             "position": "{}", "tied_embeddings": {}, "bias": {}, "dropout": {}}},
            "cluster": {{"preset": "{}", "nodes": {}, "devices_per_node": {}}},
            "training": {{"global_batch_size": {}, "micro_batch_size": 1, "sequence_length": {}, "precision": "{}", "optimizer": "{}", "gradient_clipping": {}}},
            "strategy": {{"framework": "{}", "tensor_parallel": {}, "pipeline_parallel": {}, "data_parallel": {}, "virtual_pipeline": {}, "schedule": "{}",
                          "sequence_parallel": {}, "zero_stage": {}, "recompute": "{}", "flash_attention": {}{}}}}})",
        seed, layers, heads * 64, heads, kv, r.of({1000, 1024, 50257}), r.of<const char*>({"gelu", "relu", "swiglu", "geglu"}),
        r.of<const char*>({"layernorm", "rmsnorm"}), r.of<const char*>({"learned", "rope", "none"}), r.chance(50), r.chance(50),
        r.of({0.0, 0.1}), r.of<const char*>({"dgx-a100-80gb", "dgx-h100", "dgx-v100"}), (world + per_node - 1) / per_node, per_node, batch,
        r.of({64, 128, 256}), precision, r.of<const char*>({"adam", "adamw", "sgd", "momentum", "lamb"}), r.of({0.0, 1.0}), framework, tp,
        pp, dp, vp, schedule, sp, zero, r.of<const char*>({"none", "none", "selective", "full"}), r.chance(70), extra);
}

TEST(Fuzz, RandomSmallScenarios) {
    const int count = setting("ORRERY_FUZZ", 2000);
    const auto base = static_cast<std::uint64_t>(setting("ORRERY_FUZZ_SEED", 1)) * 1000003;
    int accepted = 0, rejected = 0;
    for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
        const std::string text = random_scenario(base + static_cast<std::uint64_t>(i));
        const ParseResult parsed = parse_scenario(text);
        if (!parsed.scenario || !unsupported(*parsed.scenario).empty()) {
            ++rejected;
            continue;
        }
        ++accepted;
        SCOPED_TRACE(text);
        check(*parsed.scenario, i % 4 == 0);
    }
    fmt::print("{} random scenarios: {} accepted, {} rejected\n", accepted + rejected, accepted, rejected);
    EXPECT_GE(accepted, count / 2) << "most must be scenarios, not mistakes";
}

} // namespace
} // namespace orrery::fuzz
