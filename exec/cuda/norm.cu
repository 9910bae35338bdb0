// Norms: layer norm and RMS norm of whole rows, and of every head's query and key; as exec/kernels/norm.cpp.
#include "exec/cuda/columns.cuh"
#include "exec/cuda/heads.cuh"

namespace orrery::cuda {
namespace {

// Sums over a row's threads (a warp or a block); each thread gets them. Buffers alternate, so that one barrier a sum is enough.
template <bool Warp> struct RowSums {
    float2 (*shared)[32];
    int turn = 0;
    __device__ float2 operator()(float2 x) {
        for (int lane = 16; lane > 0; lane >>= 1) {
            x.x += __shfl_xor_sync(0xffffffffu, x.x, lane);
            x.y += __shfl_xor_sync(0xffffffffu, x.y, lane);
        }
        if constexpr (!Warp) {
            const int warps = static_cast<int>(blockDim.x) / 32;
            float2* const part = shared[turn];
            turn ^= 1;
            if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
            __syncthreads();
            x = part[0];
            for (int w = 1; w < warps; ++w) x.x += part[w].x, x.y += part[w].y;
        }
        return x;
    }
};

struct Shape {
    std::int64_t rows, n;
    bool layer;
    float epsilon;
    bool biased = false; // of a layer norm, forward
};

// A row is in the registers of a warp or of a block, R packs of N a thread: what memory gives is read once.
constexpr int most_threads(int r, bool warp) { return warp ? 128 : r >= 4 ? 1024 : 512; }

template <class W, int R, bool Warp>
__global__ void __launch_bounds__(most_threads(R, Warp)) forward_rows(Shape s, View x, View weight, View bias, View y, View statistics) {
    constexpr int N = W::n;
    constexpr W width{};
    __shared__ float2 shared[2][32];
    RowSums<Warp> sums{shared};
    const int lane = static_cast<int>(Warp ? threadIdx.x % 32 : threadIdx.x), across = Warp ? 32 : static_cast<int>(blockDim.x);
    const std::int64_t of_block = Warp ? blockDim.x / 32 : 1, inside = Warp ? threadIdx.x / 32 : 0;
    const float inverse = 1 / static_cast<float>(s.n);
    for (std::int64_t row = blockIdx.x * of_block + inside; row < s.rows; row += gridDim.x * of_block) {
        Pack<N> in[R];
        float mean = 0;
        for (int r = 0; r < R; ++r) {
            const std::int64_t c = (static_cast<std::int64_t>(r) * across + lane) * N;
            if (c < s.n) in[r] = x.load(width, row * x.cols + c);
            for (int k = 0; k < N; ++k) mean += in[r].x[k];
        }
        mean = s.layer ? sums(make_float2(mean, 0)).x * inverse : 0;
        float square = 0;
        for (int r = 0; r < R; ++r)
            if ((static_cast<std::int64_t>(r) * across + lane) * N < s.n)
                for (int k = 0; k < N; ++k) square += (in[r].x[k] - mean) * (in[r].x[k] - mean);
        const float scale = rsqrtf(sums(make_float2(square, 0)).x * inverse + s.epsilon);
        for (int r = 0; r < R; ++r) {
            const std::int64_t c = (static_cast<std::int64_t>(r) * across + lane) * N;
            if (c >= s.n) continue;
            const Pack<N> factor = weight.load(width, c);
            Pack<N> out;
            if (s.biased) out = bias.load(width, c);
            for (int k = 0; k < N; ++k) out.x[k] += factor.x[k] * ((in[r].x[k] - mean) * scale);
            y.store(width, row * y.cols + c, out);
        }
        if (lane > 0) continue;
        if (s.layer) statistics.put(2 * row, mean);
        statistics.put(s.layer ? 2 * row + 1 : row, scale);
    }
}

// parts: [warp or block][gw, gb], the sums over its rows.
template <class W, int R, bool Warp>
__global__ void __launch_bounds__(most_threads(R, Warp))
    backward_rows(Shape s, View dy, View x, View weight, View dx, View statistics, float* parts) {
    constexpr int N = W::n;
    constexpr W width{};
    __shared__ float2 shared[2][32];
    RowSums<Warp> sums{shared};
    const int lane = static_cast<int>(Warp ? threadIdx.x % 32 : threadIdx.x), across = Warp ? 32 : static_cast<int>(blockDim.x);
    const std::int64_t of_block = Warp ? blockDim.x / 32 : 1, first = blockIdx.x * of_block + (Warp ? threadIdx.x / 32 : 0);
    const float inverse = 1 / static_cast<float>(s.n);
    Pack<N> gw[R], gb[R];
    for (std::int64_t row = first; row < s.rows; row += gridDim.x * of_block) {
        const float mean = s.layer ? statistics.get(2 * row) : 0, scale = statistics.get(s.layer ? 2 * row + 1 : row);
        Pack<N> g[R], xh[R];
        float2 sum = make_float2(0, 0);
        for (int r = 0; r < R; ++r) {
            const std::int64_t c = (static_cast<std::int64_t>(r) * across + lane) * N;
            if (c >= s.n) continue;
            const Pack<N> up = dy.load(width, row * dy.cols + c), factor = weight.load(width, c);
            xh[r] = x.load(width, row * x.cols + c);
            for (int k = 0; k < N; ++k) {
                xh[r].x[k] = (xh[r].x[k] - mean) * scale;
                g[r].x[k] = up.x[k] * factor.x[k];
                gw[r].x[k] += up.x[k] * xh[r].x[k];
                gb[r].x[k] += up.x[k];
                sum.x += g[r].x[k];
                sum.y += g[r].x[k] * xh[r].x[k];
            }
        }
        sum = sums(sum);
        if (!s.layer) sum.x = 0;
        for (int r = 0; r < R; ++r) {
            const std::int64_t c = (static_cast<std::int64_t>(r) * across + lane) * N;
            if (c >= s.n) continue;
            for (int k = 0; k < N; ++k) g[r].x[k] = scale * (g[r].x[k] - (sum.x + xh[r].x[k] * sum.y) * inverse);
            dx.store(width, row * dx.cols + c, g[r]);
        }
    }
    float* const mine = parts + first * (s.layer ? 2 : 1) * s.n;
    for (int r = 0; r < R; ++r)
        for (int k = 0; k < N; ++k) {
            const std::int64_t c = (static_cast<std::int64_t>(r) * across + lane) * N + k;
            if (c >= s.n) continue;
            mine[c] = gw[r].x[k];
            if (s.layer) mine[s.n + c] = gb[r].x[k];
        }
}

// f(Width, R, whether a warp has a row, threads of a block) for rows of n columns. Warps need no barriers, and have more rows in flight; a
// backward pass, which keeps four values of each column, has not the registers for long ones.
template <class F> void by_width(std::int64_t n, Packing p, std::int64_t longest_of_warp, F f) {
    using std::integral_constant, std::true_type, std::false_type;
    const auto threads = [&](int of_thread) { return static_cast<int>((n + of_thread * 32 - 1) / (of_thread * 32) * 32); };
    with_width(n % 8 == 0 ? p : Packing::one, [&](auto width) {
        if constexpr (width.n == 1) {
            if (n > 16 * 1024) throw std::runtime_error("a norm over " + std::to_string(n) + " columns, which are no multiple of 8");
            f(width, integral_constant<int, 16>{}, false_type{}, threads(16));
        } else if (n <= 256)
            f(width, integral_constant<int, 1>{}, true_type{}, 128);
        else if (n <= 1024)
            f(width, integral_constant<int, 4>{}, true_type{}, 128);
        else if (n <= std::min<std::int64_t>(2048, longest_of_warp))
            f(width, integral_constant<int, 8>{}, true_type{}, 128);
        else if (n <= 8192)
            f(width, integral_constant<int, 2>{}, false_type{}, threads(16));
        else if (n <= 32768)
            f(width, integral_constant<int, 4>{}, false_type{}, threads(32));
        else
            throw std::runtime_error("a norm over " + std::to_string(n) + " columns: 32768 are the most");
    });
}

Shape shape_of(const Launch& l, const Norm& w, bool layer) {
    return {w.rows, w.cols, layer, static_cast<float>(l.context.facts.norm_epsilon), layer && l.in.size() > 2};
}

void norm_forward(const Launch& l, const Norm& w, bool layer) {
    const View x = l.input(0), weight = l.input(1), bias = layer && l.in.size() > 2 ? l.input(2) : weight, y = l.output(0),
               statistics = l.output(1);
    by_width(w.cols, packing(x, weight, bias, y), 2048, [&](auto width, auto r, auto warp, int threads) {
        const std::int64_t of_block = warp.value ? threads / 32 : 1;
        forward_rows<decltype(width), r.value, warp.value>
            <<<blocks((w.rows + of_block - 1) / of_block), threads, 0, l.stream()>>>(shape_of(l, w, layer), x, weight, bias, y, statistics);
    });
    check(cudaGetLastError(), "launch");
}

void norm_backward(const Launch& l, const Norm& w, bool layer) {
    const View dy = l.input(0), x = l.input(1), statistics = l.input(2), weight = l.input(3), dx = l.output(0);
    const std::int64_t both = (layer ? 2 : 1) * w.cols;
    float* parts = nullptr;
    std::int64_t count = 0;
    by_width(w.cols, packing(dy, x, weight, dx), 1024, [&](auto width, auto r, auto warp, int threads) {
        const auto kernel = backward_rows<decltype(width), r.value, warp.value>;
        const std::int64_t of_block = warp.value ? threads / 32 : 1;
        int at_once = 1; // blocks of a multiprocessor
        check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&at_once, kernel, threads, 0), "norm");
        const std::int64_t grid =
            std::clamp<std::int64_t>(std::int64_t{at_once} * l.gpu.multiprocessors, 1, (w.rows + of_block - 1) / of_block);
        count = grid * of_block;
        parts = static_cast<float*>(l.scratch(static_cast<std::size_t>(count * both) * sizeof(float)));
        kernel<<<static_cast<unsigned>(grid), threads, 0, l.stream()>>>(shape_of(l, w, layer), dy, x, weight, dx, statistics, parts);
    });
    check(cudaGetLastError(), "launch");
    if (l.out.size() == 1) return; // its weight is not trained
    const bool biased = layer && l.out.size() > 2;
    const View bias = biased ? l.output(2) : View{};
    add_parts(l, parts, count, both, w.cols, l.output(1), biased ? &bias : nullptr);
}

