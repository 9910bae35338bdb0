#include "exec/runtime/resume.hpp"

#include "exec/kernels/shards.hpp"

#include <set>
#include <stdexcept>
#include <tuple>

namespace orrery {
namespace {

constexpr Quantity kept[] = {Quantity::parameters, Quantity::states};

std::string prefix(Quantity q) { return q == Quantity::parameters ? "parameters/" : "states/"; }

Tensor tensor_of(const CheckpointTensor& from) {
    Tensor t;
    t.shape = from.shape;
    t.values.resize(from.data.size() / static_cast<std::size_t>(bytes_per_element(from.dtype)));
    for (std::size_t i = 0; i < t.values.size(); ++i)
        t.values[i] = read_element(reinterpret_cast<const std::byte*>(from.data.data()), static_cast<std::int64_t>(i), from.dtype);
    return t;
}

} // namespace

std::vector<CheckpointPiece> pieces_of(const World& world) {
    std::vector<CheckpointPiece> pieces;
    std::set<std::tuple<std::string, std::vector<std::int64_t>, std::int64_t>> taken;
    for (const auto& rank : world.ranks) {
        if (!rank) continue;
        for (Quantity q : kept)
            for (const TensorPart& part : parts_of(world, *rank, q)) {
                const ShardView view = shard_view(world.plan, world.plan.buffers[static_cast<std::size_t>(part.tensor)], rank->context.at,
                                                  rank->context.expert_at);
                if (!taken.insert({prefix(q) + part.name, view.offset, part.begin}).second) continue;
                pieces.push_back(
                    {prefix(q) + part.name, view.whole, view.offset, view.local, part.begin, part.count, part.stored, part.data});
            }
    }
    return pieces;
}

void restore(World& world, const Checkpoint& checkpoint) {
    for (Quantity q : kept) {
        Tensors tensors;
        for (const auto& [name, tensor] : checkpoint.tensors)
            if (name.starts_with(prefix(q))) tensors[name.substr(prefix(q).size())] = tensor_of(tensor);
        for (const auto& rank : world.ranks) {
            if (!rank) continue;
            for (const TensorPart& part : parts_of(world, *rank, q)) {
                const ShardView view = shard_view(world.plan, world.plan.buffers[static_cast<std::size_t>(part.tensor)], rank->context.at,
                                                  rank->context.expert_at);
                const auto found = tensors.find(part.name);
                if (found == tensors.end())
                    throw std::runtime_error("the checkpoint has no " + prefix(q) + part.name + ": it is of another model or optimizer");
                // Rows that pad a vocabulary differ between strategies; nothing else may.
                const auto& shape = found->second.shape;
                const bool alike = shape.size() == view.whole.size() && std::equal(shape.begin() + 1, shape.end(), view.whole.begin() + 1);
                const Buffer& buffer = world.plan.buffers[static_cast<std::size_t>(part.tensor)];
                const LogicalTensor& tensor = world.plan.tensors[static_cast<std::size_t>(buffer.tensor)];
                const bool rows = alike && (shape[0] == view.whole[0] || has_vocabulary_rows(tensor));
                if (!rows) throw std::runtime_error("the checkpoint's " + prefix(q) + part.name + " is of another shape");
            }
        }
        scatter(world, q, tensors);
    }
}

} // namespace orrery
