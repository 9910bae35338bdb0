// A plan ready to run: for the ranks of this process their memory, what they issue, what kernels must know. Executors move it on by steps.
#pragma once

#include "exec/kernels/buckets.hpp"
#include "exec/kernels/facts.hpp"
#include "exec/kernels/loss_scale.hpp"
#include "exec/kernels/machine.hpp"
#include "exec/kernels/team.hpp"
#include "exec/runtime/corpus.hpp"
#include "exec/runtime/storage.hpp"
#include "sim/plan/issue_order.hpp"
#include "sim/plan/plan.hpp"
#include "sim/scenario/parse.hpp"

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace orrery {

struct Rank {
    int rank = 0, stage = 0;
    KernelContext context;
    RankMemory memory;
    const IssueOrder* order;
    double gradient_norm = -1;                         // of all gradients, as the last step clipped them; < 0: not known here
    std::map<int, std::vector<std::int64_t>> routed{}; // by layer with experts: tokens each expert was chosen for, since the world was made
    std::unique_ptr<Team> team{};                      // shares its kernels; null: they are one thread's
    std::unique_ptr<LossScale> scaling{};              // of a training in fp16; null: the loss is not scaled
};

// Which results must be numbers: none is looked at; the losses, and the gradients an optimizer takes; every op's.
enum class Watch : std::uint8_t { nothing, ends, all };
// Names step, rank, op, tensor and element; or the loss, which all ranks know.
struct NotFinite : std::runtime_error {
    explicit NotFinite(const std::string& what, bool known_to_all = false) : std::runtime_error(what), all_know(known_to_all) {}
    bool all_know;
};

struct World {
    Scenario scenario;
    Plan plan;                   // a round unrolled: Plan::steps training steps
    std::int64_t first_step = 0; // of the round whose batch is loaded
    KernelFacts facts;
    BucketLayouts buckets;
    DType real = DType::fp32;
    Backend machine;                                    // whose memory it is, and who computes
    std::vector<IssueOrder> orders;                     // by stage; of stages with a rank here
    std::vector<StorageMap> storage;                    // the same
    std::vector<std::unique_ptr<Rank>> ranks;           // by rank; null: not of this process
    std::vector<std::vector<std::vector<int>>> members; // by communicator and rank of this process; empty: not a member
    std::vector<double> losses;                         // of the step's tokens, by sequence and position
    Watch watch = Watch::nothing;
    bool notes_routing = true;          // Rank::routed; executors that must fetch it from a device may be spared
    std::vector<double> further_losses; // of further tokens (multi-token prediction): their sum

    Rank& rank(int r) { return *ranks[r]; }
    const Rank& rank(int r) const { return *ranks[r]; }
};

// A correct scenario asks for something that can be simulated but not run here.
// forced_routing: experts take rows in numbers that are known, as tests of agreement have it.
std::vector<Problem> not_executable(const Scenario& scenario, bool forced_routing = false);

// The plan that runs here: lowered, and with what is in flight bounded (sim/plan/in_flight.hpp).
Plan executed_plan(const Scenario& scenario);
// The same for a router's own choices, whose numbers nobody knows beforehand: where no capacity bounds them, experts' buffers have room for
// a multiple of their mean rows (runtime.expert_room). Work and times are those of the mean, except for kernels over whole buffers.
Plan routed_plan(const Scenario& scenario);
bool leaves_expert_room(const Scenario& scenario); // whether the two may differ

// Takes the executed plan of the scenario, whose experts take rows in known numbers; real: fp32 or fp64, what every floating buffer holds,
// or bf16 or fp16, where each holds what the plan says. In fp16 the loss is scaled; throws std::runtime_error where that cannot be.
// only: the ranks of this process; empty: all of them.
std::unique_ptr<World> make_world(const Scenario& scenario, DType real, std::vector<int> only = {}, Backend machine = cpu_machine());
std::unique_ptr<World> make_world(const Scenario& scenario, Plan plan, DType real, std::vector<int> only = {},
                                  Backend machine = cpu_machine());

// Storage as the plan has it: from now on bf16 and fp16 buffers hold what such numbers can. Before initialise; of a world in fp32. Where
// the training is in fp16 its loss is scaled; throws std::runtime_error where that cannot be.
void round_storage(World& world);

// Behind every step of an executor: the loss's factor for the next one (exec/kernels/loss_scale.hpp). Throws NotFinite, which all ranks
// know, where gradients overflow fp16 though the loss is not made larger. Does nothing where it is not scaled, or while a world holds.
// alone: of one rank whose partners' numbers are made up (a replay): an overflow is none of the training's, and nothing is thrown.
void move_loss_scale(World& world, bool alone = false);
// Of any rank of this process; null: the loss is not scaled.
const LossScale* loss_scale(const World& world);

// From now on this number of threads shares the kernels of each rank of this process. For processors only.
void share_kernels(World& world, int threads);

// First values of every parameter and master weight, by tensor and global index; moments are zero.
void initialise(World& world);
// The workers' common start: the parameters as they are.
void initialise_common(World& world);

// Token ids and labels of a round of training steps, whose first is `step`, into every rank's buffers.
void load_batch(World& world, const Corpus& corpus, std::int64_t step);
// The index-th batch of the corpus's held part, in place of a step's: its mean loss follows from the next step, which must be `holding`.
void load_held_batch(World& world, Corpus corpus, std::int64_t index);
// From now on steps change nothing that stays, and drop nothing out: what they bring is the loss. Not of plans whose steps keep more than
// the optimizer does (keeps_more).
void hold(World& world, bool holding);
// Plans that hold() cannot stop: workers between their meetings, errors of compressed gradients, several steps in flight. Empty: it can.
const char* keeps_more(const World& world);
std::int64_t first_sequence(const World& world, const Coordinates& at,
                            std::int32_t microbatch); // in the round's global batches, one behind the other
// Makes a context that of an issue's op: where its microbatch stands in the batch, and which step it is of.
void set_place(const World& world, const Issue& issue, KernelContext& context);

// Runs an op that is neither communication nor memory, and notes the loss where the op makes one. Throws NotFinite, where the world
// watches.
void run_op(World& world, Rank& rank, const Issue& issue, std::span<const Operand> in, std::span<const Operand> out);

// For an op that makes losses: each token's loss, at the token's place in the batch. rank.context belongs to the op's microbatch.
void note_loss(World& world, const Rank& rank, const Issue& issue, const Operand& loss);
bool makes_loss(const Op& op);
// For a router's forward op that is not recomputed: its counts (its third result).
void note_routing(Rank& rank, const Issue& issue, const Operand& counts);
bool makes_routing(const Op& op);
// For an op that clips gradients: its factor (its first result), which says where those of a scaled loss have overflowed.
void note_overflow(const World& world, Rank& rank, const Operand& factor);
bool clips(const Op& op);

// Rank::routed of all ranks of this process, by the model's layers and experts; zero where nobody here routes: processes' sums are the
// job's.
std::vector<std::int64_t> routed(const World& world);
// As a scenario takes it (model.moe.imbalance, a file): a list a mixture layer in model order.
std::vector<std::vector<std::int64_t>> routed_loads(const World& world, const std::vector<std::int64_t>& sums);

double mean_loss(const World& world); // over the round's tokens, in their order

} // namespace orrery