// Every head's query and key; values pass by.
void head_norms(const Norm& w, const Launch& l, std::int64_t both) {
    const bool forward = w.direction == Direction::forward;
    const HeadShape shape = heads_of_rank(l.context);
    const HeadsView a = heads_view(l, false, 0, 1, shape), x = forward ? a : heads_view(l, false, 1, 1, shape),
                    out = heads_view(l, true, 0, 1, shape);
    const std::int64_t heads = shape.heads, n = w.cols, vd = shape.v_dim, groups = shape.kv_heads, rows = a.q.rows();
    if (forward) {
        const View wq = l.input(1), wk = l.input(2), statistics = l.output(1);
        const float epsilon = static_cast<float>(l.context.facts.norm_epsilon);
        each_row(l.stream(), rows * both, [=] __device__(std::int64_t i) {
            const std::int64_t row = i / both, h = i % both, at = h < heads ? a.q_at(row, h) : a.k_at(row, h - heads);
            float square = 0;
            for (std::int64_t c = threadIdx.x; c < n; c += blockDim.x) square += a.q.get(at + c) * a.q.get(at + c);
            const float r = rsqrtf(block_sum(square) / static_cast<float>(n) + epsilon);
            for (std::int64_t c = threadIdx.x; c < n; c += blockDim.x)
                out.q.put(at + c, (h < heads ? wq : wk).get(c) * (a.q.get(at + c) * r));
            if (threadIdx.x == 0) statistics.put(i, r);
        });
    } else {
        const bool trained = l.out.size() > 1;
        const View wq = l.input(3), wk = l.input(4), statistics = l.input(2), gq = trained ? l.output(1) : View{},
                   gk = trained ? l.output(2) : View{};
        const bool at_once = trained && !l.context.facts.deterministic;
        each_row(l.stream(), rows * both, [=] __device__(std::int64_t i) {
            const std::int64_t row = i / both, h = i % both, at = h < heads ? a.q_at(row, h) : a.k_at(row, h - heads);
            const View &weight = h < heads ? wq : wk, &gw = h < heads ? gq : gk;
            const float r = statistics.get(i);
            float product = 0;
            for (std::int64_t c = threadIdx.x; c < n; c += blockDim.x) {
                const float xh = x.q.get(at + c) * r, up = a.q.get(at + c);
                product += up * weight.get(c) * xh;
                if (at_once) gw.add(c, up * xh);
            }
            product = block_sum(product);
            for (std::int64_t c = threadIdx.x; c < n; c += blockDim.x)
                out.q.put(at + c, r * (a.q.get(at + c) * weight.get(c) - x.q.get(at + c) * r * product / static_cast<float>(n)));
        });
        if (trained && !at_once) // a column a thread, its rows and heads one after the other
            each(l.stream(), 2 * n, [=] __device__(std::int64_t i) {
                const bool key = i >= n;
                const std::int64_t c = i % n, from = key ? heads : 0, to = key ? both : heads;
                float sum = 0;
                for (std::int64_t row = 0; row < rows; ++row)
                    for (std::int64_t h = from; h < to; ++h) {
                        const std::int64_t at = (key ? a.k_at(row, h - heads) : a.q_at(row, h)) + c;
                        sum += a.q.get(at) * x.q.get(at) * statistics.get(row * both + h);
                    }
                const View& gw = key ? gk : gq;
                gw.put(c, gw.get(c) + sum);
            });
    }
    each(l.stream(), rows * groups * vd, [=] __device__(std::int64_t i) {
        const std::int64_t at = a.v_at(i / (groups * vd), i / vd % groups) + i % vd;
        out.v.put(at, a.v.get(at));
    });
}

