// Why this bounds from below: a rank's kernels run in one queue, in order. From a layer's first kernel to the next layer's first, the ops
// between are placed as if all before them had long ended and no link or host were shared; whatever really delays them makes that longer.
#include "sim/search/profile.hpp"

#include "sim/cost/own_constants.hpp"
#include "sim/engine/compile.hpp"
#include "sim/memory/reserve.hpp"
#include "sim/plan/lower.hpp"
#include "sim/scenario/parameters.hpp"
#include "sim/scenario/practice.hpp"
#include "sim/search/parts.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>
#include <variant>

namespace orrery {

namespace {

bool is_end(int layer, const Model& m, int found, const Model& small) {
    return (layer == 0 && found == 0) || (layer + 1 == m.layers && found + 1 == small.layers);
}

// Layers that differ in what is made again: a policy by op takes some of every second one (plan/passes/recompute.cpp).
int recompute_period(const Scenario& s) {
    return s.strategy.recompute == RecomputeKind::selective && practice_of(s).selective_by_op ? 2 : 1;
}

// A model with a few layers of each kind in place of all; `like` says which stands for which.
Model small_model(const Scenario& s, std::vector<std::int16_t>& like) {
    const Model& m = s.model;
    Model small = m;
    const int turns = recompute_period(s);
    const int period = std::lcm(turns, std::lcm(m.moe ? std::max(1, m.moe->layer_frequency) : 1, std::max(1, m.attention.full_every)));
    const int dense = m.moe ? std::min(2, m.moe->first_dense_layers) : 0;
    small.layers = dense + 2 * period + 1;
    if (small.moe) small.moe->first_dense_layers = dense;
    bool same = small.layers < m.layers && m.trainable.frozen_layers == 0 && !(m.moe && m.moe->imbalance_loads.size() > 1);
    like.clear();
    for (int layer = 0; layer < m.layers && same; ++layer) {
        int found = -1;
        for (int j = small.layers - 1; j >= 0;
             --j) { // the first for the first, the last for the last, else one in the middle, where there is one
            if (is_moe_layer(small, j) != is_moe_layer(m, layer) || window_of(small.attention, j) != window_of(m.attention, layer) ||
                j % turns != layer % turns)
                continue;
            if (found < 0 || is_end(layer, m, j, small) || (j > 0 && j + 1 < small.layers && !is_end(layer, m, found, small))) found = j;
        }
        same = found >= 0;
        like.push_back(static_cast<std::int16_t>(found));
    }
    if (same) return small;
    like.resize(m.layers);
    std::iota(like.begin(), like.end(), std::int16_t{0});
    return m;
}

// Items of reserve() that grow with the elements of the plan, that are of some stages alone, or that the small plan's sharing changes.
constexpr std::array<std::string_view, 6> of_elements{"the step's gradients",     "16-bit gradients", "flat copies",
                                                      "weights in low precision", "graphs' pools",    "reduce buckets"};
// The small plan's replicas may share a node, and its strategies' lie on several.
constexpr std::string_view communicators = "communicator buffers";

// One stage, one microbatch, as few replicas as the experts allow.
Strategy small_strategy(const Scenario& s) {
    Strategy t = s.strategy;
    t.pipeline_parallel = t.virtual_pipeline = 1;
    t.schedule = "none";
    t.zero_stage = t.shard_group_size = 0;
    t.overlap.pipeline = t.overlap.grad_reduce = t.overlap.param_gather = t.overlap.expert_parallel = false;
    t.post_validation = false;
    t.synchronization = {};
    t.offload = {}; // copies are waited for, but timed as nothing, and what has left is not bounded: one small plan for all homes
    t.bucket_bytes = Bytes{25 << 20};
    t.recompute_layers.clear();
    t.recompute_per_chunk = 0;
    t.recompute_segments = t.recompute_segment_layers = 0; // a layer at a time takes as long
    t.microbatch_group_size = 0;
    t.deferred_output_gradients = 0;
    t.mtp_chunk = s.model.mtp_layers > 0 && s.strategy.mtp_apart() ? 0 : -1; // 0: tells profile_of()
    const int inside = t.tensor_parallel * t.context_parallel, experts = t.expert_parallel * t.expert_tensor_parallel;
    t.data_parallel = std::lcm(inside, experts) / inside;
    t.layers_per_chunk.clear();
    return t;
}

bool is_shift(CollectiveKind k) { return k == CollectiveKind::shift || k == CollectiveKind::shift_back; }

struct Timed {
    double duration = 0, host = 0, moving = 0;
    int queue = 0;
    bool kernel = false, memory = false;
    int part = 0; // 0: head, 1 + layer, then the tail
};

// Prices of a cluster of nodes of another kind alone.
struct OtherKind {
    OtherKind(Scenario s, const Plan& plan) : fabric(s.cluster), cost(s, fabric), clocks(cost.clocks(plan)) {}
    Fabric fabric;
    CostModel cost;
    LayerClocks clocks;
};

// On a cluster of unlike nodes, whose stages and groups may lie on any of them, an op takes as long as on the kind that is fastest at it:
// what waits for it takes no less on the real ones. What kernels lose beside communication is not counted there, as each kind has its own.
class SmallPlan {
  public:
    // uncounted: on kernels that move bytes (own_constants.hpp), of the whole scenario.
    SmallPlan(const Scenario& scenario, const Fabric& fabric, double uncounted)
        : scenario_(scenario), plan_(lower(scenario)), fabric_(fabric), cost_(scenario, fabric), clocks_(cost_.clocks(plan_)),
          uncounted_(uncounted) {
        Scenario alike = scenario;
        for (int kind = 1; kind < scenario.cluster.kinds_of_nodes(); ++kind) {
            alike.cluster = as_of_kind(scenario.cluster, kind);
            others_.push_back(std::make_unique<OtherKind>(alike, plan_));
        }
        if (others_.empty()) return;
        alike.cluster = as_of_kind(scenario.cluster, 0);
        first_ = std::make_unique<OtherKind>(alike, plan_);
    }

