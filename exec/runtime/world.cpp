#include "exec/runtime/world.hpp"

#include "exec/kernels/parallel.hpp"
#include "exec/kernels/rows.hpp"
#include "exec/kernels/shards.hpp"
#include "exec/kernels/tokens.hpp"
#include "exec/runtime/tensors.hpp"
#include "exec/runtime/watch.hpp"
#include "sim/plan/in_flight.hpp"
#include "sim/plan/lower.hpp"
#include "sim/plan/rounds.hpp"
#include "sim/plan/verify.hpp"
#include "sim/scenario/documents.hpp"
#include "sim/scenario/practice.hpp"
#include "topology/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace orrery {
namespace {

// A flat shard: of each tensor in it the part that lies there. Where it is a view of whole tensors these are initialised themselves.
void initialise_shard(Rank& rank, const BucketLayout& layout, BufferId shard, const World& world) {
    if (world.plan.buffers[shard].storage >= 0) return;
    const auto size = static_cast<std::int64_t>(stored_bytes(world.plan.buffers[shard].dtype, world.real));
    const std::int64_t begin = rank.memory.part_index(layout.comm) * layout.shard, end = begin + layout.shard;
    std::byte* const data = rank.memory.at(shard, -1);
    std::vector<std::byte> whole;
    for (const BucketSegment& s : layout.segments) {
        const std::int64_t from = std::max(begin, s.begin), to = std::min(end, s.end);
        if (from >= to) continue;
        Buffer tensor = world.plan.buffers[s.tensor];
        tensor.dtype = world.plan.buffers[shard].dtype; // of a home on the host, which may be wider
        whole.resize(elements(tensor) * size);
        initialise(Operand{whole.data(), &tensor, s.tensor}, rank.context);
        std::memcpy(data + (from - begin) * size, whole.data() + (from - s.begin) * size, static_cast<std::size_t>((to - from) * size));
    }
}

// The weights that a step writes or, where it writes the master alone, those that are cast from a copy of it.
std::vector<BufferId> weights_of(const Rank& rank, const Op& step, BufferId master, const Plan& plan) {
    std::vector<BufferId> weights;
    for (BufferId b : step.out)
        if (plan.buffers[b].kind == MemoryKind::parameters) weights.push_back(b);
    BufferId copy = -1;
    for (const Issue& i : rank.order->issues) {
        if (!weights.empty()) return weights;
        const auto* p = std::get_if<Pointwise>(&i.op->work);
        if (std::holds_alternative<Copy>(i.op->work) && i.op->in[0] == master)
            copy = i.op->out[0];
        else if (p && p->kind == PointwiseKind::cast && copy >= 0 && i.op->in[0] == copy)
            weights = i.op->out;
    }
    return weights;
}

// Master weights begin as their parameters; those of slices, one behind the other, as each its own.
void initialise_master(Rank& rank, const Op& op, const std::map<BufferId, BufferId>& homes, const World& world) {
    const DType real = world.real;
    const std::size_t states = op.out.size();
    const auto at_home = [&](BufferId b) { return rank.memory.operand(home_of(homes, b), -1); };
    std::size_t next = 0; // of the weights that the step writes
    for (std::size_t k = 0; k < states; ++k) {
        if (world.plan.buffers[op.out[k]].role != Role::master) continue;
        const Operand master = at_home(op.out[k]);
        std::int64_t at = 0;
        const DType stored = stored_type(master.buffer->dtype, real);
        const std::vector<BufferId> weights = weights_of(rank, op, op.out[k], world.plan);
        if (weights.empty() || weights.front() != op.out.front()) next = 0; // of its own
        for (; next < weights.size() && at < elements(*master.buffer); ++next) {
            const Operand weight = at_home(weights[next]);
            const DType from = stored_type(weight.buffer->dtype, real);
            in_parallel(elements(*weight.buffer), [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) write_element(master.data, at + i, read_element(weight.data, i, from), stored);
            });
            at += elements(*weight.buffer);
        }
    }
}

