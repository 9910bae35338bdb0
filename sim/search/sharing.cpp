#include "sim/search/sharing.hpp"

#include "sim/memory/reserve.hpp"
#include "sim/plan/lowering.hpp"
#include "sim/scenario/practice.hpp"
#include "sim/search/parts.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {

namespace {

constexpr int small_power = 22;
constexpr double small_message = std::int64_t{1} << small_power;

// Bytes of a stage that may travel in small messages: what is left of each of its units, and of each of its chunks' ends.
double in_small_messages(const Strategy& t) {
    const int layers = t.layers_per_chunk.empty() ? 0 : *std::ranges::max_element(t.layers_per_chunk);
    return static_cast<double>(t.virtual_pipeline) * (layers + 3) * small_message;
}

} // namespace

// Seconds a byte: in all, and on the group's link, where small messages may be all latency; large: without these.
struct SharedWire::Rate {
    double all = 0, link = 0, large = 0;
    double slows = 1e30; // kernels beside it
    bool known = false;

    double on_link(double bytes, double in_small) const { return std::max(bytes * link, (bytes - in_small) * large); }
};

// The ranks of a stage that share parameters, as the passes place them, and a cost model that prices what they do.
struct SharedWire::Group {
    std::shared_ptr<const CostModel> cost;                             // all stages' groups have one
    std::vector<int> shards, all, stages;                              // stages: the rank of each that stands where rank 0 does
    LinkId link = -1;                                                  // that shards load most
    std::map<std::tuple<CollectiveKind, DType, int>, Rate> rates = {}; // kind, dtype, power of two of the bytes
    std::map<std::pair<int, int>, double> passing = {};                // of `link`: seconds a byte that shards send from stage to stage
    double buffers = -1;                                               // bytes; < 0: not asked for yet
};

SharingPractice sharing_practice(const Scenario& s) {
    const Strategy& t = s.strategy;
    const Practice practice = practice_of(s);
    const bool stages = t.pipeline_parallel > 1;
    SharingPractice p;
    p.active = static_cast<std::int64_t>(t.data_parallel) * t.context_parallel > 1;
    p.zero = p.active ? t.zero_stage : 0;
    if (practice.once_a_step(t.pipeline_parallel)) p.zero = std::min(p.zero, 1);
    p.one_queue = practice.fully_sharded();
    p.gathers_in_step = p.zero == 3 || (p.zero == 2 && practice.fully_sharded() && !stages);
    p.keeps = p.gathers_in_step && p.zero == 2;
    if (t.gradient_sync == GradientSync::no_sync && s.microbatches() > 1) p.zero = std::min(p.zero, 1);
    return p;
}

SharedWire::Group& SharedWire::group_of(const Scenario& s, int stage) {
    const Strategy& t = s.strategy;
    const int shard = t.shard_group_size > 0 ? std::max(1, t.shard_group_size / t.context_parallel) : t.data_parallel;
    const Key key{t.tensor_parallel,   t.context_parallel, shard,        t.data_parallel / shard,
                  t.pipeline_parallel, t.zero_stage,       t.rank_order, stage};
    std::shared_ptr<Group>& group = groups_[key];
    if (group) return *group;
    const std::shared_ptr<const CostModel> cost = stage > 0 ? group_of(s).cost : std::make_shared<const CostModel>(s, fabric_);
    Plan plan; // ranks and communicators alone
    plan.stages = t.pipeline_parallel;
    plan.mesh.size = {t.tensor_parallel, t.context_parallel, 1, shard, t.data_parallel / shard, 1, t.pipeline_parallel};
    plan.mesh.order = t.rank_order;
    constexpr AxisMask shards = mask(Axis::dp) | mask(Axis::cp);
    plan.communicators.push_back({"shards", shards, {}});
    plan.communicators.push_back({"all", static_cast<AxisMask>(shards | mask(Axis::dpr)), {}});
    plan.communicators.push_back({"stages", mask(Axis::pp), {}});
    const std::vector<int> stages = members(plan, 2, 0);
    group = std::make_shared<Group>(Group{cost, members(plan, 0, stages[stage]), members(plan, 1, stages[stage]), stages});
    return *group;
}

const CostModel& SharedWire::cost_of(const Scenario& s) { return *group_of(s).cost; }

// The best rate at this size or at any that its buckets could have: of a larger message a rate is no lower, but another algorithm may be
// chosen for it.
SharedWire::Rate SharedWire::rate(Group& group, CollectiveKind kind, DType dtype, double bytes) {
    const std::vector<int>& ranks = kind == CollectiveKind::all_reduce ? group.all : group.shards;
    const int most = std::max(16, static_cast<int>(std::ceil(std::log2(std::max(2.0, bytes)))));
    Rate best{1e30, 1e30, most < small_power ? 0 : 1e30, 1e30, true};
    for (int power = most; power >= 16; power -= 2) {
        Rate& one = group.rates[{kind, dtype, power}];
        if (!one.known) {
            const Collective c{kind, 0, Bytes{std::int64_t{1} << power}, dtype};
            const CommCost cost = group.cost->collective(c, ranks);
            double limit = cost.cap.value, most_loaded = 0;
            const double payload = cost.payload / static_cast<double>(c.bytes.count);
            one.known = true;
            one.slows = slows_beside(cost, *group.cost);
            const bool choose = group.link < 0; // the link that the first one loads most
            const std::vector<LinkLoad> loads = group.cost->loads(c, cost, ranks);
            for (const LinkLoad& l : loads)
                if (l.load > 0) {
                    const double capacity = fabric_.links()[l.link].capacity.value;
                    limit = std::min(limit, capacity / l.taken());
                    if (choose && l.taken() / capacity > most_loaded) most_loaded = l.taken() / capacity, group.link = l.link;
                }
            for (const LinkLoad& l : loads)
                if (l.link == group.link) one.link = payload * l.taken() / fabric_.links()[l.link].capacity.value;
            one.all = limit > 0 ? payload / limit : 0;
        }
        best.all = std::min(best.all, one.all);
        best.link = std::min(best.link, one.link);
        best.slows = std::min(best.slows, one.slows);
        if (power >= small_power) best.large = std::min(best.large, one.link);
    }
    return best;
}