    void measure(Profile& p) {
        layers_ = scenario_.model.layers;
        p.slowdown = others_.empty() ? cost_.most_slowdown() : 0;
        most_lost_ = lost(p.slowdown);
        parts_.assign(static_cast<std::size_t>(layers_) + 2, {});
        for (const Block& block : plan_.blocks) {
            if (block.kind != BlockKind::forward && block.kind != BlockKind::backward && block.kind != BlockKind::weight) continue;
            const std::vector<Timed> ops = timed(block);
            spans(block, ops, p.slowdown);
            levels(block, ops);
        }
        busiest();
        p.head = parts_.front();
        p.tail = parts_.back();
        p.layers.assign(parts_.begin() + 1, parts_.end() - 1);
        double saved = p.head.saved;
        for (const PartCost& c : p.layers) saved += c.saved;
        p.tail_peak = std::max(0.0, tail_level_ - saved);
        for (const ReserveItem& item : reserve(plan_, scenario_, plan_.programs.front())) {
            // A job does not need what the allocator gives up before memory runs out.
            if (item.kept || std::find(of_elements.begin(), of_elements.end(), item.name) != of_elements.end()) continue;
            const Bytes bytes =
                item.name == communicators ? least_communicator_buffers(plan_, scenario_, plan_.programs.front()) : item.bytes;
            p.reserve += static_cast<double>(bytes.count);
        }
    }

  private:
    struct Priced {
        double latency = 0, moving = 0;
        double slows = 0, slows_in_pieces = 0; // kernels beside it
        double seconds() const { return latency + moving; }
    };

    // Layers have the same ones again and again, and those of thousands of ranks take long to price.
    Priced collective(const Collective& c) {
        const auto [at, fresh] =
            priced_.try_emplace({c.kind, c.comm, c.bytes.count, c.dtype, c.copies, c.groups, c.group_limit, c.times, c.tokens, c.whole});
        if (!fresh) return at->second;
        const auto [group, unknown] = members_.try_emplace(c.comm);
        if (unknown) group->second = members(plan_, c.comm, 0);
        const std::vector<int>& ranks = group->second;
        if (ranks.size() < 2) return {};
        Priced least = first_ ? collective(c, ranks, first_->cost, first_->fabric) : collective(c, ranks, cost_, fabric_);
        for (const auto& other : others_)
            if (const Priced one = collective(c, ranks, other->cost, other->fabric); one.seconds() < least.seconds()) least = one;
        return at->second = least;
    }

