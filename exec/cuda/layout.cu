// Rotary embeddings and copies with an order of their own; as exec/kernels/layout.cpp.
#include "exec/cuda/heads.cuh"

#include <cmath>

namespace orrery::cuda {
namespace {

// Pairs of columns half of them apart: what the i-th of a head's `dim` turned columns becomes.
struct Turn {
    const Token* tokens;
    const float2* table; // cosine and sine, by position and pair
    std::int64_t dim;
    bool back;
    __device__ float operator()(const View& v, std::int64_t begin, std::int64_t i, std::int64_t row) const {
        return at(Width<1>{}, v, begin, i, row).x[0];
    }
    // N columns from the i-th on, all in one half.
    template <int N, bool Short>
    __device__ Pack<N> at(Width<N, Short> width, const View& v, std::int64_t begin, std::int64_t i, std::int64_t row) const {
        const std::int64_t half = dim / 2, f = i < half ? i : i - half;
        const float2* const angle = table + tokens[row].position * half + f;
        const Pack<N> a = v.load(width, begin + f), b = v.load(width, begin + f + half);
        Pack<N> out;
        for (int k = 0; k < N; ++k) {
            const float c = angle[k].x, s = back ? -angle[k].y : angle[k].y;
            out.x[k] = i < half ? a.x[k] * c - b.x[k] * s : b.x[k] * c + a.x[k] * s;
        }
        return out;
    }
};

// Angles are made in fp64 on the host, once for all layers: a power, a sine and a cosine are a hundred times what a turn takes.
Turn turn(const Launch& l, const Buffer& value, std::int64_t rows, bool back) {
    const std::int64_t half = l.context.facts.rope_dim / 2, positions = l.context.facts.sequence;
    const double base = l.context.facts.rope_base, scale = l.context.facts.rope_scale;
    const float2* const table = l.gpu.table<float2>(
        "angles " + std::to_string(half) + " " + std::to_string(positions) + " " + std::to_string(base) + " " + std::to_string(scale), [&] {
            std::vector<float2> angles(static_cast<std::size_t>(positions * half));
            for (std::int64_t p = 0; p < positions; ++p)
                for (std::int64_t f = 0; f < half; ++f) {
                    const double angle = static_cast<double>(p) * std::pow(static_cast<double>(static_cast<float>(base)),
                                                                           -2.0 * static_cast<double>(f) / static_cast<double>(2 * half));
                    angles[p * half + f] = {static_cast<float>(scale * std::cos(angle)), static_cast<float>(scale * std::sin(angle))};
                }
            return angles;
        });
    return {l.tokens(value, rows), table, 2 * half, back};
}

// From one arrangement of queries, keys and values to another; turned: all but values, by position.
void between(const Launch& l, bool turned, bool back) {
    const HeadShape shape = heads_of_rank(l.context);
    const HeadsView from = heads_view(l, false, 0, l.in.size(), shape), to = heads_view(l, true, 0, l.out.size(), shape);
    const std::int64_t rows = from.q.rows(), qk = shape.qk_dim, vd = shape.v_dim, heads = shape.heads, groups = shape.kv_heads;
    const Turn t = turned ? turn(l, l.read(0), rows, back) : Turn{};
    const std::int64_t still = turned ? qk - t.dim : qk;
    const Packing packs = packing(from.q, from.k, from.v, to.q, to.k, to.v) && qk % 8 == 0 && vd % 8 == 0 && still % 8 == 0 &&
                          t.dim % 16 == 0 && from.values_from % 8 == 0 && to.values_from % 8 == 0;
    each_row_packed(l.stream(), rows, packs, [=] __device__(auto width, std::int64_t row) {
        constexpr int N = decltype(width)::n;
        const int d = static_cast<int>(qk), queries = static_cast<int>(heads) * d, keys = static_cast<int>(groups) * d,
                  values = static_cast<int>(groups * vd);
        const auto turned_or_not = [&](const View& v, std::int64_t x, int j) {
            return j >= d - still ? v.load(width, x + j) : t.at(width, v, x, j, row);
        };
        for (int i = static_cast<int>(threadIdx.x) * N; i < queries + keys + values; i += static_cast<int>(blockDim.x) * N) {
            if (i < queries) {
                const int h = i / d, j = i % d;
                to.q.store(width, to.q_at(row, h) + j, turned_or_not(from.q, from.q_at(row, h), j));
            } else if (i < queries + keys) {
                const int g = (i - queries) / d, j = (i - queries) % d;
                to.k.store(width, to.k_at(row, g) + j, turned_or_not(from.k, from.k_at(row, g), j));
            } else {
                const int c = i - queries - keys, g = c / static_cast<int>(vd), j = c % static_cast<int>(vd);
                to.v.store(width, to.v_at(row, g) + j, from.v.load(width, from.v_at(row, g) + j));
            }
        }
    });
}

void join_latent(const Launch& l) {
    const HeadShape shape = heads_of_rank(l.context);
    const HeadsView to = heads_view(l, true, 0, l.out.size(), shape);
    const View q = l.input(0), up = l.input(1), key = l.input(2);
    const Turn t = turn(l, l.read(0), q.rows(), false);
    const std::int64_t qk = shape.qk_dim, vd = shape.v_dim, still = qk - t.dim, heads = shape.heads;
    each(l.stream(), q.rows() * heads * qk, [=] __device__(std::int64_t i) {
        const std::int64_t row = i / (heads * qk), h = i / qk % heads, j = i % qk, x = row * q.cols + h * qk,
                           u = row * up.cols + h * (still + vd);
        to.q.put(to.q_at(row, h) + j, j < still ? q.get(x + j) : t(q, x + still, j - still, row));
        to.k.put(to.k_at(row, h) + j, j < still ? up.get(u + j) : t(key, row * key.cols, j - still, row));
    });
    each(l.stream(), q.rows() * heads * vd, [=] __device__(std::int64_t i) {
        const std::int64_t row = i / (heads * vd), h = i / vd % heads, j = i % vd;
        to.v.put(to.v_at(row, h) + j, up.get(row * up.cols + h * (still + vd) + still + j));
    });
}

void part_latent(const Launch& l) {
    const HeadShape shape = heads_of_rank(l.context);
    const HeadsView from = heads_view(l, false, 0, l.in.size(), shape);
    const View q = l.output(0), up = l.output(1), key = l.output(2);
    const Turn t = turn(l, l.read(0), q.rows(), true);
    const std::int64_t qk = shape.qk_dim, vd = shape.v_dim, still = qk - t.dim, heads = shape.heads;
    each(l.stream(), q.rows() * heads * qk, [=] __device__(std::int64_t i) {
        const std::int64_t row = i / (heads * qk), h = i / qk % heads, j = i % qk, x = from.q_at(row, h);
        q.put(row * q.cols + h * qk + j, j < still ? from.q.get(x + j) : t(from.q, x + still, j - still, row));
        if (j < still) up.put(row * up.cols + h * (still + vd) + j, from.k.get(from.k_at(row, h) + j));
    });
    each(l.stream(), q.rows() * heads * vd, [=] __device__(std::int64_t i) {
        const std::int64_t row = i / (heads * vd), h = i / vd % heads, j = i % vd;
        up.put(row * up.cols + h * (still + vd) + still + j, from.v.get(from.v_at(row, h) + j));
    });
    each(l.stream(), q.rows() * t.dim, [=] __device__(std::int64_t i) {
        const std::int64_t row = i / t.dim;
        float sum = 0;
        for (std::int64_t h = 0; h < heads; ++h) sum += t(from.k, from.k_at(row, h) + still, i % t.dim, row);
        key.put(i, sum);
    });
}

void narrow(const Pointwise& w, const Launch& l, bool first) {
    const bool forward = w.direction == Direction::forward;
    const View wide = forward ? l.input(0) : l.output(0), thin = forward ? l.output(0) : l.input(0);
    const std::int64_t offset = first ? 0 : wide.cols - thin.cols;
    each(l.stream(), thin.count, [=] __device__(std::int64_t i) {
        const std::int64_t there = i / thin.cols * wide.cols + offset + i % thin.cols;
        if (forward)
            thin.put(i, wide.get(there));
        else
            wide.put(there, thin.get(i));
    });
}

void concat(const Pointwise& w, const Launch& l) {
    const bool forward = w.direction == Direction::forward;
    const View whole = forward ? l.output(0) : l.input(0);
    std::int64_t offset = 0;
    for (std::size_t p = 0; p < (forward ? l.in : l.out).size(); ++p) {
        const View part = forward ? l.input(p) : l.output(p);
        const std::int64_t from = offset;
        each(l.stream(), part.count, [=] __device__(std::int64_t i) {
            const std::int64_t there = i / part.cols * whole.cols + from + i % part.cols;
            if (forward)
                whole.put(there, part.get(i));
            else
                part.put(i, whole.get(there));
        });
        offset += part.cols;
    }
}

// [rows][ranks x part] and [rank][rows][part]; copies of a head are summed on the way back.
void pack(const Launch& l, bool back) {
    const View tokens = back ? l.output(0) : l.input(0), ranks_first = back ? l.input(0) : l.output(0);
    const std::int64_t rows = tokens.rows(), width = ranks_first.count / rows, part = width / l.context.facts.context_ranks,
                       copies = width / tokens.cols;
    const std::int64_t dim = copies > 1 ? tokens.cols / heads_of_rank(l.context).kv_heads : tokens.cols;
    each(l.stream(), tokens.count, [=] __device__(std::int64_t i) {
        const std::int64_t row = i / tokens.cols, col = i % tokens.cols;
        float sum = 0;
        for (std::int64_t c = 0; c < copies; ++c) {
            const std::int64_t wide = (col / dim * copies + c) * dim + col % dim, there = (wide / part * rows + row) * part + wide % part;
            if (back)
                sum += ranks_first.get(there);
            else
                ranks_first.put(there, tokens.get(i));
        }
        if (back) tokens.put(i, sum);
    });
}

// [ranks][rows][part] to [rows][ranks x part]; backward: this rank's columns.
void join_columns(const Pointwise& w, const Launch& l) {
    const View in = l.input(0), out = l.output(0);
    if (w.direction != Direction::forward) {
        const std::int64_t offset = l.coordinate(Axis::tp) * out.cols;
        each(l.stream(), out.count, [=] __device__(std::int64_t i) { out.put(i, in.get(i / out.cols * in.cols + offset + i % out.cols)); });
        return;
    }
    const std::int64_t rows = out.rows(), part = in.cols;
    each(l.stream(), out.count, [=] __device__(std::int64_t i) {
        const std::int64_t row = i / out.cols, col = i % out.cols;
        out.put(i, in.get((col / part * rows + row) * part + col % part));
    });
}

} // namespace

void rope(const Pointwise& w, const Launch& l) {
    const bool forward = w.direction == Direction::forward;
    if (forward && l.in.size() == 3)
        join_latent(l);
    else if (!forward && l.out.size() == 3)
        part_latent(l);
    else
        between(l, true, !forward);
}

void rearrange(const Pointwise& w, const Launch& l) {
    switch (w.kind) {
    case PointwiseKind::split:
        return between(l, false, false);
    case PointwiseKind::narrow:
        return narrow(w, l, false);
    case PointwiseKind::cast_columns:
        return narrow(w, l, true);
    case PointwiseKind::concat:
        return concat(w, l);
    case PointwiseKind::pack:
        return pack(l, false);
    case PointwiseKind::join_columns:
        return join_columns(w, l);
    case PointwiseKind::unpack:
    case PointwiseKind::sum_copies:
        return pack(l, true);
    default:
        throw std::runtime_error("not a copy with an order of its own");
    }
}

} // namespace orrery::cuda
