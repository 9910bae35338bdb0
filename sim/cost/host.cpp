// Host time to issue an op: its launches and, in software that runs module by module in Python, the call around them. A captured
// graph replays without either, but for what no graph can hold (Op::eager); beside that, each captured region is a call.
//
//   host = launch kernels + call(kind, direction) + [8 bits] low + experts (expert + [8 bits] low_expert)
//
// Or, with hooks around modules (DeepSpeed's ZeRO-3): launch kernels + hooks(modules, gathers, members, gradients, buckets, views of
// what each rank sent, cuts of gradients for each rank, collectives called apart, parameters that are stepped on).
#include "sim/cost/data.hpp"

#include "topology/overloaded.hpp"

#include <algorithm>
#include <cmath>

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

// The hooks of DeepSpeed's ZeRO-3 around the modules that an op stands for (parameter_offload.py: _register_deepspeed_module).
struct Hooks {
    double modules = 0;   // around which they run
    double gathers = 0;   // of these: with parameters that are gathered for them
    double members = 0;   // further parameters that such a gather brings
    double gradients = 0; // parameters whose gradients are there
    double buckets = 0;   // filled by these
    double joined = 0;    // parameters that are gathered with others: taken out of what each rank sent
    double cut = 0;       // of the gradients those of which the host cuts a part for each rank
    double stepped = 0;   // parameters that the optimizer's step goes over
};

// The model's linears, of which some are LoRA's; elements: of a bucket; loops: an expert's linears are modules, and the mixture is one that
// gathers all of them (set_z3_leaf_modules: a trace of modules cannot hold experts that differ from step to step). That gather is counted
// with the experts' first linears, which read rows of the hidden size.
struct Hooking {
    std::int64_t adapter_rank = 0, hidden = 1, joined_below = 0;
    double elements = 1;
    bool loops = false;
    bool exchanges = false; // matrices' gradients go by ZeRO++'s exchange, which cuts them on the device (all_to_all_quant_reduce)

    double joined(double parameters, std::int64_t elements_of_each) const { return elements_of_each < joined_below ? parameters : 0; }

    double filled(double parameters, std::int64_t of_each) const {
        return parameters * std::min(1.0, static_cast<double>(of_each) / elements);
    }
    // Beside a linear PEFT has A and B, the dropout ahead of A (or an identity) and the module that calls them all. A and B are gathered
    // with the weight that they are beside: what is asked for ahead is asked for together.
    Hooks of(const Linear& w, double modules, bool a) const {
        const bool b = !a && adapter_rank > 0 && w.k == adapter_rank, leaf = w.groups > 1 && loops;
        const double parameters = modules * static_cast<double>(leaf ? w.groups : 1);
        const std::int64_t each = w.n * w.k / std::max<std::int64_t>(1, std::llround(modules)); // each of queries, keys, values has columns
        if (w.direction == Direction::weight_gradient)
            return {.gradients = parameters, .buckets = filled(parameters, each), .cut = exchanges ? 0 : parameters};
        if (leaf && (a || b || w.k != hidden)) return {.members = parameters, .joined = joined(parameters, each)};
        if (leaf) return {.modules = 1, .gathers = 1, .members = parameters - 1, .joined = joined(parameters, each)};
        if (a || b) return {.modules = (a ? 3 : 1) * modules};
        return {.modules = modules, .gathers = modules, .joined = joined(parameters, each)};
    }
    // Small parameters are never let go of (stage3_param_persistence_threshold).
    static Hooks of(const Norm& w, double outputs) {
        const double gradients = w.direction == Direction::forward ? 0.0 : std::max(0.0, outputs - 1);
        return {.modules = w.heads > 0 ? 2.0 : 1.0, .gradients = gradients, .cut = gradients};
    }
    Hooks of(const Embedding& w) const {
        if (w.direction == Direction::forward) return {.modules = 1, .gathers = 1, .joined = joined(1, w.vocab * w.hidden)};
        return {.modules = 1, .gradients = 1, .buckets = filled(1, w.vocab * w.hidden), .cut = exchanges ? 0.0 : 1.0};
    }
};

bool activates(const Pointwise& w) {
    switch (w.kind) {
    case PointwiseKind::gelu:
    case PointwiseKind::relu:
    case PointwiseKind::swiglu:
    case PointwiseKind::geglu:
    case PointwiseKind::squared_relu:
        return !w.epilogue;
    default:
        return false;
    }
}

// Small parameters gathered behind the step are collectives called one after another (Practice::gathers_small_apart).
double called_apart(const Op& op) {
    const auto* c = std::get_if<Collective>(&op.work);
    return c != nullptr && op.phase == Phase::optimizer && c->kind == CollectiveKind::all_gather ? c->times : 0;
}

// A bias's gradient is one more.
bool makes_bias(const Pointwise& w) { return w.kind == PointwiseKind::bias && w.direction != Direction::forward; }