    static Priced collective(const Collective& c, const std::vector<int>& ranks, const CostModel& model, const Fabric& fabric) {
        if (is_shift(c.kind)) return some_hops(c.bytes, ranks, model);
        const CommCost cost = model.collective(c, ranks);
        double rate = cost.cap.value;
        for (const LinkLoad& l : model.loads(c, cost, ranks))
            if (l.load > 0) rate = std::min(rate, fabric.links()[l.link].capacity.value / l.taken());
        const double slows = slows_beside(cost, model);
        return {cost.latency.seconds(), rate > 0 ? cost.payload / rate : 0, slows, cost.slows < 0 ? slows : cost.slows_by_bytes};
    }

    // A ring passes on as fast as its slowest hop: no faster than the slowest of some of them.
    static Priced some_hops(Bytes bytes, const std::vector<int>& ranks, const CostModel& model) {
        Priced slowest;
        double least = 1;
        for (std::size_t i = 0; i < std::min<std::size_t>(ranks.size(), 16); ++i) {
            const int from = ranks[i], to = ranks[(i + 1) % ranks.size()];
            const CommCost hop = model.transfer(bytes, from, to);
            const double moving = hop.cap.value > 0 ? hop.payload / hop.cap.value : 0;
            least = std::min(least, slows_beside(hop, model));
            if (hop.latency.seconds() + moving > slowest.latency + slowest.moving) slowest = {hop.latency.seconds(), moving};
        }
        slowest.slows = slowest.slows_in_pieces = least;
        return slowest;
    }

    // Ops with their times; head until a layer is met, tail behind the last (backward passes the other way round).
    std::vector<Timed> timed(const Block& block) {
        std::vector<Timed> out;
        const bool forward = block.kind == BlockKind::forward;
        bool layer_met = false;
        for (const Op& op : block.ops) {
            Timed t;
            t.memory = is_memory_op(op.work);
            if (const auto* c = std::get_if<Collective>(&op.work)) {
                const Priced priced = collective(*c);
                t.duration = priced.latency + priced.moving;
                const double share = lost(gathers_in_pieces(op) ? priced.slows_in_pieces : priced.slows);
                t.moving = most_lost_ > 0 ? priced.moving * share / most_lost_ : 0;
                t.queue = queue_of(c->comm);
                t.host = cost_.host(op, 1).seconds();
            } else if (!t.memory && !std::holds_alternative<HostSync>(op.work) && !std::holds_alternative<Exchange>(op.work) &&
                       op.queue == compute_queue) {
                const ComputeCost cost = cost_.compute(plan_, op, 0, clocks_);
                Time least = cost.duration;
                for (const auto& other : others_) least = std::min(least, other->cost.compute(plan_, op, 0, other->clocks).duration);
                t.kernel = true;
                t.duration = with_uncounted(least, op.work, uncounted_).seconds();
                t.host = cost_.host(op, cost.kernels).seconds();
            } else if (!t.memory)
                t.queue = -1; // waited for, but timed as nothing
            const bool of_layer = op.layer >= 0 && op.layer < layers_;
            layer_met = layer_met || of_layer;
            t.part = of_layer ? 1 + op.layer : (layer_met == forward ? layers_ + 1 : 0);
            out.push_back(t);
        }
        return out;
    }

    struct Span {
        double time = 0;
        double moving = 0; // of communication that follows one on another in it: never two at once
        double lead = 0;   // at its end, while communication of the part that comes next is waited for
    };