SharingTime SharingTime::beside(double most) const {
    if (most <= 0) return {};
    const double of_reduce = lost(reduce_slows) / lost(most), of_gather = lost(gather_slows) / lost(most);
    return {reduce * of_reduce, gather * of_gather, link_reduce * of_reduce, link_gather * of_gather, layers, reduce_slows, gather_slows};
}

SharingTime SharedWire::of(const Scenario& s, const Elements& e, int stage) {
    const double elements = e.dense;
    const Strategy& t = s.strategy;
    const SharingPractice practice = sharing_practice(s);
    const bool elsewhere = states_leave(t.offload);
    const GradientCompression sent = t.compresses();
    const bool compressed = sent == GradientCompression::fp16 || sent == GradientCompression::bf16;
    const bool unlike = !s.cluster.others.empty(); // a stage's groups may lie on faster nodes than the first one's
    if (!practice.active || unlike || elsewhere || s.model.trainable.partial() || t.workers() ||
        (sent != GradientCompression::none && !compressed) || t.secondary_shard_size > 1 ||
        t.quantized_gradients != QuantizedGradients::none || t.quantized_weights != QuantizedWeights::none)
        return {};
    Group& group = group_of(s, stage);
    const DType wide = compressed ? DType::bf16 : s.training.gradient_dtype;
    const double bytes = elements * bytes_per_element(wide);
    const double in_small = in_small_messages(t);
    SharingTime time;
    if (practice.zero == 0 || group.shards.size() < 2) {
        const Rate reduce = rate(group, CollectiveKind::all_reduce, wide, bytes);
        time.reduce = bytes * reduce.all, time.link_reduce = reduce.on_link(bytes, in_small);
        time.reduce_slows = time.gather_slows = reduce.slows;
        return time;
    }
    const bool low = s.runtime.fp8_all_gather || practice_of(s).gathers_low_parameters;
    const DType narrow = low ? DType::fp8 : activation_dtype(s);
    const double whole = elements * bytes_per_element(narrow);
    const Rate reduce = rate(group, CollectiveKind::reduce_scatter, wide, bytes),
               gather = rate(group, CollectiveKind::all_gather, narrow, whole);
    return {bytes * reduce.all,
            whole * gather.all,
            reduce.on_link(bytes, in_small),
            gather.on_link(whole, in_small),
            elements > 0 ? 1 - e.tables / elements : 1,
            reduce.slows,
            gather.slows};
}

double SharedWire::buffers(const Scenario& s) {
    const Strategy& t = s.strategy;
    const bool elsewhere = states_leave(t.offload);
    // Experts may have one of the same ranks, and so may context parallelism.
    if (t.data_parallel < 2 || t.expert_parallel > 1 || elsewhere || t.workers() || s.runtime.reserved_gb >= 0) return 0;
    Group& group = group_of(s);
    const std::vector<int>& ranks = sharing_practice(s).zero == 0 || group.shards.size() < 2 ? group.all : group.shards;
    if (ranks.size() <= static_cast<std::size_t>(t.context_parallel)) return 0;
    if (group.buffers < 0) group.buffers = static_cast<double>(communicator_buffers(ranks, s.cluster).count);
    return group.buffers;
}

SharedWire::Hop SharedWire::hop(const Scenario& s, int from, int to, double bytes) {
    const Group& group = group_of(s);
    const int a = group.stages[from], b = group.stages[to];
    const CommCost cost = group.cost->transfer(Bytes{static_cast<std::int64_t>(bytes)}, a, b);
    double slowest = cost.cap.value, fastest = slowest;
    for (const LinkLoad& l : group.cost->transfer_loads(a, b)) {
        if (l.load <= 0) continue;
        const double rate = fabric_.links()[l.link].capacity.value / l.taken();
        slowest = std::min(slowest, rate), fastest = std::max(fastest, rate);
    }
    return {cost.latency.seconds() + (slowest > 0 ? cost.payload / slowest : 0), fastest > 0 ? cost.payload / fastest : 0,
            slows_beside(cost, *group.cost)};
}

double SharedWire::on_link(const Scenario& s, int stage, int from, int to, double bytes) {
    Group& group = group_of(s, stage);
    if (group.link < 0) return 0;
    const auto [known, fresh] = group.passing.try_emplace({from, to}, 0);
    if (fresh) {
        const std::vector<int>&senders = group_of(s, from).shards, &receivers = group_of(s, to).shards;
        double load = 0;
        for (std::size_t i = 0; i < senders.size(); ++i)
            for (const LinkLoad& l : group.cost->transfer_loads(senders[i], receivers[i]))
                if (l.link == group.link) load += l.taken();
        known->second = load / fabric_.links()[group.link].capacity.value;
    }
    return bytes * known->second;
}

} // namespace orrery
