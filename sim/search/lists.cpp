#include "sim/search/lists.hpp"

#include "sim/scenario/abilities.hpp"
#include "sim/schedules/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace orrery {

namespace {

constexpr const char* tensor = "/strategy/tensor_parallel";
constexpr const char* pipeline = "/strategy/pipeline_parallel";
constexpr const char* context = "/strategy/context_parallel";
constexpr const char* expert = "/strategy/expert_parallel";
constexpr const char* expert_tensor = "/strategy/expert_tensor_parallel";
constexpr const char* micro_batch = "/training/micro_batch_size";
constexpr const char* sequence = "/strategy/sequence_parallel";
constexpr const char* kind = "/strategy/context_parallel_kind";
constexpr const char* dispatcher = "/runtime/token_dispatcher";
constexpr const char* schedule = "/strategy/schedule";
constexpr const char* chunks = "/strategy/virtual_pipeline";
constexpr const char* zero = "/strategy/zero_stage";
constexpr const char* group = "/strategy/shard_group_size";
constexpr const char* order = "/strategy/rank_order";
constexpr const char* recompute = "/strategy/recompute";
constexpr const char* offload = "/strategy/offload";
constexpr const char* compression = "/strategy/gradient_compression";
constexpr const char* compression_kind = "/strategy/gradient_compression/kind";
constexpr const char* overlap_fields[] = {"/strategy/overlap/grad_reduce", "/strategy/overlap/param_gather",
                                          "/strategy/overlap/tensor_parallel", "/strategy/overlap/pipeline"};
constexpr const char* overlap_experts = "/strategy/overlap/expert_parallel";
constexpr const char* in_groups[] = {tensor,     pipeline, context, expert, expert_tensor, micro_batch, sequence, kind,
                                     dispatcher, schedule, chunks,  zero,   group,         order,       recompute};

std::string quoted(const std::string& word) { return '"' + word + '"'; }
std::string bare(const std::string& json) { return json.size() > 1 && json.front() == '"' ? json.substr(1, json.size() - 2) : json; }
std::string last_step(const std::string& pointer) { return pointer.substr(pointer.rfind('/') + 1); }

std::vector<std::string> texts(const std::vector<std::int64_t>& numbers) {
    std::vector<std::string> out;
    for (const std::int64_t n : numbers) out.push_back(std::to_string(n));
    return out;
}

} // namespace

std::vector<std::int64_t> divisors(std::int64_t n) {
    std::vector<std::int64_t> low, high;
    for (std::int64_t d = 1; d * d <= n; ++d) {
        if (n % d != 0) continue;
        low.push_back(d);
        if (d * d != n) high.push_back(n / d);
    }
    low.insert(low.end(), high.rbegin(), high.rend());
    return low;
}

std::vector<GroupValue> product(const std::vector<GroupValue>& a, const std::vector<GroupValue>& b) {
    std::vector<GroupValue> out;
    for (const GroupValue& x : a) {
        for (const GroupValue& y : b) {
            GroupValue c = x;
            c.settings.insert(c.settings.end(), y.settings.begin(), y.settings.end());
            if (!y.word.empty()) c.word += (c.word.empty() ? "" : ", ") + y.word;
            out.push_back(std::move(c));
        }
    }
    return out;
}

