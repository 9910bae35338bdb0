// The state of emitting one chunk, shared by the forward rules (emit_forward.cpp) and the adjoint rules (adjoint.cpp).
#pragma once

#include "sim/plan/lowering.hpp"

#include <algorithm>
#include <limits>

namespace orrery {

bool experts_fit_tiles(const Scenario& s); // emit_moe.cpp

struct Emitter;

// A node's inputs as its forward rule reads them, where the buffers of its outputs go, and whether the backward pass makes it again.
struct Making {
    const std::vector<BufferId>& in;
    std::vector<BufferId>& out; // by value: Emitter::forward_buffer or Emitter::recomputed
    bool again = false;
};

// The ops of a kind of node, and its adjoint: dy is the gradient of its first output, -1 where it has none. node_rules.cpp has a row for
// each kind; a kind without one does not compile.
struct NodeRule {
    void (Emitter::*forward)(const Node&, const Making&);
    void (Emitter::*adjoint)(const Node&, BufferId dy);
};
const NodeRule& rule_of(NodeKind kind);

// Rows of a microbatch that a loss is made of at once, and what their names end in.
struct LossRows {
    std::int64_t first, count;
    std::string suffix;
};

// One-hot masks of a rank's tokens and of the experts' slots (Practice::keeps_masks): what dispatches rows and what fetches them back, in
// the activations' dtype; the tokens' places in fp32 where these are kept, and the gradient of the weights, else -1.
struct Masks {
    BufferId sent = -1, fetched = -1, places = -1, gradient = -1;
    ValueId probabilities = -1;
};

// The buffers that a loss leaves for its gradient: exponentials or softmax, statistics, and a second copy where there is one (else -1).
struct LossMade {
    BufferId kept, stats, second;
};

struct Emitter {
    Lowering& l;
    const Graph& g;
    Block* block = nullptr; // where ops go now
    Phase phase = Phase::forward;
    std::int16_t layer = -1, unit = 0;
    bool eager = false;                         // what is emitted works on rows of experts whose counts the host had to wait for
    std::vector<BufferId> forward_buffer;       // by value: from the forward pass
    std::vector<BufferId> recomputed;           // by value: made again in the backward pass
    std::vector<BufferId> gradient;             // by value
    std::vector<char> needs_gradient;           // by value: something trained is at or below it
    std::vector<std::int32_t> producer;         // by value: node, -1 none
    std::vector<std::int32_t> parameter;        // by value: of a parameter, its index in the stage's list once it was looked for; -1
    bool split = false;                         // weight gradients go to a block of their own
    std::vector<Op> weight_ops;                 // of the weight block, in order
    std::map<std::int16_t, BufferId> counts_of; // by layer: rows each rank sends to each expert
    std::map<std::int16_t, BufferId> wide_rows; // by layer: the experts' results in fp32, kept for the gradient of their weights
    std::map<std::int16_t, Masks> masks_of;     // by layer
    std::map<ValueId, BufferId> cast_weights;   // by parameter: its copy in 8 bits that is kept for the backward pass
    std::map<ValueId, BufferId> narrow_weights; // by parameter: its copy in 16 bits, of the forward pass
    std::map<ValueId, BufferId> narrow_again;   // .. and of what the backward pass makes again
    std::map<ValueId, BufferId> input_casts;    // by a linear's result: casts of its input by its modules but the first, kept likewise
    std::vector<Op> pending;                    // weight-gradient ops held back to run under the next collective
    bool mlp_border = false;                    // of the next op: Op::mlp_border

    Emitter(Lowering& lowering, const Graph& graph);

    const Scenario& s() const { return l.scenario; }
    const Value& value(ValueId v) const { return g.value(v); }
    std::int64_t rows(ValueId v) const { return value(v).shape[0]; }
    std::int64_t filled(ValueId v) const { return value(v).filled > 0 ? value(v).filled : rows(v); }
    std::int64_t cols(ValueId v) const { return value(v).shape.back(); }

    DType gradient_dtype(ValueId v) const; // activations', but where autocast or the framework has fp32
    BufferId make(const std::string& name, const Value& like, DType dtype);
    BufferId view(const std::string& name, BufferId of, const Placement& placement);
    Op make_op(const std::string& name, Work work, std::vector<BufferId> in, std::vector<BufferId> out) const;
    Op& push(Op op);
    Op& emit(const std::string& name, Work work, std::vector<BufferId> in, std::vector<BufferId> out) {
        return push(make_op(name, std::move(work), std::move(in), std::move(out)));
    }
    Op& emit_collective(const std::string& name, CollectiveKind kind, Bytes bytes, DType dtype, BufferId in, BufferId out,
                        const char* comm = "tp");
    void set_place(const Node& n) {
        layer = n.layer;
        unit = n.unit;
        eager = in_no_graph(n);
    }
    bool in_no_graph(const Node& n) const;