// The workers' common start before their first step: their parameters, side by side.
void initialise_outer(Rank& rank, const Op& difference, const std::map<BufferId, BufferId>& homes, DType real) {
    const Operand outer = rank.memory.operand(home_of(homes, difference.in[0]), -1);
    std::int64_t at = 0;
    for (std::size_t k = 1; k < difference.in.size(); ++k) {
        const Operand own = rank.memory.operand(home_of(homes, difference.in[k]), -1);
        if (own.buffer->kind != MemoryKind::parameters && own.buffer->role != Role::master) continue;
        const DType from = stored_type(own.buffer->dtype, real), to = stored_type(outer.buffer->dtype, real);
        for (std::int64_t i = 0; i < elements(*own.buffer); ++i, ++at) write_element(outer.data, at, read_element(own.data, i, from), to);
    }
}

std::string unequal_documents(const Scenario& s) {
    const std::int64_t unit = document_unit(s);
    return fmt::format("training.document_tokens = {} must divide training.sequence_length = {}{} where it is trained: all documents are "
                       "of one length, and none is padded",
                       s.training.document_tokens, s.training.sequence_length,
                       unit > 1 ? fmt::format(" and be a multiple of 2 x context_parallel = {}", unit) : "");
}

} // namespace

std::vector<Problem> not_executable(const Scenario& s, bool forced_routing) {
    std::vector<Problem> problems;
    const DType p = s.training.precision;
    if (p == DType::fp8 || p == DType::mxfp8 || p == DType::nvfp4)
        problems.push_back({"/training/precision", std::string("training.precision = ") + name(p) +
                                                       " has no kernels here: use fp32, or bf16 or fp16, whose storage is emulated"});
    if (const PackedDocuments d = documents_of(s);
        packs_documents(s) && (d.tokens != s.training.document_tokens || d.count * d.tokens != s.training.sequence_length))
        problems.push_back({"/training/document_tokens", unequal_documents(s)});
    if (practice_of(s).gathers_heads)
        problems.push_back({"/strategy/tensor_parallel",
                            fmt::format("strategy.tensor_parallel = {} with model.kv_heads = {} is simulated only: kernels here have whole "
                                        "key heads a rank, so use {} or fewer",
                                        s.strategy.tensor_parallel, s.model.kv_heads, s.model.kv_heads)});
    if (s.training.optimizer == Optimizer::muon)
        problems.push_back(
            {"/training/optimizer", "training.optimizer = muon is simulated only: use adamw, adam, sgd, momentum, lamb or lars"});
    if (s.training.moment_dtype == DType::uint8)
        problems.push_back({"/training/moment_dtype", "training.moment_dtype = int8 has no kernels here: use fp32 or bf16"});
    if (s.strategy.offload.optimizer != Tier::none && s.training.moment_dtype != DType::fp32)
        problems.push_back(
            {"/training/moment_dtype", "training.moment_dtype of 16 bits is simulated only where the optimizer is on the host: use fp32"});
    if (s.model.trainable.dropout > 0)
        problems.push_back({"/model/trainable/lora/dropout", "model.trainable.lora.dropout is simulated only: use 0"});
    if (s.training.master_remainders)
        problems.push_back(
            {"/training/master_remainders", "training.master_remainders has no kernels here: use false, which keeps whole masters"});
    if (s.strategy.loose())
        problems.push_back({"/strategy/synchronization/kind", std::string("strategy.synchronization.kind = ") +
                                                                  name(s.strategy.synchronization.kind) +
                                                                  " is simulated only, worker by worker: use local_sgd or diloco"});
    if (s.strategy.post_validation && !s.training.optimizer_in_backward)
        problems.push_back({"/strategy/optimizer_sync", "strategy.optimizer_sync = post-validation is simulated only where updates are not "
                                                        "in the backward pass (training.optimizer_in_backward): use global"});
    if (s.undoes_steps() && !s.training.master_weights && p != DType::fp32 && p != DType::tf32)
        problems.push_back({"/training/master_weights",
                            "training.master_weights = false with strategy.optimizer_sync = post-validation: an "
                            "update of 16-bit parameters is rounded, and cannot be undone: set it to true"});
    if (!forced_routing && s.model.moe && !s.model.moe->pads() && s.runtime.fused_experts)
        problems.push_back({"/runtime/fused_experts", "runtime.fused_experts reads on the device how many rows each expert has, and "
                                                      "kernels here are told by the host: use false, or set model.moe.capacity_factor"});
    if (s.model.moe && cuts(*s.model.moe) && s.runtime.token_dispatcher != TokenDispatcher::alltoall &&
        s.strategy.expert_parallel * s.strategy.expert_tensor_parallel > 1)
        problems.push_back({"/model/moe/pad_to_capacity", "model.moe.pad_to_capacity = false drops on each token's own rank, and kernels "
                                                          "here permute where tokens arrive: use true, or token_dispatcher = alltoall"});
    if (s.model.moe && s.runtime.token_dispatcher != TokenDispatcher::alltoall &&
        s.runtime.token_dispatcher != TokenDispatcher::allgather && s.strategy.expert_parallel * s.strategy.expert_tensor_parallel > 1)
        problems.push_back(
            {"/runtime/token_dispatcher", std::string("runtime.token_dispatcher = ") + name(s.runtime.token_dispatcher) +
                                              " has no kernels here, where experts are on several ranks: use alltoall or allgather"});
    return problems;
}

