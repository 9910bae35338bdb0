// A stage's whole program, for every microbatch: what each range needs is there when its action comes, nothing is left over, and
// every op of every forward and backward block runs once for each microbatch.
//
// Buffers that every range treats alike (most: a layer's saved activations) form a family and are followed as one, so that an action
// costs a few steps, whatever its number of buffers.
#include "sim/plan/verify_parts.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>

namespace orrery::verification {
namespace {

constexpr std::uint8_t is_alive = 1, is_written = 2;

// An Effect as masks on a family's state.
struct Step {
    std::int32_t family;
    std::uint8_t port, needed, forbidden, cleared, set;
};

struct Family {
    BufferId example;
    bool per_microbatch;
    std::uint8_t start;
    bool busy = false; // some range needs what is not there at the start, or changes it
};

Step step_of(std::int32_t family, const Effect& e) {
    Step s{family, e.port, 0, 0, 0, 0};
    if (e.bits & needs_alive) s.needed |= is_alive;
    if (e.bits & needs_written) s.needed |= is_written;
    if (e.bits & needs_dead) s.forbidden |= is_alive;
    if (e.bits & ends_alive) s.set |= is_alive;
    if (e.bits & ends_dead) s.cleared |= is_alive | is_written;
    if (e.bits & ends_unwritten) s.cleared |= is_written;
    if (e.bits & ends_written) s.set |= is_written;
    return s;
}

class Walk {
  public:
    Walk(const Plan& plan, const Facts& facts, const Stage& stage, Findings& findings)
        : plan_(plan), facts_(facts), stage_(stage), findings_(findings) {}

    void run() {
        find_families();
        const std::size_t instances = at(plan_.microbatches);
        state_.resize(families_.size() * instances);
        for (std::size_t f = 0; f < families_.size(); ++f)
            std::fill_n(state_.begin() + static_cast<std::ptrdiff_t>(f * instances), instances, families_[f].start);
        const Program& program = *stage_.program;
        for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.actions.size()); ++i) {
            const Action& a = program.actions[at(i)];
            for (const Step& s : steps_[at(stage_.range_of[at(i)])]) {
                const std::int32_t mb = families_[at(s.family)].per_microbatch ? std::max(0, a.microbatch[s.port]) : 0;
                std::uint8_t& state = state_[at(s.family) * instances + at(mb)];
                if ((state & s.needed) != s.needed || (state & s.forbidden) != 0) report(i, s, state);
                state = static_cast<std::uint8_t>((state & ~s.cleared) | s.set);
            }
        }
        find_leaks();
    }

  private:
    void find_families();
    void report(std::int32_t action, const Step& s, std::uint8_t state);
    void find_leaks();

    const Plan& plan_;
    const Facts& facts_;
    const Stage& stage_;
    Findings& findings_;
    std::vector<std::int32_t> family_of_; // by buffer
    std::vector<Family> families_;
    std::vector<std::vector<Step>> steps_; // by range
    std::vector<std::uint8_t> state_;      // by family and instance
};

void Walk::find_families() {
    std::vector<std::uint64_t> signature(plan_.buffers.size(), 0);
    for (std::size_t r = 0; r < stage_.ranges.size(); ++r)
        for (const Effect& e : stage_.ranges[r].effects)
            signature[at(e.id)] += mix((r << 12) ^ (static_cast<std::uint64_t>(e.port) << 8) ^ e.bits);
    std::unordered_map<std::uint64_t, std::int32_t> known;
    family_of_.assign(plan_.buffers.size(), -1);
    for (const Range& range : stage_.ranges)
        for (const Effect& e : range.effects) {
            std::int32_t& family = family_of_[at(e.id)];
            if (family < 0) {
                const std::uint8_t start = static_cast<std::uint8_t>((facts_.alive_at_start[at(e.id)] ? is_alive : 0) |
                                                                     (facts_.written_at_start[at(e.id)] ? is_written : 0));
                const std::uint64_t key =
                    mix(signature[at(e.id)] ^ (static_cast<std::uint64_t>(facts_.per_microbatch[at(e.id)]) << 8) ^ start);
                const auto [it, fresh] = known.try_emplace(key, static_cast<std::int32_t>(families_.size()));
                if (fresh) families_.push_back({e.id, facts_.per_microbatch[at(e.id)] != 0, start});
                family = it->second;
            }
            Family& f = families_[at(family)];
            const Step s = step_of(family, e);
            f.busy = f.busy || (f.start & s.needed) != s.needed || s.forbidden || s.cleared || (s.set & ~f.start);
        }
    for (const Range& range : stage_.ranges) {
        auto& steps = steps_.emplace_back();
        for (const Effect& e : range.effects)
            if (const std::int32_t f = family_of_[at(e.id)]; families_[at(f)].busy && families_[at(f)].example == e.id)
                steps.push_back(step_of(f, e));
    }
}

