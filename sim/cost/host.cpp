// Host time to issue an op: its launches and, in software that runs module by module in Python, the call around them. A captured
// graph replays without either, but for what no graph can hold (Op::eager); beside that, each captured region is a call.
//
//   host = launch kernels + call(kind, direction) + [8 bits] low + experts (expert + [8 bits] low_expert)
#include "sim/cost/data.hpp"

#include "topology/overloaded.hpp"

#include <algorithm>

namespace orrery {
namespace {

struct Call {
    const char* kind; // of CallTable::calls; nullptr: none
    bool backward = false, low = false;
    std::int64_t experts = 0;
};

// The weight gradient of a linear is issued by the call that makes its input gradient; casts by the call of the linear they are for. Ring
// attention is one module whatever its steps: the rank's own block pays for it, each other block for a kernel of the library called from
// inside (as a linear's; assumed), and what merges them for launches alone.
Call call_of(const Op& op, bool experts) {
    const auto of = [](const char* kind, Direction d) { return Call{kind, d != Direction::forward}; };
    return std::visit(Overloaded{
                          [&](const Linear& w) {
                              if (w.direction == Direction::weight_gradient) return Call{nullptr};
                              return Call{w.groups > 1 ? "experts" : "linear", w.direction != Direction::forward, is_low(w.dtype),
                                          w.groups > 1 ? w.groups : 0};
                          },
                          [&](const Attention& w) { return of(w.behind > 0 ? "linear" : "attention", w.direction); },
                          [&](const Softmax& w) { return of("attention", w.direction); }, // the same module, unfused
                          [&](const Norm& w) { return of("norm", w.direction); },
                          [&](const Pointwise& w) {
                              return w.epilogue || w.kind == PointwiseKind::cast || w.kind == PointwiseKind::merge
                                         ? Call{nullptr}
                                         : of("pointwise", w.direction);
                          },
                          [&](const Router& w) { return of("router", w.direction); },
                          [&](const Permute& w) { return of("permute", w.direction); },
                          [&](const Collective& w) {
                              const bool backward = op.phase == Phase::backward_input;
                              return Call{w.kind == CollectiveKind::all_to_all && experts ? "dispatch" : "collective", backward};
                          },
                          [](const auto&) { return Call{nullptr}; },
                      },
                      op.work);
}

// Whether the op stands for modules with parameters of their own: 0 their forward, 1 their backward pass, -1 it does not.
int hooked(const Op& op) {
    if (const auto* w = std::get_if<Linear>(&op.work))
        return w->direction == Direction::forward ? 0 : w->direction == Direction::input_gradient ? 1 : -1;
    if (const auto* w = std::get_if<Norm>(&op.work)) return w->direction == Direction::forward ? 0 : 1;
    if (const auto* w = std::get_if<Embedding>(&op.work)) return w->direction == Direction::forward ? 0 : 1;
    return -1;
}

// Parts of a layer that are captured between its experts' ops have one of these each: attention, and the mixture's router.
bool in_every_region(const Op& op) {
    const auto* a = std::get_if<Attention>(&op.work);
    return (a != nullptr && a->behind == 0) || std::holds_alternative<Softmax>(op.work) || std::holds_alternative<Router>(op.work);
}

} // namespace

bool CostModel::Data::makes_calls() const {
    if (!device.kernels.empty()) return false; // measured, with all that stands around them
    return !runtime.launch_blocking && practice.module_calls;
}

bool CostModel::Data::runs_hooks() const { return practice.module_hooks && device.kernels.empty(); }

// Transformer Engine's overlap: the module of a linear issues the gathers and reductions of its own operands.
bool CostModel::Data::within_product(const Op& op) const {
    const auto* c = std::get_if<Collective>(&op.work);
    const bool layer = op.phase == Phase::forward || op.phase == Phase::recompute || op.phase == Phase::backward_input ||
                       op.phase == Phase::backward_weight;
    return modules_overlap && c != nullptr && layer && (c->kind == CollectiveKind::all_gather || c->kind == CollectiveKind::reduce_scatter);
}

Time CostModel::host(const Op& op, int kernels) const {
    const Data& d = *data_;
    const CallTable& t = d.pointwise.calls;
    const bool graph = d.runtime.cuda_graphs && !op.eager;
    if (d.waits_in_loop(op)) kernels = 1; // the others' launches are in the op's own time, with what the host waits for
    const Time launches = graph ? launch() * kernels : launch_eager() * kernels;
    if (d.runs_hooks())
        if (const int way = hooked(op); way >= 0) {
            const auto& hook = d.strategy.data_parallel > 1 ? t.hook : t.hook_alone;
            return launches + Time::microseconds(hook[way] * op.modules);
        }
    if (!d.makes_calls()) return launches;
    if (graph)
        return d.regions && in_every_region(op) ? launches + Time::microseconds(t.region[call_of(op, true).backward ? 1 : 0]) : launches;
    const Call call = call_of(op, d.experts);
    if (call.kind == nullptr || d.within_product(op)) return launches;
    const std::size_t way = call.backward ? 1 : 0;
    double us = t.calls.at(call.kind)[way] + static_cast<double>(call.experts) * t.expert[way];
    if (call.low) us += t.low[way] + static_cast<double>(call.experts) * t.low_expert[way];
    return launches + Time::microseconds(us);
}

} // namespace orrery