Plan executed_plan(const Scenario& scenario) { return bound_flight(verified_plan(scenario)); }

Plan routed_plan(const Scenario& scenario) {
    Scenario routed = scenario;
    routed.runtime.routed = true;
    return executed_plan(routed);
}

bool leaves_expert_room(const Scenario& s) {
    return s.model.moe && !s.model.moe->pads() && (s.strategy.expert_parallel > 1 || s.model.moe->capacity_factor > 0);
}

std::unique_ptr<World> make_world(const Scenario& scenario, DType real, std::vector<int> only, Backend machine) {
    return make_world(scenario, executed_plan(scenario), real, std::move(only), std::move(machine));
}

namespace {

// Kernels and memories that there are on processors alone.
void refuse_machine(const Plan& plan, const Backend& machine) {
    if (machine.name == "cpu") return;
    const auto any_buffer = [&](auto&& is) { return std::any_of(plan.buffers.begin(), plan.buffers.end(), is); };
    if (any_buffer([](const Buffer& b) { return b.space == Space::nvme; }))
        throw std::runtime_error("strategy.offload to nvme runs on processors alone: use --device cpu, or offload to cpu");
    const auto any_step = [&](auto&& is) {
        return std::any_of(plan.blocks.begin(), plan.blocks.end(), [&](const Block& b) {
            return std::any_of(b.ops.begin(), b.ops.end(), [&](const Op& op) {
                const auto* step = std::get_if<OptimizerStep>(&op.work);
                return step && is(*step);
            });
        });
    };
    if (any_step([](const OptimizerStep& step) { return step.delayed; }))
        throw std::runtime_error("strategy.offload.delayed_update runs on processors alone: use --device cpu, or set it to false");
    const auto has_masters = [&](const Op& op) {
        return std::holds_alternative<OptimizerStep>(op.work) &&
               std::ranges::count_if(op.out, [&](BufferId b) { return plan.buffers[b].role == Role::master; }) > 1;
    };
    if (std::ranges::any_of(plan.blocks, [&](const Block& b) { return std::ranges::any_of(b.ops, has_masters); }))
        throw std::runtime_error("workers that meet with 16-bit parameters a slice at a time (strategy.bucket_bytes) run on processors "
                                 "alone: use --device cpu, or a larger strategy.bucket_bytes");
    if (any_step([](const OptimizerStep& step) { return step.part == OptimizerStep::Part::undo; }))
        throw std::runtime_error("strategy.optimizer_sync = post-validation runs on processors alone: use --device cpu, or use global");
    const auto in_blocks = [](const Buffer& b) {
        return b.dtype == DType::int8 || b.dtype == DType::int4 || b.dtype == DType::fp4 || b.dtype == DType::nf4;
    };
    const auto compresses = [](const Block& b) {
        return std::any_of(b.ops.begin(), b.ops.end(), [](const Op& op) { return std::holds_alternative<Compress>(op.work); });
    };
    if (any_buffer(in_blocks) || std::any_of(plan.blocks.begin(), plan.blocks.end(), compresses))
        throw std::runtime_error(
            "int8, int4, fp4 and nf4, gradients as factors, as their largest elements or as signs have kernels on processors "
            "alone: use --device cpu");
}

// Why the loss of a training in fp16 cannot be scaled: a step must be left out as a whole, once the norm of all gradients is known and
// before anything of it is kept. Empty: it can.
std::string why_not_scaled(const Scenario& s, const Plan& plan) {
    const auto refuse = [](const std::string& field, const std::string& why) {
        return fmt::format("training.precision = fp16 scales the loss and leaves out steps whose gradients overflow, {}: {}, or use bf16",
                           why, field);
    };
    if (s.training.gradient_clipping <= 0)
        return refuse("set training.gradient_clipping (1e9 clips nothing)", "which the norm of all gradients tells");
    if (s.training.optimizer_in_backward)
        return refuse("set training.optimizer_in_backward to false", "which updates in the backward pass come before");
    if (s.strategy.offload.delayed_update)
        return refuse("set strategy.offload.delayed_update to false", "and a delayed update comes a step later");
    if (plan.workers != 0 || plan.steps > 1)
        return refuse("use a strategy that ends each step before the next", "and this strategy has several steps in flight");
    const GradientCompression sent = s.strategy.compresses();
    if (sent != GradientCompression::none && sent != GradientCompression::fp16 && sent != GradientCompression::bf16)
        return refuse("leave out strategy.gradient_compression", "and what compressed gradients leave out is kept for later steps");
    std::vector<char> told(static_cast<std::size_t>(plan.stages), 0);
    for (const Block& block : plan.blocks)
        if (std::any_of(block.ops.begin(), block.ops.end(), clips)) told[static_cast<std::size_t>(block.stage)] = 1;
    if (std::any_of(told.begin(), told.end(), [](char t) { return t == 0; }))
        return refuse("train parameters on every stage", "and a stage that trains nothing is not told of it");
    bool narrow = false, alone = false; // moments in fp16; parameters in fp16 without masters
    for (const Block& block : plan.blocks)
        for (const Op& op : block.ops) {
            if (!std::holds_alternative<OptimizerStep>(op.work)) continue;
            bool mastered = false, sixteen = false;
            for (const BufferId b : op.out) {
                const Buffer& x = plan.buffers[b];
                mastered = mastered || x.role == Role::master;
                sixteen = sixteen || (x.kind == MemoryKind::parameters && x.dtype == DType::fp16);
                narrow = narrow || (x.dtype == DType::fp16 && (x.role == Role::first_moment || x.role == Role::second_moment));
            }
            alone = alone || (sixteen && !mastered);
        }
    if (alone) return refuse("set training.master_weights to true", "and a small update is lost in a parameter of fp16 without a master");
    if (narrow) return refuse("set training.moment_dtype to fp32", "and second moments are too small for fp16");
    return "";
}

void scale_loss(World& world) {
    if (const std::string why = why_not_scaled(world.scenario, world.plan); !why.empty()) throw std::runtime_error(why);
    for (auto& rank : world.ranks) {
        if (!rank) continue;
        rank->scaling = std::make_unique<LossScale>();
        rank->context.scaling = rank->scaling.get();
    }
}

} // namespace

