// The order of the rules, and their common ground. Rules by file:
//
// structure      (here)                  ids, queues, ranges and dependencies that exist and point backwards
// buckets        verify_buckets.cpp      bucket: tensors and buckets are what buffers and ops make of them
// placements     verify_placements.cpp   partial-read, reduced-not-partial, placement
// ranges         verify_ranges.cpp       read-before-write, freed-twice, allocated-twice, not-alive, never-written, never-read, unordered
// lifetimes      verify_lifetimes.cpp    the same over a whole step, for every microbatch; leak, block-coverage
// order          verify_order.cpp        unordered, between actions and from one step to the next
// gradients      verify_gradients.cpp    gradient-missing, -partial, -late, -lost, -early, reduced-twice, parameter-*
// transfers      verify_transfers.cpp    transfer-unmatched, transfer-mismatch, collective-mismatch, collective-order
// meeting        verify_meeting.cpp      deadlock
// rounds         verify_rounds.cpp       round, worker-averaged
//
// In a plan with rounds the rules hold for two runs of each phase, one after the other: a third begins as the second does.
#include "sim/plan/lower.hpp"
#include "sim/plan/rounds.hpp"
#include "sim/plan/verify_parts.hpp"

#include <algorithm>
#include <fmt/format.h>

#include <stdexcept>

namespace orrery {
namespace verification {
namespace {

constexpr int most_of_a_rule = 20;

} // namespace

void Findings::add(const char* rule, std::string where, std::string what) {
    const int n = ++count_[rule];
    if (n <= most_of_a_rule) list_.push_back({rule, std::move(where), std::move(what)});
}

std::vector<Violation> Findings::take() {
    for (const auto& [rule, n] : count_)
        if (n > most_of_a_rule) list_.push_back({rule, plan_.name, fmt::format("and {} more", n - most_of_a_rule)});
    return std::move(list_);
}

std::string place(const Plan& plan, const Block& block, std::int32_t op) {
    const Op& o = block.ops[at(op)];
    std::string name = o.name;
    if (const auto* a = std::get_if<Alloc>(&o.work)) name = "alloc " + plan.buffers[at(a->buffer)].name;
    if (const auto* f = std::get_if<Free>(&o.work)) name = "free " + plan.buffers[at(f->buffer)].name;
    return fmt::format("{}, op {} ({})", block.name, op, name);
}

std::string place(const Plan& plan, const Program& program, std::int32_t action, std::int32_t op) {
    const Action& a = program.actions[at(action)];
    const Block& block = plan.blocks[at(a.block)];
    std::string text = fmt::format("stage {}, action {} ({}", program.stage, action, block.name);
    const char* separator = " microbatch ";
    for (std::int32_t m : a.microbatch)
        if (m >= 0) {
            text += fmt::format("{}{}", separator, m);
            separator = ",";
        }
    text += ")";
    if (op >= 0 && op < static_cast<std::int32_t>(block.ops.size())) text += place(plan, block, op).substr(block.name.size());
    return text;
}

Facts facts_of(const Plan& plan) {
    Facts f;
    const std::size_t n = plan.buffers.size();
    f.root.resize(n);
    f.per_microbatch.resize(n);
    f.alive_at_start.resize(n);
    f.written_at_start.resize(n);
    f.ids_begin.assign(n + 1, 0);
    for (std::size_t i = 0; i < n; ++i) {
        const BufferId r = f.root[i] = storage(plan, static_cast<BufferId>(i));
        const Buffer& b = plan.buffers[at(r)];
        const bool passing = b.scope == Scope::microbatch || b.scope == Scope::action;
        // Parameters and gradients that come and go are still the rank's only ones, whatever microbatch reads them.
        f.per_microbatch[i] = passing && b.kind != MemoryKind::parameters && b.kind != MemoryKind::gradients;
        f.alive_at_start[i] = !passing;
        f.written_at_start[i] = b.scope == Scope::run;
        ++f.ids_begin[at(r) + 1];
    }
    for (std::size_t i = 0; i < n; ++i) f.ids_begin[i + 1] += f.ids_begin[i];
    std::vector<std::int32_t> next(f.ids_begin.begin(), f.ids_begin.end() - 1);
    f.ids.resize(n);
    for (std::size_t i = 0; i < n; ++i) f.ids[at(next[at(f.root[i])]++)] = static_cast<BufferId>(i);
    for (int a = 0; a < axis_count; ++a) {
        if (plan.workers >> a & 1) continue; // each worker is a training run of its own
        if (plan.mesh.size[at(a)] > 1) f.wide[0] = static_cast<AxisMask>(f.wide[0] | (1u << a));
        if (plan.expert_mesh.size[at(a)] > 1) f.wide[1] = static_cast<AxisMask>(f.wide[1] | (1u << a));
    }
    return f;
}

namespace {

// Views must name an earlier storage chain that ends: storage() walks it.
bool views_end(const Plan& plan, Findings& findings) {
    const std::int64_t n = static_cast<std::int64_t>(plan.buffers.size());
    bool good = true;
    for (std::int64_t i = 0; i < n; ++i) {
        std::int64_t b = i, steps = 0;
        while (b >= 0 && b < n && plan.buffers[at(b)].storage >= 0 && steps <= n) b = plan.buffers[at(b)].storage, ++steps;
        if (b < n && steps <= n) continue;
        findings.add("structure", plan.buffers[at(i)].name, "is a view of no storage");
        good = false;
    }
    return good;
}

struct StructureCheck {
    const Plan& plan;
    Findings& findings;
    std::int64_t buffers = static_cast<std::int64_t>(plan.buffers.size());
    std::int64_t comms = static_cast<std::int64_t>(plan.communicators.size());

