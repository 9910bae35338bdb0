// Placements, op by op: whoever reads a value finds it where the op's rule needs it. Along one axis a value is whole (the same on every
// rank), split along a dimension, or a summand. Gradients that are accumulated change along the step: verify_gradients.cpp follows them.
#include "sim/plan/verify_parts.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace orrery::verification {
namespace {

constexpr int whole = -1; // else the dimension a value is split along
constexpr int summand = -2;

class PlacementCheck {
  public:
    PlacementCheck(const Plan& plan, const Facts& facts, Findings& findings) : plan_(plan), facts_(facts), findings_(findings) {}

    void begin(const Block& block);
    void check(std::int32_t op);

  private:
    const Buffer& buffer(BufferId b) const { return plan_.buffers[at(b)]; }
    int along(BufferId b, Axis a) const {
        const Placement& p = buffer(b).placement;
        switch (p.on(a)) {
        case PlacementKind::sharded:
            return p.dim[at(static_cast<int>(a))];
        case PlacementKind::partial:
            return summand;
        default:
            return whole;
        }
    }
    bool wide(Axis a, bool expert) const { return facts_.wide[expert] & mask(a); }
    // Followed along the step, or of parameters' shards, whose dimension is the bucket's.
    bool accumulated(BufferId b) const { return is_gradient(buffer(b).role); }
    int last_dimension(BufferId b) const { return static_cast<int>(buffer(b).shape.size()) - 1; }
    void fault(const char* rule, BufferId b, Axis a, const std::string& what) {
        findings_.add(rule, place(plan_, *block_, op_), fmt::format("{} {} (along {})", buffer(b).name, what, name(a)));
    }

    void collective(const Op& op, const Collective& c);
    void moves(const Op& op, const Collective& c, const Communicator& comm);
    void loads(const Op& op);
    void attention(const Op& op, const Attention& work);
    void partial_reads(const Op& op);
    void linear(const Op& op, const Linear& work, Axis a);
    void weight_gradient(const Op& op, BufferId dy, BufferId g, Axis a);
    void same_as_input(const Op& op, Axis a);