Lists::Lists(Variations& variations, const SpaceFile& space, const SpaceOptions& options)
    : variations_(variations), space_(space), options_(options) {
    const Scenario& s = variations.base();
    const auto add = [&](const std::string& pointer, const std::vector<std::string>& all) {
        for (const std::string& value : all) ids_[{pointer, value}] = variations.add(pointer, value);
    };
    const std::vector<std::int64_t> of_devices = divisors(s.cluster.devices());
    std::vector<std::string> pipelines;
    for (const std::int64_t d : of_devices)
        if (d <= s.model.layers + 2) pipelines.push_back(std::to_string(d));
    std::vector<std::string> tensors;
    for (const std::int64_t d : of_devices)
        if (s.model.attention_heads % d == 0) tensors.push_back(std::to_string(d));
    add(tensor, tensors);
    add(pipeline, pipelines);
    add(context, texts(of_devices));
    const Abilities can = abilities_of(s);
    const bool stages = std::ranges::any_of(schedule_names(), [&](const std::string& n) { return n != "none" && can.has_schedule(n); });
    if (s.model.moe) {
        add(expert, texts(divisors(s.model.moe->experts)));
        add(expert_tensor, tensors);
        for (const char* word : Spelling<TokenDispatcher>::all) add(dispatcher, {quoted(word)});
    }
    add(micro_batch, texts(divisors(s.training.global_batch_size)));
    add(sequence, {"true", "false"});
    for (const char* word : Spelling<ContextKind>::all) add(kind, {quoted(word)});
    for (const std::string& name : schedule_names()) add(schedule, {quoted(name)});
    for (int v = 1; v <= s.model.layers + 2; ++v) add(chunks, {std::to_string(v)});
    add(zero, {"0", "1", "2", "3"});
    for (int g = 0; g <= s.cluster.devices_per_node; ++g) add(group, {std::to_string(g)});
    add(order, {quoted("tp-cp-ep-dp-pp"), quoted("tp-cp-ep-pp-dp")});
    add(recompute, {quoted("none"), quoted("selective"), R"(["norm","activation"])", quoted("full")});
    for (const char* field : overlap_fields) add(field, {"true", "false"});
    add(overlap_experts, {"true", "false"});
    for (const Home& home : all_homes())
        for (const auto& [pointer, value] : home.fields) add(pointer, {value});
    for (const char* word : Spelling<GradientCompression>::all) add(compression_kind, {quoted(word)});
    for (const auto& [pointer, list] : space) {
        if (!Variations::can_vary(pointer)) continue;
        add(pointer, list);
        const bool known = std::find(std::begin(in_groups), std::end(in_groups), pointer) != std::end(in_groups);
        if (!known) others_.push_back(pointer);
    }
    degrees_ = {axis(tensor, tensors), axis(pipeline, stages ? pipelines : std::vector<std::string>{"1"}),
                axis(context, can.has_context() ? texts(of_devices) : std::vector<std::string>{"1"})};
    if (s.model.moe) {
        degrees_.push_back(axis(expert, texts(divisors(s.model.moe->experts))));
        degrees_.push_back(axis(expert_tensor, {"1", "same"})); // of tensor_parallel, as is usual, or whole experts
    }
}

std::vector<std::string> Lists::values(const std::string& pointer, std::vector<std::string> usual) const {
    const auto own = space_.find(pointer);
    if (own != space_.end()) return own->second;
    return fixed(pointer) ? std::vector<std::string>{} : usual;
}

int Lists::id(const std::string& pointer, const std::string& value) const {
    const auto it = ids_.find({pointer, value});
    if (it == ids_.end()) throw std::logic_error("search: no setting " + pointer + " = " + value);
    return it->second;
}

// One choice without settings where the field is not free.
std::vector<GroupValue> Lists::axis(const std::string& pointer, const std::vector<std::string>& usual) const {
    std::vector<GroupValue> out;
    for (const std::string& value : values(pointer, usual)) {
        std::string name = last_step(pointer);
        if (value == "same") {
            out.push_back({{}, ""});
            continue;
        }
        if (value == "true" || value == "false")
            out.push_back({{id(pointer, value)}, (value == "true" ? "" : "no ") + name});
        else
            out.push_back({{id(pointer, value)}, name + " " + bare(value)});
    }
    if (out.empty()) out.push_back({});
    return out;
}

std::vector<Settings> Lists::degrees() const {
    std::vector<GroupValue> all{{}};
    for (const std::vector<GroupValue>& one : degrees_) all = product(all, one);
    std::vector<Settings> out;
    for (GroupValue& c : all)
        if (!twice(c.settings)) out.push_back(std::move(c.settings));
    constexpr std::size_t large = 1000; // combinations: what is legal below one takes up to 20 ms to list
    if (!options_.few) return out;
    return out.size() > large ? usual(out) : std::vector<Settings>{};
}

int Lists::degree(const Settings& settings, const std::string& pointer, int own) const {
    for (const int setting : settings)
        if (variations_.pointer(setting) == pointer) return std::max(1, std::atoi(variations_.value(setting).c_str()));
    return std::max(1, own);
}

