// Runs the plan of one rank op by op, all buffers kept: enough to ask the kernels for a loss and its gradients.
#pragma once

#include "exec/kernels/buckets.hpp"
#include "exec/kernels/machine.hpp"
#include "exec/kernels/random.hpp"
#include "exec/kernels/tokens.hpp"
#include "sim/plan/lower.hpp"
#include "sim/scenario/parse.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <string>
#include <vector>

namespace orrery::test {

inline Scenario tiny_scenario(const std::vector<std::string>& overrides) {
    static constexpr const char* text = R"({
        "name": "tiny",
        "model": {"name": "tiny", "layers": 2, "hidden_size": 16, "attention_heads": 4, "vocab_size": 29, "ffn_size": 24},
        "cluster": {"preset": "local-cpu", "nodes": 1, "devices_per_node": 1},
        "training": {"global_batch_size": 4, "micro_batch_size": 2, "sequence_length": 8, "precision": "fp32", "optimizer": "adamw",
                     "gradient_clipping": 0},
        "strategy": {"framework": "megatron", "schedule": "none"}})";
    ParseOptions options;
    options.overrides = overrides;
    ParseResult result = parse_scenario(text, options);
    if (!result.scenario) ADD_FAILURE() << to_text(result.problems);
    return result.scenario.value();
}

class SingleRank {
  public:
    explicit SingleRank(Scenario scenario, DType real = DType::fp64, Backend machine = cpu_machine())
        : scenario_(std::move(scenario)), plan_(lower(scenario_)), facts_(facts_of(scenario_)), buckets_(bucket_layouts(plan_)),
          real_(real), machine_(std::move(machine)), memory_(plan_.buffers.size()) {
        for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
            const Buffer& b = plan_.buffers[i];
            if (b.storage >= 0) continue;
            const bool batch = b.role == Role::batch;
            memory_[i] = machine_.reserve(std::max<std::int64_t>(1, elements(b)) * static_cast<std::int64_t>(stored_bytes(b.dtype, real_)) *
                                          (batch ? plan_.microbatches : 1));
            if (b.kind == MemoryKind::parameters) first_values(static_cast<BufferId>(i));
            if (batch) fill_tokens(static_cast<BufferId>(i), b.ahead);
        }
    }

    const Plan& plan() const { return plan_; }
    const KernelFacts& facts() const { return facts_; }
    KernelFacts& facts() { return facts_; }
    std::int64_t step = 0;

    // Runs the step's blocks of these kinds and returns the mean loss of a token.
    double run(bool backward, bool optimizer = false) {
        double loss = 0;
        for (const Action& a : plan_.programs[0].actions) {
            const Block& block = plan_.blocks[a.block];
            if (!backward && (block.kind == BlockKind::backward || block.kind == BlockKind::weight)) continue;
            if (!optimizer && block.kind == BlockKind::optimizer) continue;
            for (std::int32_t i = a.first; i < a.last; ++i) run(block.ops[i], a);
            if (block.kind != BlockKind::forward) continue;
            for (double x : values(find("c0.loss"))) loss += x / static_cast<double>(facts_.loss_tokens);
            for (int i = 0; i < facts_.mtp_layers; ++i)
                for (double x : values(find("c0.l" + std::to_string(facts_.layers + i) + ".mtp_loss")))
                    loss += facts_.mtp_weight / facts_.mtp_layers * x / static_cast<double>(facts_.loss_tokens);
        }
        return loss;
    }

    BufferId find(const std::string& name) const {
        for (std::size_t i = 0; i < plan_.buffers.size(); ++i)
            if (plan_.buffers[i].name == name) return static_cast<BufferId>(i);
        return -1;
    }
    template <class T> T* data(BufferId b) { return reinterpret_cast<T*>(memory_[storage(plan_, b)].get()); }
    double value(BufferId b, std::int64_t i) {
        if (sixteen_bit(b)) return std::bit_cast<float>(std::uint32_t{data<std::uint16_t>(b)[i]} << 16);
        return real_ == DType::fp64 ? data<double>(b)[i] : data<float>(b)[i];
    }
    void set(BufferId b, std::int64_t i, double x) {
        if (sixteen_bit(b))
            data<std::uint16_t>(b)[i] = static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(static_cast<float>(x)) + 0x8000u) >> 16);
        else if (real_ == DType::fp64)
            data<double>(b)[i] = x;
        else
            data<float>(b)[i] = static_cast<float>(x);
    }
    std::vector<double> values(BufferId b) {
        std::vector<double> out;
        for (std::int64_t i = 0; i < elements(plan_.buffers[b]); ++i) out.push_back(value(b, i));
        return out;
    }
    std::vector<BufferId> parameters() const {
        std::vector<BufferId> out;
        for (std::size_t i = 0; i < plan_.buffers.size(); ++i)
            if (plan_.buffers[i].kind == MemoryKind::parameters && plan_.buffers[i].storage < 0) out.push_back(static_cast<BufferId>(i));
        return out;
    }
    BufferId gradient_of(BufferId parameter) const { return find("g." + plan_.buffers[parameter].name.substr(2)); }

  private:
    bool sixteen_bit(BufferId b) const { return real_ == DType::bf16 && plan_.buffers[b].dtype == DType::bf16; }
    void first_values(BufferId b) {
        std::vector<double> values(static_cast<std::size_t>(elements(plan_.buffers[static_cast<std::size_t>(b)])));
        KernelContext c{plan_, facts_, buckets_, DType::fp64, {}, {}, 0, 0};
        initialise({reinterpret_cast<std::byte*>(values.data()), &plan_.buffers[b], b}, c);
        for (std::size_t i = 0; i < values.size(); ++i) set(b, static_cast<std::int64_t>(i), values[i]);
    }
    Operand operand(BufferId b, std::int64_t microbatch) {
        const Buffer& buffer = plan_.buffers[b];
        std::byte* at = data<std::byte>(b);
        if (buffer.role == Role::batch) at += microbatch * elements(buffer) * 8;
        return {at, &buffer, b};
    }
    KernelContext context(std::int64_t microbatch) const {
        return {plan_, facts_, buckets_, real_, {}, {}, microbatch * facts_.micro_batch, step};
    }

    void run(const Op& op, const Action& a) {
        if (op.queue != compute_queue || is_memory_op(op.work)) return; // one rank: nothing to communicate
        const std::int64_t microbatch = std::max(0, a.microbatch[op.port]);
        std::vector<Operand> in, out;
        for (BufferId b : op.in) in.push_back(operand(b, microbatch));
        for (BufferId b : op.out) out.push_back(operand(b, microbatch));
        machine_.kernel(op, in, out, context(microbatch));
    }

    // Sequences of random tokens; a label is the token behind.
    void fill_tokens(BufferId b, std::int64_t ahead) {
        for (std::int64_t i = 0; i < plan_.microbatches * facts_.micro_batch * facts_.sequence; ++i) {
            const std::int64_t at = i / facts_.sequence * (facts_.sequence + 1 + facts_.mtp_layers) + i % facts_.sequence + ahead;
            data<std::int64_t>(b)[i] =
                static_cast<std::int64_t>(uniform(11, 5, static_cast<std::uint64_t>(at)) * static_cast<double>(facts_.vocabulary));
        }
    }

    Scenario scenario_;
    Plan plan_;
    KernelFacts facts_;
    BucketLayouts buckets_;
    DType real_;
    Backend machine_;
    std::vector<std::shared_ptr<std::byte>> memory_;
};

} // namespace orrery::test