    const Plan& plan_;
    const Facts& facts_;
    Findings& findings_;
    const Block* block_ = nullptr;
    std::int32_t op_ = 0;
    std::vector<BufferId> round_; // of the block: what goes round a ring
};

constexpr Axis axes[] = {Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::dpr, Axis::dpw, Axis::pp};
constexpr Axis token_axes[] = {Axis::tp, Axis::cp, Axis::dp, Axis::dpr, Axis::dpw}; // along which activations are split

// Where in, out of a collective stand along the axes it spans.
void PlacementCheck::collective(const Op& op, const Collective& c) {
    const Communicator& comm = plan_.communicators[at(c.comm)];
    // Tokens sent to the ranks of their experts are gathered there, those that are needed; on the way back their copies are summed.
    const bool tokens = c.kind == CollectiveKind::all_to_all && c.copies > 0, back = tokens && buffer(op.in[0]).expert;
    const bool reduces = c.kind == CollectiveKind::all_reduce || c.kind == CollectiveKind::reduce_scatter || back;
    if (!reduces && c.kind != CollectiveKind::all_gather && !tokens) {
        moves(op, c, comm);
        return partial_reads(op);
    }
    for (Axis a : axes) {
        if (!(comm.axes & mask(a)) || !wide(a, comm.expert)) continue;
        for (BufferId b : op.in) {
            if (accumulated(b) || buffer(b).expert != comm.expert || buffer(b).role == Role::counts) continue;
            if (reduces && along(b, a) != summand) fault("reduced-not-partial", b, a, "is reduced, and is no summand");
            if (!reduces && along(b, a) < 0) fault("placement", b, a, "is gathered, and is not split");
        }
        for (BufferId b : op.out) {
            if (accumulated(b) || buffer(b).expert != comm.expert) continue;
            if (c.kind == CollectiveKind::reduce_scatter ? along(b, a) < 0 : along(b, a) != whole)
                fault("placement", b, a,
                      c.kind == CollectiveKind::reduce_scatter ? "is what a reduce-scatter leaves, and is not split"
                                                               : "is whole after this op, and its placement says otherwise");
        }
    }
    for (BufferId b : op.in)
        for (Axis a : axes)
            if (!accumulated(b) && wide(a, buffer(b).expert) && along(b, a) == summand && !(reduces && (comm.axes & mask(a))))
                fault("partial-read", b, a, "is a summand, and this does not reduce it");
}

// The loss that balances experts' loads is of whole sequences: their counts are summed over the ranks that hold parts of them.
void PlacementCheck::loads(const Op& op) {
    for (Axis a : {Axis::tp, Axis::cp}) {
        if (!wide(a, false)) continue;
        const auto sums = [&](const Op& other) {
            const auto* c = std::get_if<Collective>(&other.work);
            return c && c->kind == CollectiveKind::all_reduce && other.out[0] == op.in[2] && (plan_.communicators[c->comm].axes & mask(a));
        };
        if (std::none_of(block_->ops.begin(), block_->ops.begin() + op_, sums))
            fault("partial-read", op.in[2], a, "is a summand, and nothing reduces it");
    }
}

// A value that goes round a ring stays split as it is; an all-to-all splits along another dimension (experts' rows have a mesh of their
// own).
void PlacementCheck::moves(const Op& op, const Collective& c, const Communicator& comm) {
    const bool shifts = c.kind == CollectiveKind::shift || c.kind == CollectiveKind::shift_back;
    if (comm.expert || (!shifts && c.kind != CollectiveKind::all_to_all)) return;
    for (Axis a : axes) {
        if (!(comm.axes & mask(a)) || !wide(a, false)) continue;
        for (std::size_t i = 0; i < std::min(op.in.size(), op.out.size()); ++i) {
            if (accumulated(op.in[i])) continue;
            const int in = along(op.in[i], a), out = along(op.out[i], a);
            if (in < 0 || out < 0)
                fault("placement", op.out[i], a, "changes hands, and is not split");
            else if (shifts != (in == out))
                fault("placement", op.out[i], a,
                      shifts ? "goes round, and is not split as before" : "is exchanged, and is split as before");
        }
    }
}

// Queries of some tokens need the keys of all: gathered, or block by block as they come round. Queries of some heads need those heads'.
void PlacementCheck::attention(const Op& op, const Attention& work) {
    if (!wide(Axis::cp, false)) return;
    const bool forward = work.direction == Direction::forward;
    const std::size_t q = forward ? 0 : 1, end = forward ? op.in.size() : op.in.size() - 2; // behind: output, log-sum-exp
    const int of_q = along(op.in[q], Axis::cp);
    if (of_q == 0 && q + 1 == end) fault("placement", op.in[q], Axis::cp, "has the keys of this rank's tokens alone");
    for (std::size_t k = q + 1; k < end; ++k) {
        const int of_k = along(op.in[k], Axis::cp);
        const bool comes_round = std::find(round_.begin(), round_.end(), op.in[k]) != round_.end();
        if (of_q == 0 ? of_k != whole && !(of_k == 0 && comes_round) : of_k != of_q)
            fault("placement", op.in[k], Axis::cp, "is not what these queries need");
    }
}

// A summand may be added to others, cast or copied: the result is a summand again. Nothing else may read it. A host that waits until one is
// written does not look at it.
void PlacementCheck::partial_reads(const Op& op) {
    if (std::holds_alternative<HostSync>(op.work)) return;
    for (BufferId b : op.in) {
        if (accumulated(b)) continue;
        for (Axis a : axes) {
            if (!wide(a, buffer(b).expert) || along(b, a) != summand) continue;
            const bool added_to = std::holds_alternative<GradientNorm>(op.work) && op.out[0] == b;
            const bool linear_op = std::holds_alternative<Permute>(op.work) || std::holds_alternative<Pointwise>(op.work) ||
                                   std::holds_alternative<Copy>(op.work) || added_to;
            const bool stays = !op.out.empty() && std::all_of(op.out.begin(), op.out.end(),
                                                              [&](BufferId o) { return along(o, a) == summand || accumulated(o); });
            if (!linear_op || !stays) fault("partial-read", b, a, "is a summand, and is read as if it were the sum");
        }
    }
}

// y[m,n] = x[m,k] W[n,k]^T along one axis: W split by n needs x whole and splits y; W split by k needs x split likewise and leaves a sum.
// Each expert has its own W: n and k are its last two dimensions.
void PlacementCheck::linear(const Op& op, const Linear& work, Axis a) {
    const BufferId first = op.in[0], w = op.in[1], out = op.out[0];
    if (work.direction == Direction::weight_gradient) {
        const BufferId dy = op.in[0], x = op.in[1];
        const int of_dy = along(dy, a), of_x = along(x, a), of_g = along(out, a);
        const bool dy_cols = of_dy == last_dimension(dy), x_cols = of_x == last_dimension(x);
        if ((of_dy >= 0 && !dy_cols) != (of_x >= 0 && !x_cols))
            fault("placement", x, a, "and the output's gradient are not of the same rows");
        if (of_dy >= 0 && !dy_cols && of_g != summand) fault("placement", out, a, "sums over rows that are split, and is not a summand");
        const int k_of_g = last_dimension(out);
        if (dy_cols && of_g != k_of_g - 1) fault("placement", out, a, "is of a part of the output's columns, and is not split so");
        if (x_cols && of_g != k_of_g) fault("placement", out, a, "is of a part of the input's columns, and is not split so");
        return;
    }
    const bool forward = work.direction == Direction::forward;
    const int split = along(w, a), of_first = along(first, a), of_out = along(out, a);
    const int matching = forward ? last_dimension(w) : last_dimension(w) - 1; // the dimension of W that is summed over
    const int columns = last_dimension(first);
    if (split < 0) {
        if (of_first == columns)
            fault("placement", first, a, "has a part of the columns, and the weight has all");
        else if (of_out != of_first)
            fault("placement", out, a, "is not placed as what it is made from");
        return;
    }
    if (of_first >= 0 && of_first != columns) return fault("placement", first, a, "has a part of the rows, and must be gathered first");
    if (split == matching) {
        if (of_first != columns) fault("placement", first, a, "has all columns, and the weight a part");
        if (of_out != summand) fault("placement", out, a, "is a sum over the ranks, and not placed as one");
        return;
    }
    if (of_first == columns) fault("placement", first, a, "has a part of the columns, and the weight has all");
    if (of_out != last_dimension(out)) fault("placement", out, a, "has a part of the columns, and is not placed so");
}

// A parameter's gradient sums over rows: split rows leave a summand, unless the parameter is split the same way.
void PlacementCheck::weight_gradient(const Op&, BufferId dy, BufferId g, Axis a) {
    const int of_dy = along(dy, a), of_g = along(g, a);
    if (of_dy >= 0 && of_g == whole) fault("placement", g, a, "sums over rows or columns that are split, and is not a summand");
    if (of_dy == whole && of_g == summand) fault("placement", g, a, "is a summand, though every rank sums all there is");
}

void PlacementCheck::same_as_input(const Op& op, Axis a) {
    if (op.in.empty() || op.out.empty() || accumulated(op.out[0])) return;
    const auto* p = std::get_if<Pointwise>(&op.work);
    if (a == Axis::tp && p && p->kind == PointwiseKind::join_columns && p->direction == Direction::backward) // takes its part of the whole
        return along(op.in[0], a) == whole && along(op.out[0], a) == last_dimension(op.out[0])
                   ? void()
                   : fault("placement", op.out[0], a, "is not the rank's columns of what all have");
    const int in = along(op.in[0], a), out = along(op.out[0], a);
    if (a == Axis::tp && p && p->kind == PointwiseKind::join_columns && p->direction == Direction::input_gradient) { // among zeros
        if (in != last_dimension(op.in[0]) || out != summand)
            fault("placement", op.out[0], a, "is not a summand of what the ranks have columns of");
        return;
    }
    if ((in >= 0) != (out >= 0)) fault("placement", op.out[0], a, "is not split as what it is made from");
}

void PlacementCheck::begin(const Block& block) {
    block_ = &block;
    round_.clear();
    for (const Op& op : block.ops)
        if (const auto* c = std::get_if<Collective>(&op.work);
            c && (c->kind == CollectiveKind::shift || c->kind == CollectiveKind::shift_back))
            for (const auto* list : {&op.in, &op.out}) round_.insert(round_.end(), list->begin(), list->end());
}

void PlacementCheck::check(std::int32_t index) {
    const Block& block = *block_;
    op_ = index;
    const Op& op = block.ops[at(index)];
    if (is_memory_op(op.work)) return;
    if (const auto* c = std::get_if<Collective>(&op.work)) return collective(op, *c);
    partial_reads(op);
    if (op.in.empty() || op.out.empty()) return;
    if (const auto* p = std::get_if<Pointwise>(&op.work); p && p->kind == PointwiseKind::balance) loads(op);
    const auto same_mesh = [&](BufferId b) {
        return buffer(b).expert == buffer(op.in[0]).expert || buffer(b).role == Role::counts;
    }; // counts lie nowhere
    if (!std::all_of(op.in.begin(), op.in.end(), same_mesh) || !std::all_of(op.out.begin(), op.out.end(), same_mesh)) return;
    const bool compute = block.kind == BlockKind::forward || block.kind == BlockKind::backward || block.kind == BlockKind::weight;
    if (!compute) return;
    const bool expert = buffer(op.in[0]).expert;
    if (const auto* w = std::get_if<Attention>(&op.work)) attention(op, *w);
    for (Axis a : token_axes) {
        if (!wide(a, expert)) continue;
        if (const auto* l = std::get_if<Linear>(&op.work)) {
            linear(op, *l, a);
            continue;
        }
        const auto* p = std::get_if<Pointwise>(&op.work);
        const bool of_weight = p && p->direction == Direction::weight_gradient;
        if (std::holds_alternative<Norm>(op.work) || (p && !of_weight) || std::holds_alternative<Softmax>(op.work) ||
            (a == Axis::tp && std::holds_alternative<Attention>(op.work)))
            same_as_input(op, a);
        const auto* e = std::get_if<Embedding>(&op.work);
        const BufferId dy = e ? op.in[std::min<std::size_t>(1, op.in.size() - 1)] : op.in[0];
        if (of_weight && accumulated(op.out[0]) && op.in[0] != op.out[0] && buffer(op.in[0]).role != Role::gradient_summand)
            weight_gradient(op, dy, op.out[0], a);
        if (e && e->direction == Direction::weight_gradient && along(op.out[0], a) < 0) weight_gradient(op, dy, op.out[0], a);
        if (const auto* n = std::get_if<Norm>(&op.work); n && n->direction == Direction::backward)
            for (std::size_t k = 1; k < op.out.size(); ++k) weight_gradient(op, dy, op.out[k], a);
    }
}

} // namespace

void check_placements(const Plan& plan, const Facts& facts, Findings& findings) {
    if (facts.wide[0] == 0 && facts.wide[1] == 0) return;
    PlacementCheck check(plan, facts, findings);
    for (const Block& block : plan.blocks) {
        check.begin(block);
        for (std::int32_t i = 0; i < static_cast<std::int32_t>(block.ops.size()); ++i) check.check(i);
    }
}

} // namespace orrery::verification
