// Fields with a form of their own: lists, texts with a unit, objects of one kind or another.
#include "sim/scenario/fields.hpp"
#include "sim/scenario/suggest.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace orrery {
namespace {

// Whole numbers of at least `least` from a list; nothing and a problem where it is something else.
bool whole_numbers(Reading& reading, const Json& value, const std::string& where, int least, std::vector<int>& out) {
    for (const Json& item : value) {
        if (!item.is_number_integer() || item.get<double>() < least || item.get<double>() > 1e9) {
            reading.problem(where, dotted(where) + " holds " + short_text(item) + ": its items are whole numbers of at least " +
                                       std::to_string(least));
            return false;
        }
        out.push_back(item.get<int>());
    }
    return true;
}

// A count in an object of this field alone; 0: it is something else.
int count_alone(const Json& object, const char* key) {
    const auto n = object.find(key);
    const bool known = object.size() == 1 && n != object.end() && n->is_number_integer() && n->get<double>() >= 1 && n->get<double>() < 1e6;
    return known ? n->get<int>() : 0;
}

bool is_load(const Json& x) { return x.is_number() && x.get<double>() >= 0 && x.get<double>() <= 1e15; } // sums stay finite

bool is_load_list(const Json& list) {
    return list.is_array() && !list.empty() && std::all_of(list.begin(), list.end(), is_load) &&
           std::any_of(list.begin(), list.end(), [](const Json& x) { return x.get<double>() > 0; });
}

// Rows or shares each expert got, as a run's router counted them: a list of lists, one a mixture layer, or one list for all.
void read_load_file(Reading& reading, const std::string& name, const std::string& where) {
    MoeSpec& moe = *reading.scenario.model.moe;
    const std::filesystem::path file = std::filesystem::path(reading.options.base_dir) / name;
    std::string text;
    if (!read_file(file.string(), text)) return reading.problem(where, dotted(where) + ": cannot read " + file.string());
    std::vector<Problem> problems;
    Json loads = read_json(text, problems);
    for (const Problem& p : problems) reading.problem(where, file.string() + ": " + p.what);
    if (!problems.empty()) return;
    if (is_load_list(loads)) loads = Json::array({loads});
    if (!loads.is_array() || loads.empty() || !std::all_of(loads.begin(), loads.end(), is_load_list))
        return reading.problem(where, file.string() +
                                          " must be a list of lists of loads, one a mixture layer in model order, each with a number "
                                          "of at least 0 an expert, not all 0");
    moe.imbalance = Imbalance::file;
    moe.imbalance_loads = loads.get<std::vector<std::vector<double>>>();
}

// How an error goes on: "it", or what another tool's word stands for.
std::string guess(std::string_view field, const Json& value) {
    const std::string_view meant = value.is_string() ? meant_by_other_word(field, value.get<std::string>()) : std::string_view{};
    return meant.empty() ? "it" : "did you mean " + std::string(meant) + "? It";
}

} // namespace

void ignore(Reading&, const Json&, const std::string&) {}

void read_layer_split(Reading& reading, const Json& value, const std::string& where) {
    if (!value.is_array() || value.empty()) {
        reading.problem(where, dotted(where) + " = " + short_text(value) +
                                   " must be a list: layers per pipeline stage, or per chunk in model order");
        return;
    }
    std::vector<int> split;
    if (whole_numbers(reading, value, where, 0, split)) reading.layer_split = split;
}

void read_rank_order(Reading& reading, const Json& value, const std::string& where) {
    if (!value.is_string() || !is_name(value.get<std::string>()))
        return reading.problem(where, dotted(where) + " = " + short_text(value) + " must be a text such as \"tp-cp-ep-dp-pp\"");
    reading.rank_order = value.get<std::string>();
}

