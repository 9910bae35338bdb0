// A stage's program as it grows: arrange.cpp puts the schedule's steps and exchanges there, weave.cpp the data-parallel blocks between
// them. Internal to these two.
#pragma once

#include "sim/plan/passes/data_parallel.hpp"
#include "sim/plan/passes/exchange.hpp"
#include "sim/plan/passes/exchange_blocks.hpp"

#include <map>
#include <string>
#include <vector>

namespace orrery {

// One stage's program as it grows.
struct Weaver {
    Lowering& l;
    const DataParallel& dp;
    int stage;
    const std::vector<ProgramStep>& steps;
    Program program;
    std::map<std::string, ExchangeBlocks>& exchange_blocks;

    std::int32_t push(std::int32_t block, std::int32_t first, std::int32_t last, std::array<std::int32_t, max_ports> mb) {
        Action a;
        a.block = block;
        a.first = first;
        a.last = last;
        a.microbatch = mb;
        program.actions.push_back(a);
        return static_cast<std::int32_t>(program.actions.size()) - 1;
    }
    std::int32_t push_block(std::int32_t block) {
        return push(block, 0, static_cast<std::int32_t>(l.plan.blocks[static_cast<std::size_t>(block)].ops.size()), {-1, -1, -1, -1});
    }
    std::vector<ExplicitDep> explicit_deps;
    // `op` of `action` waits for the last timed op of an earlier action.
    void wait_for_action(std::int32_t action, std::int32_t op, std::int32_t on) {
        const Action& a = program.actions[static_cast<std::size_t>(on)];
        const Block& b = l.plan.blocks[static_cast<std::size_t>(a.block)];
        for (std::int32_t i = a.last; i-- > a.first;)
            if (!is_memory_op(b.ops[static_cast<std::size_t>(i)].work)) {
                explicit_deps.push_back({action, {op, on, i}});
                return;
            }
    }

    std::int32_t first_timed_op(std::int32_t block) const {
        const Block& b = l.plan.blocks[static_cast<std::size_t>(block)];
        for (std::size_t i = 0; i < b.ops.size(); ++i)
            if (!is_memory_op(b.ops[i].work)) return static_cast<std::int32_t>(i);
        return 0;
    }

    std::int32_t first_timed_op(std::int32_t block, std::int32_t first, std::int32_t last) const {
        const Block& b = l.plan.blocks[static_cast<std::size_t>(block)];
        for (std::int32_t i = first; i < last; ++i)
            if (!is_memory_op(b.ops[static_cast<std::size_t>(i)].work)) return i;
        return -1;
    }

    // Received in parts, ahead of the step that uses it: made whole right before that.
    struct Received {
        TransferStep transfer;
        std::int32_t block;
        std::array<std::int32_t, max_ports> microbatch;
    };
    std::vector<Received> to_gather;
    void gather_received(const ScheduleStep& step);

    void exchange(const ProgramStep& step);
    void run();

    // A compute step as blocks: one, or the two halves of a backward step where blocks are split. Joined steps are on ports of their own.
    struct Part {
        StepKind kind;
        std::size_t index;
        std::int32_t block;
        std::uint8_t port;
    };
    void add_parts(std::vector<Part>& parts, std::size_t index, std::uint8_t port) const;
    std::size_t compute(std::size_t index); // the number of steps it has run
    void run_part(const Part& part);
    void run_together(const std::vector<Part>& parts);
    void push_joined(const std::vector<Part>& parts);
    std::map<std::string, std::int32_t> overlapped_blocks;

    // Which data-parallel blocks stand before, in or after a part.
    struct Woven {
        bool reduce_run = false, reduce_step = false; // reduces buckets each run; those of a whole step
        bool gather = false, release = false, acquire = false;
        bool any() const { return reduce_run || reduce_step || gather || release || acquire; }
    };
    Woven woven(const Part& part) const;

    // The stages that share a communicator for the copies of a chunk come to its collectives in this order.
    std::vector<int> chunks_in_model_order() const {
        std::vector<int> order;
        const int length = static_cast<int>(l.chunks.size()) / l.plan.directions;
        for (int c = 0; c < length; ++c)
            for (int direction = 0; direction < l.plan.directions; ++direction) order.push_back(direction * length + c);
        return order;
    }

    // Where a part stands in its run: consecutive steps of its kind on its chunk, at most `stages` long, of one where a rank has one
    // chunk. Data-parallel blocks that repeat within a step do so once a run.
    struct RunPosition {
        bool starts, ends, last_of_chunk;
    };
    RunPosition run_position(const Part& part) const;
    // The number of each compute step among those of its chunk: forwards, or steps that begin a backward; and steps that end one.
    std::vector<std::size_t> position, completed;
    void number_steps();

    // How many runs use a bucket's gathered weights now, and how many will still add to its gradients: runs of different chunks and
    // directions overlap, and tied embeddings belong to a bucket of one chunk and are used by another.
    struct Use {
        int weights = 0, gradients = 0;
    };
    std::map<const Bucket*, Use> uses;
    std::map<BufferId, const Bucket*> bucket_of_buffer; // of parameters and gradients
    void find_buckets();
    std::vector<const Bucket*> added_to(int chunk); // the chunk's own, and those its backward blocks touch

    // Pieces of a block, one a unit or, where large weights are buckets of their own, one for each of these; in its own order (backward
    // blocks run their units last to first). The buckets each touches: whose weights it wants gathered, and whose gradients it makes.
    // again: of the unit of the piece before, whose parameters are released and gathered anew between the two.
    struct Piece {
        std::int32_t first, last;
        int unit;
        std::vector<const Bucket*> weights, gradients;
        bool again = false;
    };
    std::map<std::int32_t, std::vector<Piece>> pieces_of_block;
    const std::vector<Piece>& pieces_of(std::int32_t block, int chunk);
    bool gathers_behind_recomputation() const;
    std::int32_t behind_recomputation(const Block& block, std::int32_t begin, std::int32_t end) const;
    void cut_by_weight(const Block& block, const Piece& unit, std::vector<Piece>& pieces) const;
    // Calls f with each bucket whose weights or gradients the op touches, and the buffer.
    template <class F> void each_bucket(const Op& op, F&& f) const {
        for (const auto* list : {&op.in, &op.out})
            for (BufferId id : *list)
                if (const auto found = bucket_of_buffer.find(id); found != bucket_of_buffer.end()) f(found->second, id);
    }
};

} // namespace orrery
