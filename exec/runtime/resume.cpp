#include "exec/runtime/resume.hpp"

#include "exec/kernels/shards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <tuple>

namespace orrery {
namespace {

// The quantities that a step leaves to the next. Gradients are only where that one's update will use them (OptimizerStep::delayed).
std::vector<Quantity> kept(const World& world) {
    std::vector<Quantity> all{Quantity::parameters, Quantity::states, Quantity::outer};
    if (world.scenario.strategy.offload.delayed_update) all.push_back(Quantity::gradients);
    return all;
}

std::string prefix(Quantity q) {
    switch (q) {
    case Quantity::parameters:
        return "parameters/";
    case Quantity::states:
        return "states/";
    case Quantity::gradients:
        return "held/";
    case Quantity::outer:
        break;
    }
    return "outer/";
}

std::string name_of_worker(int worker, Quantity q, const std::string& part) {
    return fmt::format("{}worker-{}/{}", prefix(q), worker, part);
}

// Workers step by optimizers of their own: states have the worker's number, and parameters too where fragments meet at different steps, so
// that workers are never alike as a whole.
bool of_worker(const World& world, Quantity q) {
    const bool own = q == Quantity::states || (q == Quantity::parameters && world.scenario.strategy.streaming());
    return own && world.plan.workers != 0;
}
std::string name_of(const World& world, const Rank& rank, Quantity q, const std::string& part) {
    return of_worker(world, q) ? name_of_worker(rank.context.at[Axis::dpw], q, part) : prefix(q) + part;
}

// As the checkpoint has it: workers may go on from a synchronous run, whose states all share. Empty: it has none.
std::string stored_name(const World& world, const CheckpointFiles& files, const Rank& rank, Quantity q, const std::string& part) {
    for (std::string name : {name_of(world, rank, q, part), prefix(q) + part})
        if (files.shape(name)) return name;
    return "";
}

// Whether the optimizer steps on fp32 shards of parameters that are 16-bit ones elsewhere (DataParallel::wide_shards, homes on the host).
bool steps_on_wide_shards(const World& world) {
    return std::ranges::any_of(world.plan.buffers, [&](const Buffer& b) {
        return b.role == Role::parameter_shard && b.scope == Scope::run && b.dtype == DType::fp32 &&
               world.plan.buffers[world.plan.buckets[b.bucket].tensors.front().parameter].dtype != DType::fp32;
    });
}

// As the checkpoint has it. One plan's fp32 parameters are another plan's masters beside 16-bit ones: each goes on from the other's.
std::string name_of_values(const World& world, const CheckpointFiles& files, const Rank& rank, Quantity q, const std::string& part,
                           bool wide) {
    if (q == Quantity::parameters && wide)
        if (std::string name = stored_name(world, files, rank, Quantity::states, std::string(master_prefix) + part); !name.empty())
            return name;
    std::string name = stored_name(world, files, rank, q, part);
    if (const std::string tensor = tensor_of_master(part); name.empty() && q == Quantity::states && !tensor.empty())
        name = stored_name(world, files, rank, Quantity::parameters, tensor);
    return name;
}

// The error where a checkpoint lacks a tensor.
std::string lacks(const World& world, const CheckpointFiles& files, const std::string& name) {
    const std::size_t slash = name.find('/') + 1;
    if (world.plan.workers != 0 && name.compare(slash, 7, "worker-") == 0)
        return fmt::format("the checkpoint has no {}: it is of fewer workers, or of another optimizer", name);
    if (files.shape(name.substr(0, slash) + "worker-0/" + name.substr(slash)))
        return fmt::format("the checkpoint has no {}: it is of workers, each with {} of its own, and only as many workers go on from it",
                           name, name.substr(0, slash - 1));
    return "the checkpoint has no " + name + ": it is of another model or optimizer";
}

bool trained(const World& world, const TensorPart& part) {
    const TensorId t = world.plan.buffers[part.tensor].tensor;
    return t < 0 || world.plan.tensors[t].trained;
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

namespace {

// The errors of compression that a rank keeps for its next steps: its own, and only for this plan.
struct Kept {
    std::string name;
    std::int64_t count;
    DType stored;
    std::byte* data;
};

std::vector<Kept> kept_of(const World& world, const Rank& rank) {
    std::vector<Kept> all;
    for (std::size_t b = 0; b < world.plan.buffers.size(); ++b) {
        const Buffer& x = world.plan.buffers[b];
        const bool stays = x.role == Role::gradient_error || x.role == Role::sum_error || x.role == Role::factor_start;
        if (!stays || x.stage != rank.stage || x.storage >= 0 || !rank.memory.block(static_cast<BufferId>(b), -1)) continue;
        all.push_back({fmt::format("kept/rank-{}/{}-{}", rank.rank, b, x.name), elements(x), stored_type(x.dtype, world.real),
                       rank.memory.at(static_cast<BufferId>(b), -1)});
    }
    return all;
}

// One of the ranks that hold the same part writes it: the first along every axis on which the part is the same, on the first stage that has
// the tensor (tied embeddings, a copy of the model in each direction). Each rank knows this alone.
class Writers {
  public:
    explicit Writers(const World& world) : world_(world), first_stage_(world.plan.tensors.size(), std::numeric_limits<int>::max()) {
        for (const Buffer& b : world.plan.buffers)
            if (b.tensor >= 0 && b.kind == MemoryKind::parameters) first_stage_[b.tensor] = std::min<int>(first_stage_[b.tensor], b.stage);
    }
    bool writes(const Rank& rank, const TensorPart& part, Quantity q) const {
        const Plan& plan = world_.plan;
        const Buffer& b = plan.buffers[part.tensor];
        AxisMask differs = of_worker(world_, q) ? mask(Axis::dpw) : AxisMask{0};
        for (int a = 0; a < axis_count; ++a)
            if (b.placement.on(static_cast<Axis>(a)) == PlacementKind::sharded) differs |= mask(static_cast<Axis>(a));
        if (part.shards >= 0) {
            const Communicator& comm = plan.communicators[part.shards];
            if (comm.expert != b.expert) return true; // of another mesh: all of them
            differs |= comm.axes;
        }
        if (of_worker(world_, q) && b.expert && !workers_alike()) return true;
        const Coordinates& at = b.expert ? rank.context.expert_at : rank.context.at;
        for (int a = 0; a < axis_count; ++a)
            if (static_cast<Axis>(a) != Axis::pp && !(differs & mask(static_cast<Axis>(a))) && at[a] != 0) return false;
        return (differs & mask(Axis::pp)) || rank.stage == first_stage_[b.tensor];
    }

  private:
    // Whether experts' mesh has the workers where the other has them.
    bool workers_alike() const {
        const Mesh &all = world_.plan.mesh, &experts = world_.plan.expert_mesh;
        return all.extent(Axis::dpw) == experts.extent(Axis::dpw) && all.stride_in_stage(Axis::dpw) == experts.stride_in_stage(Axis::dpw);
    }
    const World& world_;
    std::vector<int> first_stage_;
};

CheckpointPiece piece_of(const Kept& k) { return {k.name, {k.count}, {0}, {k.count}, 0, k.count, k.stored, k.data}; }

// A run of the same plan reads them; another plan begins anew.
void restore_kept(const World& world, const CheckpointFiles& files, const Rank& rank) {
    for (const Kept& k : kept_of(world, rank)) {
        const auto* const shape = files.shape(k.name);
        if (!shape || *shape != std::vector<std::int64_t>{k.count} || files.dtype(k.name) != k.stored) continue;
        const auto width = static_cast<std::int64_t>(bytes_per_element(k.stored));
        files.read(piece_of(k), [&](std::int64_t place, const std::byte* bytes, std::int64_t n) {
            std::memcpy(k.data + place * width, bytes, static_cast<std::size_t>(n * width));
        });
    }
}

} // namespace

std::vector<CheckpointPiece> pieces_of(const World& world, bool trained_alone) {
    std::vector<CheckpointPiece> pieces;
    std::set<std::tuple<std::string, std::vector<std::int64_t>, std::int64_t>> taken;
    const bool alone = std::ranges::all_of(world.ranks, [](const auto& r) { return r != nullptr; });
    const Writers writers(world);
    for (const auto& rank : world.ranks) {
        if (!rank) continue;
        for (Quantity q : kept(world))
            for (const TensorPart& part : parts_of(world, *rank, q)) {
                if ((trained_alone && !trained(world, part)) || !(alone || writers.writes(*rank, part, q))) continue;
                const ShardView view = shard_view(world.plan, world.plan.buffers[part.tensor], rank->context.at, rank->context.expert_at);
                const std::string name = name_of(world, *rank, q, part.name);
                if (!taken.insert({name, view.offset, part.begin}).second) continue;
                pieces.push_back({name, view.whole, view.offset, view.local, part.begin, part.count, part.stored, part.data});
            }
        for (const Kept& k : kept_of(world, *rank)) pieces.push_back(piece_of(k));
    }
    return pieces;
}

void carry_over(const World& from, World& to) {
    for (const auto& rank : to.ranks) {
        if (!rank) continue;
        if (const Rank& before = from.rank(rank->rank); rank->scaling && before.scaling) *rank->scaling = *before.scaling;
        for (Quantity q : kept(to)) {
            if (q == Quantity::outer) continue;
            // A tensor may be there whole, and again as the rank's part of it.
            const auto key = [](const TensorPart& part) { return std::tuple(part.name, part.begin, part.count); };
            std::map<std::tuple<std::string, std::int64_t, std::int64_t>, TensorPart> known;
            for (TensorPart& part : parts_of(from, from.rank(rank->rank), q)) known.emplace(key(part), std::move(part));
            for (const TensorPart& part : parts_of(to, *rank, q)) {
                const auto it = known.find(key(part));
                if (it == known.end() || it->second.stored != part.stored)
                    throw WrongModel("a run cannot go on with " + prefix(q) + part.name + " of another plan");
                std::memcpy(part.data, it->second.data,
                            static_cast<std::size_t>(part.count * static_cast<std::int64_t>(bytes_per_element(part.stored))));
            }
        }
    }
    initialise_common(to);
}

// The states of workers that the scenario lacks would be dropped without a word. One tensor tells: all have each worker's.
void refuse_more_workers(const World& world, const CheckpointFiles& files) {
    const auto rank = std::ranges::find_if(world.ranks, [](const auto& r) { return r != nullptr; });
    if (world.plan.workers == 0 || rank == world.ranks.end()) return;
    const int workers = world.plan.mesh.extent(Axis::dpw);
    for (Quantity q : {Quantity::states, Quantity::parameters})
        if (const std::vector<TensorPart> parts = parts_of(world, **rank, q);
            !parts.empty() && files.shape(name_of_worker(workers, q, parts.front().name)))
            throw WrongModel(fmt::format("the checkpoint is of more than {} workers, and only as many workers go on from it", workers));
}

std::string text_of(const LossScale& s) { return fmt::format("{} {} {}", s.factor, s.good_steps, s.skipped); }

namespace {

// Throws WrongModel where the fact is none.
void restore_loss_scale(World& world, const CheckpointState& state) {
    LossScale scale;
    if (const auto it = state.facts.find(loss_scale_fact); it != state.facts.end()) {
        std::istringstream in(it->second);
        in >> scale.factor >> scale.good_steps >> scale.skipped;
        int exponent = 0;
        const bool number = in && std::isfinite(scale.factor) && scale.factor >= 1 && std::frexp(scale.factor, &exponent) == 0.5;
        if (!number || scale.good_steps < 0 || scale.skipped < 0 || scale.skipped > state.step)
            throw WrongModel(fmt::format("the checkpoint's loss scale is no power of two and two counts of its steps: {}", it->second));
    }
    for (const auto& rank : world.ranks)
        if (rank && rank->scaling) *rank->scaling = scale;
}

} // namespace

void restore(World& world, const CheckpointFiles& files) {
    restore_loss_scale(world, files.state());
    refuse_more_workers(world, files);
    const bool part_of_all = files.state().facts.contains(trained_alone_fact), wide = steps_on_wide_shards(world);
    for (Quantity q : kept(world)) {
        if (q == Quantity::outer) initialise_common(world); // where a synchronous run goes on as workers, this is their start
        for (const auto& rank : world.ranks) {
            if (!rank) continue;
            for (const TensorPart& part : parts_of(world, *rank, q)) {
                const Buffer& buffer = world.plan.buffers[part.tensor];
                const ShardView view = shard_view(world.plan, buffer, rank->context.at, rank->context.expert_at);
                const std::string name = name_of_values(world, files, *rank, q, part.name, wide);
                if (name.empty() && q == Quantity::gradients) world.facts.optimizer.begins = files.state().step; // there is none to use
                if (name.empty() && (q == Quantity::gradients || q == Quantity::outer || (part_of_all && !trained(world, part)))) continue;
                if (name.empty()) throw WrongModel(lacks(world, files, name_of(world, *rank, q, part.name)));
                const std::vector<std::int64_t>* const shape = files.shape(name);
                // Rows that pad a vocabulary differ between strategies; nothing else may.
                const bool alike =
                    shape->size() == view.whole.size() && std::equal(shape->begin() + 1, shape->end(), view.whole.begin() + 1);
                const bool rows = alike && ((*shape)[0] == view.whole[0] || has_vocabulary_rows(world.plan.tensors[buffer.tensor]));
                if (!rows)
                    throw WrongModel(fmt::format("the checkpoint's {} is [{}], and the scenario's is [{}]", name, fmt::join(*shape, ", "),
                                                 fmt::join(view.whole, ", ")));
                read_part(files, name, view, part);
            }
        }
    }
    for (const auto& rank : world.ranks)
        if (rank) restore_kept(world, files, *rank);
}

} // namespace orrery
