// A chunk's forward pass as a graph of values and nodes, before it becomes blocks of ops. The model builds it with whole
// (unsharded) shapes; the passes shard values and insert the nodes that move between placements; emit.hpp turns it into ops.
#pragma once

#include "sim/graph/dropout_site.hpp"
#include "sim/graph/parameter.hpp"
#include "sim/graph/placement.hpp"
#include "topology/dtype.hpp"
#include "topology/indexed.hpp"
#include "topology/units.hpp"

#include <string>
#include <vector>

namespace orrery {

using ValueId = std::int32_t;

// The things a dimension counts, for the passes that shard it. seq: tokens (batch x sequence). parallel: heads, ffn columns or vocabulary,
// what tensor parallelism divides. routed: rows sent to experts. expert: which expert. expert_parallel: an expert's ffn columns.
enum class DimKind : std::uint8_t { seq, hidden, parallel, other, routed, expert, expert_parallel };

struct Value {
    std::string name; // of an activation: inside its chunk; of a parameter: the logical tensor, global
    std::vector<std::int64_t> shape;
    std::vector<DimKind> dims;
    DType dtype = DType::bf16;
    Placement placement;
    bool parameter = false;
    bool expert = false;               // its placement is over the experts' mesh
    ValueId kept_as = -1;              // the backward pass reads this other value in its place (a smaller copy)
    bool saved = false;                // kept for the backward pass though its node is recomputed (a checkpoint)
    bool counts = false;               // how many rows go to each expert
    std::int64_t filled = 0;           // of experts' rows: how many there are where there is room for more; 0: as many
    bool trained = true;               // of a parameter: it has a gradient and is updated; else it stays as it is
    TensorUse use = TensorUse::weight; // of a parameter
    Initial initial = Initial::normal;
};

enum class NodeKind : std::uint8_t {
    embedding,         // (), weight -> x                       lookup of the chunk's token ids
    positions,         // x, table -> x
    dropout,           // x -> x, mask
    norm,              // x, weight[, bias] -> n, statistics
    linear,            // x, weight[, bias] -> y
    join_heads,        // qkv -> qkv                            of all tensor-parallel ranks' columns those of a rank's heads
    rope,              // qkv -> qkv
    head_norm,         // qkv, weights -> qkv, statistics       a norm on every head's query and key, or over all queries and all keys
    attention,         // qkv -> o, log-sum-exp                 fused
    copy_heads,        // qkv -> k, v                           keys and values for every head, a copy even where each has its own
    scores,            // qkv[, k v] -> scores
    score_cap,         // scores -> scores                      cap tanh(x / cap)
    softmax,           // scores -> probabilities
    attention_dropout, // probabilities -> dropped, mask
    context,           // dropped, qkv[, k v] -> o
    clamp,             // f -> f                                gates cut off above a limit, what they let through beyond + and -
    activation,        // f[, probabilities] -> a             of experts: each row times its probability
    residual,          // branch, x[, bias] -> y[, mask]        y = x + dropout(branch + bias)
    logit_cap,         // logits -> logits                      cap tanh(x / cap)
    cross_entropy,     // logits -> loss[, softmax], statistics
    join_vocabulary,   // logits -> logits                      all columns on every tensor-parallel rank
    chunked_loss,      // x, weight -> loss, ..                 logits, loss and gradients of some rows at a time, in the backward pass
    enter,             // x -> x                                into a tensor-parallel region: invariant to varying, or gathered along seq
    exit,              // x -> x                                out of it: partial to invariant, or scattered along seq
    adapt,             // y, b -> y                             plus what an adapter makes, times alpha / rank (LoRA)
    cast,              // x -> x                                to the GEMM's dtype
    narrow,            // x -> y                                the last columns of x
    concat,            // a, b, .. -> y                         side by side
    apart,             // y -> a, b, ..                         what lay side by side
    latent_join,       // q, kv, key's rope part -> qkv         rope, and that part of the key for every head
    route,             // logits[, bias] -> probabilities, map, counts   which experts a token goes to
    permute,           // x, map, counts, probabilities -> rows, probabilities   a row per token and expert, those of an expert together
    dispatch,          // rows, counts, what goes along -> the same   to the ranks of their experts
    weigh,             // rows, probabilities -> rows           each row times its probability
    weighted_bias,     // rows, probabilities, bias -> rows     each row plus its expert's bias times its probability
    combine,           // rows -> rows                          and back
    unpermute,         // rows, map -> y                        the sum of a token's rows
    split,             // packed -> parts                       queries, keys and values apart, for context parallelism
    gather_context,    // k/v -> k/v of all tokens              along the context ranks
    to_heads,          // q, k, v -> q, k, v                    all tokens of some heads for some tokens of all heads
    from_heads,        // o -> o                                and back
    ring_attention,    // q, k/v -> o, log-sum-exp, last k/v    k/v of the other context ranks as they come round
};
const char* name(NodeKind k);

// Which of a layer's products a linear is. Lists of what is recomputed may use its name.
enum class LinearPart : std::uint8_t {
    none,
    qkv,
    q_down,
    q_up,
    kv_down,
    kv_up,
    proj,
    fc1,
    fc2,
    router,
    shared_fc1,
    shared_fc2,
    expert_fc1,
    expert_fc2,
    mtp_proj,
    mtp_logits,
    logits,
    adapter_down,
    adapter_up,
};
const char* name(LinearPart p); // "fc1", "q_up"; of none ""

// share: the part of seq_q x seq_kv that is computed; 0: as causal and window say, of a square.
struct AttentionShape {
    std::int64_t batch = 1, seq_q = 1, seq_kv = 1, heads = 1, kv_heads = 1, qk_dim = 1, v_dim = 1;
    bool causal = true;
    int window = 0;
    double share = 0;
};

// One step of ring attention: the keys that count of the block at hand, and the part of queries x these keys computed.
struct RingStep {
    std::int64_t seq_kv;
    bool causal;
    double share;
};

struct Node {
    NodeKind kind;
    std::string name; // "l17.qkv"
    std::int16_t layer = -1;
    std::int16_t unit = 0;
    std::vector<ValueId> in, out, params;
    LinearPart part = LinearPart::none;           // linear
    AttentionShape attention;                     // attention, scores, softmax, attention_dropout, context, rope
    std::vector<RingStep> ring;                   // ring_attention: step i meets the block from i ranks before
    DType gemm_dtype = DType::bf16;               // linear; attention: fp8 where it multiplies in 8 bits
    bool fused = true;                            // one kernel, else the framework's eager sequence
    bool recompute = false;                       // its outputs are not saved for the backward pass
    std::int16_t stretch = -1;                    // recompute: nodes of one stretch are made again together
    bool along_seq = false;                       // enter, exit: gather and scatter (sequence parallelism), else copy and all-reduce
    std::uint8_t times = 1;                       // enter: the number of linears that each gather this value and reduce its gradient
    std::uint8_t pieces = 1, gradient_pieces = 1; // enter, exit, linear: Op::pieces forward and of the input gradient
    DType gradient_dtype = DType::bf16;           // combine, unpermute: of the rows' gradient on its way to the experts
    bool in_place = false;                        // cross_entropy: what it keeps and its gradient take the logits' place
    bool gradient_twice = false;                  // cross_entropy: a gradient of what it keeps, in its dtype, comes before the logits'
    bool late = false;                            // its forward ops run in the backward pass, where their result is needed
    int chunks = 1;                               // chunked_loss: parts of its rows
    double dropout = 0;
    DropoutSite site = DropoutSite::none; // dropout, attention_dropout, residual
    bool bias_apart = false;              // linear: its bias is added by a kernel after the GEMM
    std::uint8_t adapts = 1;              // an adapter's linears and its dropout: modules that its target stands for (Op::modules)
    bool keeps_precision = false;         // linear: stays in 16 bits where the others go lower (a router)
    bool dispatches_tokens = false;       // permute, dispatch, combine, unpermute: tokens travel, and are permuted where they arrive
    bool begins_mlp = false;              // the first of a layer's MLP, in a layer without experts
};

inline bool multiplies_in_fp8(const Node& n) { return n.kind == NodeKind::linear && n.gemm_dtype == DType::fp8; }

// Units of a chunk: a layer, what predicts a further token, or what stands before or behind the layers. empty: of a chunk without any.
enum class UnitKind : std::uint8_t { embedding, layer, prediction, head, empty };

struct Graph {
    int chunk = 0;
    int stage = 0;
    Indexed<ValueId, Value> values;
    Indexed<std::int32_t, Node> nodes; // in topological order
    ValueId input = -1;                // received from the chunk before; -1: the chunk starts with the embedding
    ValueId output = -1;               // sent to the next chunk; -1: the chunk ends with the loss
    int units = 0;
    std::vector<UnitKind> unit_kinds;

    ValueId add(Value v) {
        values.push_back(std::move(v));
        return static_cast<ValueId>(values.size()) - 1;
    }
    Value& value(ValueId v) { return values[v]; }
    const Value& value(ValueId v) const { return values[v]; }
};

std::int64_t elements(const Value& v);
Bytes bytes(const std::vector<std::int64_t>& shape, DType dtype); // rounded up to whole bytes
std::string to_text(const Graph& graph);

} // namespace orrery
