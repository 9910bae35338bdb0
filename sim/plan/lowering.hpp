// The state that passes share: the growing plan and its sources. Internal to lowering; interpreters see only the Plan.
#pragma once

#include "sim/graph/graph.hpp"
#include "sim/plan/draft.hpp"
#include "sim/plan/passes/buckets.hpp"
#include "sim/plan/plan.hpp"
#include "sim/scenario/practice.hpp"
#include "sim/schedules/schedule.hpp"

#include <map>
#include <string>
#include <vector>

namespace orrery {

// A parameter tensor on one stage. Tied embeddings are one Parameter where both ends share a stage.
struct Parameter {
    TensorId tensor = -1;
    BufferId weight = -1, gradient = -1;
    std::int64_t elements = 0; // local to a rank, data parallelism aside
    int stage = 0, chunk = 0, unit = 0;
    bool matrix = false; // a GEMM's operand (cast to fp8 where that is the precision)
    bool expert = false; // of the experts: divided and reduced over their own mesh
    bool trained() const { return gradient >= 0; }
};

// The blocks of a chunk and the buffers at its ends.
struct ChunkBlocks {
    std::int32_t forward = -1;
    std::int32_t backward = -1;                         // whole, or the input-gradient part where the schedule splits
    std::int32_t weight = -1;                           // the weight-gradient part; -1: in backward
    BufferId input = -1, output = -1;                   // activations received and sent
    BufferId output_gradient = -1, input_gradient = -1; // gradients received and sent
};

struct Lowering {
    const Scenario& scenario;
    const ScheduleInfo* schedule = nullptr;
    Plan plan{};
    Indexed<std::int16_t, Graph> graphs{};                                // by chunk
    Indexed<std::int16_t, ChunkBlocks> chunks{};                          // by chunk
    Indexed<std::int16_t, Indexed<std::int32_t, Parameter>> parameters{}; // by stage
    std::map<BufferId, BufferId> homes{}; // on the host, of parameters and gradients that live there (offload_shards.cpp)
    std::map<BufferId, BufferId> disks{}; // on NVMe, of those of `homes` that are on the host for a while only
    std::vector<BufferId> leaving{};      // activations that may leave the device between the passes (offload_activations.cpp)
    DataParallel data_parallel{};
    Indexed<std::int16_t, Draft> drafts{}; // by stage
    std::map<std::string, CommId> comm_ids{};
    std::map<std::string, TensorId> tensor_ids{};    // by name
    const Practice practice = practice_of(scenario); // of the software that runs it
    bool skips_repeats = true;                       // passes/bind.cpp: false looks at each action, where they repeat too
    std::vector<BufferId> cached_casts{};            // of weights: alive until the forward pass ends, or longer

    int tp() const { return scenario.strategy.tensor_parallel; }
    // The chunk's weight block has the gradient of the output layer alone (strategy.deferred_output_gradients).
    bool defers_output(int chunk) const { return !schedule->splits_backward && chunks[chunk].weight >= 0; }
    CommId comm(const std::string& name) const { return comm_ids.at(name); }
    TensorId tensor(const Value& parameter); // makes it where it is new
    // The stages that share a communicator for the copies of a chunk come to its collectives in this order.
    std::vector<int> chunks_in_model_order() const;
    Buffer& buffer(BufferId b) { return plan.buffers[b]; }
    BufferId add(Buffer b) { return plan.buffers.add(std::move(b)); }
    std::int32_t add(Block b) { return plan.blocks.add(std::move(b)); }
    CommId add_communicator(std::string name, AxisMask axes, std::vector<std::int16_t> stages = {});
    CommId add_expert_communicator(std::string name, AxisMask axes); // axes of the experts' mesh
};

// For a chunk that has been emitted, by value: notes in Lowering::leaving what strategy.offload names.
void note_leaving(Lowering& l, const Graph& g, const std::vector<BufferId>& forward_buffers);

// The stages that hold the embedding, in order, where there are several: its gradient is the sum of theirs. (Copies of the model that run
// in several directions are summed as a whole.)
std::vector<std::int16_t> stages_of_embedding(const Lowering& l);

// Modules of the software that a linear of the plan stands for: queries, keys and values, and gate and up, are one product here and a
// linear each in much software.
std::uint8_t modules_of(const Lowering& l, const Node& linear);

DType activation_dtype(const Scenario& scenario);

// Whether the host must know how many rows experts have before it can launch what works on them.
bool host_waits_for_counts(const Scenario& scenario);

void set_dtype(Buffer& b, DType dtype); // and its bytes

// Elements, local to a rank.
std::int64_t elements_of(const Buffer& b);
std::int64_t elements_of(const Lowering& l, const std::vector<BufferId>& buffers); // of all of them

} // namespace orrery