    // From op `begin`, which starts at 0, until the kernel `end` may start (ops.size(): until the last kernel ends). Kernels take
    // `times` as long.
    Span span(const Block& block, const std::vector<Timed>& ops, std::size_t begin, std::size_t end, double times) {
        ends_.assign(ops.size(), {});
        starts_.assign(ops.size(), 0);
        free_.assign(static_cast<std::size_t>(first_comm_queue) + plan_.communicators.size(), {});
        const std::size_t compute = static_cast<std::size_t>(compute_queue);
        Span last;
        std::size_t awaited = begin; // the op that ends last of those that `end` waits for
        for (std::size_t i = begin; i <= std::min(end, ops.size() - 1); ++i) {
            const Timed& t = ops[i];
            if (t.memory) continue;
            Reached start = i == begin ? Reached{0, 0} : t.queue >= 0 ? free_[t.queue] : Reached{};
            for (const std::int32_t d : block.ops[i].deps) {
                const auto dep = static_cast<std::size_t>(d);
                if (dep < begin) continue;
                // Gathers in pieces overlap with the linears that read them; the computation after these waits for both.
                if (block.ops[i].pieces > 1 && block.ops[dep].pieces > 1) continue;
                if (i == end && ends_[dep].time > start.time) awaited = dep;
                start.join(ends_[dep]);
            }
            if (i == end) {
                const bool next = !ops[awaited].kernel && ops[awaited].part == ops[end].part;
                return {start.time, std::max(0.0, start.moving), next ? start.time - last.time : 0};
            }
            starts_[i] = start.time;
            ends_[i] = {start.time + (t.kernel ? times : 1) * t.duration, start.moving + t.moving};
            if (t.queue < 0) continue;
            Reached& free = free_[t.queue];
            free = ends_[i];
            if (!t.kernel) continue;
            last = {ends_[i].time, std::max(0.0, ends_[i].moving), 0};
            if (static_cast<std::size_t>(t.queue) != compute || block.ops[i].pieces <= 1) continue;
            for (const std::int32_t d : block.ops[i].deps)
                if (static_cast<std::size_t>(d) >= begin && block.ops[d].pieces > 1) free.join(ends_[d]);
        }
        return last;
    }

    // Communication of a window: from a kernel's start until another starts that waits for all of it. It begins no earlier, as it waits for
    // something in the window.
    struct Window {
        const Block& block;
        const std::vector<Timed>& ops;
        std::size_t begin;
        std::vector<std::size_t> moves = {}, overlapped = {}; // overlapped: waited for by the kernel behind one that reads it in pieces
        std::vector<bool> inside = std::vector<bool>(ops.size()), waited_for = inside;

        void restart(std::size_t at) { begin = at, moves.clear(), overlapped.clear(); } // what is inside stands before it
        bool depends_on_it(std::size_t i) const {
            return std::ranges::any_of(block.ops[i].deps, [&](std::int32_t d) {
                const auto dep = static_cast<std::size_t>(d);
                return d >= 0 && dep >= begin && (ops[dep].kernel || inside[dep]);
            });
        }
        double moving() const { // by the busiest communicator
            std::map<int, double> by_queue;
            double most = 0;
            for (const std::size_t one : moves) most = std::max(most, by_queue[ops[one].queue] += ops[one].moving);
            return most;
        }
        void wait_for(std::size_t i) {
            if (i < begin || waited_for[i]) return;
            waited_for[i] = true;
            for (const std::int32_t d : block.ops[i].deps)
                if (d >= 0) wait_for(static_cast<std::size_t>(d));
            for (const std::size_t other : moves)
                if (!ops[i].kernel && other < i && ops[other].queue == ops[i].queue) wait_for(other);
        }
        // Whether kernel i begins when all that moves in the window is through.
        bool ends_before(std::size_t i) {
            for (const std::size_t one : overlapped) wait_for(one);
            overlapped.clear();
            for (const std::int32_t d : block.ops[i].deps) {
                const auto dep = static_cast<std::size_t>(d);
                if (d < 0 || dep < begin) continue;
                if (block.ops[i].pieces > 1 && block.ops[dep].pieces > 1)
                    overlapped.push_back(dep);
                else
                    wait_for(dep);
            }
            return std::ranges::all_of(moves, [&](std::size_t one) { return waited_for[one]; });
        }
    };

    // Adds the time that a part's kernels lose to communication beside them, beyond what span() counts: in each window at least what is
    // left of the communication when the kernels' certain idle time is filled with it. `starts`, starts_: of ops, kernels not slowed down
    // and all slowed down. Ops behind the last kernel that the input gradient needs are left out.
    void lose(const Block& block, const std::vector<Timed>& ops, std::size_t begin, std::size_t end, const std::vector<double>& starts,
              double slowdown) {
        const auto of_weights = [&](std::size_t i) { return ops[i].kernel && block.ops[i].phase == Phase::backward_weight; };
        while (end > begin && (!ops[end - 1].kernel || of_weights(end - 1))) --end;
        PartCost& c = parts_[ops[begin].part];
        double& in_one = block.kind == BlockKind::forward ? c.forward : c.backward;
        Window window{block, ops, begin};
        double kernels = 0;
        bool weights = false;
        for (std::size_t i = begin; i < end; ++i) {
            if (ops[i].memory) continue;
            if (i > begin && ops[i].kernel && window.ends_before(i)) {
                const double idle = std::max(0.0, starts_[i] - starts_[window.begin] - (1 + slowdown) * kernels);
                const double least = slowed(kernels, idle, window.moving(), slowdown), counted = starts[i] - starts[window.begin];
                (weights ? c.lost_beside_weights : in_one) += std::max(0.0, least - counted);
                window.restart(i), kernels = 0, weights = false;
            }
            if (ops[i].kernel)
                kernels += ops[i].duration, weights = weights || of_weights(i);
            else if (window.depends_on_it(i)) {
                window.inside[i] = true;
                if (ops[i].moving > 0) window.moves.push_back(i);
            }
        }
    }

