// Stable text of plans, blocks and programs, and the hash of it.
#include "sim/plan/plan.hpp"

#include "topology/overloaded.hpp"

#include <fmt/format.h>

namespace orrery {
namespace {

const char* arrow(Direction d) {
    switch (d) {
    case Direction::forward:
        return "fwd";
    case Direction::backward:
        return "bwd";
    case Direction::input_gradient:
        return "dx";
    case Direction::weight_gradient:
        return "dw";
    }
    return "?";
}

std::string queue_text(const Plan& plan, QueueId q) {
    switch (q) {
    case compute_queue:
        return "compute";
    case d2h_queue:
        return "d2h";
    case h2d_queue:
        return "h2d";
    case host_queue:
        return "host";
    case from_disk_queue:
        return "from_disk";
    case to_disk_queue:
        return "to_disk";
    default:
        return plan.communicators[q - first_comm_queue].name;
    }
}

std::string shape_text(const Plan& plan, const Work& work) {
    return std::visit(
        Overloaded{
            [](const Linear& l) {
                return fmt::format("{} {}m{} n{} k{} {}{}", arrow(l.direction), l.groups > 1 ? fmt::format("{}x ", l.groups) : "", l.m, l.n,
                                   l.k, name(l.dtype), l.first >= 0 ? fmt::format(" from row {}", l.first) : "");
            },
            [](const Matmul& m) { return fmt::format("{} {}x m{} n{} k{}", arrow(m.direction), m.batch, m.m, m.n, m.k); },
            [](const Attention& a) {
                return fmt::format("{} b{} q{} kv{} h{}/{} d{}/{} share {:.4g}", arrow(a.direction), a.batch, a.seq_q, a.seq_kv, a.heads,
                                   a.kv_heads, a.qk_dim, a.v_dim, a.share);
            },
            [](const Softmax& s) { return fmt::format("{} {}x{}", arrow(s.direction), s.rows, s.cols); },
            [](const Norm& n) { return fmt::format("{} {}x{}", arrow(n.direction), n.rows, n.cols); },
            [](const Pointwise& p) { return fmt::format("{} {}", arrow(p.direction), p.elements); },
            [](const Embedding& e) { return fmt::format("{} {}x{} of {}", arrow(e.direction), e.tokens, e.hidden, e.vocab); },
            [](const CrossEntropy& c) {
                return fmt::format("{}x{}{}", c.tokens, c.vocab, c.first > 0 ? fmt::format(" from row {}", c.first) : "");
            },
            [](const Router& r) { return fmt::format("{} {}x{} top {}", arrow(r.direction), r.tokens, r.experts, r.top_k); },
            [](const Permute& p) { return fmt::format("{} {} tokens {} rows x{}", arrow(p.direction), p.tokens, p.rows, p.cols); },
            [](const OptimizerStep& o) {
                return fmt::format("{}{}",
                                   o.part == OptimizerStep::Part::norms        ? "norms "
                                   : o.part == OptimizerStep::Part::apply      ? "apply "
                                   : o.part == OptimizerStep::Part::undo       ? "undo "
                                   : o.part == OptimizerStep::Part::again      ? "again "
                                   : o.part == OptimizerStep::Part::direction  ? "direction "
                                   : o.part == OptimizerStep::Part::orthogonal ? "orthogonal "
                                                                               : "",
                                   o.elements) +
                       (o.rows > 0 ? fmt::format(" {} of {}x{}", o.matrices, o.rows, o.cols) : "") + (o.frozen ? " frozen" : "") +
                       (o.delayed ? " of the step before" : "");
            },
            [](const GradientNorm& g) { return fmt::format("{}", g.elements); },
            [](const Compress& c) { return fmt::format("{} {}", name(c.part), c.elements); },
            [&](const Collective& c) {
                const std::string times = c.times > 1 ? fmt::format("{} x ", c.times) : "";
                return fmt::format("{} {}{} B over {}{}", name(c.dtype), times, c.bytes.count, plan.communicators[c.comm].name,
                                   c.whole ? ", as an all-reduce" : "");
            },
            [&](const Exchange& x) {
                std::string text;
                for (const Transfer& t : x.transfers)
                    text += fmt::format("{}{} {} B port {} over {}", text.empty() ? "" : ", ", t.send ? "send" : "receive", t.bytes.count,
                                        t.port, plan.communicators[t.comm].name);
                return text;
            },
            [](const Copy& c) { return fmt::format("{} B", c.bytes.count); },
            [](const HostSync&) { return std::string{}; },
            [](const HostWork& h) { return format(h.duration); },
            [&](const Alloc& a) { return fmt::format("{} {} B", plan.buffers[a.buffer].name, plan.buffers[a.buffer].bytes.count); },
            [&](const Free& f) { return plan.buffers[f.buffer].name; },
        },
        work);
}

void append_names(std::string& text, const Plan& plan, const std::vector<BufferId>& ids) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (i >= 8) {
            text += fmt::format(" +{} more", ids.size() - i);
            return;
        }
        text += " " + plan.buffers[ids[i]].name;
    }
}

} // namespace