// One norm over all queries of a row and one over all its keys: a block each.
struct AcrossHeads {
    HeadsView view; // of every operand: all are packed alike
    std::int64_t queries, groups, dim, rows;
    __device__ std::int64_t count(bool key) const { return (key ? groups : queries) * dim; }
    // Where column c of a row's queries, or of its keys, stands.
    __device__ std::int64_t place(std::int64_t row, bool key, std::int64_t c) const {
        return (key ? view.k_at(row, c / dim) : view.q_at(row, c / dim)) + c % dim;
    }
};

void across_forward(const Launch& l, const AcrossHeads& h, const HeadsView& out) {
    const View x = h.view.q, y = out.q, wq = l.input(1), wk = l.input(2), statistics = l.output(1);
    const float epsilon = static_cast<float>(l.context.facts.norm_epsilon);
    each_row(l.stream(), 2 * h.rows, [=] __device__(std::int64_t i) {
        const bool key = i % 2 == 1;
        const std::int64_t row = i / 2, n = h.count(key);
        float square = 0;
        for (std::int64_t c = threadIdx.x; c < n; c += blockDim.x) {
            const float v = x.get(h.place(row, key, c));
            square += v * v;
        }
        const float r = rsqrtf(block_sum(square) / static_cast<float>(n) + epsilon);
        for (std::int64_t c = threadIdx.x; c < n; c += blockDim.x) {
            const std::int64_t at = h.place(row, key, c);
            y.put(at, (key ? wk : wq).get(c) * (x.get(at) * r));
        }
        if (threadIdx.x == 0) statistics.put(i, r);
    });
}