std::unique_ptr<World> make_world(const Scenario& scenario, Plan plan, DType real, std::vector<int> only, Backend machine) {
    auto world = std::make_unique<World>();
    World& w = *world;
    w.scenario = scenario;
    w.plan = has_rounds(plan) ? unrolled(plan) : std::move(plan);
    w.facts = facts_of(scenario);
    w.buckets = bucket_layouts(w.plan);
    w.real = real;
    w.machine = std::move(machine);
    refuse_machine(w.plan, w.machine);
    const int ranks = w.plan.mesh.ranks();
    if (only.empty()) {
        only.resize(ranks);
        std::iota(only.begin(), only.end(), 0);
    }
    std::vector<char> here(w.plan.programs.size(), 0); // stages: of thousands of ranks one may be all there is
    for (int r : only) here[w.plan.mesh.coordinates(r)[Axis::pp]] = 1;
    for (std::size_t s = 0; s < here.size(); ++s) w.orders.push_back(here[s] ? issue_order(w.plan, w.plan.programs[s]) : IssueOrder{});
    for (std::size_t s = 0; s < here.size(); ++s)
        w.storage.push_back(here[s] ? storage_map(w.plan, w.orders[s], w.buckets, real) : StorageMap{});
    w.members.resize(w.plan.communicators.size());
    for (std::size_t c = 0; c < w.members.size(); ++c) {
        w.members[c].resize(ranks);
        for (int r : only) w.members[c][r] = members(w.plan, static_cast<CommId>(c), r);
    }
    w.ranks.resize(ranks);
    for (int r : only) {
        const Coordinates at = w.plan.mesh.coordinates(r);
        const auto stage = static_cast<std::size_t>(at[static_cast<std::size_t>(Axis::pp)]);
        std::vector<int> part_index;
        for (const auto& of_rank : w.members) {
            const auto& list = of_rank[r];
            const auto it = std::find(list.begin(), list.end(), r);
            part_index.push_back(it == list.end() ? -1 : static_cast<int>(it - list.begin()));
        }
        KernelContext context{w.plan, w.facts, w.buckets};
        context.real = real;
        context.at = at;
        context.expert_at = expert_coordinates(w.plan, r);
        w.ranks[r] = std::make_unique<Rank>(Rank{r, static_cast<int>(stage), context,
                                                 RankMemory(w.plan, w.storage[stage], std::move(part_index), w.machine), &w.orders[stage]});
    }
    const auto tokens = static_cast<std::size_t>(w.facts.loss_tokens * w.facts.workers * w.plan.steps);
    w.losses.assign(tokens, 0);
    w.further_losses.assign(w.facts.mtp_layers > 0 ? tokens : 0, 0);
    if (real == DType::fp16) scale_loss(w);
    return world;
}

