// A stage's program as the list its ranks issue: one step an op, bound to its microbatch, with every dependency as an earlier step.
// Dependencies on the previous training step are left out: executors finish a step before they begin the next.
#pragma once

#include "sim/plan/plan.hpp"

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace orrery {

struct Issue {
    const Op* op = nullptr;
    std::int32_t block = 0, index = 0; // the op in its block
    std::int32_t action = 0;           // in its program
    std::int32_t microbatch = -1;
    std::int32_t step = 0;                     // of a round of several training steps: which one
    std::int32_t deps_begin = 0, deps_end = 0; // in IssueOrder::deps
    std::int32_t transfers_begin = -1;         // of an exchange: in IssueOrder::ordinals and microbatches, one each
};

struct IssueOrder {
    std::int16_t stage = 0;
    std::vector<Issue> issues;
    std::vector<std::int32_t> deps;         // indices of issues
    std::vector<std::int32_t> ordinals;     // of each transfer: its number on its communicator in this step
    std::vector<std::int32_t> microbatches; // of each transfer
    std::span<const std::int32_t> deps_of(const Issue& i) const { return {deps.data() + i.deps_begin, deps.data() + i.deps_end}; }
};

IssueOrder issue_order(const Plan& plan, const Program& program);

// Tensors of a bucket whose storages an executor lays side by side, so that one collective moves them as they lie: parameters that one
// action allocates, gradients that are allocated one after the other. Their room is free when the last of them is.
struct BucketRoom {
    std::int32_t begin = 0;  // parameters: the action; gradients: the first of the allocations
    std::int32_t bucket = 0; // in Plan::buckets
    bool gradients = false;
    auto operator<=>(const BucketRoom&) const = default;
};
// With what the storage of `b`, which the issue `alloc` allocates, lies side by side; nothing: it lies alone.
std::optional<BucketRoom> bucket_room(const Plan& plan, const IssueOrder& order, std::int32_t alloc, BufferId b);

// The queues an op occupies: its own, and of an exchange those of all its transfers; each once.
std::vector<QueueId> queues_of(const Op& op);

// "l0.qkv of F0 (action 3)", in the simulator's words
std::string place(const Plan& plan, const Issue& issue);

} // namespace orrery
