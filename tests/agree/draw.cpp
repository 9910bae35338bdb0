#include "draw.hpp"

#include "exec/kernels/random.hpp"
#include "sim/scenario/parse.hpp"

namespace orrery::agree {
namespace {

// Draws from one stream of numbers: the same scenarios every time.
struct Dice {
    std::uint64_t seed, at = 0;
    std::size_t below(std::size_t n) { return static_cast<std::size_t>(uniform(seed, 77, at++) * static_cast<double>(n)); }
    bool once_in(std::size_t n) { return below(n) == 0; }
    template <class T> T of(std::initializer_list<T> list) { return *(list.begin() + below(list.size())); }
};

void draw_model(Dice& dice, Fields& f) {
    const bool llama = dice.once_in(2), mixture = dice.once_in(3);
    if (llama || mixture)
        f.insert(f.end(), {"model.norm=rmsnorm", "model.activation=swiglu", "model.bias=false", "model.position=rope"});
    else
        f.push_back(std::string("model.position=") + dice.of({"learned", "alibi", "none"}));
    if (llama) f.push_back("model.kv_heads=" + std::to_string(dice.of({2, 4})));
    if (dice.once_in(2)) f.push_back("model.tied_embeddings=false");
    if (dice.once_in(4)) f.push_back("model.parallel_block=true");
    if (dice.once_in(4)) f.push_back("model.attention.sliding_window=" + std::to_string(dice.of({2, 5})));
    if (dice.once_in(5)) f.push_back("model.mtp_layers=1");
    if (dice.once_in(3)) f.push_back("model.dropout=0.1");
    if (dice.once_in(5)) f.push_back("runtime.attention_kernel=unfused");
    if (!mixture) return;
    f.insert(f.end(), {"model.moe.experts=4", "model.moe.expert_ffn_size=12"});
    f.push_back("model.moe.top_k=" + std::to_string(dice.of({1, 2})));
    if (dice.once_in(2)) // nothing is dropped, and there is room for whatever the router says
        f.insert(f.end(), {"model.moe.capacity_factor=4", "model.moe.pad_to_capacity=true"});
    else
        f.push_back("model.moe.imbalance=[1,1e-6,0,0]");
    if (dice.once_in(3)) f.push_back("model.moe.shared_experts=1");
    if (dice.once_in(3)) f.push_back("model.moe.scoring=sigmoid");
    f.push_back("strategy.expert_parallel=" + std::to_string(dice.of({1, 2, 4})));
    f.push_back("strategy.expert_tensor_parallel=" + std::to_string(dice.of({1, 1, 2})));
    if (dice.once_in(3)) f.push_back("strategy.overlap.expert_parallel=true");
    if (dice.seed % 2 == 0) f.push_back("model.moe.auxiliary_loss=false");
}

void draw_strategy(Dice& dice, Fields& f) {
    const int tp = dice.of({1, 1, 2, 4}), pp = dice.of({1, 1, 2, 4}), cp = dice.of({1, 1, 2}), dp = dice.of({1, 2});
    f.push_back("strategy.tensor_parallel=" + std::to_string(tp));
    f.push_back("strategy.pipeline_parallel=" + std::to_string(pp));
    f.push_back("strategy.context_parallel=" + std::to_string(cp));
    f.push_back("strategy.data_parallel=" + std::to_string(dp));
    if (tp > 1 && !dice.once_in(3)) f.push_back("strategy.sequence_parallel=true");
    if (cp > 1) f.push_back(std::string("strategy.context_parallel_kind=") + dice.of({"ring", "allgather", "ulysses"}));
    if (pp > 1) {
        const std::string schedule = dice.of({"gpipe", "1f1b", "interleaved-1f1b", "zb-h1", "zb-h2", "zb-v", "dualpipe", "dualpipe-v"});
        f.push_back("strategy.schedule=" + schedule);
        if (schedule == "interleaved-1f1b" || schedule == "zb-v" || schedule == "dualpipe-v") f.push_back("strategy.virtual_pipeline=2");
        if (dice.once_in(2)) f.push_back("strategy.overlap.pipeline=true");
    }
    f.push_back("model.layers=" + std::to_string(pp == 4 ? 8 : 4));
    f.push_back(std::string("strategy.framework=") + dice.of({"ddp", "megatron", "megatron", "fsdp", "fsdp2", "deepspeed"}));
    f.push_back("strategy.zero_stage=" + std::to_string(dice.of({0, 1, 2, 3})));
    f.push_back("training.global_batch_size=16");
    f.push_back("training.micro_batch_size=" + std::to_string(dice.of({1, 1, 2})));
    f.push_back(std::string("strategy.recompute=") + dice.of({"none", "none", "full", "selective"}));
    if (dice.once_in(2)) f.push_back("training.gradient_clipping=0.1");
    f.push_back(std::string("training.optimizer=") + dice.of({"adamw", "adamw", "adam", "sgd", "momentum", "lamb", "lars"}));
    f.push_back(std::string("strategy.rank_order=") + dice.of({"tp-cp-ep-dp-pp", "tp-cp-ep-dp-pp", "tp-pp-cp-ep-dp"}));
    f.push_back("cluster.devices_per_node=" + std::to_string(tp * pp * cp * dp));
    if (dice.once_in(6)) f.push_back("training.document_tokens=4");
}

} // namespace

std::optional<Scenario> draw(std::uint64_t seed, Fields& f, const Fields& more) {
    Dice dice{seed};
    draw_model(dice, f);
    draw_strategy(dice, f);
    f.insert(f.end(), more.begin(), more.end());
    ParseOptions options;
    options.overrides = f;
    const ParseResult parsed = parse_scenario(R"({"name": "drawn",
        "model": {"name": "tiny", "layers": 4, "hidden_size": 16, "attention_heads": 4, "vocab_size": 32, "ffn_size": 32},
        "cluster": {"preset": "local-cpu", "nodes": 1},
        "training": {"global_batch_size": 16, "micro_batch_size": 1, "sequence_length": 8, "precision": "fp32", "learning_rate": 0.01, "gradient_clipping": 0, "seed": 7},
        "strategy": {"framework": "ddp"}})",
                                              options);
    if (!parsed.scenario || !unsupported(*parsed.scenario).empty() || !not_executable(*parsed.scenario).empty()) return std::nullopt;
    return parsed.scenario;
}

} // namespace orrery::agree
