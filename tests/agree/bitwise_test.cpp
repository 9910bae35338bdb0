// Where two strategies add the same numbers in the same order: are their results the same to the bit?
#include "agree.hpp"

#include <gtest/gtest.h>

namespace orrery::agree {
namespace {

void expect_same_bits(const Fields& a, const Fields& b, const std::string& executor = "serial") {
    const Trained x = train(tiny(a), {.steps = 5, .real = DType::fp32}),
                  y = train(tiny(b), {.steps = 5, .real = DType::fp32, .executor = executor});
    agree::expect_same_bits(x, y);
}

// One microbatch a rank: a sum over ranks is all there is.
const Fields four = {"strategy.data_parallel=4", "training.micro_batch_size=2"};

// DeepSpeed pads vocabularies to 128: a longer contraction, which kernels of some processors add up in another order.
const Fields whole_vocabulary = with(four, {"model.vocab_size=128"});

TEST(SameBits, Zero1) { expect_same_bits(four, with(four, {"strategy.zero_stage=1"})); }
TEST(SameBits, Zero2) {
    expect_same_bits(whole_vocabulary,
                     with(whole_vocabulary, {"strategy.framework=deepspeed", "strategy.zero_stage=2", "strategy.fused=false"}));
}
TEST(SameBits, Zero3) {
    expect_same_bits(whole_vocabulary,
                     with(whole_vocabulary, {"strategy.framework=deepspeed", "strategy.zero_stage=3", "strategy.fused=false"}));
}
TEST(SameBits, Fsdp) { expect_same_bits(four, with(four, {"strategy.framework=fsdp"})); }
TEST(SameBits, Fsdp2) { expect_same_bits(four, with(four, {"strategy.framework=fsdp2"})); }

// Losses, parameters and states: gradients are gone after an update in the backward pass, but for those that the host has used.
void expect_same_training(const Fields& a, const Fields& b, const std::string& executor = "serial") {
    const Trained x = train(tiny(a), {.steps = 5, .real = DType::fp32}),
                  y = train(tiny(b), {.steps = 5, .real = DType::fp32, .executor = executor});
    EXPECT_EQ(x.losses, y.losses);
    EXPECT_EQ(y.first_gradients.empty(), y.world->scenario.strategy.offload.optimizer == Tier::none);
    EXPECT_FALSE(x.first_gradients.empty());
    EXPECT_EQ(difference(x.parameters, y.parameters).relative, 0) << difference(x.parameters, y.parameters).worst;
    EXPECT_EQ(difference(x.states, y.states).relative, 0) << difference(x.states, y.states).worst;
}

// Updates in the backward pass: of one rank, of shards of flat units and of shards of parameters.
TEST(SameBits, UpdatesInTheBackwardPass) {
    const Fields at_end = {"training.gradient_clipping=0"}, at_once = with(at_end, {"training.optimizer_in_backward=true"});
    const Fields one = {"strategy.data_parallel=1", "training.micro_batch_size=2", "training.global_batch_size=2"};
    expect_same_training(with(one, at_end), with(one, at_once));
    for (const char* framework : {"strategy.framework=fsdp", "strategy.framework=fsdp2"}) {
        const Fields base = with(four, {framework});
        expect_same_training(with(base, at_end), with(base, at_once));
        expect_same_training(with(base, at_end), with(base, at_once), "threads");
        expect_same_training(with(base, with(at_end, {"strategy.recompute=full"})), with(base, with(at_once, {"strategy.recompute=full"})));
    }
}

// The same on the host: a bucket's gradients leave, are used and its parameters come back beside the rest of the backward pass.
TEST(SameBits, UpdatesOnTheHostInTheBackwardPass) {
    const Fields at_end = {"training.gradient_clipping=0", "strategy.offload.optimizer=cpu"},
                 at_once = with(at_end, {"training.optimizer_in_backward=true"});
    const Fields one = {"strategy.data_parallel=1", "training.micro_batch_size=2", "training.global_batch_size=2"};
    for (const Fields& base : {one, with(four, {"strategy.framework=fsdp"}), with(four, {"strategy.framework=fsdp2"}),
                               with(four, {"strategy.framework=fsdp2", "strategy.recompute=full"})})
        for (const char* executor : {"serial", "threads", "queues"}) {
            SCOPED_TRACE(base.back() + " " + executor);
            expect_same_training(with(base, at_end), with(base, at_once), executor);
        }
}

// Parameters, gradients and states that live elsewhere change no number, whatever divides the model: one microbatch, as else sums would be
// added in another order; stages of a pipeline add theirs on the device, and may have several.
TEST(SameBits, OffloadUnderTensorAndPipelineParallelism) {
    const auto away = [](const std::string& tier) {
        return Fields{"strategy.offload.optimizer=" + tier, "strategy.offload.gradients=" + tier, "strategy.offload.parameters=" + tier};
    };
    const Fields tensor = {"strategy.tensor_parallel=2", "training.global_batch_size=2", "training.micro_batch_size=2",
                           "strategy.framework=megatron"},
                 sequence = with(tensor, {"strategy.sequence_parallel=true"}),
                 shared = {"strategy.tensor_parallel=2", "strategy.data_parallel=2", "strategy.framework=fsdp2",
                           "training.micro_batch_size=4"},
                 clipped = {"training.gradient_clipping=0.1"}, whole = {"training.gradient_clipping=0"},
                 stages = {"strategy.pipeline_parallel=2", "strategy.data_parallel=2", "strategy.framework=torchtitan",
                           "strategy.schedule=1f1b", "training.gradient_clipping=0.1"};
    for (const Fields& base : {tensor, sequence, shared})
        for (const char* executor : {"serial", "threads"}) {
            expect_same_bits(with(base, clipped), with(base, with(clipped, away("cpu"))), executor);
            expect_same_bits(with(base, whole), with(base, with(whole, away("nvme"))), executor); // its norm is a sum in another order
        }
    for (const Fields& base : {stages, with(stages, {"strategy.tensor_parallel=2", "strategy.sequence_parallel=true"}),
                               with(stages, {"training.precision=bf16"})}) // whose masters come back and are cast
        for (const char* executor : {"serial", "threads", "queues"}) expect_same_bits(base, with(base, away("cpu")), executor);
}

const Fields two = {"strategy.pipeline_parallel=2", "model.layers=4"};

TEST(SameBits, OneForwardOneBackwardIsGpipe) {
    expect_same_bits(with(two, {"strategy.schedule=gpipe"}), with(two, {"strategy.schedule=1f1b"}));
}
TEST(SameBits, ZeroBubbleIsOneForwardOneBackward) {
    for (const char* schedule : {"strategy.schedule=zb-h1", "strategy.schedule=zb-h2"})
        expect_same_bits(with(two, {"strategy.schedule=1f1b"}), with(two, {schedule}));
}
TEST(SameBits, OverlappedTransfers) {
    expect_same_bits(with(two, {"strategy.schedule=1f1b"}), with(two, {"strategy.schedule=1f1b", "strategy.overlap.pipeline=true"}));
}
TEST(SameBits, PipelineIsOneRank) {
    expect_same_bits({"model.layers=4", "model.tied_embeddings=false"},
                     with(two, {"strategy.schedule=1f1b", "model.tied_embeddings=false"}));
}

TEST(SameBits, Recompute) {
    for (const char* kind : {"strategy.recompute=full", "strategy.recompute=selective"}) expect_same_bits(two, with(two, {kind}));
    expect_same_bits({"model.dropout=0.2"}, {"model.dropout=0.2", "strategy.recompute=full"});
}

// Fusions, and the values they keep, change no number.
TEST(SameBits, ActivationsInStepsAndCompiledLosses) {
    for (const char* activation : {"model.activation=swiglu", "model.activation=geglu"})
        for (const char* again : {"strategy.recompute=none", "strategy.recompute=full"}) {
            const Fields fused = {activation, again, "runtime.fused_activation=true"};
            expect_same_bits(fused, {activation, again, "runtime.fused_activation=false"});
        }
    const Fields engine = {"strategy.framework=megatron", "runtime.year=2025", "runtime.fused_loss=true", "strategy.tensor_parallel=2"};
    expect_same_bits(engine, with(engine, {"runtime.compiled_loss=true"}));
}

TEST(SameBits, NanotronKeepsMoreAndComputesTheSame) {
    const Fields layers = {
        "model.activation=swiglu",         "model.norm=rmsnorm",           "model.vocab_size=256",       "strategy.tensor_parallel=2",
        "strategy.sequence_parallel=true", "training.gradient_dtype=fp32", "training.micro_batch_size=2"};
    expect_same_bits(with(layers, {"strategy.framework=megatron"}), with(layers, {"strategy.framework=nanotron"}));
}

TEST(SameBits, ThreadsAndSerial) {
    const Fields all[] = {
        with(four, {"strategy.zero_stage=1", "strategy.overlap.grad_reduce=true"}),
        with(four, {"strategy.framework=fsdp"}),
        with(two, {"strategy.schedule=zb-h1", "strategy.tensor_parallel=2"}),
        with(two, {"strategy.schedule=1f1b", "strategy.overlap.pipeline=true", "strategy.data_parallel=2"}),
        {"strategy.context_parallel=2", "strategy.tensor_parallel=2", "strategy.sequence_parallel=true", "training.gradient_clipping=0.1"},
    };
    for (const Fields& f : all)
        for (const char* executor : {"threads", "queues"}) expect_same_bits(f, f, executor);
}

} // namespace
} // namespace orrery::agree
