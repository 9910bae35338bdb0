#include "sim/model/builder.hpp"

#include "sim/scenario/documents.hpp"
#include "sim/scenario/parameters.hpp"

namespace orrery {

AttentionShape Builder::attention_shape() const {
    AttentionShape a;
    // To a fused kernel packed documents are shorter sequences; an unfused one makes all scores and masks them.
    const bool apart = s.runtime.attention_kernel != AttentionKernel::unfused;
    const PackedDocuments documents = apart ? documents_of(s) : PackedDocuments{1, s.training.sequence_length};
    a.batch = s.training.micro_batch_size * documents.count;
    a.seq_q = a.seq_kv = documents.tokens;
    a.heads = s.model.attention_heads;
    a.kv_heads = key_heads();
    a.qk_dim = a.v_dim = d;
    if (const AttentionSpec& latent = s.model.attention; latent.kind == AttentionSpec::Kind::mla) {
        a.kv_heads = a.heads;
        a.qk_dim = latent.qk_nope_head_dim + latent.qk_rope_head_dim;
        a.v_dim = latent.v_head_dim;
    }
    a.causal = s.model.attention.causal;
    a.window = window_of(s.model.attention, layer);
    return a;
}

// Key heads: as many as tensor-parallel ranks where several ranks share one.
std::int64_t Builder::key_heads() const { return practice.gathers_heads ? s.strategy.tensor_parallel : s.model.kv_heads; }

ValueId Builder::fused_attention(ValueId qkv) {
    const AttentionShape a = attention_shape();
    if (practice.repeats_heads_for_fused && s.model.kv_heads < s.model.attention_heads) {
        // The bytes that repeated keys and values have beyond their own: the kernel of the plan reads these.
        const ValueId copies = rows("heads", (a.heads - a.kv_heads) * (a.qk_dim + a.v_dim), DimKind::parallel, act);
        Node& n = node(NodeKind::copy_heads, "heads", {qkv}, {copies});
        n.attention = a;
        n.fused = s.strategy.fused;
    }
    const ValueId o = rows("attention", a.heads * a.v_dim, DimKind::parallel, act);
    const ValueId lse = value("attention.lse", {tokens, a.heads}, {DimKind::seq, DimKind::parallel}, DType::fp32);
    Node& n = node(NodeKind::attention, "attention", {qkv}, {o, lse});
    n.attention = a;
    n.dropout = s.model.dropout;
    return o;
}

ValueId Builder::unfused_attention(ValueId qkv) {
    const AttentionShape a = attention_shape();
    // [heads, batch x seq_q x seq_kv]: heads are what tensor parallelism divides.
    const auto square = [&](const std::string& what, DType t) {
        return value(what, {a.batch * a.seq_q * a.seq_kv, a.heads}, {DimKind::other, DimKind::parallel}, t);
    };
    const auto add = [&](NodeKind k, const std::string& what, std::vector<ValueId> in, std::vector<ValueId> out) {
        Node& n = node(k, what, std::move(in), std::move(out));
        n.attention = a;
        n.dropout = s.model.dropout;
        n.fused = k == NodeKind::softmax ? s.runtime.fused_softmax : s.strategy.fused;
    };
    std::vector<ValueId> keys{qkv}, values{qkv};
    if (practice.repeats_heads) {
        const ValueId copies = rows("heads", a.heads * (a.qk_dim + a.v_dim), DimKind::parallel, act);
        add(NodeKind::copy_heads, "heads", {qkv}, {copies});
        keys.push_back(copies);
        values.push_back(copies);
    }
    ValueId scores = square("scores", act);
    add(NodeKind::scores, "scores", keys, {scores});
    if (s.model.attention.score_cap > 0) {
        const ValueId capped = square("scores.capped", act);
        add(NodeKind::score_cap, "scores.cap", {scores}, {capped});
        scores = capped;
    }
    ValueId p = square("softmax", act);
    add(NodeKind::softmax, "softmax", {scores}, {p});
    if (s.model.dropout > 0) {
        const ValueId dropped = square("attention_dropout", act), mask = square("attention_dropout.mask", DType::boolean);
        add(NodeKind::attention_dropout, "attention_dropout", {p}, {dropped, mask});
        g.nodes.back().site = DropoutSite::attention;
        p = dropped;
    }
    const ValueId o = rows("attention", a.heads * a.v_dim, DimKind::parallel, act);
    values.insert(values.begin(), p);
    add(NodeKind::context, "context", values, {o});
    return o;
}

// On every head's query and key, or on all queries of a token at once and on all its keys.
ValueId Builder::query_key_norm(ValueId qkv, std::int64_t width) {
    const std::int64_t queries = s.model.attention_heads, keys = key_heads();
    const bool across = s.model.attention.qk_norm_across;
    const ValueId out = rows("qk_norm", width, DimKind::parallel, act);
    const ValueId stats = value("qk_norm.stats", {tokens, across ? 2 : queries + keys},
                                {DimKind::seq, across ? DimKind::other : DimKind::parallel}, DType::fp32);
    std::vector<ValueId> made{out, stats};
    if (!s.runtime.fused_norm) // as that of whole rows
        made.push_back(rows("qk_norm.wide", (queries + keys) * d, DimKind::parallel, DType::fp32));
    Node& n = node(NodeKind::head_norm, "qk_norm", {qkv}, made,
                   {parameter(prefix() + "q_norm.weight", {across ? queries * d : d}, {DimKind::other}, Initial::one),
                    parameter(prefix() + "k_norm.weight", {across ? keys * d : d}, {DimKind::other}, Initial::one)});
    n.attention = attention_shape();
    n.fused = s.runtime.fused_norm;
    return out;
}

ValueId Builder::attention_branch(ValueId n1) {
    const Model& m = s.model;
    if (m.attention.kind == AttentionSpec::Kind::mla) return latent_attention_branch(n1);
    const std::int64_t width = (m.attention_heads + 2 * key_heads()) * d;
    ValueId qkv = linear(LinearPart::qkv, n1, (m.attention_heads + 2 * static_cast<std::int64_t>(m.kv_heads)) * d, h, true,
                         m.bias || m.attention.qkv_bias);
    // (fc1's is added with the activation, proj's and fc2's with the dropout.)
    g.nodes.back().bias_apart = g.nodes.back().params.size() > 1 && practice.bias_apart;
    if (practice.gathers_heads) {
        const ValueId own = rows("heads", width, DimKind::parallel, act);
        node(NodeKind::join_heads, "heads", {qkv}, {own});
        qkv = own;
    }
    if (m.attention.qk_norm) qkv = query_key_norm(qkv, width);
    if (m.position == PositionKind::rope) {
        const ValueId out = rows("rope", width, DimKind::parallel, act);
        Node& n = node(NodeKind::rope, "rope", {qkv}, {out});
        n.attention = attention_shape();
        n.fused = s.runtime.fused_rope && (practice.fused_rope_scales || m.rope_scale == 1);
        qkv = out;
    }
    const ValueId o = s.runtime.attention_kernel == AttentionKernel::unfused ? unfused_attention(qkv) : fused_attention(qkv);
    return linear(LinearPart::proj, practice.turns_attention && s.training.micro_batch_size > 1 ? sequence_first(o) : o, h,
                  m.attention_heads * d, false, false);
}

// (Of one sequence there is nothing to turn.)
ValueId Builder::sequence_first(ValueId o) {
    const ValueId turned = rows("attention.turned", s.model.attention_heads * d, DimKind::parallel, act);
    node(NodeKind::cast, "attention.turned", {o}, {turned});
    return turned;
}

ValueId Builder::mlp_branch(ValueId n2) {
    const Model& m = s.model;
    const ValueId f = linear(LinearPart::fc1, n2, m.ffn_size * (m.gated() ? 2 : 1), h, true, m.bias);
    const ValueId a = rows("act", m.ffn_size, DimKind::parallel, act),
                  gate = keeps_gates() ? rows("act.gate", m.ffn_size, DimKind::parallel, act) : -1;
    return linear(LinearPart::fc2, activation("act", {f}, a, gate), h, m.ffn_size, false, false);
}

// A layer's norms, where the model has them.
ValueId Builder::ahead(const std::string& what, ValueId x) {
    return s.model.norm_placement == NormPlacement::after ? without_norm(what, x) : norm(what, x);
}
ValueId Builder::behind(const std::string& what, ValueId branch) {
    return s.model.norm_placement == NormPlacement::before ? branch : norm(what, branch, h, false);
}

ValueId Builder::transformer_layer(ValueId x) {
    const Model& m = s.model;
    const bool experts = is_moe_layer(m, layer);
    const ValueId n1 = ahead("norm1", x);
    const ValueId attended = behind("post_norm1", attention_branch(n1));
    const ValueId y = residual("residual1", attended, x, "proj", m.bias, DropoutSite::after_attention);
    const std::size_t first_of_mlp = g.nodes.size();
    // In a parallel block the MLP reads what attention read, or a norm of its own of that; there are two residual adds as well.
    const ValueId n2 = !m.parallel_block ? ahead("norm2", y) : m.parallel_norms ? ahead("norm2", x) : n1;
    const ValueId moved = behind("post_norm2", experts ? expert_branch(n2) : mlp_branch(n2));
    g.nodes[first_of_mlp].begins_mlp = !experts && !m.parallel_block;
    return residual("residual2", moved, y, experts ? "" : "fc2", !experts && m.bias, DropoutSite::after_mlp);
}

ValueId Builder::embedding() {
    const Model& m = s.model;
    begin_unit(UnitKind::embedding);
    const std::int64_t vocab = padded_vocabulary(s);
    ValueId x = rows("embedding", h, DimKind::hidden, stream);
    node(NodeKind::embedding, "embedding", {}, {x},
         {parameter("embedding.weight", {vocab, h}, {DimKind::parallel, DimKind::hidden}, Initial::normal, TensorUse::embedding)});
    if (m.position == PositionKind::learned) {
        const ValueId y = rows("positions", h, DimKind::hidden, stream);
        const std::int64_t positions = m.max_positions > 0 ? m.max_positions : s.training.sequence_length;
        node(NodeKind::positions, "positions", {x}, {y},
             {parameter("positions.weight", {positions, h}, {DimKind::other, DimKind::hidden}, Initial::normal)});
        x = y;
    }
    if (m.embedding_norm) x = norm("embedding_norm", x);
    if (m.dropout > 0) {
        const ValueId y = rows("embedding_dropout", h, DimKind::hidden, stream),
                      mask = rows("embedding_dropout.mask", h, DimKind::hidden, DType::boolean);
        Node& n = node(NodeKind::dropout, "embedding_dropout", {x}, {y, mask});
        n.dropout = m.dropout;
        n.site = DropoutSite::embedding;
        x = y;
    }
    return x;
}

// Logits of the shared head and the loss of them; `what` comes before their names.
void Builder::loss(const std::string& what, ValueId x) {
    const std::int64_t vocab = padded_vocabulary(s);
    ValueId logits = rows(what + "logits", vocab, DimKind::parallel, act);
    const bool tied = s.model.tied_embeddings;
    node(NodeKind::linear, what + "logits", {x}, {logits},
         {parameter(tied ? "embedding.weight" : "head.weight", {vocab, h}, {DimKind::parallel, DimKind::hidden}, Initial::normal,
                    tied ? TensorUse::embedding : TensorUse::head)});
    g.nodes.back().part = layer < 0 ? LinearPart::logits : LinearPart::mtp_logits;
    g.nodes.back().keeps_precision = true;
    if (s.model.logit_cap > 0) {
        const ValueId capped = rows(what + "logits.capped", vocab, DimKind::parallel, act);
        node(NodeKind::logit_cap, what + "logits.cap", {logits}, {capped});
        logits = capped;
    }
    const ValueId loss = rows(what + "loss", 1, DimKind::other, DType::fp32);
    const bool over_logits = s.runtime.fused_loss && practice.loss_in_place && !s.runtime.compiled_loss,
               narrow = practice.narrow_loss && !s.runtime.fused_loss;
    const ValueId softmax = rows(what + "loss.softmax", vocab, DimKind::parallel, over_logits || narrow ? act : DType::fp32);
    const ValueId stats = rows(what + "loss.stats", 2, DimKind::other, DType::fp32);
    std::vector<ValueId> out{loss, softmax, stats};
    // PyTorch's own cross-entropy keeps the log-softmax beside the fp32 copy of the logits; Megatron's vocabulary-parallel one makes its
    // softmax in place in that copy, and the gradient in the softmax.
    // Under autocast there is no such copy: log-softmax reads 16 bits and writes 32, its backward the other way round.
    const bool second =
        s.runtime.fused_loss ? practice.compiles_loss && s.runtime.compiled_loss : !practice.megatrons_layers && stream == act && !narrow;
    // (Where nothing but the log-softmax is kept, the gradient of 16 bits comes when one of those in fp32 is gone: this is what is there
    // beside the three that are counted.)
    if (second) out.push_back(rows(what + "loss.log_softmax", vocab, DimKind::parallel, practice.upcasts_in_loss ? act : DType::fp32));
    // Two copies in fp32 and no 16-bit logits any more are 8 bytes a logit: these are the two beside the logits' and the softmax's.
    if (practice.copies_logits_twice && !s.runtime.fused_loss) out.push_back(rows(what + "loss.copy", vocab, DimKind::parallel, act));
    Node& node_of_loss = node(NodeKind::cross_entropy, what + "loss", {logits}, out);
    node_of_loss.fused = s.runtime.fused_loss;
    node_of_loss.in_place = over_logits;
    node_of_loss.gradient_twice = (!s.runtime.fused_loss || practice.compiled_loss_casts_apart) && !practice.megatrons_layers;
}

void Builder::head(ValueId x) { loss("", s.model.final_norm ? norm("final_norm", x) : x); }

// A chunk without layers, not at either end: what it gets is copied, since what a pipeline's step returns must not be what it was given
// (TransformerBlock.forward clones it, megatron/core/transformer/transformer_block.py). The gradient's copy is ours: there autograd hands
// it on as it is.
ValueId Builder::pass_on(ValueId x) {
    begin_unit(UnitKind::empty);
    const ValueId copy = rows("passed_on", g.value(x).shape[1], DimKind::hidden, stream);
    node(NodeKind::concat, "passed_on", {x}, {copy});
    return copy;
}

std::int64_t padded_vocabulary(const Scenario& s) {
    const std::int64_t t = s.strategy.tensor_parallel;
    const std::int64_t multiple = practice_of(s).vocabulary_multiple * t;
    return (s.model.vocab_size + multiple - 1) / multiple * multiple;
}

namespace {

// The last chunk's end: what predicts further tokens, where it stands here, and the output layer.
void finish(Builder& b, ValueId x, bool states_come) {
    if (!states_come) b.predict_further_tokens(x);
    b.begin_unit(UnitKind::head);
    b.head(states_come ? b.further_losses(x) : x);
}

} // namespace

std::vector<Graph> forward_graphs(const Scenario& s) {
    std::vector<Graph> graphs;
    const std::vector<int>& split = s.strategy.layers_per_chunk;
    const int mtp = s.model.mtp_layers > 0 && s.strategy.mtp_apart() ? s.strategy.mtp_chunk : -1;
    int layer = 0;
    for (int c = 0; c < static_cast<int>(split.size()); ++c) {
        Builder b(s, c);
        const bool states_come = mtp >= 0 && c > mtp;
        ValueId x;
        if (c == 0)
            x = b.embedding();
        else
            x = b.g.input = b.rows("input", (states_come ? 1 + s.model.mtp_layers : 1) * b.h, DimKind::hidden, b.stream);
        for (int i = 0; i < split[c]; ++i, ++layer) {
            b.begin_unit(UnitKind::layer, layer);
            x = b.transformer_layer(x);
        }
        b.layer = -1;
        if (c + 1 == static_cast<int>(split.size()))
            finish(b, x, states_come);
        else if (c == mtp)
            b.g.output = b.further_states(x);
        else
            b.g.output = b.g.nodes.empty() ? b.pass_on(x) : x;
        graphs.push_back(std::move(b.g));
    }
    return graphs;
}

} // namespace orrery