    bool buffer(BufferId b) const { return b >= 0 && b < buffers; }
    bool comm(CommId c) const { return c >= 0 && c < comms; }
    void fault(const Block& block, std::size_t i, const char* what) {
        findings.add("structure", fmt::format("{}, op {} ({})", block.name, i, block.ops[i].name), what);
    }

    void op(const Block& block, std::size_t i) {
        const Op& o = block.ops[i];
        for (const auto* list : {&o.in, &o.out})
            for (BufferId b : *list)
                if (!buffer(b))
                    fault(block, i, "names a buffer that does not exist");
                else if (plan.buffers[at(b)].stage != block.stage)
                    fault(block, i, "names a buffer of another stage");
        for (std::int32_t d : o.deps)
            if (d < 0 || d >= static_cast<std::int32_t>(i)) fault(block, i, "waits for an op that is not before it");
        if (o.queue < 0 || o.queue >= first_comm_queue + comms) return fault(block, i, "is on a queue that does not exist");
        if (o.port >= max_ports) fault(block, i, "has a port that does not exist");
        if (const auto* c = std::get_if<Collective>(&o.work); c && (!comm(c->comm) || o.queue != queue_of(c->comm)))
            fault(block, i, "is not on its communicator's queue");
        if (const auto* a = std::get_if<Alloc>(&o.work); a && (!buffer(a->buffer) || plan.buffers[at(a->buffer)].storage >= 0))
            fault(block, i, "allocates what has no storage of its own");
        if (const auto* f = std::get_if<Free>(&o.work); f && (!buffer(f->buffer) || plan.buffers[at(f->buffer)].storage >= 0))
            fault(block, i, "frees what has no storage of its own");
        if (const auto* x = std::get_if<Exchange>(&o.work)) transfers(block, i, *x);
    }

    void transfers(const Block& block, std::size_t i, const Exchange& x) {
        bool own_queue = false;
        for (const Transfer& t : x.transfers) {
            const auto& listed = t.send ? block.ops[i].in : block.ops[i].out;
            if (std::find(listed.begin(), listed.end(), t.buffer) == listed.end())
                return fault(block, i, "has a transfer of a buffer that it does not list");
            if (!comm(t.comm) || !buffer(t.buffer) || t.port >= max_ports)
                return fault(block, i, "has a transfer of a communicator, buffer or port that does not exist");
            own_queue = own_queue || block.ops[i].queue == queue_of(t.comm);
        }
        if (!own_queue) fault(block, i, "is on none of its transfers' queues");
    }

    void program(const Program& p) {
        const std::int32_t actions = static_cast<std::int32_t>(p.actions.size());
        for (std::int32_t i = 0; i < actions; ++i) {
            const Action& a = p.actions[at(i)];
            const auto bad = [&](const char* what) { findings.add("structure", fmt::format("stage {}, action {}", p.stage, i), what); };
            if (a.block < 0 || a.block >= static_cast<std::int32_t>(plan.blocks.size())) {
                bad("names a block that does not exist");
                continue;
            }
            const Block& block = plan.blocks[at(a.block)];
            if (block.stage != p.stage) bad("runs a block of another stage");
            if (a.first < 0 || a.last < a.first || a.last > static_cast<std::int32_t>(block.ops.size())) {
                bad("runs ops its block does not have");
                continue;
            }
            for (std::int32_t m : a.microbatch)
                if (m < -1 || m >= plan.microbatches) bad("has a microbatch that does not exist");
            if (a.deps_begin < 0 || a.deps_end < a.deps_begin || a.deps_end > static_cast<std::int32_t>(p.deps.size())) {
                bad("has dependencies out of range");
                continue;
            }
            for (std::int32_t d = a.deps_begin; d < a.deps_end; ++d) dependency(p, i, a, p.deps[at(d)]);
        }
    }

