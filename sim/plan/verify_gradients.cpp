// Gradients, from the accumulation in backward blocks to the parameters' update: each weight a forward op reads gets its summand; what
// ranks hold summands of is reduced over exactly those axes, after the last summand; every parameter is updated once, and its copies
// follow.
#include "sim/plan/verify_parts.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>

namespace orrery::verification {
namespace {

AxisMask partial_axes(const Plan& plan, const Facts& facts, BufferId b) {
    AxisMask m = 0;
    for (int a = 0; a < axis_count; ++a)
        if (plan.buffers[at(b)].placement.kind[at(a)] == PlacementKind::partial) m = static_cast<AxisMask>(m | (1u << a));
    return m & facts.wide[plan.buffers[at(b)].expert];
}

std::string axes_text(AxisMask m) {
    std::string text;
    for (int a = 0; a < axis_count; ++a)
        if (m >> a & 1) text += (text.empty() ? "" : ", ") + std::string(name(static_cast<Axis>(a)));
    return text.empty() ? "nothing" : text;
}

struct Gradient {
    AxisMask partial = 0;               // over which axes each rank has a summand only
    bool clean = false, summed = false; // zeroed; something was added since
    bool handed_on = false;             // read by a reduction or by the update: no summand may follow
};

class StageGradients {
  public:
    StageGradients(const Plan& plan, const Facts& facts, const Stage& stage, Findings& findings)
        : plan_(plan), facts_(facts), stage_(stage), findings_(findings), gradients_(plan.buffers.size()), updated_(plan.buffers.size(), 0),
          fed_by_(plan.buffers.size(), -1), made_of_(plan.buffers.size(), -1), follows_(plan.buffers.size(), 0),
          epoch_of_(stage.ranges.size(), -1) {}

    void run();

  private:
    void fault(const char* rule, BufferId b, const std::string& what) {
        findings_.add(rule, place(plan_, *stage_.program, action_, op_), plan_.buffers[at(b)].name + " " + what);
    }
    bool trained(const Buffer& b) const { // a shard as its bucket's tensors are
        if (b.tensor >= 0) return plan_.tensors[b.tensor].trained;
        if (b.bucket < 0 || plan_.buckets[b.bucket].tensors.empty()) return true;
        return plan_.tensors[plan_.buckets[b.bucket].tensors.front().tensor].trained;
    }
    bool tracked(BufferId b) const { return is_gradient(plan_.buffers[at(b)].role); }
    bool holds_parameters(BufferId b) const { // or what they are rounded from
        const Buffer& x = plan_.buffers[at(b)];
        return x.kind == MemoryKind::parameters || x.role == Role::master || x.role == Role::master_copy;
    }
    void accumulate(BufferId b);
    void visit(const Op& op);
    void reduce(const Op& op, const Collective& c);
    void consume(const Op& op);
    void move(const Op& op);
    void update(const Op& op);
    void take_back(const Op& op, bool undo);
    void swap(const Op& op);
    void held_for_next();
    void gather(const Op& op);
    void follow(const Op& op);
    void begin_step();
    void finish();
    void whole_for_servers();