// The first op of the action's range that touches any of the family's buffers says where.
void Walk::report(std::int32_t action, const Step& s, std::uint8_t state) {
    const BufferId b = families_[at(s.family)].example, root = facts_.root[at(b)];
    const Range& range = stage_.ranges[at(stage_.range_of[at(action)])];
    const Block& block = plan_.blocks[at(range.block)];
    std::int32_t found = -1;
    for (std::int32_t i = range.first; i < range.last && found < 0; ++i) {
        const Op& op = block.ops[at(i)];
        bool touches = false;
        if (const auto* a = std::get_if<Alloc>(&op.work))
            touches = a->buffer == root;
        else if (const auto* f = std::get_if<Free>(&op.work))
            touches = f->buffer == root;
        else
            each_access(plan_, op, [&](BufferId id, int, bool) { touches = touches || id == b; });
        if (touches) found = i;
    }
    const std::string where = place(plan_, *stage_.program, action, found);
    const std::string& name = plan_.buffers[at(b)].name;
    if (state & s.forbidden)
        findings_.add("allocated-twice", where, name + " is alive already");
    else if ((s.needed & is_alive) && !(state & is_alive))
        findings_.add("not-alive", where, name + " is not allocated, or freed already");
    else
        findings_.add("read-before-write", where, name + " holds nothing written");
}

void Walk::find_leaks() {
    const std::size_t instances = at(plan_.microbatches);
    for (std::size_t f = 0; f < families_.size(); ++f)
        for (std::size_t m = 0; m < (families_[f].per_microbatch ? instances : 1); ++m) {
            const bool alive = state_[f * instances + m] & is_alive, start = families_[f].start & is_alive;
            if (alive == start) continue;
            findings_.add("leak",
                          fmt::format("stage {}, end of the step{}", stage_.program->stage,
                                      families_[f].per_microbatch ? fmt::format(", microbatch {}", m) : ""),
                          plan_.buffers[at(families_[f].example)].name + (alive ? " is never freed" : " is freed and does not come back"));
        }
}

// An op that works on a port: what it is, and what it does to which buffers.
std::uint64_t hash_of(const Op& op, std::uint8_t port) {
    std::uint64_t h = mix(op.work.index(), port);
    if (const auto* a = std::get_if<Alloc>(&op.work)) return mix(h, at(a->buffer));
    if (const auto* f = std::get_if<Free>(&op.work)) return mix(h, at(f->buffer));
    h = mix(h, at(op.layer) << 8 | static_cast<std::uint64_t>(op.phase));
    for (const auto* list : {&op.in, &op.out}) {
        h = mix(h, list->size());
        for (const BufferId b : *list) h = mix(h, at(b));
    }
    return h;
}

// A block made of others has exactly their ops, each on its part's port, in any order (sums commute; equal sums of hashes of 64 bits are
// taken for equal lists).
bool has_its_parts(const Plan& plan, const Block& block) {
    std::uint64_t mine = 0, theirs = 0;
    std::size_t count = 0;
    for (const Op& op : block.ops) mine += hash_of(op, op.port);
    for (const BlockPart& part : block.parts) {
        count += plan.blocks[at(part.block)].ops.size();
        for (const Op& op : plan.blocks[at(part.block)].ops) theirs += hash_of(op, part.port);
    }
    return count == block.ops.size() && mine == theirs;
}