    void spans(const Block& block, const std::vector<Timed>& ops, double slowdown) {
        const bool forward = block.kind == BlockKind::forward;
        std::vector<std::size_t> begins; // the first kernel of each run of kernels of one part
        int part = -1;
        for (std::size_t i = 0; i < ops.size(); ++i) {
            PartCost& c = parts_[ops[i].part];
            c.host += ops[i].host;
            if (ops[i].moving > 0) {
                add(moving_[ops[i].queue], ops[i].part, ops[i].moving);
                add(queued_[ops[i].queue], ops[i].part, ops[i].duration);
            }
            if (!ops[i].kernel) continue;
            (forward ? c.forward_kernels : c.backward_kernels) += ops[i].duration;
            const bool of_weight = block.ops[i].phase == Phase::backward_weight;
            if (of_weight) c.weight += ops[i].duration;
            if (!forward) c.late = of_weight ? c.late + ops[i].duration : 0;
            if (ops[i].part != part) begins.push_back(i);
            part = ops[i].part;
        }
        for (std::size_t k = 0; k < begins.size(); ++k) {
            const std::size_t end = k + 1 < begins.size() ? begins[k + 1] : ops.size();
            const Span s = span(block, ops, begins[k], end, 1);
            const std::vector<double> starts = starts_;
            const Span slow = span(block, ops, begins[k], end, 1 + slowdown);
            PartCost& c = parts_[ops[begins[k]].part];
            (forward ? c.forward : c.backward) += s.time - s.lead;
            lose(block, ops, begins[k], end, starts, slowdown);
            (forward ? c.forward_slow : c.backward_slow) += slow.time - slow.lead;
            if (s.lead > 0) {
                PartCost& next = parts_[ops[end].part];
                (forward ? next.forward : next.backward) += s.lead;
                (forward ? next.forward_slow : next.backward_slow) += slow.lead;
            }
            c.moving += s.moving;
        }
    }

    void add(std::vector<double>& by_part, int part, double seconds) const {
        by_part.resize(parts_.size());
        by_part[static_cast<std::size_t>(part)] += seconds;
    }

    static double sum(const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); }

    // The queue with the most seconds, by part; not empty.
    static const std::vector<double>& busiest(const std::map<int, std::vector<double>>& queues) {
        return std::ranges::max_element(queues, {}, [](const auto& queue) { return sum(queue.second); })->second;
    }

    void busiest() {
        if (moving_.empty()) return;
        const std::vector<double>&moving = busiest(moving_), &queued = busiest(queued_);
        double one_after_another = 0;
        for (const PartCost& c : parts_) one_after_another += c.moving;
        const bool most = sum(moving) > one_after_another;
        for (std::size_t i = 0; i < parts_.size(); ++i) {
            parts_[i].queue = queued[i];
            if (most) parts_[i].moving = moving[i];
        }
    }

    // The bytes each part leaves alive, and how far the level rises.
    void levels(const Block& block, const std::vector<Timed>& ops) {
        const bool forward = block.kind == BlockKind::forward;
        int part = 0; // memory ops have no layer of their own: they belong to what was computed last
        double start = level_;
        for (std::size_t i = 0; i < ops.size(); ++i) {
            if (!ops[i].memory && ops[i].part != part) part = ops[i].part, start = level_;
            const auto* alloc = std::get_if<Alloc>(&block.ops[i].work);
            const auto* release = std::get_if<Free>(&block.ops[i].work);
            if (!alloc && !release) continue;
            const Buffer& b = plan_.buffers[alloc ? alloc->buffer : release->buffer];
            if (b.space != Space::device || b.scope == Scope::run || b.scope == Scope::step) continue;
            const double change = alloc ? static_cast<double>(b.bytes.count) : -static_cast<double>(b.bytes.count);
            level_ += change;
            PartCost& c = parts_[part];
            if (forward) c.saved += change;
            if (!forward) c.rise = std::max(c.rise, level_ - start);
            if (part == layers_ + 1) tail_level_ = std::max(tail_level_, level_);
        }
    }