void read_recompute(Reading& reading, const Json& value, const std::string& where) {
    static const std::vector<std::string> wholes = {"none", "selective", "full"};
    Strategy& strategy = reading.scenario.strategy;
    if (value.is_string()) {
        const std::string word = value.get<std::string>();
        const auto found = std::find(wholes.begin(), wholes.end(), word);
        if (found != wholes.end()) {
            strategy.recompute = static_cast<RecomputeKind>(found - wholes.begin());
            return;
        }
        const auto near = nearest(word, wholes);
        reading.problem(where, dotted(where) + " = " + short_text(value) + " is not known" +
                                   (near ? ": did you mean \"" + *near + "\"?" : ".") +
                                   " It is none, selective, full, or a list of op kinds such as [\"norm\", \"activation\"]");
        return;
    }
    if (value.is_object()) {
        const bool settled = value.size() == 1 && value.contains("segments") && value["segments"] == "auto";
        const int segments = settled ? -1 : count_alone(value, "segments"); // -1: sim/memory/best_segments.hpp
        const int length = count_alone(value, "segment_layers");
        if (segments != 0 || length != 0) {
            strategy.recompute = RecomputeKind::full;
            strategy.recompute_segments = segments;
            strategy.recompute_segment_layers = length;
            return;
        }
        const auto budget = value.find("memory_budget");
        if (value.size() == 1 && budget != value.end() && budget->is_number() && budget->get<double>() >= 0 && budget->get<double>() <= 1) {
            strategy.recompute = RecomputeKind::budget;
            strategy.recompute_budget = budget->get<double>();
            return;
        }
    }
    if (!value.is_array()) {
        reading.problem(where, dotted(where) + " = " + short_text(value) + " is " + type_name(value) +
                                   ": expected none, selective, full, a list of op kinds, {\"segments\": n} with n >= 1, "
                                   "{\"segments\": \"auto\"}, {\"segment_layers\": n} with n >= 1, or {\"memory_budget\": x} with x "
                                   "from 0 to 1");
        return;
    }
    strategy.recompute = value.empty() ? RecomputeKind::none : RecomputeKind::list;
    for (std::size_t i = 0; i < value.size(); ++i) {
        const std::string at = where + "/" + std::to_string(i);
        if (const auto op = value[i].is_string() ? named<RecomputeOp>(value[i].get<std::string>()) : std::nullopt) {
            strategy.recompute_ops.push_back(*op);
            continue;
        }
        reading.problem(at, dotted(at) + " = " + short_text(value[i]) + " is not an op kind: " + guess("strategy.recompute", value[i]) +
                                " is one of " + join(words<RecomputeOp>()));
    }
}

namespace {

// A list of words of an enum; `otherwise` says what stands for none.
template <class E>
void read_words(Reading& reading, const Json& value, const std::string& where, const char* otherwise, std::vector<E>& list) {
    list.clear();
    if (!value.is_array() || value.empty())
        return reading.problem(where, dotted(where) + " = " + short_text(value) + " must be a list of some of " + join(words<E>()) +
                                          "; left out: " + otherwise);
    for (std::size_t i = 0; i < value.size(); ++i) {
        const std::string at = where + "/" + std::to_string(i);
        if (const auto word = value[i].is_string() ? named<E>(value[i].get<std::string>()) : std::nullopt)
            list.push_back(*word);
        else
            reading.problem(at, dotted(at) + " = " + short_text(value[i]) + " is not known: " + guess(dotted(where), value[i]) +
                                    " is one of " + join(words<E>()));
    }
}

} // namespace

void read_offload_ops(Reading& reading, const Json& value, const std::string& where) {
    read_words(reading, value, where, "all that is saved", reading.scenario.strategy.offload.activation_ops);
}

void read_lora_targets(Reading& reading, const Json& value, const std::string& where) {
    read_words(reading, value, where, "all linears of the layers but those of experts", reading.scenario.model.trainable.targets);
}

void read_frozen(Reading& reading, const Json& value, const std::string& where) {
    read_words(reading, value, where, "nothing", reading.scenario.model.trainable.frozen);
}

void read_samples(Reading& reading, const Json& value, const std::string& where) {
    if (!value.is_array() || value.empty())
        return reading.problem(where,
                               dotted(where) + " = " + short_text(value) +
                                   " must be a list of whole numbers, one for each worker (synchronization.workers, else data_parallel)");
    reading.scenario.strategy.synchronization.samples.clear();
    whole_numbers(reading, value, where, 1, reading.scenario.strategy.synchronization.samples);
}

void read_recompute_layers(Reading& reading, const Json& value, const std::string& where) {
    Strategy& strategy = reading.scenario.strategy;
    if (value.is_object()) {
        if (const int every = count_alone(value, "every"); every != 0) {
            strategy.recompute_every = every;
            return;
        }
        if (const int per_chunk = count_alone(value, "per_chunk"); per_chunk != 0) {
            strategy.recompute_per_chunk = per_chunk;
            return;
        }
    } else if (value.is_number_integer() && value.get<double>() >= 0 && value.get<double>() < 1e6) {
        strategy.recompute_layers = {value.get<int>()}; // made one a stage in layers.cpp
        return;
    } else if (value.is_array() && !value.empty()) {
        whole_numbers(reading, value, where, 0, strategy.recompute_layers);
        return;
    }
    reading.problem(where, dotted(where) + " = " + short_text(value) +
                               " must be a count of layers per stage, a list with one a stage, {\"per_chunk\": n}, or {\"every\": n}");
}

