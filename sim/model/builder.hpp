// Builds a chunk's forward graph: values, parameters and nodes of one layer after another. Internal to the model;
// forward.cpp has the dense transformer, latent.cpp multi-head latent attention, moe.cpp mixtures of experts.
#pragma once

#include "sim/model/forward.hpp"
#include "sim/scenario/practice.hpp"

#include <fmt/format.h>

namespace orrery {

struct Builder {
    const Scenario& s;
    const Practice practice = practice_of(s);
    Graph g;
    std::int64_t tokens, h, d;
    std::int16_t layer = -1, unit = -1;
    DType act;    // dtype of activations and parameters
    DType stream; // of the residual stream: fp32 where autocast leaves it so

    Builder(const Scenario& scenario, int chunk)
        : s(scenario), tokens(s.training.micro_batch_size * s.training.sequence_length), h(s.model.hidden_size), d(s.model.head_dim) {
        g.chunk = chunk;
        switch (s.training.precision) {
        case DType::fp32:
        case DType::tf32:
            act = DType::fp32;
            break;
        case DType::fp16:
            act = DType::fp16;
            break;
        default:
            act = DType::bf16;
        }
        stream = practice.autocast ? DType::fp32 : act;
    }

    void begin_unit(UnitKind kind, int layer_index = -1) {
        unit = static_cast<std::int16_t>(g.units++);
        layer = static_cast<std::int16_t>(layer_index);
        g.unit_kinds.push_back(kind);
    }
    std::string prefix() const { return layer >= 0 ? fmt::format("l{}.", layer) : std::string{}; }

    // Activations are split over the data-parallel ranks by whole sequences, along their first dimension.
    ValueId value(const std::string& what, std::vector<std::int64_t> shape, std::vector<DimKind> dims, DType dtype) {
        Value v;
        v.name = prefix() + what;
        v.shape = std::move(shape);
        v.dims = std::move(dims);
        v.dtype = dtype;
        for (const Axis a : {Axis::dp, Axis::dpr, Axis::dpw}) v.placement.set(a, PlacementKind::sharded, 0);
        return g.add(std::move(v));
    }
    ValueId rows(const std::string& what, std::int64_t cols, DimKind kind, DType dtype) {
        return value(what, {tokens, cols}, {DimKind::seq, kind}, dtype);
    }
    ValueId parameter(const std::string& tensor, std::vector<std::int64_t> shape, std::vector<DimKind> dims, Initial initial,
                      TensorUse use = TensorUse::weight) {
        Value v;
        v.name = tensor;
        v.shape = std::move(shape);
        v.dims = std::move(dims);
        v.dtype = act;
        v.parameter = true;
        v.use = use;
        v.initial = initial;
        return g.add(std::move(v));
    }
    Node& node(NodeKind kind, const std::string& what, std::vector<ValueId> in, std::vector<ValueId> out,
               std::vector<ValueId> params = {}) {
        Node n;
        n.kind = kind;
        n.name = prefix() + what;
        n.layer = layer;
        n.unit = unit;
        n.in = std::move(in);
        n.out = std::move(out);
        n.params = std::move(params);
        n.gradient_dtype = act;
        n.gemm_dtype = s.training.precision == DType::tf32 ? DType::tf32 : act;
        n.fused = s.strategy.fused;
        g.nodes.push_back(std::move(n));
        return g.nodes.back();
    }

    ValueId norm(const std::string& what, ValueId x) { return norm(what, x, h); }
    // width: of the columns it normalises, the first of x's. ahead: a linear reads its result; else the residual stream takes it.
    ValueId norm(const std::string& what, ValueId x, std::int64_t width, bool ahead = true) {
        const bool layernorm = s.model.norm == NormKind::layernorm;
        if (practice.wide_norms) {
            const ValueId wide = rows(what + ".input", width, DimKind::hidden, DType::fp32);
            node(NodeKind::cast, what + ".input", {x}, {wide});
            x = wide;
        }
        // Autocast runs norms in fp32; eager: the next linear casts their output; compiled: they write the cast themselves.
        const bool cast_behind = ahead && stream != act && !s.strategy.fused;
        const ValueId out = rows(what, width, DimKind::hidden, cast_behind || !ahead ? stream : act);
        const ValueId statistics = value(what + ".stats", {tokens, layernorm ? 2 : 1}, {DimKind::seq, DimKind::other}, DType::fp32);
        std::vector<ValueId> params{parameter(prefix() + what + ".weight", {width}, {DimKind::hidden}, Initial::one)};
        if (layernorm && s.model.norm_bias)
            params.push_back(parameter(prefix() + what + ".bias", {width}, {DimKind::hidden}, Initial::zero));
        std::vector<ValueId> made{out, statistics};
        // Spelt out in several kernels, an RMS norm squares and scales a copy of its input in fp32, which autograd keeps; an input in fp32
        // is kept itself, and beside it what was scaled.
        if (!s.runtime.fused_norm && !layernorm) made.push_back(rows(what + ".wide", width, DimKind::hidden, DType::fp32));
        node(NodeKind::norm, what, {x}, made, params).fused = s.runtime.fused_norm;
        if (!cast_behind) return out;
        const ValueId low = rows(what + ".cast", width, DimKind::hidden, act);
        node(NodeKind::cast, what + ".cast", {out}, {low});
        return low;
    }