// The microbatches that go through a chunk: its direction's.
std::pair<std::int64_t, std::int64_t> microbatches_of(const Plan& plan, int chunk) {
    const std::int64_t share = plan.microbatches / plan.directions;
    const std::int64_t direction = chunk < 0 ? 0 : chunk / (plan.stages * plan.chunks_per_stage / plan.directions);
    return {direction * share, (direction + 1) * share};
}

// Ranges of a compute block partition it, in order, for every microbatch that goes through its chunk. What a block made of others runs
// counts for these.
void check_coverage(const Plan& plan, const Stage& stage, Findings& findings) {
    const Program& program = *stage.program;
    std::vector<std::int32_t> slot(plan.blocks.size(), -1);
    std::vector<std::int32_t> blocks;
    for (std::size_t b = 0; b < plan.blocks.size(); ++b) {
        const BlockKind k = plan.blocks[b].kind;
        if (plan.blocks[b].stage != program.stage || (k != BlockKind::forward && k != BlockKind::backward && k != BlockKind::weight))
            continue;
        if (!plan.blocks[b].parts.empty()) {
            if (!has_its_parts(plan, plan.blocks[b]))
                findings.add("block-coverage", plan.blocks[b].name, "has not the ops of the blocks it stands for");
            continue;
        }
        if (plan.blocks[b].version > 0) continue; // what the block of version 0 would have run
        slot[b] = static_cast<std::int32_t>(blocks.size());
        blocks.push_back(static_cast<std::int32_t>(b));
    }
    for (std::size_t b = 0; b < plan.blocks.size(); ++b)
        for (std::int32_t first : blocks)
            if (const Block& x = plan.blocks[b], &of = plan.blocks[at(first)];
                x.version > 0 && x.stage == program.stage && x.kind == of.kind && x.chunk == of.chunk)
                slot[b] = slot[at(first)];
    const std::size_t instances = at(plan.microbatches);
    std::vector<std::int32_t> done(blocks.size() * instances, 0);
    const auto count = [&](std::size_t action, std::int32_t block, std::int32_t microbatch, std::int32_t first, std::int32_t last) {
        if (slot[at(block)] < 0) return;
        const std::string& name = plan.blocks[at(block)].name;
        const auto fault = [&](const std::string& what) {
            findings.add("block-coverage", place(plan, program, static_cast<std::int32_t>(action)), name + " " + what);
        };
        if (microbatch < 0) return fault("runs for no microbatch");
        std::int32_t& so_far = done[at(slot[at(block)]) * instances + at(microbatch)];
        if (first != so_far) fault(fmt::format("goes on at op {}, not {}", first, so_far));
        so_far = last;
    };
    for (std::size_t i = 0; i < program.actions.size(); ++i) {
        const Action& a = program.actions[i];
        const Block& block = plan.blocks[at(a.block)];
        if (block.parts.empty()) {
            count(i, a.block, a.microbatch[0], a.first, a.last);
            continue;
        }
        if (a.first != 0 || a.last != static_cast<std::int32_t>(block.ops.size()))
            findings.add("block-coverage", place(plan, program, static_cast<std::int32_t>(i)), block.name + " is cut");
        for (const BlockPart& part : block.parts)
            count(i, part.block, a.microbatch[part.port], 0, static_cast<std::int32_t>(plan.blocks[at(part.block)].ops.size()));
    }
    for (std::size_t k = 0; k < blocks.size(); ++k)
        for (auto [m, end] = microbatches_of(plan, plan.blocks[at(blocks[k])].chunk); m < end; ++m)
            if (const Block& b = plan.blocks[at(blocks[k])]; done[k * instances + at(m)] != static_cast<std::int32_t>(b.ops.size()))
                findings.add("block-coverage", fmt::format("stage {}, microbatch {}", program.stage, m),
                             fmt::format("{} runs {} of its {} ops", b.name, done[k * instances + at(m)], b.ops.size()));
}

} // namespace

void check_lifetimes(const Plan& plan, const Facts& facts, const Stage& stage, Findings& findings) {
    Walk(plan, facts, stage, findings).run();
    check_coverage(plan, stage, findings);
}

} // namespace orrery::verification
