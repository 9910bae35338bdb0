#include "sim/compare/compare.hpp"
#include "sim/report/pair_bar.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

namespace orrery {

namespace {

using Shares = std::map<std::string, Share>;
using OpKey = std::pair<int, std::string>; // stage and name

// One step of a trace: means over ranks; for ops over the ranks of their stage.
struct Summary {
    Side side;
    Shares kinds, queues, phases, waits, alike;
    struct Op {
        std::string kind;
        Share share;
    };
    std::map<OpKey, Op> ops;
    std::map<std::string, double> memory;
    std::map<int, double> stages;
};

bool is_measured(const Trace& t) { return t.source.starts_with("measured"); }

// "4 ranks share 2 cores", where the source of a measured trace says so; else nothing.
std::string shared_cores(const std::string& source) {
    const std::size_t share = source.find(" ranks share ");
    if (share == std::string::npos) return {};
    const std::size_t comma = source.rfind(", ", share), begin = comma == std::string::npos ? 0 : comma + 2;
    return source.substr(begin, source.find_first_of(",;", share) - begin);
}

// "l17.qkv.fwd" -> "l*.qkv.fwd"; what belongs to no layer keeps its name.
std::string without_layer(const TraceOp& op) {
    const std::string mine = "l" + std::to_string(op.layer) + ".";
    return op.layer >= 0 && op.name.starts_with(mine) ? "l*." + op.name.substr(mine.size()) : op.name;
}

void add(Share& share, double seconds, double weight) {
    share.seconds += seconds * weight;
    share.count += weight;
}

void add_spans(Summary& s, const Trace& t, const Lane& lane, double of_all, double of_stage) {
    for (const Span& span : lane.spans) {
        const double seconds = (span.end - span.begin).seconds();
        const std::string& queue = t.queues[span.queue];
        if (span.kind == SpanKind::wait) {
            if (queue == "compute") add(s.waits[name(span.cause)], seconds, of_all);
            continue;
        }
        if (span.kind == SpanKind::transfer_wait || span.op < 0) continue; // posted, nothing moves yet: the wait of another queue shows it
        const TraceOp& op = t.ops[span.op];
        add(s.kinds[op.kind], seconds, of_all);
        add(s.queues[queue], seconds, of_all);
        add(s.phases[op.phase], seconds, of_all);
        add(s.alike[without_layer(op)], seconds, of_all);
        Summary::Op& mine = s.ops[{lane.stage, op.name}];
        mine.kind = op.kind;
        add(mine.share, seconds, of_stage);
    }
}

void add_memory(Summary& s, const Trace& t, const Lane& lane) {
    double& stage = s.stages[lane.stage];
    for (const MemorySample& sample : lane.memory) {
        double total = 0;
        for (const std::int64_t bytes : sample.bytes) total += static_cast<double>(bytes);
        stage = std::max(stage, total);
        if (total <= s.memory["peak"]) continue;
        s.memory.clear();
        for (std::size_t k = 0; k < sample.bytes.size(); ++k) s.memory[t.memory_kinds[k]] = static_cast<double>(sample.bytes[k]);
        s.memory["peak"] = total;
    }
}

Summary summarise(const Trace& t) {
    Summary s;
    s.side = {t.name, t.source, t.step_s(), 0, t.plan_hash};
    std::map<int, int> ranks_of;
    for (const Lane& lane : t.lanes) {
        s.side.ranks += lane.ranks;
        ranks_of[lane.stage] += lane.ranks;
    }
    for (const Lane& lane : t.lanes) {
        const double ranks = static_cast<double>(lane.ranks) / t.steps; // of a step
        add_spans(s, t, lane, ranks / s.side.ranks, ranks / ranks_of[lane.stage]);
        add_memory(s, t, lane);
    }
    return s;
}

std::vector<Pair> pairs(const Shares& a, const Shares& b) {
    std::map<std::string, Pair> by_name;
    for (const auto& [key, share] : a) by_name[key].a = share;
    for (const auto& [key, share] : b) by_name[key].b = share;
    std::vector<Pair> result;
    for (auto& [key, pair] : by_name) {
        pair.name = key;
        result.push_back(std::move(pair));
    }
    std::ranges::stable_sort(
        result, [](const Pair& x, const Pair& y) { return std::max(x.a.seconds, x.b.seconds) > std::max(y.a.seconds, y.b.seconds); });
    return result;
}

void pair_ops(Comparison& c, const Summary& a, const Summary& b) {
    std::vector<double> logs;
    for (const auto& [key, op] : a.ops) {
        const auto other = b.ops.find(key);
        if (other == b.ops.end()) {
            c.only_a.push_back(key.second);
            continue;
        }
        const Share& theirs = other->second.share;
        c.ops.push_back({key.second, op.kind, key.first, op.share, theirs});
        if (op.share.seconds > 0 && theirs.seconds > 0) logs.push_back(std::log(op.share.seconds / theirs.seconds));
    }
    for (const auto& [key, op] : b.ops) {
        if (!a.ops.contains(key)) c.only_b.push_back(key.second);
    }
    std::ranges::stable_sort(
        c.ops, [](const OpPair& x, const OpPair& y) { return std::abs(x.a.seconds - x.b.seconds) > std::abs(y.a.seconds - y.b.seconds); });
    if (logs.empty()) return;
    double sum = 0;
    for (const double log : logs) sum += log;
    c.mean_ratio = std::exp(sum / static_cast<double>(logs.size()));
    for (double& log : logs) log = std::abs(log);
    std::ranges::sort(logs);
    c.decile_ratio = std::exp(logs[(logs.size() - 1) * 9 / 10]);
}

void pair_memory(Comparison& c, const Summary& a, const Summary& b) {
    if (a.memory.empty() || b.memory.empty()) {
        if (a.memory.empty() != b.memory.empty()) c.notes.push_back((a.memory.empty() ? a : b).side.name + ": its trace has no memory");
        return;
    }
    std::map<std::string, MemoryPair> by_kind;
    for (const auto& [kind, bytes] : a.memory) by_kind[kind].a = bytes;
    for (const auto& [kind, bytes] : b.memory) by_kind[kind].b = bytes;
    for (auto& [kind, pair] : by_kind) {
        pair.name = kind;
        if (kind != "peak") c.memory.push_back(pair);
    }
    c.memory.push_back(by_kind["peak"]);
    for (const auto& [stage, bytes] : a.stages) {
        if (b.stages.contains(stage)) c.stages.push_back({"stage " + std::to_string(stage), bytes, b.stages.at(stage)});
    }
}

void remark(Comparison& c, const Summary& a, const Summary& b) {
    if (c.measured && a.side.plan_hash != b.side.plan_hash)
        c.notes.push_back("the two ran different plans: errors are of the plan as well as of the prediction");
    for (const Summary* s : {&a, &b})
        if (const std::string shared = shared_cores(s->side.source); !shared.empty())
            c.notes.push_back(s->side.name + ": " + shared + ", so an op's time holds its waits for a core");
    if (a.side.ranks != b.side.ranks) c.notes.push_back("unlike numbers of ranks: times are means over the ranks of each");
    if (!c.only_a.empty() || !c.only_b.empty()) {
        c.notes.push_back(std::to_string(c.only_a.size()) + " ops only in the first, " + std::to_string(c.only_b.size()) +
                          " only in the second");
    }
}

} // namespace

Comparison compare(const Trace& first, const Trace& second) {
    const bool swap = is_measured(first) && !is_measured(second);
    const Summary a = summarise(swap ? second : first), b = summarise(swap ? first : second);
    Comparison c;
    c.a = a.side;
    c.b = b.side;
    c.measured = is_measured(first) != is_measured(second);
    c.kinds = pairs(a.kinds, b.kinds);
    c.queues = pairs(a.queues, b.queues);
    c.phases = pairs(a.phases, b.phases);
    c.waits = pairs(a.waits, b.waits);
    c.alike = pairs(a.alike, b.alike);
    std::ranges::stable_sort(c.alike, std::greater{}, [](const Pair& p) { return std::abs(p.difference()); });
    pair_ops(c, a, b);
    pair_memory(c, a, b);
    remark(c, a, b);
    return c;
}

void add_reports(Comparison& c, const Report& a, const Report& b) {
    c.a.step_s = a.step_time_s;
    c.b.step_s = b.step_time_s;
    const PairBar bar = pair_bar({a.configuration, a.step_time_s}, {b.configuration, b.step_time_s}, validated_rows());
    const bool same = a.step_time_s == b.step_time_s && a.configuration.shares == b.configuration.shares;
    if (bar.width > 0 && !same) {
        const double ratio = b.step_time_s / a.step_time_s;
        c.least_ratio = ratio * std::exp(-bar.width), c.most_ratio = ratio * std::exp(bar.width), c.known_pairs = bar.pairs;
    }
    for (std::size_t k = 0; k < a.breakdown_s.size(); ++k)
        c.parts.push_back({in_words(static_cast<Category>(k)), {a.breakdown_s[k], 0}, {b.breakdown_s[k], 0}});
}

} // namespace orrery
