#include "exec/runtime/resume.hpp"

#include "exec/kernels/shards.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

namespace orrery {
namespace {

constexpr Quantity kept[] = {Quantity::parameters, Quantity::states};

std::string prefix(Quantity q) { return q == Quantity::parameters ? "parameters/" : "states/"; }

// Into a rank's part; rows that pad a vocabulary are zero.
void read_part(const CheckpointFiles& files, const std::string& name, const ShardView& view, const TensorPart& part) {
    const DType stored = files.dtype(name);
    const auto width = static_cast<std::int64_t>(bytes_per_element(stored));
    std::memset(part.data, 0, static_cast<std::size_t>(part.count * static_cast<std::int64_t>(bytes_per_element(part.stored))));
    files.read({name, view.whole, view.offset, view.local, part.begin, part.count, part.stored, nullptr},
               [&](std::int64_t place, const std::byte* bytes, std::int64_t n) {
                   if (stored == part.stored) {
                       std::memcpy(part.data + place * width, bytes, static_cast<std::size_t>(n * width));
                       return;
                   }
                   for (std::int64_t i = 0; i < n; ++i) write_element(part.data, place + i, read_element(bytes, i, stored), part.stored);
               });
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

void carry_over(const World& from, World& to) {
    for (const auto& rank : to.ranks) {
        if (!rank) continue;
        for (Quantity q : kept) {
            std::map<std::string, TensorPart> known;
            for (TensorPart& part : parts_of(from, from.rank(rank->rank), q)) known.emplace(part.name, std::move(part));
            for (const TensorPart& part : parts_of(to, *rank, q)) {
                const auto it = known.find(part.name);
                if (it == known.end() || it->second.count != part.count || it->second.stored != part.stored)
                    throw WrongModel("a run cannot go on with " + prefix(q) + part.name + " of another plan");
                std::memcpy(part.data, it->second.data,
                            static_cast<std::size_t>(part.count * static_cast<std::int64_t>(bytes_per_element(part.stored))));
            }
        }
    }
    initialise_common(to);
}

void restore(World& world, const CheckpointFiles& files) {
    for (Quantity q : kept)
        for (const auto& rank : world.ranks) {
            if (!rank) continue;
            for (const TensorPart& part : parts_of(world, *rank, q)) {
                const Buffer& buffer = world.plan.buffers[static_cast<std::size_t>(part.tensor)];
                const ShardView view = shard_view(world.plan, buffer, rank->context.at, rank->context.expert_at);
                const std::string name = prefix(q) + part.name;
                const std::vector<std::int64_t>* const shape = files.shape(name);
                if (!shape) throw WrongModel("the checkpoint has no " + name + ": it is of another model or optimizer");
                // Rows that pad a vocabulary differ between strategies; nothing else may.
                const bool alike =
                    shape->size() == view.whole.size() && std::equal(shape->begin() + 1, shape->end(), view.whole.begin() + 1);
                const bool rows = alike && ((*shape)[0] == view.whole[0] ||
                                            has_vocabulary_rows(world.plan.tensors[static_cast<std::size_t>(buffer.tensor)]));
                if (!rows) throw WrongModel("the checkpoint's " + name + " is of another shape");
                read_part(files, name, view, part);
            }
        }
}

} // namespace orrery