std::string to_text(const Plan& plan, const Block& block) {
    std::string text =
        fmt::format("{} (stage {}): {} ops{}\n", block.name, block.stage, block.ops.size(), block.blocking ? ", blocking" : "");
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
        const Op& op = block.ops[i];
        if (is_memory_op(op.work)) {
            text += fmt::format("  {:3} {} {}\n", i, kind_name(op.work), shape_text(plan, op.work));
            continue;
        }
        text += fmt::format("  {:3} {} {} {}{} on {} [{}]:", i, op.name, kind_name(op.work), shape_text(plan, op.work),
                            (op.pieces > 1 ? fmt::format(" in {} pieces", op.pieces) : "") +
                                (op.share < 1 ? fmt::format(" in {:g} of steps", op.share) : ""),
                            queue_text(plan, op.queue), name(op.phase));
        append_names(text, plan, op.in);
        text += " ->";
        append_names(text, plan, op.out);
        if (!op.deps.empty()) text += fmt::format(" after {}", fmt::join(op.deps, " "));
        text += "\n";
    }
    return text;
}

std::string to_text(const Plan& plan, const Program& program) {
    std::string text = fmt::format("{}:", program.stage);
    for (const Action& a : program.actions) {
        const Block& b = plan.blocks[a.block];
        text += " " + b.name;
        if (a.first != 0 || a.last != static_cast<std::int32_t>(b.ops.size())) text += fmt::format("[{}-{})", a.first, a.last);
        std::string mb;
        for (std::int32_t m : a.microbatch)
            if (m >= 0) mb += fmt::format("{}{}", mb.empty() ? "" : ",", m);
        if (!mb.empty()) text += "." + mb;
    }
    return text + "\n";
}

static std::string text_with_deps(const Plan& plan, const Program& p) {
    std::string text = to_text(plan, p);
    for (std::size_t i = 0; i < p.actions.size(); ++i)
        for (std::int32_t d = p.actions[i].deps_begin; d < p.actions[i].deps_end; ++d)
            text += fmt::format("   action {} op {} after action {} op {}\n", i, p.deps[d].op, p.deps[d].on_action, p.deps[d].on_op);
    return text;
}

std::string to_text(const Plan& plan) {
    std::string text = fmt::format("plan {}: {} ranks, {} stages x {} chunks, {} microbatches\n", plan.name, plan.mesh.ranks(), plan.stages,
                                   plan.chunks_per_stage, plan.microbatches);
    text += "mesh, fastest first:";
    for (Axis a : plan.mesh.order) text += fmt::format(" {}={}", name(a), plan.mesh.extent(a));
    if (!plan.expert_mesh.order.empty()) {
        text += "\nexperts' mesh:";
        for (Axis a : plan.expert_mesh.order) text += fmt::format(" {}={}", name(a), plan.expert_mesh.extent(a));
    }
    text += "\ncommunicators:";
    for (std::size_t c = 0; c < plan.communicators.size(); ++c)
        text += fmt::format(" {}({})", plan.communicators[c].name, size(plan, static_cast<CommId>(c)));
    text += "\n\nblocks\n";
    for (const Block& b : plan.blocks) text += to_text(plan, b);
    if (!plan.shares.empty()) text += fmt::format("\nworkers weigh {:.6g}\n", fmt::join(plan.shares, ", "));
    if (plan.apart) text += plan.served ? "\nworkers apart, updated by servers\n" : "\nworkers apart\n";
    text += plan.repeat > 1 ? fmt::format("\nprograms, {} times\n", plan.repeat) : "\nprograms\n";
    for (const Program& p : plan.programs) text += text_with_deps(plan, p);
    for (const PlanPhase& phase : plan.further) {
        const std::string when = phase.behind == PlanPhase::nothing ? " at once"
                                 : phase.behind >= 0                ? fmt::format(" after phase {}", phase.behind + 1)
                                                                    : "";
        const std::string what = phase.steps ? " training steps" : "";
        text += phase.repeat > 1 || phase.steps ? fmt::format("\nthen{}, {} times{}\n", when, phase.repeat, what) : "\nthen" + when + "\n";
        for (const Program& p : phase.programs) text += text_with_deps(plan, p);
    }
    return text;
}

std::uint64_t hash(const Plan& plan) {
    std::uint64_t h = 1469598103934665603ull; // FNV-1a
    for (const char c : to_text(plan)) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    return h;
}

} // namespace orrery