    const Scenario& scenario_;
    Plan plan_;
    const Fabric& fabric_;
    CostModel cost_;
    std::vector<std::unique_ptr<OtherKind>> others_;
    std::unique_ptr<OtherKind> first_; // the cluster's own kind alone; nullptr: there is no other
    LayerClocks clocks_; // by the kernels of its layers, which the plan has, too; what more that has only takes longer (clocks.hpp)
    double uncounted_;
    int layers_ = 0;
    std::vector<PartCost> parts_;
    std::map<int, std::vector<double>> moving_, queued_; // queue -> part -> seconds, latencies left out and included
    // When an op has ended, and how long communication has moved data until then, one after another, since the span began; not after
    // its first op: < 0.
    struct Reached {
        double time = 0, moving = -1e30;
        void join(const Reached& other) { time = std::max(time, other.time), moving = std::max(moving, other.moving); }
    };
    std::vector<Reached> ends_, free_;
    std::vector<double> starts_;
    std::map<std::tuple<CollectiveKind, CommId, std::int64_t, DType, int, int, int, int, Collective::Tokens, bool>, Priced> priced_;
    std::map<CommId, std::vector<int>> members_;
    double level_ = 0, tail_level_ = 0, most_lost_ = 0;
};

std::uint64_t mixed(std::uint64_t h, std::uint64_t x) { return (h ^ x) * 1099511628211u; }

} // namespace

Profile profile_of(const Scenario& whole, const Fabric& fabric) {
    Profile p;
    Scenario s = whole;
    s.model = small_model(whole, p.like);
    s.strategy = small_strategy(whole);
    // Neither the output layer's chunk nor another is known to have what predicts further tokens: bounds do without.
    if (s.strategy.mtp_chunk >= 0) s.model.mtp_layers = 0, s.strategy.mtp_chunk = -1;
    s.strategy.layers_per_chunk = {s.model.layers};
    s.training.global_batch_size = s.training.micro_batch_size * s.strategy.data_parallel;
    SmallPlan(s, fabric, uncounted_of(whole)[CostGroup::memory]).measure(p);
    return p;
}

const Profile& Profiles::of(const Scenario& scenario, const Fabric& fabric) {
    const Strategy strategy = small_strategy(scenario);
    std::uint64_t h = 14695981039346656037u;
    for (const std::int64_t x :
         {std::int64_t{strategy.tensor_parallel}, std::int64_t{strategy.context_parallel}, std::int64_t{strategy.expert_parallel},
          std::int64_t{strategy.expert_tensor_parallel}, std::int64_t{strategy.sequence_parallel}, scenario.training.micro_batch_size,
          static_cast<std::int64_t>(strategy.recompute), static_cast<std::int64_t>(strategy.context_parallel_kind),
          static_cast<std::int64_t>(scenario.runtime.token_dispatcher), std::int64_t{strategy.overlap.tensor_parallel}})
        h = mixed(h, static_cast<std::uint64_t>(x));
    const bool issues = practice_of(scenario).issues_within_linears;
    const auto find = [&]() -> const Profile* {
        const auto [begin, end] = known_.equal_range(h);
        for (auto it = begin; it != end; ++it)
            if (it->second->strategy == strategy && it->second->training == scenario.training && it->second->runtime == scenario.runtime &&
                it->second->issues_within_linears == issues)
                return &it->second->profile;
        return nullptr;
    };
    {
        const std::lock_guard lock(mutex_);
        if (const Profile* known = find()) return *known;
    }
    auto made = std::make_unique<Known>(Known{scenario.training, strategy, scenario.runtime, issues, profile_of(scenario, fabric)});
    const std::lock_guard lock(mutex_);
    if (const Profile* known = find()) return *known; // another thread was faster
    ++made_;
    return known_.emplace(h, std::move(made))->second->profile;
}

} // namespace orrery