// Modules without parameters have hooks like the others. Attention stands for its own module and for the layer's, an activation for its own
// and for the MLP's.
Hooks hooks_of(const Op& op, const Hooking& hooking) {
    return std::visit(
        Overloaded{
            [&](const Linear& w) { return hooking.of(w, op.modules, op.of_adapter); },
            [&](const Norm& w) { return Hooking::of(w, static_cast<double>(op.out.size())); },
            [&](const Embedding& w) { return hooking.of(w); },
            [](const Attention& w) { return Hooks{.modules = w.behind > 0 ? 0.0 : 2.0}; },
            [](const Softmax&) { return Hooks{.modules = 2}; },
            [&](const Pointwise& w) {
                const double biases = makes_bias(w) ? op.modules : 0;
                return Hooks{.modules = activates(w) ? 2.0 : 0.0, .gradients = biases, .cut = biases};
            },
            [](const OptimizerStep& w) { return Hooks{.stepped = w.kind == OptimizerKind::muon ? 0.0 : static_cast<double>(w.matrices)}; },
            [](const auto&) { return Hooks{}; },
        },
        op.work);
}

// ZeRO++'s exchange reduces what is no matrix tensor by tensor, cut for each rank where the bucket is reduced (all_to_all_quant_reduce of
// deepspeed/runtime/comm/coalesced_collectives.py). A tensor alone is not joined with others: 2.2 us a rank, where one of eight takes 3.7
// (the same calls of PyTorch for 384 ranks, timed on a processor of ours that was busy with other work as well).
double cut_in_exchange(const Op& op) {
    constexpr double alone = 0.6;
    const auto* w = std::get_if<Pointwise>(&op.work);
    return w != nullptr && w->kind == PointwiseKind::by_owner && op.phase == Phase::gradient_reduce ? alone * op.modules : 0;
}

// Whether it runs in a backward pass, whose hooks cost other times.
bool runs_back(const Op& op) {
    return std::visit(
        [](const auto& w) {
            if constexpr (requires { w.direction; })
                return w.direction != Direction::forward;
            else
                return false;
        },
        op.work);
}

// Parts of a layer that are captured between its experts' ops have one of these each: attention, and the mixture's router.
bool in_every_region(const Op& op) {
    const auto* a = std::get_if<Attention>(&op.work);
    return (a != nullptr && a->behind == 0) || std::holds_alternative<Softmax>(op.work) || std::holds_alternative<Router>(op.work);
}

} // namespace

// The calibration's times are of hosts of 2023 to 2026, H100's and A100's, which are taken for alike: the same hooks asked for 2.1 and 2.2
// times an EPYC's of 2024 on A100, and for 2.5 times on H100 (calls.hook of pointwise.json). A copy's start (copy_us) is the device's.
void take_host_speed(PointwiseTable& t, double speed) {
    const auto both = [&](std::array<double, 2>& us) {
        for (double& way : us) way /= speed;
    };
    for (double* us : {&t.launch_eager, &t.launch_graph, &t.launch_blocking, &t.exchange_sync, &t.list_copy}) *us /= speed;
    CallTable& c = t.calls;
    for (auto& [kind, us] : c.calls) both(us);
    for (auto* us : {&c.region, &c.low, &c.expert, &c.low_expert}) both(*us);
    for (auto* us : {&c.hook.module, &c.hook.gather, &c.hook.alone, &c.hook.member, &c.hook.bucket}) both(*us);
    c.hook.gradient /= speed;
    for (double* us : {&c.hook.context, &c.hook.slice, &c.hook.view, &c.hook.step}) *us /= speed;
}

bool CostModel::Data::makes_calls() const {
    if (!device.kernels.empty()) return false; // measured, with all that stands around them
    return !runtime.launch_blocking && practice.module_calls;
}

bool CostModel::Data::runs_hooks() const { return practice.module_hooks && device.kernels.empty(); }

double CostModel::Data::hooks_us(const Op& op) const {
    const auto& t = pointwise.calls.hook;
    const double elements = static_cast<double>(strategy.bucket_bytes.count) / bytes_per_element(training.gradient_dtype);
    const bool exchanges = strategy.quantized_gradients != QuantizedGradients::none;
    Hooks h = hooks_of(op, {adapter_rank, hidden, joined_below, std::max(1.0, elements), practice.loops_over_experts, exchanges});
    if (exchanges) h.cut = cut_in_exchange(op);
    const std::size_t way = runs_back(op) ? 1 : 0;
    const int sharing = strategy.replicas_of_worker() * strategy.context_parallel;
    const int ranks = strategy.shard_group_size > 0 ? strategy.shard_group_size : sharing;
    const int near = practice.second_copy_ranks > 0 && way == 1 ? practice.second_copy_ranks : ranks; // of whom the backward pass gathers
    const bool shared = sharing > 1;
    const double module = t.module[way] + (practice.hook_contexts && way == 0 ? t.context : 0);
    const auto more_than = [&](int all) { return practice.cuts_by_rank ? std::max(0, all - 2) : 0; }; // two are in the other figures
    return h.modules * module + h.gathers * (shared ? t.gather : t.alone)[way] + h.members * t.member[way] + h.gradients * t.gradient +
           h.buckets * t.bucket[shared ? 0 : 1] + h.joined * more_than(near) * t.view + h.cut * more_than(ranks) * t.slice +
           h.stepped * t.step + called_apart(op) * pointwise.calls.calls.at("collective")[0];
}

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
        if (const double us = d.hooks_us(op); us > 0) return launches + Time::microseconds(us);
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