// Whole experts beside whole layers are what is usual there (expert_tensor_parallel follows tensor_parallel): not listed once more by name.
bool Lists::twice(const Settings& settings) const {
    if (!variations_.base().model.moe || space_.contains(expert_tensor) || fixed(expert_tensor)) return false;
    const bool named = std::ranges::any_of(settings, [&](int setting) { return variations_.pointer(setting) == expert_tensor; });
    return named && degree(settings, tensor, variations_.base().strategy.tensor_parallel) == 1;
}

// Large jobs keep tensors within a node, and experts on all devices of a stage or on those of a node; sequences stay whole where they can.
std::vector<Settings> Lists::usual(const std::vector<Settings>& degrees) const {
    constexpr int widest = 8; // tensors
    const Scenario& s = variations_.base();
    const Strategy& own = s.strategy;
    const int node = s.cluster.devices_per_node, devices = s.cluster.devices();
    int least_context = devices, least_tensor = devices;
    for (const Settings& d : degrees) {
        least_context = std::min(least_context, degree(d, context, own.context_parallel));
        least_tensor = std::min(least_tensor, degree(d, tensor, own.tensor_parallel));
    }
    std::map<std::pair<int, int>, std::pair<int, int>> experts; // by tensor degree and stages: most on a stage, most on a node
    const auto key = [&](const Settings& d) {
        return std::pair(degree(d, tensor, own.tensor_parallel), degree(d, pipeline, own.pipeline_parallel));
    };
    const auto kept = [&](const Settings& d) {
        return degree(d, context, own.context_parallel) == least_context &&
               (key(d).first <= std::min(widest, node) || key(d).first == least_tensor);
    };
    for (const Settings& d : degrees) {
        const int e = degree(d, expert, own.expert_parallel), stages = key(d).second;
        if (!kept(d) || devices % stages != 0 || devices / stages % e != 0) continue;
        auto& [of_stage, of_node] = experts[key(d)];
        of_stage = std::max(of_stage, e);
        if (e <= node) of_node = std::max(of_node, e);
    }
    std::vector<Settings> out;
    for (const Settings& d : degrees) {
        const auto most = experts.find(key(d));
        const int e = degree(d, expert, own.expert_parallel);
        if (kept(d) && most != experts.end() && (e == most->second.first || e == most->second.second)) out.push_back(d);
    }
    return out;
}

std::vector<GroupValue> Lists::first_of(std::vector<GroupValue> values) const {
    if (options_.few && values.size() > 1) values.resize(1);
    return values;
}

std::vector<GroupValue> Lists::micro_batches(const Scenario& shape) const {
    const std::int64_t dp = shape.strategy.data_parallel, batch = shape.training.global_batch_size;
    if (dp <= 0 || batch % dp != 0) return {};
    if (space_.contains(micro_batch) || fixed(micro_batch)) return first_of(axis(micro_batch, {}));
    return first_of(axis(micro_batch, texts(divisors(batch / dp))));
}

std::vector<GroupValue> Lists::schedules(const Scenario& shape) const {
    const Strategy& s = shape.strategy;
    const int stages = s.pipeline_parallel, whole = (shape.model.layers + stages - 1) / stages;
    std::vector<GroupValue> out;
    const Abilities can = abilities_of(variations_.base());
    std::vector<std::string> known;
    for (const std::string& name : can.all_schedules()) known.push_back(quoted(name));
    // Software without a pipeline of its own, told to have stages: as the scenario itself has them.
    if (stages > 1 && std::ranges::all_of(known, [](const std::string& name) { return bare(name) == "none"; }))
        known = {quoted(s.schedule)};
    const std::vector<std::string> names = values(schedule, known);
    const auto fits = [&](const ScheduleInfo& info, int v) {
        ScheduleShape asked;
        asked.stages = stages;
        asked.chunks_per_stage = v;
        asked.microbatches = 1 << 20;
        for (const ShapeProblem& p : info.check(asked))
            if (p.count != ShapeCount::microbatches) return false;
        return true;
    };
    for (const std::string& name : names.empty() ? std::vector<std::string>{""} : names) {
        const ScheduleInfo* info = find_schedule(name.empty() ? s.schedule : bare(name));
        if (info == nullptr) continue;
        // A schedule that is stated stays, as the scenario itself may have it, whatever the number of stages.
        if (names.size() > 1 && (std::string_view(info->name) == "none") != (stages == 1)) continue;
        GroupValue base{{}, ""};
        if (!name.empty()) base = {{id(schedule, name)}, stages > 1 ? "schedule " + bare(name) : ""};
        std::vector<std::string> counts;
        for (int v = 1; v <= whole && static_cast<std::int64_t>(v) * stages <= shape.model.layers + 2; ++v)
            if ((whole % v == 0 || (shape.model.layers / stages) % v == 0) && fits(*info, v)) counts.push_back(std::to_string(v));
        counts = values(chunks, counts);
        if (options_.few && counts.size() > 1) counts.resize(1);
        if (counts.empty() && fixed(chunks)) out.push_back(base);
        for (const std::string& v : counts) {
            GroupValue c = base;
            c.settings.push_back(id(chunks, v));
            if (v != "1") c.word += (c.word.empty() ? "" : ", ") + v + " chunks a stage";
            out.push_back(std::move(c));
        }
    }
    return out;
}