    const Plan& plan_;
    const Facts& facts_;
    const Stage& stage_;
    Findings& findings_;
    std::vector<Gradient> gradients_;
    std::vector<int> updated_;           // by buffer of parameters: how often the optimizer wrote it in this step
    std::vector<BufferId> fed_by_;       // by buffer of parameters: the shard it is gathered from
    std::vector<BufferId> made_of_;      // by buffer of parameters: what it was copied or cast from after its update
    std::vector<char> follows_;          // gathered from it after its update
    std::vector<BufferId> undone_;       // parameters whose update was undone, and not made again yet
    std::vector<BufferId> held_;         // gradients that an update of the next step will use
    std::vector<std::int32_t> epoch_of_; // by range: when it last ran; nothing that is not a compute block changed since: nothing new
    std::int32_t epoch_ = 0, action_ = 0, op_ = 0;
};

void StageGradients::accumulate(BufferId b) {
    Gradient& g = gradients_[at(b)];
    if (g.handed_on) fault("gradient-late", b, "gets a summand after it was reduced or used");
    g.summed = true;
    g.clean = false;
    g.partial = partial_axes(plan_, facts_, b);
}

void StageGradients::reduce(const Op& op, const Collective& c) {
    const Communicator& comm = plan_.communicators[at(c.comm)];
    const AxisMask axes = comm.axes & facts_.wide[comm.expert];
    AxisMask left = 0;
    int gradients = 0, summed = 0;
    for (BufferId b : op.in) {
        if (!tracked(b)) continue;
        Gradient& g = gradients_[at(b)];
        ++gradients;
        summed += g.summed;
        if (!g.summed) g.partial = partial_axes(plan_, facts_, b); // zeros: in a bucket with others, a summand like any
        if ((axes & ~g.partial) != 0)
            fault("reduced-twice", b,
                  fmt::format("is reduced over {}, but is a summand over {} only", axes_text(axes), axes_text(g.partial)));
        g.handed_on = true;
        left = static_cast<AxisMask>(left | (g.partial & ~axes));
    }
    if (gradients > 0 && summed == 0) fault("gradient-missing", op.in[0], "is reduced without any summand");
    for (BufferId b : op.out) {
        if (!tracked(b)) continue;
        Gradient& g = gradients_[at(b)];
        if (g.summed && !g.handed_on) fault("gradient-lost", b, "is overwritten before its sum was used");
        g.partial = std::find(op.in.begin(), op.in.end(), b) != op.in.end() ? static_cast<AxisMask>(g.partial & ~axes) : left;
        g.summed = true;
        g.handed_on = plan_.buffers[at(b)].kind == MemoryKind::gradients && std::find(op.in.begin(), op.in.end(), b) != op.in.end();
    }
}

// The gradient norm, clipping and the optimizer want whole sums.
void StageGradients::consume(const Op& op) {
    for (BufferId b : op.in) {
        if (plan_.buffers[at(b)].kind != MemoryKind::gradients) continue;
        Gradient& g = gradients_[at(b)];
        if (!g.summed) fault("gradient-missing", b, "is used without any summand");
        if (g.partial != 0) fault("gradient-partial", b, fmt::format("is used while still a summand over {}", axes_text(g.partial)));
        g.handed_on = true;
    }
}

// Copies, casts and sums of gradients: what comes out is a summand over what went in.
void StageGradients::move(const Op& op) {
    AxisMask partial = 0;
    bool from_gradients = false;
    const auto* sum = std::get_if<Pointwise>(&op.work);
    const auto* compress = std::get_if<Compress>(&op.work);
    const bool adds_parts = (sum && sum->kind == PointwiseKind::sum_parts) ||
                            (compress && (compress->part == Compress::Part::spread || compress->part == Compress::Part::sum_signs));
    for (BufferId b : op.in) {
        if (!tracked(b)) continue;
        from_gradients = true;
        if ((plan_.buffers[at(b)].role == Role::gradient_summands) != adds_parts)
            fault("gradient-partial", b, adds_parts ? "is added up, and came from no exchange" : "is used before its summands are added");
        if (!gradients_[at(b)].summed && std::find(op.out.begin(), op.out.end(), b) == op.out.end())
            gradients_[at(b)].partial = partial_axes(plan_, facts_, b);
        partial = static_cast<AxisMask>(partial | gradients_[at(b)].partial);
        if (std::find(op.out.begin(), op.out.end(), b) == op.out.end()) gradients_[at(b)].handed_on = true;
    }
    for (BufferId b : op.out) {
        if (is_optimizer_state(plan_.buffers[at(b)].role) && from_gradients && partial != 0)
            fault("gradient-partial", b, fmt::format("is made of what is still a summand over {}", axes_text(partial)));
        if (!tracked(b)) continue;
        Gradient& g = gradients_[at(b)];
        if (!from_gradients) {
            g = Gradient{0, true, false, false};
            continue;
        }
        if (g.handed_on && std::find(op.in.begin(), op.in.end(), b) != op.in.end())
            fault("gradient-late", b, "gets a summand after it was reduced or used");
        if (g.summed && !g.handed_on && std::holds_alternative<Copy>(op.work)) // the first run's, onto what others have left
            fault("gradient-lost", b, "is overwritten before its sum was used");
        // Others that lay beside it may be summands over further axes.
        g.partial = plan_.buffers[at(b)].role == Role::gradient ? static_cast<AxisMask>(partial & partial_axes(plan_, facts_, b)) : partial;
        g.summed = true;
    }
}

void StageGradients::update(const Op& op) {
    if (std::get<OptimizerStep>(op.work).delayed) {
        for (BufferId b : op.in) {
            if (plan_.buffers[at(b)].kind != MemoryKind::gradients) continue;
            if (gradients_[at(b)].summed) fault("gradient-early", b, "is of this step, and its update wants that of the step before");
            held_.push_back(b);
        }
    } else {
        consume(op);
    }
    const OptimizerStep::Part part = std::get<OptimizerStep>(op.work).part;
    if (part == OptimizerStep::Part::undo || part == OptimizerStep::Part::again) return take_back(op, part == OptimizerStep::Part::undo);
    for (BufferId b : op.out)
        if (holds_parameters(b)) ++updated_[at(b)];
}

// An update that is undone has been made before, and is made again; what was copied from it is old then.
void StageGradients::take_back(const Op& op, bool undo) {
    for (BufferId b : op.out) {
        if (!holds_parameters(b)) continue;
        if (undo && updated_[at(b)] == 0) fault("parameter-not-updated", b, "is undone, and was not updated");
        if (undo == (std::find(undone_.begin(), undone_.end(), b) != undone_.end()))
            fault("parameter-undone", b, undo ? "is undone twice" : "is updated again, and was not undone");
        undo ? undone_.push_back(b) : static_cast<void>(std::erase(undone_, b));
        for (std::size_t i = 0; i < made_of_.size(); ++i) {
            BufferId from = made_of_[i];
            for (int steps = 0; steps < 4 && from >= 0 && from != b; ++steps) from = made_of_[at(from)]; // a copy of a cast at most
            if (from == b) updated_[i] = 0, follows_[i] = 0;
        }
    }
}

// Gradients that the next step's update will read must be whole when the step ends, as at any update.
void StageGradients::held_for_next() {
    const std::string where = fmt::format("stage {}, end of the step", stage_.program->stage);
    for (BufferId b : held_) {
        const Gradient& g = gradients_[at(b)];
        const std::string& name = plan_.buffers[at(b)].name;
        if (!g.summed) findings_.add("gradient-missing", where, name + " is kept for the next step without any summand");
        if (g.partial != 0)
            findings_.add("gradient-partial", where, fmt::format("{} is kept while still a summand over {}", name, axes_text(g.partial)));
    }
    held_.clear();
}

// Pairs exchange their places. A sum that was clipped goes on as it is.
void StageGradients::swap(const Op& op) {
    for (std::size_t i = 0; i + 1 < op.out.size(); i += 2) std::swap(gradients_[at(op.out[i])], gradients_[at(op.out[i + 1])]);
}

// Copies to another memory, and parameters cast from an fp32 copy: updated where what they are made from was.
void StageGradients::follow(const Op& op) {
    int updates = 0;
    BufferId from = -1;
    for (BufferId b : op.in)
        if (holds_parameters(b)) updates = std::max(updates, updated_[at(b)]), from = b;
    for (BufferId b : op.out)
        if (holds_parameters(b)) updated_[at(b)] += updates, made_of_[at(b)] = from;
}

// Whole parameters from shards, perhaps by way of a flat copy.
void StageGradients::gather(const Op& op) {
    BufferId source = -1;
    for (BufferId b : op.in) {
        const Buffer& x = plan_.buffers[at(b)];
        if (x.kind == MemoryKind::parameters)
            source = b;
        else if (fed_by_[at(b)] >= 0)
            source = fed_by_[at(b)];
    }
    if (source < 0) return;
    if (fed_by_[at(source)] >= 0) source = fed_by_[at(source)]; // a shard that comes from its home on the host
    for (BufferId b : op.out) {
        fed_by_[at(b)] = source;
        follows_[at(b)] = updated_[at(source)] > 0;
    }
}

void StageGradients::visit(const Op& op) {
    if (const auto* a = std::get_if<Alloc>(&op.work)) {
        if (tracked(a->buffer)) gradients_[at(a->buffer)] = Gradient{0, true, false, false};
    } else if (const auto* f = std::get_if<Free>(&op.work)) {
        Gradient& g = gradients_[at(f->buffer)];
        if (tracked(f->buffer) && g.summed && !g.handed_on) fault("gradient-lost", f->buffer, "is freed and its sum went nowhere");
        g.summed = g.handed_on = false; // the next one is another
    } else if (const auto* c = std::get_if<Collective>(&op.work)) {
        const bool to_add = !op.out.empty() && plan_.buffers[at(op.out[0])].role == Role::gradient_summands; // by everyone
        if (c->kind == CollectiveKind::all_gather && !to_add)
            !op.in.empty() && tracked(op.in[0]) ? move(op) : gather(op);
        else
            reduce(op, *c);
    } else if (std::holds_alternative<OptimizerStep>(op.work)) {
        update(op);
    } else if (std::holds_alternative<GradientNorm>(op.work)) {
        consume(op);
    } else if (std::holds_alternative<Compress>(op.work)) {
        move(op);
    } else if (const auto* p = std::get_if<Pointwise>(&op.work)) {
        if (p->kind == PointwiseKind::clip)
            consume(op);
        else if (p->kind == PointwiseKind::swap)
            swap(op);
        else if (p->kind == PointwiseKind::copy || (p->kind == PointwiseKind::own_part && !tracked(op.out[0])))
            gather(op);
        else
            move(op);
        if (p->kind == PointwiseKind::cast && op.phase == Phase::param_gather)
            gather(op); // to or from what travels in its place
        else if (p->kind == PointwiseKind::cast)
            follow(op);
    } else if (std::holds_alternative<Copy>(op.work)) {
        move(op);
        follow(op);
        if (!op.in.empty() && plan_.buffers[at(op.in[0])].space == Space::host) gather(op);
    }
}

void StageGradients::run() {
    const Program& program = *stage_.program;
    auto begins = program.step_begins.begin();
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b) gradients_[b] = Gradient{};
    for (action_ = 0; action_ < static_cast<std::int32_t>(program.actions.size()); ++action_) {
        if (begins != program.step_begins.end() && *begins == action_) {
            ++begins;
            finish();
            begin_step();
        }
        const std::int32_t r = stage_.range_of[at(action_)];
        const Range& range = stage_.ranges[at(r)];
        const Block& block = plan_.blocks[at(range.block)];
        if (block.kind == BlockKind::forward || block.kind == BlockKind::exchange) continue;
        if (block.kind == BlockKind::backward || block.kind == BlockKind::weight) {
            if (epoch_of_[at(r)] == epoch_) continue;
            epoch_of_[at(r)] = epoch_;
            for (const Accumulation& a : range.accumulations) {
                op_ = a.op;
                accumulate(a.gradient);
            }
            continue;
        }
        ++epoch_;
        for (op_ = range.first; op_ < range.last; ++op_) visit(block.ops[at(op_)]);
    }
    finish();
}

void StageGradients::begin_step() {
    std::fill(updated_.begin(), updated_.end(), 0);
    std::fill(fed_by_.begin(), fed_by_.end(), -1);
    std::fill(made_of_.begin(), made_of_.end(), -1);
    std::fill(follows_.begin(), follows_.end(), 0);
    ++epoch_;
}

// Gradients that servers get are sums over all that hold summands of them, but the workers.
void StageGradients::whole_for_servers() {
    const std::string where = fmt::format("stage {}", stage_.program->stage);
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
        const Buffer& b = plan_.buffers[i];
        if (b.stage != stage_.program->stage) continue;
        if (b.kind == MemoryKind::parameters && updated_[i] > 0)
            findings_.add("served-updated", where, b.name + " is updated by servers, and by an optimizer here");
        if (b.role != Role::gradient) continue;
        if (!gradients_[i].summed) findings_.add("gradient-missing", where, b.name + " goes to a server without any summand");
        const AxisMask partial = static_cast<AxisMask>(gradients_[i].partial & ~plan_.workers);
        if (partial != 0)
            findings_.add("gradient-partial", where, fmt::format("{} goes to a server as a summand over {}", b.name, axes_text(partial)));
    }
}

