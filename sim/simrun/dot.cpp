#include "sim/simrun/dot.hpp"

#include <fmt/format.h>

#include <iterator>
#include <map>
#include <set>

namespace orrery::simrun {

namespace {

const char* colour(const Op& op) {
    if (std::holds_alternative<Collective>(op.work)) return "lightblue";
    if (std::holds_alternative<Exchange>(op.work)) return "khaki";
    if (std::holds_alternative<OptimizerStep>(op.work)) return "plum";
    return op.phase == Phase::recompute ? "mistyrose" : "honeydew";
}

std::string block_text(const Plan& plan, std::size_t index) {
    const Block& block = plan.blocks[index];
    std::string text = fmt::format("  subgraph cluster_{} {{ label=\"{} (stage {})\";\n", index, block.name, block.stage), edges;
    std::map<BufferId, std::size_t> writer;
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
        const Op& op = block.ops[i];
        if (is_memory_op(op.work)) continue;
        text += fmt::format("    b{}_{} [label=\"{}\\n{}\", fillcolor={}];\n", index, i, op.name, kind_name(op.work), colour(op));
        std::set<std::size_t> from;
        for (BufferId b : op.in) {
            if (const auto it = writer.find(b); it != writer.end() && from.insert(it->second).second) {
                edges += fmt::format("    b{0}_{1} -> b{0}_{2} [tooltip=\"{3}\"];\n", index, it->second, i, plan.buffers[b].name);
            }
        }
        for (std::int32_t d : op.deps) {
            const auto on = static_cast<std::size_t>(d);
            if (!is_memory_op(block.ops[on].work) && from.insert(on).second)
                edges += fmt::format("    b{0}_{1} -> b{0}_{2} [style=dashed];\n", index, on, i);
        }
        for (BufferId b : op.out) writer[b] = i;
    }
    return text + edges + "  }\n";
}

} // namespace

std::string to_dot(const Plan& plan) {
    std::string text =
        fmt::format("digraph plan {{\n  label=\"{}\"; node [shape=box, style=filled, fontsize=10]; compound=true;\n", plan.name);
    for (std::size_t b = 0; b < plan.blocks.size(); ++b) text += block_text(plan, b);
    return text + "}\n";
}

} // namespace orrery::simrun