    BufferId tokens_buffer(int ahead); // of this stage's ranks: "tokens"; one ahead "labels", two "labels.1", ..
    int tokens_ahead(const Node& n) const { return std::max(0, n.layer - s().model.layers + 1); } // of what predicts further tokens
    BufferId weight(ValueId parameter);
    // Made wider for the op that comes next where it is kept in fewer bits; cast where software does so for a product
    // (Practice::fp32_parameters).
    BufferId weight_as_multiplied(const Node& n, ValueId parameter);
    bool narrows_weight(const Node& n, ValueId parameter);
    BufferId narrow_weight(const Node& n, ValueId parameter);
    BufferId cast_of_weight(const Node& n, ValueId parameter, const std::string& suffix);
    BufferId weight_of_gate(const Node& n); // of a router's linear, in the type that its product computes in
    BufferId weight_gradient(ValueId parameter);

    // Forward ops of a node, by its rule; its outputs go to `out` (forward_buffer or recomputed).
    void forward(const Node& n, std::vector<BufferId>& out, bool again);
    void backward(const Node& n);

    ValueId held_branch(const Node& norm) const;
    bool stores_result(const Node& n) const;
    bool keeps_cast_weight(const Node& n) const;
    int further_casts(const Node& n) const;
    PointwiseKind cast_kind(const Node& n) const; // of a cast
    // The buffer that holds a forward value in the backward pass: saved, or recomputed on demand.
    BufferId need(ValueId v);
    void recompute_run(std::int32_t node);
    void add_gradient(ValueId v, BufferId contribution, bool owned);
    void flush_weight_ops();
    void hold_weight_op(Op op);
    bool weight_apart(const Node& n) const; // the gradients of its weights go to the weight block
    // The gradient of the branch that a residual adds, and of its bias where that is trained.
    BufferId adjoint_branch(const Node& n, BufferId dy, bool with_bias);

    // The host hands the forward pass its microbatch (emit_batch.cpp): the op that the first computation after it waits for, -1: none.
    BufferId fetch_batch();
    // The scales of 8-bit tensors follow from maxima of all ranks (emit_maxima.cpp).
    void reduce_maxima(const char* pass, int tensors);
    // A kernel that writes to another place what it reads; here it stays in its own.
    BufferId passed(const std::string& name, Direction direction, BufferId b, bool fused, PointwiseKind kind = PointwiseKind::copy);

    // Rules, by the file that has them.
    using ForwardRule = void(const Node& n, const Making& m);
    using AdjointRule = void(const Node& n, BufferId dy);
    ForwardRule forward_embedding, forward_positions, forward_dropout, forward_norm, forward_linear, forward_rope, forward_attention,
        forward_clamp, forward_cap, forward_activation, forward_residual, forward_adapt, forward_cast, forward_enter,
        forward_exit; // emit_forward.cpp
    AdjointRule adjoint_embedding, adjoint_positions, adjoint_dropout, adjoint_norm, adjoint_linear, adjoint_rope, adjoint_attention,
        adjoint_low_attention, adjoint_clamp, adjoint_cap, adjoint_activation, adjoint_residual, adjoint_adapt, adjoint_cast; // adjoint.cpp
    ForwardRule forward_loss, forward_chunked_loss, forward_join_vocabulary; // emit_loss.cpp
    AdjointRule adjoint_loss, adjoint_chunked_loss, adjoint_join_vocabulary;
    ForwardRule forward_join_heads; // adjoint_regions.cpp
    AdjointRule adjoint_enter, adjoint_exit, adjoint_join_heads;
    Value columns_of_all(const Value& part) const;
    Value one_behind_another(const Value& part) const;
    void gather_columns(const std::string& name, BufferId in, BufferId parts, std::vector<BufferId> out);
    bool casts_turn(ValueId v) const;
    void gather_sequence(const Node& n, const std::string& name, const Value& like, BufferId shard, BufferId whole, std::uint8_t pieces,
                         bool turns);
    BufferId rank_by_rank(const Node& n, const std::string& name, const Value& like, BufferId b);
    static Pointwise turned(const Value& like);
    ForwardRule forward_copy_heads, forward_scores, forward_softmax, forward_context; // emit_unfused.cpp
    AdjointRule adjoint_copy_heads, adjoint_scores, adjoint_softmax, adjoint_context;
    ForwardRule forward_joined; // emit_latent.cpp
    AdjointRule adjoint_narrow, adjoint_joined;
    ForwardRule forward_route, forward_permute, forward_dispatch, forward_combine, forward_weigh, forward_weighted_bias,
        forward_unpermute; // emit_moe.cpp
    bool host_waits() const;
    void wait_for(const std::string& name, BufferId b);
    bool biases_by_expert() const;
    bool sorts_arrivals() const;
    bool pads_rows() const;
    BufferId widen_rows(const Node& n, const std::string& name, BufferId rows);
    BufferId rows_to_sum(const Node& n, const std::string& name, BufferId rows);
    void make_masks(const Node& n, const Making& m);
    void mask_gradients(const Node& n, BufferId dy);
    bool sums_read_rows(const Node& n) const; // the adjoint of a sum of experts' rows reads these

