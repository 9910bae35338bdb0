// Muon (Jordan et al. 2024; Liu et al., arXiv:2502.16982): which parameters it steps on, and the ops of its step. All others are AdamW's.
#pragma once

#include "sim/plan/lowering.hpp"

#include <vector>

namespace orrery {

// Whether Muon steps on it: a trained matrix of a layer. Embeddings, the output layer, norms and biases are AdamW's.
bool by_muon(const Lowering& l, const Parameter& p);

// Matrices of one shape that are made orthogonal, each by itself. ranks: tensor-parallel ones that it is gathered from; 1: none.
struct MatrixShape {
    std::int64_t rows, cols, count;
    int ranks = 1;
    bool operator==(const MatrixShape&) const = default;
    std::int64_t elements() const { return rows * cols; }
    std::int64_t local() const { return elements() / ranks; } // of one matrix, before it is gathered
};

// A rank steps on this with one set of ops: all that it has, experts apart, or a bucket whose shards are gathered.
struct MuonSet {
    std::vector<BufferId> gradients, weights;
    std::int64_t elements = 0;
    bool expert = false;
    const Bucket* gathered = nullptr; // from the shards of this bucket; nullptr: what the rank has is whole matrices
    std::vector<MatrixShape> shapes;  // that this rank does, of matrices that have owners those of the rank that has most
};
std::vector<MuonSet> muon_sets(const Lowering& l, int stage);

// Matrices are dealt out to `ranks` ranks, the largest first: those of the first rank, as no rank has more.
std::vector<MatrixShape> of_first_owner(std::vector<MatrixShape> all, std::int64_t ranks);

// Appends the step on one set. master: -1 where parameters are their own. scale: the clipping factor, where there is one.
struct MuonStates {
    BufferId master = -1, momentum = -1;
    std::vector<BufferId> scale{};
};
void step_by_muon(Lowering& l, int stage, const MuonSet& set, const MuonStates& states, const std::string& suffix, Block& out);

} // namespace orrery