// As the framework does, or all that runs under computation where there is any.
std::vector<GroupValue> Lists::overlaps(const Scenario& shape) const {
    const Strategy& s = shape.strategy;
    GroupValue on{{}, "all overlapped"};
    const auto take = [&](const char* field, bool useful) {
        if (useful && !fixed(field) && !space_.contains(field)) on.settings.push_back(id(field, "true"));
    };
    const bool replicas = static_cast<std::int64_t>(s.data_parallel) * s.context_parallel > 1;
    take(overlap_fields[0], replicas);
    take(overlap_fields[1], replicas);
    take(overlap_fields[2], s.tensor_parallel > 1 && may_overlap_tensor_parallel(shape));
    take(overlap_fields[3], s.pipeline_parallel > 1);
    std::vector<GroupValue> out{{}};
    if (!on.settings.empty()) out.push_back(on);
    if (s.expert_parallel > 1 && !s.overlap.shared_experts && !fixed(overlap_experts) && !space_.contains(overlap_experts)) {
        on.settings.push_back(id(overlap_experts, "true"));
        on.word += ", experts too";
        out.push_back(on);
    }
    return out;
}

std::vector<GroupValue> Lists::cores(const Scenario& shape) const {
    const Strategy& s = shape.strategy;
    const Abilities can = abilities_of(variations_.base());
    std::vector<GroupValue> all{{}};
    if (s.tensor_parallel > 1) all = product(all, first_of(axis(sequence, {"true", "false"})));
    if (s.context_parallel > 1) {
        std::vector<std::string> kinds;
        for (const ContextKind k : orrery::values<ContextKind>())
            if (can.has(k)) kinds.push_back(quoted(name(k)));
        all = product(all, axis(kind, kinds));
    }
    if (s.expert_parallel > 1) {
        std::vector<std::string> dispatchers;
        for (const TokenDispatcher d : orrery::values<TokenDispatcher>())
            if (may_dispatch(variations_.base(), d)) dispatchers.push_back(quoted(name(d)));
        all = product(all, axis(dispatcher, dispatchers));
    }
    all = product(all, first_of(overlaps(shape)));
    for (const std::string& pointer : others_) all = product(all, axis(pointer, {}));
    return all;
}

bool Lists::open(const std::string& section) const {
    return !variations_.given(section) &&
           std::none_of(space_.begin(), space_.end(), [&](const auto& one) { return one.first.starts_with(section); });
}

bool Lists::homes_open() const { return open(offload); }

bool Lists::free_homes() const { return options_.farthest > Reach::devices && homes_open(); }

// One choice without settings where all stays on the devices.
std::vector<GroupValue> Lists::homes(const Scenario& shape) const {
    if (!free_homes()) return {{}};
    std::vector<GroupValue> out;
    for (const Home& home : homes_of(shape)) {
        if (home.reach < options_.nearest || home.reach > options_.farthest) continue;
        GroupValue one{{}, home.words};
        for (const auto& [pointer, value] : home.fields) one.settings.push_back(id(pointer, value));
        out.push_back(std::move(one));
    }
    return out;
}

std::vector<GroupValue> Lists::compressions() const {
    std::vector<GroupValue> out{{}};
    if (!options_.compression || !open(compression)) return out;
    for (const GradientCompression kind : abilities_of(variations_.base()).all_compressions())
        out.push_back({{id(compression_kind, quoted(name(kind)))}, "gradients as " + std::string(name(kind))});
    return out;
}