void round_storage(World& world) {
    require(world.real == DType::fp32, "storage of 16 bits is emulated in fp32");
    for (auto& rank : world.ranks)
        if (rank) rank->context.rounds = true;
    if (world.scenario.training.precision == DType::fp16) scale_loss(world);
}

void move_loss_scale(World& world, bool alone) {
    bool least = false;
    for (auto& rank : world.ranks) {
        if (!rank || !rank->scaling) continue;
        if (world.facts.optimizer.holds)
            rank->scaling->checked = rank->scaling->overflowed = false;
        else
            least = !move_on(*rank->scaling) || least;
    }
    if (least && !alone)
        throw NotFinite(fmt::format("training has failed at step {}: gradients overflow fp16 though the loss is not scaled any more: try a "
                                    "smaller training.learning_rate, or training.precision = bf16",
                                    world.first_step),
                        true);
}

const LossScale* loss_scale(const World& world) {
    for (const auto& rank : world.ranks)
        if (rank && rank->scaling) return rank->scaling.get();
    return nullptr;
}

void share_kernels(World& world, int threads) {
    for (auto& rank : world.ranks) {
        if (!rank) continue;
        rank->team = threads > 1 ? std::make_unique<Team>(threads) : nullptr;
        rank->context.team = rank->team.get();
    }
}

void initialise(World& world) {
    const std::map<BufferId, BufferId> homes = homes_on_disk(world.plan);
    for (auto& rank : world.ranks) {
        if (!rank) continue;
        for (std::size_t b = 0; b < world.plan.buffers.size(); ++b) {
            const Buffer& x = world.plan.buffers[b];
            const auto id = static_cast<BufferId>(b);
            const bool here = x.stage == rank->stage && x.kind == MemoryKind::parameters && x.role != Role::secondary_shard &&
                              rank->memory.block(id, -1) != nullptr;
            if (!here) continue;
            if (const BucketLayout* layout = world.buckets.find(id); layout && layout->shard > 0)
                initialise_shard(*rank, *layout, id, world);
            else
                initialise(rank->memory.operand(id, -1), rank->context);
        }
        for (const Issue& i : rank->order->issues)
            if (std::holds_alternative<OptimizerStep>(i.op->work))
                initialise_master(*rank, *i.op, homes, world);
            else if (const auto* c = std::get_if<Compress>(&i.op->work); c && c->part == Compress::Part::project)
                initialise_factors(*c, rank->memory.operand(i.op->in[1], -1), rank->context);
    }
    initialise_common(world);
}

void initialise_common(World& world) {
    const std::map<BufferId, BufferId> homes = homes_on_host(world.plan);
    for (auto& rank : world.ranks) {
        if (!rank) continue;
        for (const Issue& i : rank->order->issues) {
            const auto* p = std::get_if<Pointwise>(&i.op->work);
            const auto* c = std::get_if<Compress>(&i.op->work);
            if ((p && p->kind == PointwiseKind::difference) || (c && c->part == Compress::Part::feed_drift))
                initialise_outer(*rank, *i.op, homes, world.real);
        }
    }
}

std::int64_t first_sequence(const World& world, const Coordinates& at, std::int32_t microbatch) {
    const Mesh& mesh = world.plan.mesh;
    std::int64_t ranks = 1, here = 0;
    for (const Axis a : {Axis::dp, Axis::dpr, Axis::dpw}) {
        here += at[a] * ranks;
        ranks *= mesh.extent(a);
    }
    return (microbatch * ranks + here) * world.facts.micro_batch;
}