void read_imbalance(Reading& reading, const Json& value, const std::string& where) {
    MoeSpec& moe = *reading.scenario.model.moe;
    if (value.is_string()) {
        const std::string word = value.get<std::string>();
        const std::string exponent = word.starts_with("zipf:") ? word.substr(5) : "";
        const bool digits = !exponent.empty() && exponent.size() < 8 && exponent.find_first_not_of("0123456789.") == std::string::npos &&
                            std::count(exponent.begin(), exponent.end(), '.') <= 1 && exponent != ".";
        if (digits) {
            moe.imbalance = Imbalance::zipf;
            moe.imbalance_exponent = std::stod(exponent);
            return;
        }
        if (word == "none" || word == "forced" || word == "untrained") {
            moe.imbalance = named<Imbalance>(word).value();
            return;
        }
    } else if (value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), is_load)) {
        moe.imbalance = Imbalance::list;
        moe.imbalance_loads = {value.get<std::vector<double>>()};
        return;
    } else if (value.is_object() && value.size() == 1 && value.contains("file") && value.at("file").is_string()) {
        return read_load_file(reading, value.at("file").get<std::string>(), where + "/file");
    }
    reading.problem(where,
                    dotted(where) + " = " + short_text(value) +
                        " must be \"none\", \"forced\", \"untrained\", \"zipf:1.2\" (any exponent), a list of shares, one an expert, or "
                        "{\"file\": path} of such lists, one a mixture layer");
}