// A step updates one version of a tensor that a stage holds several of.
void StageGradients::finish() {
    if (plan_.served) return whole_for_servers();
    held_for_next();
    const std::string where = fmt::format("stage {}", stage_.program->stage);
    for (BufferId b : std::exchange(undone_, {}))
        findings_.add("parameter-undone", where, plan_.buffers[at(b)].name + " is undone, and not updated again");
    std::unordered_map<TensorId, int> of_versions;
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i)
        if (const Buffer& b = plan_.buffers[i]; b.stage == stage_.program->stage && b.version > 0) of_versions[b.tensor] += updated_[i];
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
        const Buffer& b = plan_.buffers[i];
        if (b.stage != stage_.program->stage || b.kind != MemoryKind::parameters) continue;
        if (!trained(b)) {
            if (updated_[i] > 0) findings_.add("frozen-updated", where, b.name + " is not trained, and is updated");
            continue;
        }
        if (b.version > 0) continue; // with version 0
        const auto others = of_versions.find(b.tensor);
        const int updates = updated_[i] + (b.tensor < 0 || others == of_versions.end() ? 0 : others->second);
        if (updates > 1) findings_.add("parameter-updated-twice", where, fmt::format("{} is updated {} times", b.name, updates));
        if (updates > 0) continue;
        const BufferId shard = fed_by_[i];
        if (shard < 0 || updated_[at(shard)] == 0)
            findings_.add("parameter-not-updated", where, b.name + " is updated by no optimizer step");
        else if (b.scope == Scope::run && !follows_[i])
            findings_.add("parameter-stale", where, b.name + " is not gathered again after its shard was updated");
    }
}

