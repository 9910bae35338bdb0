// Mixtures: the router, and rows to experts and back; as exec/kernels/router.cpp and permute.cpp. Order and ties are the CPU's.
#include "exec/cuda/device.cuh"
#include "exec/kernels/loss_scale.hpp"

#include <cfloat>

namespace orrery::cuda {
namespace {

constexpr int most_experts = 512; // of a token's scores in shared memory

__device__ bool better(float a, std::int64_t i, float b, std::int64_t j) { return a > b || (a == b && i < j); }

// Row of (token, expert), by counting the tokens of the expert before it; -1: none, the expert is full, or not of this rank. And the other
// way round: of each row, token x experts + expert; -1: nobody's.
struct Rows {
    std::int64_t experts;
    const std::int64_t *of, *from;
};

// A block of 256 an expert: its tokens in their order.
__global__ void number_tokens(View map, std::int64_t tokens, std::int64_t experts, std::int64_t first, std::int64_t local,
                              std::int64_t* count, std::int64_t* of) {
    __shared__ int of_warp[8];
    const std::int64_t e = blockIdx.x;
    const bool mine = e >= first && e < first + local;
    std::int64_t before = 0;
    for (std::int64_t base = 0; base < tokens; base += 256) {
        const std::int64_t t = base + threadIdx.x;
        const bool here = mine && t < tokens && map.flag(t * experts + e);
        const unsigned votes = __ballot_sync(0xffffffffu, here);
        const int warp = static_cast<int>(threadIdx.x / 32);
        if (threadIdx.x % 32 == 0) of_warp[warp] = __popc(votes);
        __syncthreads();
        std::int64_t at = before + __popc(votes & ((1u << threadIdx.x % 32) - 1));
        for (int w = 0; w < 8; ++w) {
            if (w < warp) at += of_warp[w];
            before += of_warp[w];
        }
        if (t < tokens) of[t * experts + e] = here ? at : -1;
        __syncthreads();
    }
    if (threadIdx.x == 0) count[e] = before;
}

// In scratch memory. Where tokens came to their experts, only these have rows.
Rows number_rows(const Launch& l, const View& map, const Buffer& map_buffer, std::int64_t tokens, std::int64_t rows) {
    const std::int64_t experts = map.cols, local = map_buffer.expert ? experts / l.context.plan.expert_mesh.extent(Axis::ep) : experts;
    const std::int64_t first = map_buffer.expert ? l.context.expert_at[Axis::ep] * local : 0;
    const MoeSpec& moe = l.context.facts.moe;
    const bool padded = moe.pads();
    const std::int64_t capacity = most_rows(moe, tokens, rows, local);
    std::int64_t* const begin = static_cast<std::int64_t*>(l.scratch(static_cast<std::size_t>((experts + tokens * experts + rows) * 8)));
    std::int64_t *const of = begin + experts, *const from = of + tokens * experts;
    check(cudaMemsetAsync(from, 0xff, static_cast<std::size_t>(rows) * 8, l.stream()), "rows");
    number_tokens<<<static_cast<unsigned>(experts), 256, 0, l.stream()>>>(map, tokens, experts, first, local, begin, of);
    check(cudaGetLastError(), "launch");
    each(l.stream(), 1, [=] __device__(std::int64_t) {
        std::int64_t at = 0;
        for (std::int64_t e = 0; e < experts; ++e) {
            const std::int64_t n = begin[e];
            begin[e] = padded ? (e - first) * capacity : at;
            at += capacity > 0 && n > capacity ? capacity : n;
        }
    });
    each(l.stream(), tokens * experts, [=] __device__(std::int64_t i) {
        const std::int64_t at = of[i], row = at < 0 || (capacity > 0 && at >= capacity) ? -1 : begin[i % experts] + at;
        of[i] = row < rows ? row : -1;
        if (row >= 0 && row < rows) from[row] = i;
    });
    return {experts, of, from};
}

__device__ float chosen_sum(const View& scores, const View& map, std::int64_t token, std::int64_t experts, std::int64_t top_k) {
    if (top_k == 1) return 1;
    float sum = 0;
    for (std::int64_t e = 0; e < experts; ++e)
        if (map.flag(token * experts + e)) sum += scores.get(token * experts + e);
    return sum;
}

// From sender by sender to expert by expert, or back: one copy for each part.
void sort(const Permute& w, const Launch& l) {
    const Mesh& mesh = l.context.plan.expert_mesh;
    const std::vector<std::int64_t> sent = l.counts();
    const std::int64_t experts = l.context.facts.moe.experts, local = local_experts(l.context),
                       first = l.context.expert_at[Axis::ep] * local;
    const std::int64_t senders =
        sent.empty() ? mesh.extent(Axis::ep) * mesh.extent(Axis::tp) : static_cast<std::int64_t>(sent.size()) / experts;
    const auto length = [&](std::int64_t r, std::int64_t e) {
        return sent.empty() ? w.rows / (senders * local) : sent[arrived(l.context.plan, r) * experts + first + e];
    };
    const bool to_experts = w.direction == Direction::forward;
    for (std::size_t p = 0; p < l.out.size(); ++p) {
        const View from = l.input(p), to = l.output(p);
        std::int64_t by_expert = 0;
        for (std::int64_t e = 0; e < local; ++e)
            for (std::int64_t r = 0; r < senders; ++r) {
                std::int64_t by_sender = 0;
                for (std::int64_t q = 0; q <= r; ++q)
                    for (std::int64_t x = 0; x < (q < r ? local : e); ++x) by_sender += length(q, x);
                const View a = at(from, (to_experts ? by_sender : by_expert) * from.cols),
                           b = at(to, (to_experts ? by_expert : by_sender) * from.cols);
                const std::int64_t n = length(r, e);
                const View source{a.data, a.kind, n * a.cols, a.cols}, target{b.data, b.kind, n * b.cols, b.cols};
                each_pack(l.stream(), n * from.cols, packing(source, target),
                          [=] __device__(auto width, std::int64_t i) { target.store(width, i, source.load(width, i)); });
                by_expert += n;
            }
    }
}

// Leaves the scores of `limit` groups of experts, the best ones by the sum of their two best scores; nothing is chosen from the others.
__device__ void keep_groups(float* by, std::int64_t experts, std::int64_t groups, std::int64_t limit) {
    const std::int64_t size = experts / groups;
    std::uint64_t kept = 0;
    for (std::int64_t n = 0; n < limit; ++n) {
        std::int64_t best = -1;
        float most = 0;
        for (std::int64_t g = 0; g < groups; ++g) {
            if (kept >> g & 1) continue;
            float first = -INFINITY, second = -INFINITY;
            for (std::int64_t e = g * size; e < (g + 1) * size; ++e) {
                if (by[e] > first)
                    second = first, first = by[e];
                else if (by[e] > second)
                    second = by[e];
            }
            const float worth = size > 1 ? first + second : first;
            if (best < 0 || better(worth, g, most, best)) best = g, most = worth;
        }
        kept |= std::uint64_t{1} << best;
    }
    for (std::int64_t e = 0; e < experts; ++e)
        if (!(kept >> (e / size) & 1)) by[e] = -INFINITY;
}

void route_backward(const Router& w, const Launch& l) {
    const std::int64_t experts = w.experts, top_k = w.top_k;
    const bool sigmoid = w.sigmoid;
    const View ds = l.input(0), s = l.input(1), map = l.input(2), dx = l.output(0);
    each_row(l.stream(), w.tokens, [=] __device__(std::int64_t t) {
        float dot = 0;
        for (std::int64_t e = threadIdx.x; e < experts; e += blockDim.x) dot += ds.get(t * experts + e) * s.get(t * experts + e);
        dot = block_sum(dot);
        for (std::int64_t e = threadIdx.x; e < experts; e += blockDim.x) {
            const float x = s.get(t * experts + e), d = ds.get(t * experts + e);
            dx.put(t * experts + e, sigmoid ? d * x * (1 - x) : x * (d - dot));
        }
    });
    if (l.out.size() < 2) return;
    const View g = l.output(1);
    const float scale = static_cast<float>(loss_factor(l.context)) / static_cast<float>(l.context.facts.loss_tokens),
                mean = static_cast<float>(w.tokens * top_k) / static_cast<float>(experts);
    const std::int64_t tokens = w.tokens;
    each(l.stream(), experts, [=] __device__(std::int64_t e) {
        std::int64_t load = 0;
        for (std::int64_t t = 0; t < tokens; ++t) load += map.flag(t * experts + e);
        g.put(e, g.get(e) + (static_cast<float>(load) - mean) * scale);
    });
}

// Counts leave out the rows that an unpadded capacity drops.
void drop_from_counts(const MoeSpec& moe, std::int64_t tokens, const View& counts, const Launch& l) {
    if (!cuts(moe)) return;
    std::int64_t* const each_one = static_cast<std::int64_t*>(counts.data);
    const std::int64_t most = expert_capacity(moe, tokens);
    each(l.stream(), counts.count, [=] __device__(std::int64_t e) {
        if (each_one[e] > most) each_one[e] = most;
    });
}

} // namespace

void run(const Router& w, const Launch& l) {
    const KernelFacts& f = l.context.facts;
    const std::int64_t experts = w.experts, top_k = w.top_k, groups = w.groups, limit = f.moe.group_limit;
    const bool sigmoid = w.sigmoid;
    if (experts > most_experts) throw std::runtime_error("the router's kernel has room for " + std::to_string(most_experts) + " experts");
    if (w.direction != Direction::forward) return route_backward(w, l);
    const bool biased = l.in.size() > 1, forced = f.forced_routing;
    const View x = l.input(0), b = biased ? l.input(1) : View{}, s = l.output(0), map = l.output(1), counts = l.output(2);
    const Token* tokens = forced ? l.tokens(l.read(0), w.tokens) : nullptr;
    check(cudaMemsetAsync(map.data, 0, static_cast<std::size_t>(map.count), l.stream()), "map");
    check(cudaMemsetAsync(counts.data, 0, static_cast<std::size_t>(counts.count) * 8, l.stream()), "counts");
    each_row(l.stream(), w.tokens, [=] __device__(std::int64_t t) {
        __shared__ float by[most_experts];
        float top = -FLT_MAX, sum = 0;
        for (std::int64_t e = threadIdx.x; e < experts; e += blockDim.x) top = fmaxf(top, x.get(t * experts + e));
        top = block_max(top);
        for (std::int64_t e = threadIdx.x; e < experts; e += blockDim.x) sum += expf(x.get(t * experts + e) - top);
        sum = block_sum(sum);
        for (std::int64_t e = threadIdx.x; e < experts; e += blockDim.x) {
            const float v = x.get(t * experts + e), score = sigmoid ? 1 / (1 + expf(-v)) : expf(v - top) / sum;
            s.put(t * experts + e, score);
            by[e] = score + (biased ? b.get(e) : 0.0f);
        }
        __syncthreads();
        if (threadIdx.x > 0) return;
        const auto take = [&](std::int64_t e) {
            map.set_flag(t * experts + e, true);
            atomicAdd(static_cast<unsigned long long*>(counts.data) + e, 1ull);
        };
        if (forced) {
            for (std::int64_t k = 0; k < top_k; ++k) take((tokens[t].position * top_k + k) % experts);
            return;
        }
        if (groups > 1 && limit < groups) keep_groups(by, experts, groups, limit);
        for (std::int64_t k = 0; k < top_k; ++k) {
            std::int64_t best = 0;
            for (std::int64_t e = 1; e < experts; ++e)
                if (better(by[e], e, by[best], best)) best = e;
            take(best);
            by[best] = -INFINITY;
        }
    });
    drop_from_counts(f.moe, w.tokens, counts, l);
}

void run(const Permute& w, const Launch& l) {
    const std::int64_t cols = w.cols, top_k = l.context.facts.moe.top_k;
    if (w.part == Permute::Part::sort) return sort(w, l);
    if (w.part == Permute::Part::gather) {
        const View x = l.input(0), map = l.input(1), out = l.output(0);
        const bool weighs = l.out.size() > 1;
        const View scores = weighs ? l.input(2) : View{}, p = weighs ? l.output(1) : View{};
        const Rows rows = number_rows(l, map, l.read(1), w.tokens, w.rows);
        each_row_packed(l.stream(), w.rows, packing(x, out), [=] __device__(auto width, std::int64_t row) {
            constexpr int N = decltype(width)::n;
            const std::int64_t i = rows.from[row], token = i / rows.experts;
            for (std::int64_t j = threadIdx.x * N; j < cols; j += blockDim.x * N)
                out.store(width, row * cols + j, i < 0 ? Pack<N>{} : x.load(width, token * cols + j));
            if (weighs && threadIdx.x == 0) p.put(row, i < 0 ? 0.0f : scores.get(i) / chosen_sum(scores, map, token, rows.experts, top_k));
        });
        return;
    }
    const bool weighs = l.out.size() > 1;
    const View from = l.input(0), map = l.input(weighs ? 2 : 1), out = l.output(0);
    const Rows rows = number_rows(l, map, l.read(weighs ? 2 : 1), w.tokens, w.rows);
    const std::int64_t experts = rows.experts;
    if (experts > most_experts)
        throw std::runtime_error("the kernel that brings rows back has room for " + std::to_string(most_experts) + " experts");
    each_row_packed(l.stream(), w.tokens, packing(from, out), [=] __device__(auto width, std::int64_t t) {
        constexpr int N = decltype(width)::n;
        __shared__ std::int64_t row_of[most_experts]; // those of this token, in the experts' order
        __shared__ int count;
        if (threadIdx.x < 32) {
            int n = 0;
            for (std::int64_t e = threadIdx.x; e - threadIdx.x < experts; e += 32) {
                const std::int64_t row = e < experts ? rows.of[t * experts + e] : -1;
                const unsigned votes = __ballot_sync(0xffffffffu, row >= 0);
                if (row >= 0) row_of[n + __popc(votes & ((1u << threadIdx.x) - 1))] = row;
                n += __popc(votes);
            }
            if (threadIdx.x == 0) count = n;
        }
        __syncthreads();
        for (std::int64_t j = threadIdx.x * N; j < cols; j += blockDim.x * N) {
            Pack<N> sum;
            for (int r = 0; r < count; ++r) {
                const Pack<N> part = from.load(width, row_of[r] * cols + j);
                for (int k = 0; k < N; ++k) sum.x[k] += part.x[k];
            }
            out.store(width, t * cols + j, sum);
        }
    });
    if (!weighs) return;
    const View dp = l.input(1), scores = l.input(3), ds = l.output(1);
    each(l.stream(), w.tokens, [=] __device__(std::int64_t t) {
        const float total = chosen_sum(scores, map, t, experts, top_k);
        float mean = 0;
        for (std::int64_t e = 0; e < experts && top_k > 1; ++e)
            if (const std::int64_t row = rows.of[t * experts + e]; row >= 0) mean += scores.get(t * experts + e) / total * dp.get(row);
        for (std::int64_t e = 0; e < experts; ++e) {
            const std::int64_t row = rows.of[t * experts + e];
            ds.put(t * experts + e, map.flag(t * experts + e) ? ((row >= 0 ? dp.get(row) : 0.0f) - mean) / total : 0.0f);
        }
    });
}

} // namespace orrery::cuda