void read_bucket_bytes(Reading& reading, const Json& value, const std::string& where) {
    std::optional<Bytes> size;
    if (value.is_number() && value.get<double>() > 0 && value.get<double>() < 9e15)
        size = Bytes{static_cast<std::int64_t>(value.get<double>())};
    else if (value.is_string())
        size = parse_bytes(value.get<std::string>());
    if (size && size->count > 0 && size->count < 9'000'000'000'000'000)
        reading.scenario.strategy.bucket_bytes = *size;
    else
        reading.problem(where,
                        dotted(where) + " = " + short_text(value) + " must be a size above zero: bytes, or a text such as \"25 MiB\"");
}

void read_kernels(Reading& reading, const Json& value, const std::string& where) {
    const auto wrong = [&](const std::string& at, const Json& v) {
        reading.problem(
            at, dotted(at) + " = " + short_text(v) +
                    " must be a law {\"start_us\", \"gflops_per_s\", \"gb_per_s\"}: start_us from 0 to 1e9, rates 0 (no part in it) or "
                    "from 0.001 to 1e15");
    };
    if (!value.is_object()) return wrong(where, value);
    for (const auto& [key, law] : value.items()) {
        const std::string at = where + pointer_step(key);
        if (!law.is_object()) {
            wrong(at, law);
            continue;
        }
        KernelLaw read;
        for (const auto& [name, number] : law.items()) {
            double* slot = name == "start_us"       ? &read.start_us
                           : name == "gflops_per_s" ? &read.gflops_per_s
                           : name == "gb_per_s"     ? &read.gb_per_s
                                                    : nullptr;
            const bool told = name == "points" || name == "error"; // what the fit rests on
            const double stated = number.is_number() ? number.get<double>() : -1;
            const bool sane = slot == &read.start_us ? stated <= 1e9 : stated == 0 || (stated >= 1e-3 && stated <= 1e15);
            if ((!slot && !told) || !(stated >= 0) || (slot && !sane))
                wrong(at + pointer_step(name), number);
            else if (slot)
                *slot = stated;
        }
        reading.scenario.cluster.device.kernels[key] = read;
    }
}

void read_peak(Reading& reading, const Json& value, const std::string& where) {
    static const std::vector<std::string> precisions = {"fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4", "int8"};
    if (!value.is_object()) {
        reading.problem(where,
                        dotted(where) + " = " + short_text(value) + " must be an object: TFLOP/s by precision, as in {\"bf16\": 989}");
        return;
    }
    for (const auto& [precision, rate] : value.items()) {
        const std::string at = where + pointer_step(precision);
        if (std::find(precisions.begin(), precisions.end(), precision) == precisions.end()) {
            const auto near = nearest(precision, precisions);
            reading.problem(at, dotted(at) + " is not a precision" +
                                    (near ? ": did you mean \"" + *near + "\"?" : ": one of " + join(precisions)));
        } else if (!rate.is_number() || !(rate.get<double>() >= 1e-6) || rate.get<double>() > 1e6) {
            reading.problem(at, dotted(at) + " = " + short_text(rate) + " must be a number from 0.000001 to 1000000 TFLOP/s");
        } else {
            reading.scenario.cluster.device.peak[precision] = FlopsPerSecond::tera(rate.get<double>());
        }
    }
}

namespace {

// The limits are those of perturb_schema().
void read_factor(Reading& reading, const Json& item, const char* key, const std::string& where, double least, double most, double& out) {
    const Json& value = item.at(key);
    const std::string at = where + pointer_step(key);
    if (value.is_number() && value.get<double>() >= least && value.get<double>() <= most)
        out = value.get<double>();
    else
        reading.problem(at, dotted(at) + " = " + short_text(value) + " must be a number from " + plain_number(least) + " to " +
                                plain_number(most));
}

void read_index(Reading& reading, const Json& item, const char* key, const std::string& where, Perturbation& p) {
    const Json& value = item.at(key);
    if (value.is_number_integer() && value.get<double>() >= 0 && value.get<double>() < 2e9)
        p.index = value.get<int>();
    else
        reading.problem(where + pointer_step(key),
                        dotted(where + pointer_step(key)) + " = " + short_text(value) + " must be a whole number, 0 the first");
}

void read_slow(Reading& reading, const Json& item, const std::string& where, Perturbation& p) {
    read_factor(reading, item, "slow", where, 1e-3, 1e6, p.factor);
    int targets = 0;
    for (const char* key : {"rank", "node"}) {
        if (!item.contains(key)) continue;
        if (key == std::string_view("rank") || !item.contains("link")) ++targets; // a node beside a link says which links
        p.kind = key == std::string_view("rank") ? Perturbation::Kind::slow_rank : Perturbation::Kind::slow_node;
        read_index(reading, item, key, where, p);
    }
    if (item.contains("link")) {
        ++targets;
        p.kind = Perturbation::Kind::slow_link;
        if (item.at("link").is_string())
            p.link = item.at("link").get<std::string>();
        else
            reading.problem(where + "/link", dotted(where) + ".link = " + short_text(item.at("link")) +
                                                 " must be a text: a link's name, or nic, scale_up, trunk");
    }
    if (targets != 1)
        reading.problem(where,
                        dotted(where) +
                            " must say what is slow: one of \"rank\", \"node\", \"link\" (links of one node: \"link\" and \"node\")");
}

void read_background(Reading& reading, const Json& item, const std::string& where, Perturbation& p) {
    p.kind = Perturbation::Kind::background;
    read_factor(reading, item, "background", where, 1e-6, 0.999, p.factor); // a share of the links' capacity
    if (item.contains("link") && item.at("link").is_string())
        p.link = item.at("link").get<std::string>();
    else
        reading.problem(where + "/link", dotted(where) + ".link must be a class of links (nic, scale_up or trunk) or a link's name");
    if (item.contains("node")) read_index(reading, item, "node", where, p);
    if (item.contains("rank"))
        reading.problem(where + "/rank",
                        dotted(where) + ".rank: background traffic is on links; say \"link\", and \"node\" for those of one node");
}

} // namespace

void read_perturbations(Reading& reading, const Json& value, const std::string& where) {
    if (!value.is_array()) {
        reading.problem(where, dotted(where) + " = " + short_text(value) +
                                   " must be a list, as in [{\"slow\": 1.2, \"rank\": 3}, {\"jitter\": 0.01}]");
        return;
    }
    for (std::size_t i = 0; i < value.size(); ++i) {
        const std::string at = where + "/" + std::to_string(i);
        const Json& item = value[i];
        Perturbation p;
        const int kinds =
            item.is_object() ? int(item.contains("slow")) + int(item.contains("jitter")) + int(item.contains("background")) : 0;
        if (kinds != 1) {
            reading.problem(at,
                            dotted(at) + " = " + short_text(item) + " must be an object with one of \"slow\", \"jitter\", \"background\"");
            continue;
        }
        static const std::vector<std::string> keys = {"slow", "jitter", "background", "rank", "node", "link"};
        for (const auto& [key, unused] : item.items()) {
            if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
            const auto near = nearest(key, keys);
            reading.problem(at + pointer_step(key), dotted(at + pointer_step(key)) + " is not a field" +
                                                        (near ? ": did you mean \"" + *near + "\"?" : ". Known here: " + join(keys)));
        }
        if (item.contains("slow"))
            read_slow(reading, item, at, p);
        else if (item.contains("background"))
            read_background(reading, item, at, p);
        else {
            p.kind = Perturbation::Kind::jitter;
            read_factor(reading, item, "jitter", at, 1e-6, 2, p.factor);
        }
        reading.scenario.perturb.push_back(p);
    }
}

} // namespace orrery
