#include "exec/runtime/tensors.hpp"

#include "exec/kernels/shards.hpp"
#include "topology/check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace orrery {
namespace {

// The operands of one of the rank's optimizer steps, whole or divided (both parts work on the same states): gradients and states, each
// once.
struct Worked {
    std::vector<BufferId> gradients, states, weights;
    // In whose order the states lie: what steps on signs of a momentum has no gradients.
    const std::vector<BufferId>& order() const { return gradients.empty() ? weights : gradients; }
};

std::int64_t elements_in(const Plan& plan, BufferId b) { return elements(plan.buffers[b]); }

bool has(const std::vector<BufferId>& list, BufferId b) { return std::find(list.begin(), list.end(), b) != list.end(); }

std::vector<Worked> worked_on(const World& world, const Rank& rank) {
    std::vector<Worked> all;
    const std::map<BufferId, BufferId> homes = homes_on_disk(world.plan);
    for (const Issue& i : rank.order->issues) {
        if (!std::holds_alternative<OptimizerStep>(i.op->work)) continue;
        Worked own;
        for (BufferId b : i.op->in) {
            const MemoryKind kind = world.plan.buffers[b].kind;
            const BufferId kept = homes.contains(b) ? homes.at(b) : b;
            if (kind == MemoryKind::gradients) own.gradients.push_back(kept);
            if (kind == MemoryKind::optimizer_states) own.states.push_back(kept);
        }
        for (BufferId b : i.op->out)
            if (world.plan.buffers[b].kind == MemoryKind::parameters) own.weights.push_back(b);
        // Steps without states (plain SGD) have their gradients alone in common.
        const auto known = std::find_if(all.begin(), all.end(), [&](const Worked& w) {
            const auto met = [](const std::vector<BufferId>& list, const std::vector<BufferId>& more) {
                return std::any_of(more.begin(), more.end(), [&](BufferId b) { return has(list, b); });
            };
            return met(w.states, own.states) || met(w.gradients, own.gradients);
        });
        Worked& w = known == all.end() ? all.emplace_back() : *known;
        for (BufferId b : own.gradients)
            if (!has(w.gradients, b)) w.gradients.push_back(b);
        for (BufferId b : own.states)
            if (!has(w.states, b)) w.states.push_back(b);
        for (BufferId b : own.weights)
            if (!has(w.weights, b)) w.weights.push_back(b);
    }
    return all;
}

const LogicalTensor& tensor_of(const World& world, BufferId b) {
    const TensorId t = world.plan.buffers[b].tensor;
    require(t >= 0, "a tensor's part lies in a buffer that has none");
    return world.plan.tensors[t];
}

// The words of checkpoints.
std::string prefix_of(Role role) {
    switch (role) {
    case Role::master:
        return std::string(master_prefix);
    case Role::first_moment:
        return "moment1/";
    case Role::second_moment:
        return "moment2/";
    default:
        broken("a buffer of optimizer states is none of them");
    }
}

// The tensors of which buffer b, at `data`, is made: a whole one, or a shard's segments.
void add_parts(const World& world, const Rank& rank, BufferId b, const std::string& prefix, std::byte* data, DType stored,
               std::vector<TensorPart>& parts) {
    const Plan& plan = world.plan;
    const auto size = static_cast<std::int64_t>(bytes_per_element(stored));
    const Buffer& x = plan.buffers[b];
    const BucketLayout* layout = world.buckets.find(b);
    if (!layout || layout->shard == 0) {
        parts.push_back({prefix + tensor_of(world, b).name, b, 0, elements(x), data, stored});
        return;
    }
    const std::int64_t begin = rank.memory.part_index(layout->comm) * layout->shard, end = begin + layout->shard;
    for (const BucketSegment& s : layout->segments) {
        const std::int64_t from = std::max(begin, s.begin), to = std::min(end, s.end);
        if (from < to)
            parts.push_back({prefix + tensor_of(world, s.tensor).name, s.tensor, from - s.begin, to - from, data + (from - begin) * size,
                             stored, layout->comm});
    }
}

// Where what comes to a place by copies of this kind lives.
std::map<BufferId, BufferId> homes_of_copies(const Plan& plan, CopyKind kind) {
    std::map<BufferId, BufferId> homes;
    for (const Block& block : plan.blocks)
        for (const Op& op : block.ops)
            if (const auto* c = std::get_if<Copy>(&op.work); c && c->kind == kind) homes[op.out[0]] = op.in[0];
    return homes;
}

// In whose order each state's elements lie: of a step's states of one role the first is of the first tensors, the next of those behind.
std::map<BufferId, std::vector<BufferId>> tensors_of_states(const Plan& plan, const Worked& work) {
    std::map<BufferId, std::vector<BufferId>> all;
    std::map<Role, std::size_t> next;
    for (BufferId state : work.states) {
        std::size_t& at = next[plan.buffers[state].role];
        for (std::int64_t left = elements_in(plan, state); left > 0 && at < work.order().size(); ++at) {
            all[state].push_back(work.order()[at]);
            left -= elements_in(plan, work.order()[at]);
        }
    }
    return all;
}

// States of the outer optimizer: the tensors that it steps on, or whose fp32 copies, concatenated.
void add_outer(const World& world, const Rank& rank, const Op& op, const std::map<BufferId, BufferId>& homes,
               std::vector<TensorPart>& parts) {
    std::vector<BufferId> tensors;
    for (BufferId b : op.out) {
        const BufferId home = home_of(homes, b);
        if (world.plan.buffers[b].kind == MemoryKind::parameters) tensors.push_back(b);
        if (world.plan.buffers[home].role != Role::master) continue;
        for (const Worked& work : worked_on(world, rank))
            if (const auto of = tensors_of_states(world.plan, work); of.contains(home)) tensors = of.at(home);
    }
    for (BufferId state : op.in) {
        const Buffer& x = world.plan.buffers[state];
        if (x.role != Role::outer_parameters && x.role != Role::outer_momentum) continue;
        const DType stored = stored_type(x.dtype, world.real);
        std::byte* data = rank.memory.at(home_of(homes, state), -1);
        for (BufferId b : tensors) {
            add_parts(world, rank, b, x.role == Role::outer_parameters ? "common/" : "momentum/", data, stored, parts);
            data += elements_in(world.plan, b) * static_cast<std::int64_t>(bytes_per_element(stored));
        }
    }
}

// Rows of a padded vocabulary: how many the model has.
std::int64_t true_rows(const World& world, const TensorPart& part, const ShardView& view) {
    return has_vocabulary_rows(tensor_of(world, part.tensor)) ? std::min(view.whole[0], world.facts.vocabulary) : view.whole[0];
}

} // namespace

