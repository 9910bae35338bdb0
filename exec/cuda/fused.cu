// Attention by cuDNN's fused engines, where it has one for what an op asks: bf16 or fp16, whole sequences on this rank, no bias, window or
// dropout. Operands stay where they are, told by strides; only queries packed by groups of several are copied, for their heads lie at no
// one stride.
#include "exec/cuda/heads.cuh"
#include "exec/kernels/dropout.hpp"

#ifdef ORRERY_HAS_CUDNN

#include "exec/cuda/fused_attention.hpp"

#include <limits>

namespace orrery::cuda {

// State of a device: the library, and a plan for each shape met.
struct FusedPlans {
    FusedPlans() {
        try {
            library = std::make_unique<Cudnn>();
            library->check(library->create(&handle), "a handle");
        } catch (const std::exception&) {
            library.reset(); // then attention is unfused
        }
    }
    ~FusedPlans() {
        forward.clear();
        backward.clear();
        if (library) library->destroy(handle);
    }
    // Null: no engine takes it.
    template <class Graph> Graph* plan(std::map<FusedShape, std::unique_ptr<Graph>>& known, const FusedShape& shape) {
        auto it = known.find(shape);
        if (it != known.end()) return it->second.get();
        std::unique_ptr<Graph> made;
        try {
            made = std::make_unique<Graph>(*library, GraphTarget{handle, {}}, shape);
            std::string said;
            if (made->graph.choose() == 0 || made->graph.finish(said) != CUDNN_STATUS_SUCCESS) made.reset();
        } catch (const std::exception&) { made.reset(); }
        return known.emplace(shape, std::move(made)).first->second.get();
    }
    std::unique_ptr<Cudnn> library;
    cudnnHandle_t handle = nullptr;
    std::map<FusedShape, std::unique_ptr<FusedForward>> forward;
    std::map<FusedShape, std::unique_ptr<FusedBackward>> backward;
};

namespace {

std::int64_t rounded(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

struct Request {
    HeadsView in;
    FusedShape shape;
    bool dense_queries = false; // copied: heads at one stride
};

// Whether cuDNN may be asked, and for what.
bool request(const Attention& w, const Launch& l, std::size_t first, std::size_t parts, const View& statistics, Request& r) {
    const KernelFacts& f = l.context.facts;
    r.in = heads_view(l, false, first, parts, {w.heads, w.kv_heads, w.qk_dim, w.v_dim});
    const std::int64_t rows = r.in.q.rows() / f.micro_batch, d = w.qk_dim;
    const bool half = r.in.q.kind == Kind::fp16;
    if (!(half || r.in.q.kind == Kind::bf16) || statistics.kind != Kind::fp32 || f.context_ranks > 1 || w.behind != 0 || f.alibi ||
        f.window > 0 || f.document > 0 || f.score_cap > 0)
        return false;
    if (w.v_dim != d || d % 8 != 0 || d > 128 || r.in.v.rows() != r.in.q.rows() || rows != f.sequence) return false;
    if (dropout_at(l.context, DropoutSite::attention, l.op.layer).rate > 0) return false;
    const std::int64_t head = r.in.packed ? r.in.group() : d;
    r.dense_queries = r.in.packed && r.in.per_group() > 1;
    FusedShape& s = r.shape;
    s.batch = f.micro_batch, s.heads = w.heads, s.kv_heads = w.kv_heads, s.rows = s.keys = rows, s.dim = d, s.causal = f.causal;
    s.half = half;
    s.q = r.dense_queries ? Strided{rows * w.heads * d, d, w.heads * d} : Strided{rows * r.in.q.cols, head, r.in.q.cols};
    s.k = {rows * r.in.k.cols, head, r.in.k.cols};
    s.v = {rows * r.in.v.cols, head, r.in.v.cols};
    s.o = {rows * w.heads * d, d, w.heads * d};
    s.statistics = {rows * w.heads, 1, w.heads};
    return true;
}

void* element(const View& v, std::int64_t i) { return static_cast<std::byte*>(v.data) + 2 * i; }

// Queries in the order of rows and heads, out of their groups (or back into them).
void copy_queries(const Launch& l, const HeadsView& h, std::int64_t heads, std::int64_t dim, const View& dense, bool back) {
    each_pack(l.stream(), dense.count, packing(h.q), [=] __device__(auto width, std::int64_t i) { // heads are of whole packs
        const std::int64_t at = h.q_at(i / (heads * dim), i / dim % heads) + i % dim;
        if (back)
            h.q.store(width, at, dense.load(width, i));
        else
            dense.store(width, i, h.q.load(width, at));
    });
}

FusedPlans& plans(const Launch& l) {
    if (!l.gpu.fused) l.gpu.fused = std::make_shared<FusedPlans>();
    return *l.gpu.fused;
}

bool forward(const Attention& w, const Launch& l) {
    Request r;
    FusedPlans& known = plans(l);
    if (!known.library || !request(w, l, 0, l.in.size(), l.output(1), r)) return false;
    FusedForward* const plan = known.plan(known.forward, r.shape);
    if (!plan) return false;
    const std::int64_t queries = r.dense_queries ? rounded(2 * r.in.q.rows() * w.heads * w.qk_dim) : 0;
    std::byte* const scratch = static_cast<std::byte*>(l.scratch(static_cast<std::size_t>(queries + plan->graph.workspace() + 256)));
    void* q = element(r.in.q, r.in.q_at(0, 0));
    if (r.dense_queries) {
        const View dense{scratch, r.in.q.kind, r.in.q.rows() * w.heads * w.qk_dim, 1};
        copy_queries(l, r.in, w.heads, w.qk_dim, dense, false);
        q = scratch;
    }
    float scale = static_cast<float>(l.context.facts.attention_scale()), masked = std::numeric_limits<float>::lowest();
    std::vector<std::pair<CudnnGraph::Tensor, void*>> data{{plan->q, q},
                                                           {plan->k, element(r.in.k, r.in.k_at(0, 0))},
                                                           {plan->v, element(r.in.v, r.in.v_at(0, 0))},
                                                           {plan->o, l.output(0).data},
                                                           {plan->statistics, l.output(1).data},
                                                           {plan->scale, &scale}};
    if (plan->masked >= 0) data.emplace_back(plan->masked, &masked);
    plan->graph.run(l.stream(), data, scratch + queries);
    return true;
}

// in: dy, queries, keys and values in one to three parts, o, log-sum-exp.
bool backward(const Attention& w, const Launch& l) {
    const std::size_t parts = l.in.size() - 3;
    const View dy = l.input(0), o = l.input(1 + parts), statistics = l.input(2 + parts);
    Request r;
    FusedPlans& known = plans(l);
    if (!known.library || !request(w, l, 1, parts, statistics, r)) return false;
    const HeadsView out = heads_view(l, true, 0, parts, {w.heads, w.kv_heads, w.qk_dim, w.v_dim});
    const std::int64_t d = w.qk_dim, rows = r.shape.rows, elements = r.in.q.rows() * w.heads * d;
    r.shape.dy = r.shape.o;
    r.shape.dq = r.dense_queries ? r.shape.q : Strided{rows * out.q.cols, out.packed ? out.group() : d, out.q.cols};
    // Where each key has one query, its gradients go to their places; else each head's are separate and added afterwards.
    const std::int64_t head = out.packed ? out.group() : d, group = w.heads / w.kv_heads, by_head = group > 1 ? 2 : 0;
    const Strided alone{w.heads * rows * d, rows * d, d};
    r.shape.dk = group > 1 ? alone : Strided{rows * out.k.cols, head, out.k.cols};
    r.shape.dv = group > 1 ? alone : Strided{rows * out.v.cols, head, out.v.cols};
    FusedBackward* const plan = known.plan(known.backward, r.shape);
    if (!plan) return false;
    const std::int64_t sums = rounded(4 * elements), dense = rounded(2 * elements),
                       copies = r.dense_queries ? 2 : 0; // queries and their gradient; then keys' and values', by head
    std::byte* const scratch =
        static_cast<std::byte*>(l.scratch(static_cast<std::size_t>((copies + by_head) * dense + sums + plan->graph.workspace() + 256)));
    const auto part = [&](std::int64_t i) { return View{scratch + i * dense, r.in.q.kind, elements, 1}; };
    if (r.dense_queries) copy_queries(l, r.in, w.heads, d, part(0), false);
    const View dk = part(copies), dv = part(copies + 1);
    float one = 1, scale = static_cast<float>(l.context.facts.attention_scale()), gradient_scale = scale,
          masked = std::numeric_limits<float>::lowest();
    void *const k = element(r.in.k, r.in.k_at(0, 0)), *const v = element(r.in.v, r.in.v_at(0, 0));
    std::vector<std::pair<CudnnGraph::Tensor, void*>> data{{plan->q, r.dense_queries ? part(0).data : element(r.in.q, r.in.q_at(0, 0))},
                                                           {plan->k, k},
                                                           {plan->k_transposed, k},
                                                           {plan->v_transposed, v},
                                                           {plan->o, o.data},
                                                           {plan->dy, dy.data},
                                                           {plan->statistics, statistics.data},
                                                           {plan->dq, r.dense_queries ? part(1).data : element(out.q, out.q_at(0, 0))},
                                                           {plan->dk, group > 1 ? dk.data : element(out.k, out.k_at(0, 0))},
                                                           {plan->dv, group > 1 ? dv.data : element(out.v, out.v_at(0, 0))},
                                                           {plan->one, &one},
                                                           {plan->scale, &scale},
                                                           {plan->gradient_scale, &gradient_scale}};
    if (plan->masked >= 0) data.emplace_back(plan->masked, &masked);
    data.emplace_back(plan->dq_sum, scratch + (copies + by_head) * dense);
    plan->graph.run(l.stream(), data, scratch + (copies + by_head) * dense + sums);
    if (r.dense_queries) copy_queries(l, out, w.heads, d, part(1), true);
    if (group == 1) return true;
    const std::int64_t heads = w.heads, kv_heads = w.kv_heads;
    each_pack(l.stream(), r.in.q.rows() * kv_heads * d, packing(out.k, out.v),
              [=] __device__(auto width, std::int64_t i) { // summed over the heads that share a key
                  constexpr int N = decltype(width)::n;
                  const std::int64_t row = i / (kv_heads * d), g = i / d % kv_heads, c = i % d;
                  Pack<N> key, value;
                  for (std::int64_t h = g * group; h < (g + 1) * group; ++h) {
                      const std::int64_t at = ((row / rows * heads + h) * rows + row % rows) * d + c;
                      const Pack<N> more_key = dk.load(width, at), more_value = dv.load(width, at);
                      for (int j = 0; j < N; ++j) key.x[j] += more_key.x[j], value.x[j] += more_value.x[j];
                  }
                  out.k.store(width, out.k_at(row, g) + c, key);
                  out.v.store(width, out.v_at(row, g) + c, value);
              });
    return true;
}

} // namespace

bool fused(const Attention& w, const Launch& l) {
    if (w.direction == Direction::forward) return forward(w, l);
    return !l.context.facts.deterministic && backward(w, l); // it adds gradients of queries in whatever order
}

std::string cudnn_version() {
    try {
        return Cudnn().version();
    } catch (const std::exception& e) { return std::string("none (") + e.what() + ")"; }
}

} // namespace orrery::cuda

#else

namespace orrery::cuda {

struct FusedPlans {};
bool fused(const Attention&, const Launch&) { return false; }
std::string cudnn_version() { return "none (not there when this was built)"; }

} // namespace orrery::cuda

#endif
