#include "exec/runtime/resume.hpp"

#include "exec/kernels/shards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

namespace orrery {
namespace {

constexpr Quantity kept[] = {Quantity::parameters, Quantity::states, Quantity::outer};

std::string prefix(Quantity q) { return q == Quantity::parameters ? "parameters/" : q == Quantity::states ? "states/" : "outer/"; }

// Workers step by optimizers of their own: states have the worker's number.
std::string name_of(const World& world, const Rank& rank, Quantity q, const std::string& part) {
    if (q != Quantity::states || world.plan.workers == 0) return prefix(q) + part;
    const auto worker = rank.context.at[static_cast<std::size_t>(Axis::dp)] +
                        rank.context.at[static_cast<std::size_t>(Axis::dpr)] * world.plan.mesh.extent(Axis::dp);
    return fmt::format("{}worker-{}/{}", prefix(q), worker, part);
}

// As the checkpoint has it: workers may go on from a synchronous run, whose states all share. Empty: it has none.
std::string stored_name(const World& world, const CheckpointFiles& files, const Rank& rank, Quantity q, const std::string& part) {
    for (std::string name : {name_of(world, rank, q, part), prefix(q) + part})
        if (files.shape(name)) return name;
    return "";
}

// The error where a checkpoint lacks a tensor.
std::string lacks(const World& world, const CheckpointFiles& files, const std::string& name) {
    if (world.plan.workers != 0 && name.starts_with("states/worker-"))
        return fmt::format("the checkpoint has no {}: it is of fewer workers, or of another optimizer", name);
    if (files.shape(fmt::format("states/worker-0/{}", name.substr(name.find('/') + 1))))
        return fmt::format(
            "the checkpoint has no {}: it is of workers, each with states of its own, and only as many workers go on from it", name);
    return "the checkpoint has no " + name + ": it is of another model or optimizer";
}

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
                const std::string name = name_of(world, *rank, q, part.name);
                if (!taken.insert({name, view.offset, part.begin}).second) continue;
                pieces.push_back({name, view.whole, view.offset, view.local, part.begin, part.count, part.stored, part.data});
            }
    }
    return pieces;
}

void carry_over(const World& from, World& to) {
    for (const auto& rank : to.ranks) {
        if (!rank) continue;
        for (Quantity q : {Quantity::parameters, Quantity::states}) {
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
    for (Quantity q : kept) {
        if (q == Quantity::outer) initialise_common(world); // where a synchronous run goes on as workers, this is their start
        for (const auto& rank : world.ranks) {
            if (!rank) continue;
            for (const TensorPart& part : parts_of(world, *rank, q)) {
                const Buffer& buffer = world.plan.buffers[static_cast<std::size_t>(part.tensor)];
                const ShardView view = shard_view(world.plan, buffer, rank->context.at, rank->context.expert_at);
                const std::string name = stored_name(world, files, *rank, q, part.name);
                if (name.empty() && q == Quantity::outer) continue;
                if (name.empty()) throw WrongModel(lacks(world, files, name_of(world, *rank, q, part.name)));
                const std::vector<std::int64_t>* const shape = files.shape(name);
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
}

} // namespace orrery
