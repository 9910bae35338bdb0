// One launch over many tensors: an optimizer's, whose hundreds of biases and norms would each take a launch for a few thousand elements.
#pragma once

#include "exec/cuda/device.cuh"

#include <array>
#include <initializer_list>

namespace orrery::cuda {

inline constexpr std::int64_t piece_chunk = 1 << 14; // elements of one block

// The P operands of one tensor: as many elements of each, a missing one without data.
template <int P> struct PieceView { View part[P]; };

// As many as a kernel's parameters hold.
template <int P> struct PieceList {
    static constexpr int most = 4000 / (16 * P + 16);
    struct Piece {
        void* data[P];
        Kind kind[P];
        bool wide;
        std::int64_t count;
    };
    struct Batch {
        int pieces = 0;
        std::int32_t end[most] = {}; // chunks up to and with each piece
        Piece piece[most] = {};
    };
    std::vector<Batch> batches;
    std::int64_t chunks = 0;

    void add(const std::array<View, P>& views) { // of the first's elements
        const std::int64_t count = views[0].count;
        if (count == 0) return;
        if (batches.empty() || batches.back().pieces == most) batches.emplace_back();
        Batch& b = batches.back();
        Piece& p = b.piece[b.pieces];
        p.wide = true;
        p.count = count;
        for (int i = 0; i < P; ++i) {
            p.data[i] = views[static_cast<std::size_t>(i)].data;
            p.kind[i] = views[static_cast<std::size_t>(i)].kind;
            p.wide = p.wide && aligned(views[static_cast<std::size_t>(i)]);
        }
        const std::int64_t mine = (count + piece_chunk - 1) / piece_chunk;
        b.end[b.pieces] = static_cast<std::int32_t>((b.pieces > 0 ? b.end[b.pieces - 1] : 0) + mine);
        ++b.pieces;
        chunks += mine;
    }
};

// f(Width<N>, views, i) by a thread for elements i to i + N of a piece.
template <int P, class F> __device__ void over_chunk(const typename PieceList<P>::Batch& batch, std::int64_t chunk, F& f) {
    int at = 0;
    for (int last = batch.pieces - 1; at < last;) { // the first piece that ends after the chunk
        const int middle = (at + last) / 2;
        if (batch.end[middle] > chunk)
            last = middle;
        else
            at = middle + 1;
    }
    const typename PieceList<P>::Piece& piece = batch.piece[at];
    PieceView<P> views;
    for (int p = 0; p < P; ++p) views.part[p] = View{piece.data[p], piece.kind[p], piece.count, 1};
    const std::int64_t begin = (chunk - (at > 0 ? batch.end[at - 1] : 0)) * piece_chunk, end = min(piece.count, begin + piece_chunk);
    std::int64_t i = begin;
    if (piece.wide) {
        const std::int64_t whole = begin + (end - begin) / 8 * 8;
        for (std::int64_t j = begin + threadIdx.x * 8; j < whole; j += blockDim.x * 8) f(Width<8>{}, views, j);
        i = whole;
    }
    for (std::int64_t j = i + threadIdx.x; j < end; j += blockDim.x) f(Width<1>{}, views, j);
}

template <int P, class F> __global__ void over_pieces(const __grid_constant__ typename PieceList<P>::Batch batch, F f) {
    over_chunk<P>(batch, blockIdx.x, f);
}

template <int P, class F> void each_piece(cudaStream_t stream, const PieceList<P>& list, F f) {
    for (const auto& batch : list.batches) {
        over_pieces<P><<<static_cast<unsigned>(batch.end[batch.pieces - 1]), 256, 0, stream>>>(batch, f);
        check(cudaGetLastError(), "launch");
    }
}

} // namespace orrery::cuda