void set_place(const World& world, const Issue& issue, KernelContext& context) {
    if (issue.microbatch >= 0) context.first_sequence = first_sequence(world, context.at, issue.microbatch);
    // Where several steps flow into each other, each has microbatches of its own.
    context.step = world.first_step + (issue.microbatch >= 0 ? issue.microbatch * world.plan.steps / world.plan.microbatches : issue.step);
}

namespace {

// Where workers have samples of their own, they go through these over and over: the corpus has one worker's behind another's. slot: of the
// round that begins with `step`, as first_sequence() counts.
std::int64_t own_sample(const World& world, std::int64_t step, std::int64_t slot) {
    const std::vector<int>& samples = world.scenario.strategy.synchronization.samples;
    const auto workers = static_cast<std::int64_t>(samples.size());
    const std::int64_t micro = world.facts.micro_batch, ranks = world.scenario.strategy.data_parallel, of_worker = ranks / workers,
                       rank = slot / micro % ranks, worker = rank / of_worker,
                       so_far = step * world.scenario.training.global_batch_size / workers,
                       in_round = (slot / micro / ranks * of_worker + rank % of_worker) * micro;
    const std::int64_t before = std::accumulate(samples.begin(), samples.begin() + worker, std::int64_t{0});
    return before + (so_far + in_round + slot % micro) % samples[worker];
}

// Sequences from `first` on of the corpus, as the batches of a round that begins with `step`.
void load_sequences(World& world, const Corpus& corpus, std::int64_t first, std::int64_t step) {
    const std::int64_t batch = world.scenario.training.global_batch_size * world.plan.steps, length = world.facts.sequence;
    world.first_step = step;
    const std::int64_t stride = length + 1 + world.facts.mtp_layers;
    std::vector<std::int64_t> sequences(static_cast<std::size_t>(batch * stride));
    const bool own = !world.plan.shares.empty() && !corpus.holding;
    for (std::int64_t i = 0; i < batch; ++i)
        read_sequence(corpus, own ? own_sample(world, step, i) : first + i,
                      std::span(sequences).subspan(i * stride, static_cast<std::size_t>(stride)));
    for (auto& rank : world.ranks) {
        if (!rank) continue;
        rank->context.step = step;
        const int context_rank = rank->context.at[Axis::cp];
        for (std::size_t b = 0; b < world.plan.buffers.size(); ++b) {
            const Buffer& x = world.plan.buffers[b];
            if (x.stage != rank->stage || x.role != Role::batch) continue;
            auto* data = reinterpret_cast<std::int64_t*>(rank->memory.block(static_cast<BufferId>(b), -1));
            const std::int64_t rows = elements(x), ahead = x.ahead;
            for (std::int32_t m = 0; m < world.plan.microbatches; ++m)
                for (std::int64_t i = 0; i < rows; ++i) {
                    const Token t = token_of(world.facts, context_rank, i);
                    const std::int64_t sequence = first_sequence(world, rank->context.at, m) + t.sequence;
                    data[m * rows + i] = sequences[sequence * stride + t.position + ahead];
                }
        }
    }
}

} // namespace

void load_batch(World& world, const Corpus& corpus, std::int64_t step) {
    load_sequences(world, corpus, step * world.scenario.training.global_batch_size, step);
}

void load_held_batch(World& world, Corpus corpus, std::int64_t index) {
    corpus.holding = true;
    load_sequences(world, corpus, index * world.scenario.training.global_batch_size, world.first_step);
}

void hold(World& world, bool holding) {
    world.facts.optimizer.holds = holding;
    world.facts.dropout = holding ? 0 : world.scenario.model.dropout;
}

const char* keeps_more(const World& world) {
    if (world.plan.workers != 0) return "workers have weights of their own between their meetings";
    if (world.plan.steps > 1) return "several steps are in flight at a time";
    if (world.scenario.strategy.offload.delayed_update) return "a step's gradients are kept for the next step's update";
    if (world.scenario.strategy.compresses() != GradientCompression::none)
        return "what compressed gradients leave out is kept for later steps";
    return "";
}

