#include "sim/compare/compare.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace orrery {

namespace {

using Json = nlohmann::ordered_json;

Json side(const Side& s) {
    return {{"name", s.name},
            {"source", s.source},
            {"step_time_s", s.step_s},
            {"ranks", s.ranks},
            {"plan_hash", fmt::format("{:016x}", s.plan_hash)}};
}

void put_error(Json& row, const Comparison& c, double a, double b) {
    if (c.measured && b > 0) row["error"] = a / b - 1;
}

Json rows(const std::vector<Pair>& pairs, const Comparison& c) {
    Json list = Json::array();
    for (const Pair& p : pairs) {
        Json row{{"name", p.name}, {"a_s", p.a.seconds}, {"b_s", p.b.seconds}, {"a_spans", p.a.count}, {"b_spans", p.b.count}};
        put_error(row, c, p.a.seconds, p.b.seconds);
        list.push_back(std::move(row));
    }
    return list;
}

Json rows(const std::vector<MemoryPair>& pairs, const Comparison& c) {
    Json list = Json::array();
    for (const MemoryPair& p : pairs) {
        Json row{{"name", p.name}, {"a_bytes", p.a}, {"b_bytes", p.b}};
        put_error(row, c, p.a, p.b);
        list.push_back(std::move(row));
    }
    return list;
}

} // namespace

std::string to_json(const Comparison& c, int most) {
    Json out{{"a", side(c.a)}, {"b", side(c.b)}, {"measured", c.measured}};
    put_error(out, c, c.a.step_s, c.b.step_s);
    for (const Pair& p : c.parts) out["parts_s"][p.name] = {p.a.seconds, p.b.seconds};
    if (c.most_ratio > 0) out["ratio_interval"] = {c.least_ratio, c.most_ratio};
    out["op_ratio"] = {{"ops", c.ops.size()}, {"geometric_mean", c.mean_ratio}, {"ninety_percent_within", c.decile_ratio}};
    out["kinds"] = rows(c.kinds, c);
    out["queues"] = rows(c.queues, c);
    out["phases"] = rows(c.phases, c);
    out["waits"] = rows(c.waits, c);
    out["alike"] = rows(c.alike, c);
    out["ops"] = Json::array();
    for (const OpPair& op : c.ops) {
        if (most >= 0 && out["ops"].size() >= static_cast<std::size_t>(most)) break;
        Json row{{"name", op.name},     {"kind", op.kind},       {"stage", op.stage},    {"a_s", op.a.seconds},
                 {"b_s", op.b.seconds}, {"a_spans", op.a.count}, {"b_spans", op.b.count}};
        put_error(row, c, op.a.seconds, op.b.seconds);
        out["ops"].push_back(std::move(row));
    }
    out["only_a"] = c.only_a;
    out["only_b"] = c.only_b;
    out["memory"] = rows(c.memory, c);
    out["stages"] = rows(c.stages, c);
    out["notes"] = c.notes;
    return out.dump(2) + "\n";
}

} // namespace orrery