std::vector<GroupValue> Lists::shardings(const Scenario& shape) const {
    const Strategy& s = shape.strategy;
    if (static_cast<std::int64_t>(s.data_parallel) * s.context_parallel == 1) return homes(shape);
    std::vector<GroupValue> out;
    Scenario staged = shape;
    const Abilities can = abilities_of(variations_.base());
    std::vector<std::string> stages;
    for (int z = 0; z <= 3; ++z)
        if (can.has_stage(z, s.pipeline_parallel > 1)) stages.push_back(std::to_string(z));
    for (const GroupValue& stage : axis(zero, stages)) {
        if (!stage.settings.empty()) staged.strategy.zero_stage = std::stoi(variations_.value(stage.settings.front()));
        for (GroupValue& one : product({stage}, homes(staged))) out.push_back(std::move(one));
    }
    return out;
}

std::vector<GroupValue> Lists::rests(const Scenario& shape) const {
    const Strategy& s = shape.strategy;
    const std::int64_t replicas = static_cast<std::int64_t>(s.data_parallel) * s.context_parallel;
    std::vector<GroupValue> all = shardings(shape);
    if (replicas > 1) {
        const std::int64_t inside = shape.cluster.devices_per_node / std::max(1, s.tensor_parallel);
        const std::int64_t sharing = static_cast<std::int64_t>(s.replicas_of_worker()) * s.context_parallel; // every step
        const bool groups =
            shape.cluster.nodes > 1 && inside > 1 && inside < sharing && sharing % inside == 0 && inside % s.context_parallel == 0;
        const std::vector<GroupValue> stages = std::move(all);
        all.clear();
        for (const GroupValue& stage : stages) {
            const bool states = !stage.settings.empty() && variations_.pointer(stage.settings.front()) == zero;
            const bool sharded = states ? variations_.value(stage.settings.front()) != "0" : s.zero_stage > 0;
            for (const std::string& size : values(group, {"0", sharded && groups ? std::to_string(inside) : "0"})) {
                GroupValue c = stage;
                c.settings.push_back(id(group, size));
                if (size != "0") c.word += (c.word.empty() ? "" : " ") + ("in groups of " + size);
                all.push_back(std::move(c));
            }
            if (fixed(group)) all.push_back(stage);
        }
        all = product(all, compressions());
    }
    if (s.pipeline_parallel > 1 && s.data_parallel > 1 && shape.cluster.nodes > 1)
        all = product(all, axis(order, {quoted("tp-cp-ep-dp-pp"), quoted("tp-cp-ep-pp-dp")}));
    return all;
}

std::vector<GroupValue> Lists::recomputes() const {
    return axis(recompute, {quoted("none"), quoted("selective"), R"(["norm","activation"])", quoted("full")});
}

// Not each by itself: see overlaps().
std::string Lists::free_overlaps() const {
    const auto is_free = [&](const char* field) { return !variations_.given(field) && !space_.contains(field); };
    const auto several = std::ranges::count_if(overlap_fields, is_free);
    const bool experts = variations_.base().model.moe.has_value() && is_free(overlap_experts);
    if (several == 0) return experts ? "overlap.expert_parallel" : "";
    return fmt::format("{} (as the framework has them, or all{})",
                       several == std::ssize(overlap_fields) ? "overlaps" : "the other overlaps",
                       experts ? ", with or without those of experts" : "");
}

std::vector<std::string> Lists::free() const {
    constexpr const char* of_experts[] = {expert, expert_tensor, dispatcher};
    const bool experts = variations_.base().model.moe.has_value();
    std::vector<std::string> out;
    const auto add = [&](const std::string& pointer) {
        if (!experts && std::ranges::find(of_experts, pointer) != std::end(of_experts)) return;
        const auto own = space_.find(pointer);
        if (own != space_.end() ? own->second.size() < 2 : variations_.given(pointer)) return;
        out.push_back((pointer.starts_with("/strategy/overlap/") ? "overlap." : "") + last_step(pointer));
    };
    for (const char* pointer : in_groups) add(pointer);
    if (std::string overlaps = free_overlaps(); !overlaps.empty()) out.push_back(std::move(overlaps));
    if (free_homes()) out.push_back(last_step(offload));
    if (options_.compression && open(compression)) out.push_back(last_step(compression));
    for (const std::string& pointer : others_) add(pointer);
    return out;
}

} // namespace orrery
