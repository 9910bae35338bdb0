// Shared by the rules of verify.cpp: facts about buffers, the effects of each distinct range of a block, and the list of findings.
// Internal to verification; a file verify_*.cpp for each group of rules.
#pragma once

#include "sim/plan/verify.hpp"
#include "topology/at.hpp"
#include "topology/mix.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace orrery::verification {

// Violations, the first few of each rule: a broken plan breaks the same rule everywhere.
class Findings {
  public:
    explicit Findings(const Plan& plan) : plan_(plan) {}
    void add(const char* rule, std::string where, std::string what);
    bool empty() const { return list_.empty(); }
    std::vector<Violation> take();

  private:
    const Plan& plan_;
    std::vector<Violation> list_;
    std::map<std::string, int> count_;
};

std::string place(const Plan& plan, const Block& block, std::int32_t op); // "F3, op l17.qkv"
std::string place(const Plan& plan, const Program& program, std::int32_t action,
                  std::int32_t op = -1); // "stage 0, action 17 (F3 microbatch 4), op l17.qkv"

// Facts of each buffer that many rules ask for.
struct Facts {
    std::vector<BufferId> root;          // the buffer whose storage it is
    std::vector<std::int32_t> ids_begin; // by root: where in `ids` its storage's names stand
    std::vector<BufferId> ids;
    std::vector<std::uint8_t> per_microbatch; // one instance per microbatch; else one per rank
    std::vector<std::uint8_t> alive_at_start, written_at_start;
    AxisMask wide[2] = {0, 0}; // axes of more than one rank: of the mesh, of the experts' mesh
};
Facts facts_of(const Plan& plan);

// Buffers, communicators, queues, dependencies and ranges exist; every other rule relies on it.
void check_structure(const Plan& plan, Findings& findings);

// Tensors and buckets (verify_buckets.cpp).
void check_buckets(const Plan& plan, Findings& findings);

// Each op's placements (verify_placements.cpp).
void check_placements(const Plan& plan, const Facts& facts, Findings& findings);

// Every buffer an op touches, reads before writes, with the port whose microbatch it is of: f(id, port, write). A send of a slice
// reads what it is a slice of; a shard in place is a part of any of its bucket's tensors.
template <class F> void each_access(const Plan& plan, const Op& op, F&& f) {
    const auto* exchange = std::get_if<Exchange>(&op.work);
    if (!exchange) {
        const auto touch = [&](BufferId b, bool write) {
            f(b, op.port, write);
            each_further_storage(plan, b, [&](BufferId at) { f(at, op.port, write); });
        };
        for (BufferId b : op.in) touch(b, false);
        for (BufferId b : op.out) touch(b, true);
        return;
    }
    for (const Transfer& t : exchange->transfers) {
        if (!t.send) continue;
        const Buffer& b = plan.buffers[at(t.buffer)];
        f(b.part_of >= 0 ? b.storage : t.buffer, t.port, false);
    }
    for (const Transfer& t : exchange->transfers)
        if (!t.send) f(t.buffer, t.port, true);
}

// The effects of a range on one buffer, as seen from outside.
enum EffectBits : std::uint8_t {
    needs_written = 1,
    needs_alive = 2,
    needs_dead = 4,
    ends_written = 8,
    ends_unwritten = 16,
    ends_alive = 32,
    ends_dead = 64
};
struct Effect {
    BufferId id;
    std::uint8_t port, bits;
};

using QueueMask = std::uint64_t; // of a stage's own numbering of queues

// An access of a storage: `waited` are the queues that its op has waited for within the range.
struct Touch {
    std::int32_t storage;
    std::int32_t op;
    QueueMask queues, waited;
    std::uint8_t port;
    bool write;
};

// At the end of a range, queue `to` has waited for op `op` of queue `from`.
struct Wait {
    std::int8_t to, from;
    std::int32_t op;
};

struct Accumulation {
    BufferId gradient;
    std::int32_t op;
};

struct Range {
    std::int32_t block = 0, first = 0, last = 0;
    std::vector<Effect> effects;
    // For storages that several queues of the stage use. Earlier ops meet the entries: all up to a storage's first
    // write. Later ops meet the exits: its last write and the reads since.
    std::vector<Touch> entries, exits;
    std::vector<Wait> waits;
    std::vector<Accumulation> accumulations; // into gradients
};

// A stage's program as ranges.
struct Stage {
    const Program* program = nullptr;
    std::vector<Range> ranges;
    std::vector<std::int32_t> range_of;   // by action
    std::vector<std::int8_t> queue_index; // by queue of the plan: the stage's own number, -1
    int queues = 0;
    std::vector<std::vector<QueueMask>> queues_of_op; // by block and op; 0: takes no time
};

// Distinct ranges of a stage, each checked once: hazards, reads of what is not there, allocations (verify_ranges.cpp).
std::vector<Stage> check_ranges(const Plan& plan, const Facts& facts, Findings& findings);

// The program as a whole.
void check_lifetimes(const Plan& plan, const Facts& facts, const Stage& stage, Findings& findings);               // verify_lifetimes.cpp
void check_order(const Plan& plan, const Facts& facts, const Stage& stage, Findings& findings);                   // verify_order.cpp
void check_gradients(const Plan& plan, const Facts& facts, const std::vector<Stage>& stages, Findings& findings); // verify_gradients.cpp
void check_transfers(const Plan& plan, Findings& findings);                                                       // verify_transfers.cpp
void check_meeting(const Plan& plan, const std::vector<Stage>& stages, Findings& findings);                       // verify_meeting.cpp

void check_rounds(const Plan& plan, Findings& findings);   // verify_rounds.cpp
void check_versions(const Plan& plan, Findings& findings); // verify_versions.cpp

} // namespace orrery::verification