// Every forward op that reads a weight has its counterpart that adds to the weight's gradient, chunk by chunk.
void check_counts(const Plan& plan, Findings& findings) {
    std::vector<std::unordered_map<TensorId, BufferId>> gradient_of(plan.programs.size()); // by stage and tensor
    std::unordered_map<TensorId, int> stages_of;
    for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
        const Buffer& b = plan.buffers[i];
        if (b.space != Space::device) continue;
        if (b.role == Role::gradient) gradient_of[at(b.stage)].emplace(b.tensor, static_cast<BufferId>(i));
        if (b.role == Role::parameter && b.version == 0) ++stages_of[b.tensor];
    }
    struct Count {
        std::int32_t chunk = -1;
        int reads = 0, sums = 0;
    };
    std::vector<std::vector<Count>> counts(plan.buffers.size()); // by parameter or gradient
    const auto count = [&](BufferId b, std::int32_t chunk) -> Count& {
        for (Count& c : counts[at(b)])
            if (c.chunk == chunk) return c;
        return counts[at(b)].emplace_back(Count{chunk, 0, 0});
    };
    for (const Block& block : plan.blocks) {
        const bool backward = block.kind == BlockKind::backward || block.kind == BlockKind::weight;
        if ((block.kind != BlockKind::forward && !backward) || !block.parts.empty() || block.version > 0) continue;
        for (const Op& op : block.ops) {
            if (backward)
                for (BufferId b : op.out)
                    if (plan.buffers[at(b)].kind == MemoryKind::gradients) ++count(b, block.chunk).sums;
            if (!backward || op.phase == Phase::forward) // a chunked loss has its forward ops in the backward pass
                for (BufferId b : op.in)
                    if (plan.buffers[at(b)].kind == MemoryKind::parameters) ++count(b, block.chunk).reads;
        }
    }
    for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
        const Buffer& w = plan.buffers[i];
        if (w.role != Role::parameter || w.version > 0) continue;
        const auto it = gradient_of[at(w.stage)].find(w.tensor);
        const std::string where = fmt::format("stage {}, {}", w.stage, w.name);
        if (!plan.tensors[w.tensor].trained) {
            if (it != gradient_of[at(w.stage)].end()) findings.add("frozen-updated", where, "is not trained, and has a gradient");
            continue;
        }
        if (it == gradient_of[at(w.stage)].end()) {
            findings.add("gradient-missing", where, "has no gradient");
            continue;
        }
        for (const Count& c : counts[i])
            if (const int sums = count(it->second, c.chunk).sums; sums != c.reads)
                findings.add(
                    "gradient-missing", where,
                    fmt::format("is read by {} forward ops of chunk {}, and gets {} summands of its gradient", c.reads, c.chunk, sums));
        const bool tied = stages_of[w.tensor] > 1;
        if (tied && plan.buffers[at(it->second)].placement.on(Axis::pp) != PlacementKind::partial)
            findings.add("gradient-partial", where, "lives on several stages, and its gradient is not a sum over them");
    }
}

} // namespace

void check_gradients(const Plan& plan, const Facts& facts, const std::vector<Stage>& stages, Findings& findings) {
    check_counts(plan, findings);
    for (const Stage& stage : stages) StageGradients(plan, facts, stage, findings).run();
}

} // namespace orrery::verification
