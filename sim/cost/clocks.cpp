// Clocks by layer (clocks.hpp). Counted are the kernels of its forward and backward pass, recomputation apart. Not counted are waits for
// communication and for other ranks, which are not known before a step is simulated, and what a step does once.
#include "sim/cost/clocks.hpp"

#include "sim/cost/data.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>

namespace orrery {

double mixed_clock(double matrix, double others, double share, double power) {
    if (matrix <= 0) return 1;
    const double p = (1 - (1 - share) * power) / share, k = (1 - power) * others / matrix;
    return (k + std::sqrt(k * k + 4 * p)) / (2 * p);
}

double CostModel::Data::clock_of(double sustained) const {
    return kernels.matrix_share > 0 ? std::min(std::max(1.0, sustained), sustained * quicker) : sustained;
}

namespace {

bool of_a_pass(const Block& block) {
    const bool pass = block.kind == BlockKind::forward || block.kind == BlockKind::backward || block.kind == BlockKind::weight;
    return pass && block.parts.empty(); // ops of a block made of others are counted there
}

bool is_kernel_of_a_layer(const Op& op) {
    const bool phase = op.phase == Phase::forward || op.phase == Phase::backward_input || op.phase == Phase::backward_weight;
    return phase && op.layer >= 0 && op.queue == compute_queue && !is_memory_op(op.work) && !std::holds_alternative<Collective>(op.work) &&
           !std::holds_alternative<Exchange>(op.work) && !std::holds_alternative<HostSync>(op.work);
}

bool is_matrix(const Work& w) {
    return std::holds_alternative<Linear>(w) || std::holds_alternative<Matmul>(w) || std::holds_alternative<Attention>(w);
}

} // namespace

LayerClocks CostModel::clocks(const Plan& plan, int kind) const {
    if (kind > 0) return data_->kinds.at(static_cast<std::size_t>(kind)).clocks(plan);
    const KernelTables& t = data_->kernels;
    if (t.matrix_share <= 0) return {};
    std::vector<std::array<double, 2>> seconds;        // by layer: of matrix kernels, of others
    std::set<std::tuple<int, int, BlockKind>> counted; // one microbatch's: later ones may have blocks of their own
    for (const Block& block : plan.blocks) {
        if (!of_a_pass(block) || !counted.emplace(block.stage, block.chunk, block.kind).second) continue;
        for (const Op& op : block.ops) {
            if (!is_kernel_of_a_layer(op)) continue;
            const auto layer = static_cast<std::size_t>(op.layer);
            if (layer >= seconds.size()) seconds.resize(layer + 1);
            seconds[layer][is_matrix(op.work) ? 0 : 1] += compute(plan, op).duration.seconds();
        }
    }
    // The same watts are a larger share of a limit below the board's.
    const double others_power = std::min(1.0, t.memory_power / (data_->power * data_->power));
    LayerClocks clocks;
    for (const auto& [matrix, others] : seconds) clocks.push_back(mixed_clock(matrix, others, t.matrix_share, others_power));
    return clocks;
}

ComputeCost CostModel::compute(const Plan& plan, const Op& op, int kind, const LayerClocks& clocks) const {
    const bool listed = op.layer >= 0 && static_cast<std::size_t>(op.layer) < clocks.size();
    const Data& data = kind > 0 ? *data_->kinds.at(static_cast<std::size_t>(kind)).data_ : *data_;
    data.quicker = listed ? clocks[static_cast<std::size_t>(op.layer)] : 1;
    const ComputeCost cost = compute(plan, op, kind);
    data.quicker = 1;
    return cost;
}

} // namespace orrery