    // x as linears read it where no norm stands ahead of them.
    ValueId without_norm(const std::string& what, ValueId x) {
        if (stream == act) return x;
        const ValueId low = rows(what + ".cast", h, DimKind::hidden, act);
        node(NodeKind::cast, what + ".cast", {x}, {low});
        return low;
    }

    // y[tokens, n] = x[tokens, k] W[n, k]^T (+ b). Column: the output's columns are what tensor parallelism divides; row: the input's, and
    // the output is a branch's.
    ValueId linear(LinearPart part, ValueId x, std::int64_t n, std::int64_t k, bool column, bool bias) {
        const std::string what = name(part);
        const DimKind out_kind = column ? DimKind::parallel : DimKind::hidden, in_kind = column ? DimKind::hidden : DimKind::parallel;
        const ValueId y = rows(what, n, out_kind, act);
        std::vector<ValueId> params{
            parameter(prefix() + what + ".weight", {n, k}, {out_kind, in_kind}, column ? Initial::normal : Initial::output)};
        if (bias) params.push_back(parameter(prefix() + what + ".bias", {n}, {out_kind}, Initial::zero));
        node(NodeKind::linear, what, {x}, {y}, params).part = part;
        return y;
    }

    // The same with a whole weight on every rank: what is too narrow to divide.
    ValueId whole_linear(LinearPart part, ValueId x, std::int64_t n, std::int64_t k, DType out) {
        const std::string what = name(part);
        const ValueId y = rows(what, n, DimKind::hidden, out);
        node(NodeKind::linear, what, {x}, {y},
             {parameter(prefix() + what + ".weight", {n, k}, {DimKind::hidden, DimKind::hidden}, Initial::normal)})
            .part = part;
        return y;
    }

    // a = f(in), of gated ones f(gate) times the rest; step by step, f(gate) is a result of its own that the backward pass reads.
    ValueId activation(const std::string& what, std::vector<ValueId> in, ValueId a, ValueId gate) {
        std::vector<ValueId> out{a};
        if (gate >= 0) out.push_back(gate);
        node(NodeKind::activation, what, std::move(in), std::move(out)).fused = s.runtime.fused_activation;
        return a;
    }
    bool keeps_gates() const { return s.model.gated() && !s.runtime.fused_activation; }

    // The bias of a row-parallel linear is added after its reduction, with the dropout.
    ValueId residual(const std::string& what, ValueId branch, ValueId x, const std::string& bias_of, bool bias, DropoutSite site) {
        const ValueId y = rows(what, h, DimKind::hidden, stream);
        std::vector<ValueId> out{y}, params;
        if (s.model.dropout > 0) out.push_back(rows(what + ".mask", h, DimKind::hidden, DType::boolean));
        if (bias) params.push_back(parameter(prefix() + bias_of + ".bias", {h}, {DimKind::hidden}, Initial::zero));
        Node& n = node(NodeKind::residual, what, {branch, x}, out, params);
        n.dropout = s.model.dropout;
        n.site = site;
        return y;
    }

    AttentionShape attention_shape() const;
    std::int64_t key_heads() const;
    ValueId fused_attention(ValueId qkv);
    ValueId unfused_attention(ValueId qkv);
    ValueId attention_branch(ValueId n1);
    ValueId query_key_norm(ValueId qkv, std::int64_t width);
    ValueId sequence_first(ValueId o);
    ValueId mlp_branch(ValueId n2);
    ValueId ahead(const std::string& what, ValueId x);
    ValueId behind(const std::string& what, ValueId branch);
    ValueId transformer_layer(ValueId x);
    ValueId embedding();
    void head(ValueId x);
    ValueId pass_on(ValueId x);

    ValueId latent_attention_branch(ValueId n1);
    ValueId expert_branch(ValueId n2);
    ValueId further_token(int ahead, ValueId x);
    void predict_further_tokens(ValueId x);
    ValueId further_states(ValueId x);
    ValueId further_losses(ValueId states);
    void loss(const std::string& what, ValueId x);
};

} // namespace orrery