    void dependency(const Program& p, std::int32_t index, const Action& a, const ActionDep& d) {
        const std::int32_t actions = static_cast<std::int32_t>(p.actions.size());
        const auto bad = [&](const char* what) { findings.add("structure", place(plan, p, index), what); };
        if (d.op < a.first || d.op >= a.last) return bad("has a dependency of an op that is not its own");
        if (d.on_action >= index || d.on_action < -actions) return bad("waits for an action that is not before it");
        const Action& on = p.actions[at(d.on_action < 0 ? actions + d.on_action : d.on_action)];
        if (d.on_op < on.first || d.on_op >= on.last) bad("waits for an op its action does not run");
    }
};

} // namespace

namespace {

// Tensors and buckets that exist; what is said of them is verify_buckets.cpp's.
void check_contents(const Plan& plan, StructureCheck& check, Findings& findings) {
    const auto tensors = static_cast<std::int64_t>(plan.tensors.size()), buckets = static_cast<std::int64_t>(plan.buckets.size());
    for (const Buffer& b : plan.buffers)
        if (b.tensor < -1 || b.tensor >= tensors || b.bucket < -1 || b.bucket >= buckets || (b.part_of != -1 && !check.comm(b.part_of)))
            findings.add("structure", b.name, "names a tensor, bucket or communicator that does not exist");
    for (const TensorBucket& bucket : plan.buckets) {
        for (const BucketTensor& t : bucket.tensors)
            if (t.tensor < 0 || t.tensor >= tensors || !check.buffer(t.parameter) || (t.gradient != -1 && !check.buffer(t.gradient)))
                findings.add("structure", bucket.name, "names a tensor or buffer that does not exist");
        for (CommId c : {bucket.reduce, bucket.replicate, bucket.gather, bucket.gather_again})
            if (c != -1 && !check.comm(c)) findings.add("structure", bucket.name, "names a communicator that does not exist");
    }
}

} // namespace

void check_structure(const Plan& plan, Findings& findings) {
    if (!views_end(plan, findings)) return;
    if (plan.microbatches < 1 || static_cast<int>(plan.programs.size()) != plan.stages)
        findings.add("structure", plan.name, "has no program for each stage, or no microbatch");
    for (const Communicator& c : plan.communicators)
        for (std::int16_t s : c.stages)
            if (s < 0 || s >= plan.stages) findings.add("structure", c.name, "has a stage that does not exist");
    StructureCheck check{plan, findings};
    check_contents(plan, check, findings);
    for (const Block& block : plan.blocks) {
        for (std::size_t i = 0; i < block.ops.size(); ++i) check.op(block, i);
        for (const BlockPart& part : block.parts)
            if (part.block < 0 || part.block >= static_cast<std::int32_t>(plan.blocks.size()) || part.port >= max_ports ||
                !plan.blocks[at(part.block)].parts.empty())
                findings.add("structure", block.name, "stands for a block or port that does not exist");
    }
    if (!findings.empty()) return;
    for (std::size_t i = 0; i < plan.programs.size(); ++i) {
        if (plan.programs[i].stage != static_cast<std::int16_t>(i))
            findings.add("structure", fmt::format("program {}", i), "is not of the stage of its place");
        check.program(plan.programs[i]);
    }
}

} // namespace verification

namespace verification {
namespace {

void check_whole(const Plan& plan, Findings& findings, bool gradients) {
    const Facts facts = facts_of(plan);
    if (gradients) check_placements(plan, facts, findings);
    const std::vector<Stage> stages = check_ranges(plan, facts, findings);
    if (stages.size() != plan.programs.size()) return;
    for (const Stage& stage : stages) {
        check_lifetimes(plan, facts, stage, findings);
        check_order(plan, facts, stage, findings);
    }
    if (gradients) check_gradients(plan, facts, stages, findings);
    if (gradients) check_versions(plan, findings);
    check_transfers(plan, findings);
    check_meeting(plan, stages, findings);
}

} // namespace
} // namespace verification

std::vector<Violation> verify(const Plan& plan) {
    using namespace verification;
    Findings findings(plan);
    check_structure(plan, findings);
    if (!findings.empty()) return findings.take();
    check_buckets(plan, findings);
    check_whole(plan, findings, true);
    if (!has_rounds(plan) || !findings.empty()) return findings.take();
    check_rounds(plan, findings);
    if (!findings.empty()) return findings.take();
    const Plan round = unrolled(plan, 2);
    check_structure(round, findings);
    if (findings.empty()) check_whole(round, findings, false);
    return findings.take();
}

std::string to_text(const std::vector<Violation>& violations) {
    std::string text;
    for (const Violation& v : violations) text += fmt::format("{}: {}: {}\n", v.rule, v.where, v.what);
    return text;
}

void require_verified(const Plan& plan) {
    std::vector<Violation> violations = verify(plan);
    const std::size_t n = violations.size();
    if (n > 5) violations.resize(5); // the first ones; `simrun plan` prints them all
    if (n > 0) throw std::logic_error("the lowered plan breaks " + std::to_string(n) + " rules:\n" + to_text(violations));
}

Plan verified_plan(const Scenario& scenario) {
    Plan plan = lower(scenario);
    require_verified(plan);
    return plan;
}

} // namespace orrery
