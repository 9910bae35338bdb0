// Time of one GEMM by tiles: the least over tile shapes and split-K of compute in waves, joined with the memory stream.
//
// For a tile tm x tn and a split s, on S processors with peak P, 16-bit peak P16, HBM bandwidth B (flops/us, bytes/us):
//   K = 64 ceil(k / 64 s)     T = batch ceil(m/tm) ceil(n/tn) s                     F = feed P16 / 200   (operand feed, whole chip)
//   t_tile = N8(2 tm tn K S / (efficiency P), (tm+tn) K bytes S / F) + tile sqrt(tm tn / 32768)
//   t_cta  = t_tile ((1-soft) ceil(T/S) + soft max(1, T/S))                         t_mem = V / (stream B)
//   t      = N3(t_cta, t_mem) + [s>1] (split + 4 s m n / F),   t *= 1 + (throttle - relief) u t/(t + throttle_us),   total = t0 + t
// Where a table says so: tiles are of two processors (pairs), 256 by 32 j either way, so that S is half as many; an operand's share of the
// feed takes far times longer for what of it is not in the cache; t_cta and t_mem join with N2, not N3; and t = N8(t, 2 m n k / (ceiling P)
// t/(t + pause)): what the chip keeps up as a whole, its power that is, of which idle processors leave the others more, so that half a wave
// costs little, and a short product's pauses too. A lone wave's feed takes the share max(alone, T/S) of its time, F being the whole chip's;
// a tile's products take ragged times their share of rows that are none of the problem's longer, and two_scales longer where its columns
// are of two blocks of 128; u is the share of the peak in use (power grows with it), else 1. Blockwise products on Hopper take the tile
// their library takes (gemm.cpp), not the least. On systolic arrays of A by A units t_cta = 2 batch m n k / (efficiency P), with n and k
// filled up to A, m to 8, and before that the side along which groups lie by as much as tiles that two of them share are worked on for
// each. with N_p(a,b) = (a^p + b^p)^(1/p); N2 where C is read and added to, which the next tile's products hide less of (Transformer
// Engine's weight gradients on B200: MooreThreads/SimuMax e691807, configs/system/b200_bf16_ceperm.json). Worked example: 8192^3 bf16 on
// A100 has 2048 tiles of 256x128 in 19 waves of 108: 4.26 ms, 258 TFLOP/s.
#pragma once

#include "sim/cost/calibration.hpp"

#include <span>

namespace orrery {

// The device as this law sees it. clock: speed of the processors against the burst the tables were measured in.
struct GemmDevice {
    double processors = 1, peak = 1, peak_16 = 1, bandwidth = 1, l2 = 0;
    double clock = 1;
    double relief = 0; // of the table's throttle: in training lighter kernels lie between products, and the clock falls less than in bursts
    double array = 128; // rows and columns of units of a systolic array
    bool cold = true;   // operands come from HBM, as in training; false: as in repeated benchmarks
};

// How many times as long a side of the products is on a systolic array, where tiles that groups share are worked on for each: their rows,
// or their depth (weight gradients).
struct Reworked {
    double m = 1, k = 1;
    bool operator==(const Reworked&) const = default;
};

// batch GEMMs of C[m,n] = A[m,k] B[n,k]^T. in_bytes, out_bytes: per element; accumulate: C is read, too.
struct GemmProblem {
    double m, n, k, batch = 1, in_bytes = 2, out_bytes = 2;
    bool accumulate = false;
    Reworked again{};
    std::span<const double> rows{}; // of each group, where they differ: batch of them, m their mean
};

double gemm_us(const GemmTable& table, const GemmDevice& device, const GemmProblem& problem);

} // namespace orrery