std::string tensor_of_master(std::string_view state) {
    return state.starts_with(master_prefix) ? std::string(state.substr(master_prefix.size())) : "";
}

std::map<BufferId, BufferId> homes_on_disk(const Plan& plan) { return homes_of_copies(plan, CopyKind::nvme_to_host); }
std::map<BufferId, BufferId> homes_on_host(const Plan& plan) { return homes_of_copies(plan, CopyKind::host_to_device); }
BufferId home_of(const std::map<BufferId, BufferId>& homes, BufferId b) {
    const auto home = homes.find(b);
    return home == homes.end() ? b : home->second;
}

std::vector<TensorPart> parts_of(const World& world, const Rank& rank, Quantity what) {
    std::vector<TensorPart> parts;
    const auto stored = [&](BufferId b) { return stored_type(world.plan.buffers[b].dtype, world.real); };
    if (what == Quantity::parameters) { // every place they are in between steps
        for (std::size_t b = 0; b < world.plan.buffers.size(); ++b) {
            const Buffer& x = world.plan.buffers[b];
            const auto id = static_cast<BufferId>(b);
            if (x.stage == rank.stage && x.kind == MemoryKind::parameters && x.role != Role::secondary_shard && x.version == 0 &&
                rank.memory.block(id, -1)) // of several versions that with which the next run begins
                add_parts(world, rank, id, "", rank.memory.at(id, -1), stored(id), parts);
        }
        return parts;
    }
    if (what == Quantity::outer) {
        const std::map<BufferId, BufferId> homes = homes_on_host(world.plan);
        for (const Issue& i : rank.order->issues)
            if (const auto* p = std::get_if<Pointwise>(&i.op->work); p && p->kind == PointwiseKind::outer_step)
                add_outer(world, rank, *i.op, homes, parts);
        return parts;
    }
    for (const Worked& work : worked_on(world, rank)) {
        std::map<BufferId, std::vector<BufferId>> tensors = tensors_of_states(world.plan, work);
        if (what == Quantity::gradients)
            for (BufferId b : work.gradients) {
                if (rank.memory.block(b, -1)) // an update in the backward pass has freed them
                    add_parts(world, rank, b, "", rank.memory.at(b, -1), stored(b), parts);
            }
        else
            for (BufferId b : work.states) {
                std::byte* data = rank.memory.at(b, -1); // the tensors concatenated, in the order of the gradients
                for (BufferId g : tensors[b]) {
                    add_parts(world, rank, g, prefix_of(world.plan.buffers[b].role), data, stored(b), parts);
                    data += elements_in(world.plan, g) * static_cast<std::int64_t>(bytes_per_element(stored(b)));
                }
            }
    }
    return parts;
}