// Each token's loss where it stands in the batch: whatever rank makes it, the mean is summed in the same order. Tensor-parallel ranks
// make the same ones.
void note_loss(World& world, const Rank& rank, const Issue& issue, const Operand& loss) {
    if (rank.context.at[Axis::tp] != 0) return;
    const std::int64_t rows = elements(*loss.buffer), length = world.facts.sequence;
    const std::vector<Token> tokens = tokens_of(rank.context, *loss.buffer, rows);
    const CrossEntropy& work = std::get<CrossEntropy>(issue.op->work);
    const bool further = work.ahead > 1;
    for (std::int64_t i = work.first; i < work.first + work.tokens; ++i) {
        const Token& t = tokens[i];
        const auto index = static_cast<std::size_t>((rank.context.first_sequence + t.sequence) * length + t.position);
        (further ? world.further_losses : world.losses)[index] = read_element(loss.data, i, stored_type(loss.buffer->dtype, world.real));
    }
}

bool makes_loss(const Op& op) {
    const auto* loss = std::get_if<CrossEntropy>(&op.work);
    return loss && loss->part == CrossEntropy::Part::loss;
}

void run_op(World& world, Rank& rank, const Issue& issue, std::span<const Operand> in, std::span<const Operand> out) {
    const Op& op = *issue.op;
    if (std::holds_alternative<HostSync>(op.work) || std::holds_alternative<HostWork>(op.work)) return;
    if (std::holds_alternative<Copy>(op.work)) {
        const std::int64_t bytes = elements(*in[0].buffer) * static_cast<std::int64_t>(stored_bytes(in[0].buffer->dtype, world.real));
        std::memcpy(out[0].data, in[0].data, static_cast<std::size_t>(bytes));
        return;
    }
    set_place(world, issue, rank.context);
    watch_before(world, rank, issue, in);
    world.machine.kernel(op, in, out, rank.context);
    watch_after(world, rank, issue, out, in);
    if (clips(op)) {
        const double squares = read_element(in[0].data, 0, stored_type(in[0].buffer->dtype, world.real));
        rank.gradient_norm = std::sqrt(squares) / loss_factor(rank.context);
        note_overflow(world, rank, out[0]);
        if (leaves_out_update(rank.context)) rank.gradient_norm = -1; // nobody knows it
    }
    if (makes_routing(op)) note_routing(rank, issue, out[2]);
    if (makes_loss(op)) note_loss(world, rank, issue, out[0]);
}

bool clips(const Op& op) {
    const auto* p = std::get_if<Pointwise>(&op.work);
    return p && p->kind == PointwiseKind::clip;
}

void note_overflow(const World& world, Rank& rank, const Operand& factor) {
    if (!rank.scaling) return;
    rank.scaling->checked = true;
    rank.scaling->overflowed = read_element(factor.data, 0, stored_type(factor.buffer->dtype, world.real)) == 0;
}

bool makes_routing(const Op& op) {
    const auto* router = std::get_if<Router>(&op.work);
    return router && router->direction == Direction::forward && op.phase == Phase::forward;
}

void note_routing(Rank& rank, const Issue& issue, const Operand& counts) {
    std::vector<std::int64_t>& sum = rank.routed[issue.op->layer];
    const auto* rows = reinterpret_cast<const std::int64_t*>(counts.data);
    sum.resize(elements(*counts.buffer));
    for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += rows[e];
}

std::vector<std::int64_t> routed(const World& world) {
    const auto experts = static_cast<std::size_t>(world.facts.moe.experts);
    std::vector<std::int64_t> sums(static_cast<std::size_t>(world.facts.layers) * experts, 0);
    for (const auto& rank : world.ranks) {
        if (!rank) continue;
        for (const auto& [layer, counts] : rank->routed)
            for (std::size_t e = 0; e < counts.size() && layer < world.facts.layers; ++e)
                sums[static_cast<std::size_t>(layer) * experts + e] += counts[e]; // others are of further tokens
    }
    return sums;
}

std::vector<std::vector<std::int64_t>> routed_loads(const World& world, const std::vector<std::int64_t>& sums) {
    std::vector<std::vector<std::int64_t>> loads;
    const auto experts = static_cast<std::ptrdiff_t>(world.facts.moe.experts);
    for (auto at = sums.begin(); at != sums.end(); at += experts) // a layer with experts has chosen some
        if (std::any_of(at, at + experts, [](std::int64_t n) { return n > 0; })) loads.emplace_back(at, at + experts);
    return loads;
}

double mean_loss(const World& world) {
    double sum = 0;
    for (double l : world.losses) sum += l;
    return sum / static_cast<double>(world.losses.size());
}

} // namespace orrery
