// Versions of weights, where a stage holds several: a microbatch goes back with the weights it went forward with, no update writes weights
// that a microbatch under way still reads, and the last update of a program leaves its weights where the next run looks for them.
#include "sim/plan/verify_parts.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace orrery::verification {
namespace {

bool updates(const Block& block) {
    return block.kind == BlockKind::optimizer &&
           std::any_of(block.ops.begin(), block.ops.end(), [](const Op& op) { return std::holds_alternative<OptimizerStep>(op.work); });
}

void check_program(const Plan& plan, const Program& program, Findings& findings) {
    std::vector<std::int32_t> read(at(plan.microbatches), -1); // by microbatch under way: the version
    std::vector<int> readers;
    std::int32_t newest = 0;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.actions.size()); ++i) {
        const Action& a = program.actions[i];
        const Block& block = plan.blocks[a.block];
        const std::int32_t m = a.microbatch[0];
        if (at(block.version) >= readers.size()) readers.resize(at(block.version) + 1, 0);
        const auto fault = [&](const char* what) { findings.add("weight-version", place(plan, program, i), block.name + " " + what); };
        if (updates(block)) {
            if (readers[at(block.version)] > 0) fault("writes weights that microbatches under way will read again");
            newest = block.version;
        }
        if (m < 0 || a.first != 0) continue;
        if (block.kind == BlockKind::forward) {
            read[at(m)] = block.version;
            ++readers[at(block.version)];
        } else if (block.kind == BlockKind::backward && read[at(m)] >= 0) {
            if (read[at(m)] != block.version) fault("reads other weights than its forward pass did");
            --readers[at(read[at(m)])];
        }
    }
    if (newest != 0)
        findings.add("weight-version", fmt::format("stage {}", program.stage),
                     "the last update is not in the version that the next run reads");
}

} // namespace

void check_versions(const Plan& plan, Findings& findings) {
    if (std::none_of(plan.blocks.begin(), plan.blocks.end(), [](const Block& b) { return b.version > 0; })) return;
    for (const Program& program : plan.programs) check_program(plan, program, findings);
}

} // namespace orrery::verification
