// The same of mixtures of experts, long sequences and both ways of pipelines: five dimensions, every schedule, kind, dispatcher and order
// of ranks, unequal loads, capacities, low precision, latent attention. ORRERY_FUZZ=n runs n of them.
#include "tests/fuzz/fuzz.hpp"

#include <numeric>

namespace orrery::fuzz {
namespace {

std::string random_mixture(std::uint64_t seed) {
    Random r{seed};
    const int tp = r.of({1, 1, 2, 3}), pp = r.of({1, 2, 2, 4}), cp = r.of({1, 1, 2}), dp = r.of({1, 2, 2, 3, 4});
    const int stage = tp * cp * dp, etp = tp > 1 && r.chance(30) ? tp : 1;
    int ep = r.of({1, 2, 3, 4, 6, 12});
    while (stage % (ep * etp) != 0) --ep; // 12 experts: some of these divide them
    while (12 % ep != 0 || stage % (ep * etp) != 0) --ep;
    const std::string schedule =
        pp == 1 ? "none" : r.of<const char*>({"1f1b", "interleaved-1f1b", "zb-h1", "zb-h2", "zb-v", "dualpipe", "dualpipe-v", "gpipe"});
    const int vp = schedule == "interleaved-1f1b" || schedule == "zb-v" || schedule == "dualpipe-v" ? 2 : 1;
    const int microbatches = 2 * pp * r.of({1, 2}), zero = schedule == "dualpipe" ? r.of({0, 1}) : r.of({0, 1, 1, 2, 3});
    const int layers = std::max(2, pp * vp) + r.of({0, 1, 3}), hidden = 144, heads = 12;
    const bool latent = r.chance(25), low = r.chance(20);
    std::string moe = fmt::format(
        R"("experts": 12, "top_k": {}, "expert_ffn_size": {}, "shared_experts": {}, "first_dense_layers": {}, "scoring": "{}", "router_bias": {}, "auxiliary_loss": {})",
        r.of({1, 2, 4}), 72, r.of({0, 0, 1}), r.of({0, 0, 1}), r.of<const char*>({"softmax", "sigmoid"}), r.chance(30), r.chance(50));
    if (r.chance(20)) moe += R"(, "groups": 4, "group_limit": 2)";
    if (r.chance(30)) moe += R"(, "imbalance": "zipf:0.8")";
    if (r.chance(30)) moe += R"(, "capacity_factor": 1.25)";
    const std::string attention =
        latent
            ? R"(, "attention": {"kind": "mla", "q_lora_rank": 48, "kv_lora_rank": 24, "qk_nope_head_dim": 12, "qk_rope_head_dim": 6, "v_head_dim": 12})"
            : "";
    const std::string again = r.of<const char*>(
        {"\"none\"", "\"none\"", "\"full\"", "\"selective\"", R"(["norm", "activation"])", R"(["latent", "norm", "cast"])"});
    std::string runtime = fmt::format(R"("token_dispatcher": "{}", "permute_fusion": {}, "fp8_activation_input": {})",
                                      r.of<const char*>({"alltoall", "allgather", "deepep", "hybridep"}), r.chance(50), r.chance(20));
    runtime += fmt::format(R"(, "fused_activation": {}, "fused_loss": {}, "compiled_loss": {}, "loss_upcast": {})", r.chance(70),
                           r.chance(60), r.chance(30), r.chance(60));
    if (low) runtime += fmt::format(R"(, "fp8_dispatch": {})", r.chance(60));
    const std::string order = r.of<const char*>({"tp-cp-ep-dp-pp", "tp-cp-ep-dp-pp", "tp-pp-cp-ep-dp", "dp-cp-pp-tp-ep", "pp-tp-cp-ep-dp"});
    const int world = tp * cp * dp * pp, per_node = world % 6 == 0 ? 6 : world % 8 == 0 ? 8 : world;
    return fmt::format(
        R"({{"name": "mixture {}", "model": {{"layers": {}, "hidden_size": {}, "attention_heads": {}, "vocab_size": 512, "ffn_size": 288, "activation": "{}", "norm": "rmsnorm", "position": "rope",
          "bias": {}, "tied_embeddings": {}, "mtp_layers": {}, "moe": {{{}}}{}}},
        "cluster": {{"preset": "dgx-h100", "nodes": {}, "devices_per_node": {}}},
        "training": {{"global_batch_size": {}, "micro_batch_size": 1, "sequence_length": 72, "precision": "{}"}},
        "strategy": {{"framework": "megatron", "data_parallel": {}, "tensor_parallel": {}, "sequence_parallel": {}, "context_parallel": {}, "context_parallel_kind": "{}", "pipeline_parallel": {},
          "virtual_pipeline": {}, "schedule": "{}", "expert_parallel": {}, "expert_tensor_parallel": {}, "zero_stage": {}, "recompute": {}, "rank_order": "{}",
          "overlap": {{"pipeline": {}, "expert_parallel": {}, "grad_reduce": {}, "param_gather": {}}}}},
        "runtime": {{{}}}}})",
        seed, layers, hidden, heads, r.of<const char*>({"swiglu", "gelu"}), etp == 1 && r.chance(30), r.chance(40), r.of({0, 0, 1}), moe,
        attention, (world + per_node - 1) / per_node, per_node, microbatches * dp, low ? "fp8" : "bf16", dp, tp, tp > 1, cp,
        r.of<const char*>({"ring", "allgather", "ulysses"}), pp, vp, schedule, ep, etp, zero, again, order, r.chance(50), r.chance(40),
        r.chance(50), r.chance(50), runtime);
}

TEST(Fuzz, RandomSmallMixtures) {
    const int count = setting("ORRERY_FUZZ", 500);
    const auto base = static_cast<std::uint64_t>(setting("ORRERY_FUZZ_SEED", 1)) * 1000033;
    int accepted = 0, rejected = 0;
    for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
        const std::string text = random_mixture(base + static_cast<std::uint64_t>(i));
        const ParseResult parsed = parse_scenario(text);
        if (!parsed.scenario || !unsupported(*parsed.scenario).empty()) {
            ++rejected;
            continue;
        }
        ++accepted;
        SCOPED_TRACE(text);
        check(*parsed.scenario, i % 4 == 0);
    }
    fmt::print("{} random mixtures: {} accepted, {} rejected\n", accepted + rejected, accepted, rejected);
    EXPECT_GE(accepted, count / 2) << "most must be scenarios, not mistakes";
}

} // namespace
} // namespace orrery::fuzz