// in: dy, x, statistics, query weight, key weight, their gradients. The weights' are summed first, a column a thread, row by row.
void across_backward(const Launch& l, const AcrossHeads& h, const HeadsView& out) {
    const bool trained = l.out.size() > 1;
    const View dy = h.view.q, x = l.input(1), dx = out.q, wq = l.input(3), wk = l.input(4), statistics = l.input(2),
               gq = trained ? l.output(1) : View{}, gk = trained ? l.output(2) : View{};
    const std::int64_t of_queries = h.queries * h.dim, both = of_queries + h.groups * h.dim;
    if (trained)
        each(l.stream(), both, [=] __device__(std::int64_t i) {
            const bool key = i >= of_queries;
            const std::int64_t c = key ? i - of_queries : i;
            float sum = 0;
            for (std::int64_t row = 0; row < h.rows; ++row) {
                const std::int64_t at = h.place(row, key, c);
                sum += dy.get(at) * x.get(at) * statistics.get(2 * row + (key ? 1 : 0));
            }
            const View& gw = key ? gk : gq;
            gw.put(c, gw.get(c) + sum);
        });
    each_row(l.stream(), 2 * h.rows, [=] __device__(std::int64_t i) {
        const bool key = i % 2 == 1;
        const std::int64_t row = i / 2, n = h.count(key);
        const View& weight = key ? wk : wq;
        const float r = statistics.get(i);
        float product = 0;
        for (std::int64_t c = threadIdx.x; c < n; c += blockDim.x) {
            const std::int64_t at = h.place(row, key, c);
            product += dy.get(at) * weight.get(c) * x.get(at) * r;
        }
        product = block_sum(product);
        for (std::int64_t c = threadIdx.x; c < n; c += blockDim.x) {
            const std::int64_t at = h.place(row, key, c);
            dx.put(at, r * (dy.get(at) * weight.get(c) - x.get(at) * r * product / static_cast<float>(n)));
        }
    });
}

void across_norms(const Norm& w, const Launch& l) {
    const HeadShape shape = heads_of_rank(l.context);
    const HeadsView a = heads_view(l, false, 0, 1, shape), out = heads_view(l, true, 0, 1, shape);
    const AcrossHeads heads{a, shape.heads, shape.kv_heads, w.cols / w.heads, a.q.rows()};
    w.direction == Direction::forward ? across_forward(l, heads, out) : across_backward(l, heads, out);
    const std::int64_t vd = shape.v_dim, groups = shape.kv_heads;
    each(l.stream(), heads.rows * groups * vd, [=] __device__(std::int64_t i) {
        const std::int64_t at = a.v_at(i / (groups * vd), i / vd % groups) + i % vd;
        out.v.put(at, a.v.get(at));
    });
}

} // namespace

void run(const Norm& w, const Launch& l) {
    if (w.across) return across_norms(w, l);
    if (w.heads > 0) return head_norms(w, l, w.heads);
    const bool layer = w.kind == NormKind::layernorm;
    w.direction == Direction::forward ? norm_forward(l, w, layer) : norm_backward(l, w, layer);
}

} // namespace orrery::cuda