    AdjointRule adjoint_route, adjoint_permute, adjoint_dispatch, adjoint_combine, adjoint_weigh, adjoint_weighted_bias, adjoint_unpermute;
    ForwardRule forward_split, forward_gather_context, forward_to_heads, forward_from_heads, forward_ring; // emit_context.cpp
    AdjointRule adjoint_split, adjoint_gather_context, adjoint_to_heads, adjoint_from_heads, adjoint_ring;

    BufferId gather_context(const Node& n, BufferId shard, BufferId whole, const char* suffix);
    Attention ring_work(const Node& n, std::size_t behind, Direction direction, DType dtype) const;

  private:
    Attention attention_work(const Node& n, Direction direction, DType dtype) const;
    Norm norm_work(const Node& n, Direction direction) const;
    Pointwise cap_work(const Node& n, Direction direction) const;
    bool scales_embedding_apart() const;
    PointwiseKind activation_work() const;
    Linear linear_work(const Node& n, Direction direction, DType out) const;
    // Mixtures of experts (emit_moe.cpp) and latent attention (emit_latent.cpp).
    std::vector<BufferId> with_counts(const Node& n, std::vector<BufferId> read);
    BufferId loads_of_sequence(const Node& n);
    void know_counts(const Node& n, BufferId counts, const std::string& suffix);
    void move_rows(const Node& n, const std::vector<BufferId>& from, const std::vector<BufferId>& to, bool to_experts,
                   const std::string& name);
    void move_tokens(const std::vector<BufferId>& from, const std::vector<BufferId>& to, bool to_experts, const std::string& name);
    void collect_rows(const std::string& name, CollectiveKind kind, Bytes size, const std::vector<BufferId>& in,
                      const std::vector<BufferId>& out, const char* comm, std::int64_t most = std::numeric_limits<std::int64_t>::max());
    BufferId gradient_of(ValueId v) const { return gradient[v]; }
    BufferId fresh_gradient(ValueId v, const char* suffix = ".grad");
    BufferId fresh_gradient(ValueId v, const char* suffix, DType dtype);
    BufferId input_of(ValueId v, bool recomputing);
    static std::string name_of(const Node& n, const Making& m) { return n.name + (m.again ? ".again" : ""); }
    DType dtype_of(const Node& n) const { return value(n.out[0]).dtype; }
    void stand_for(const Node& n, Op& op) const;                    // a linear or a dropout, for each of the modules that it stands for
    BufferId output(const Node& n, std::size_t i, const Making& m); // made where it is not there
    std::vector<BufferId> outputs(const Node& n, const Making& m);
    std::vector<BufferId> with_weights(const Node& n, std::vector<BufferId> list);
    std::vector<BufferId> with_weight_gradients(const Node& n, std::vector<BufferId> list); // of those that are trained
    void find_needs();
    // Experts' kernels that hold the activation and the casts next to it (runtime.fused_experts), where sizes let them.
    bool fused_expert(const Node& n) const {
        return s().runtime.fused_experts && experts_fit_tiles(s()) && !n.in.empty() && value(n.in[0]).expert;
    }
    bool made_by_activation(ValueId v) const;
    bool read_by_activation(ValueId v) const;
    BufferId cast_gradient(const Node& n, ValueId v, BufferId dy, DType low, Direction direction = Direction::backward);
    void accumulate_weight(const Node& n, ValueId x, BufferId dy);
    std::vector<Op> weight_gradient_ops(const Node& n, const std::string& name, Linear work, BufferId dy, BufferId input);
    // out: loss, softmax, unused, then the second copy where the node has one.
    LossMade emit_loss(const Node& n, const LossRows& r, BufferId logits, const std::vector<BufferId>& out);
    BufferId emit_loss_gradient(const Node& n, const LossRows& r, const LossMade& made, const Value& logits);
    void read_loss(const Node& n, BufferId loss);
    std::int32_t parameter_index(ValueId parameter);
    std::int32_t find_parameter(ValueId parameter);
};

// The placement of the gradient of a value with this placement.
Placement gradient_placement(const Placement& p);

} // namespace orrery