Gathered gather(const World& world, Quantity what) {
    Gathered all;
    constexpr double unknown = std::numeric_limits<double>::infinity();
    for (const auto& rank : world.ranks) {
        require(rank != nullptr, "tensors are gathered where all ranks are");
        for (const TensorPart& part : parts_of(world, *rank, what)) {
            const ShardView view = shard_view(world.plan, world.plan.buffers[part.tensor], rank->context.at, rank->context.expert_at);
            Tensor& t = all.tensors[part.name];
            if (t.shape.empty()) {
                t.shape = view.whole;
                t.shape[0] = true_rows(world, part, view);
                std::int64_t n = 1;
                for (std::int64_t d : t.shape) n *= d;
                t.values.assign(n, unknown);
            }
            for (std::int64_t i = 0; i < part.count; ++i) {
                const auto at = static_cast<std::size_t>(whole_index(view, part.begin + i));
                if (at >= t.values.size()) continue; // padding
                const double value = read_element(part.data, i, part.stored);
                if (t.values[at] == unknown)
                    t.values[at] = value;
                else if (!(t.values[at] == value))
                    all.disagreement =
                        std::max(all.disagreement, std::isnan(t.values[at] - value) ? unknown : std::abs(t.values[at] - value));
            }
        }
    }
    for (const auto& [name, t] : all.tensors)
        if (std::find(t.values.begin(), t.values.end(), unknown) != t.values.end()) broken("no rank holds a part of " + name);
    return all;
}

void scatter(World& world, Quantity what, const Tensors& tensors) {
    for (auto& rank : world.ranks) {
        if (!rank) continue;
        for (const TensorPart& part : parts_of(world, *rank, what)) {
            const auto found = tensors.find(part.name);
            if (found == tensors.end()) continue;
            const ShardView view = shard_view(world.plan, world.plan.buffers[part.tensor], rank->context.at, rank->context.expert_at);
            const Tensor& t = found->second;
            for (std::int64_t i = 0; i < part.count; ++i) {
                const auto at = static_cast<std::size_t>(whole_index(view, part.begin + i));
                write_element(part.data, i, at < t.values.size() ? t.values[at] : 0.0, part.stored);
            }
        }
    }
}

} // namespace orrery
