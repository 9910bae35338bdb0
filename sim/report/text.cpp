// The report for a person: does it fit, how fast, what every second goes to, where the memory is, what the figures rest on.
#include "sim/cost/own_constants.hpp"
#include "sim/report/loose.hpp"
#include "sim/report/terminal.hpp"
#include "sim/scenario/fields.hpp"
#include "sim/scenario/perturb.hpp"
#include "sim/trust/beliefs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace orrery {

namespace {

// The name of each category for a reader, in Category's order.
struct Label {
    const char* text;
    Ink ink;
};
constexpr std::array<Label, category_count> categories{{{"compute", Ink::green},
                                                        {"recompute", Ink::yellow},
                                                        {"tensor-parallel wait", Ink::cyan},
                                                        {"context-parallel wait", Ink::cyan},
                                                        {"expert-parallel wait", Ink::cyan},
                                                        {"pipeline transfers", Ink::blue},
                                                        {"data-parallel wait", Ink::blue},
                                                        {"optimizer", Ink::magenta},
                                                        {"offload", Ink::magenta},
                                                        {"bubble", Ink::red},
                                                        {"wait for slower devices", Ink::red},
                                                        {"other (copies, host)", Ink::dim}}};

// A letter and a colour per kind of memory, reserve last.
struct Kind {
    char letter;
    const char* text;
    Ink ink;
};
constexpr std::array<Kind, memory_kind_count + 1> kinds{{{'P', "parameters", Ink::blue},
                                                         {'G', "gradients", Ink::cyan},
                                                         {'O', "optimizer", Ink::magenta},
                                                         {'A', "activations", Ink::green},
                                                         {'C', "communication", Ink::yellow},
                                                         {'W', "workspace", Ink::dim},
                                                         {'R', "reserve", Ink::red}}};

std::string gb(Bytes b) {
    return b.count >= 100000000 ? fmt::format("{:.1f} GB", b.gigabytes()) : fmt::format("{:.1f} MB", b.gigabytes() * 1e3);
}
double gib(Bytes b) { return static_cast<double>(b.count) / 1073741824.0; }

std::string heading(const std::string& text, const std::string& aside, const TextStyle& style) {
    return "\n" + paint(text, Ink::bold, style) + (aside.empty() ? "" : "  " + paint(aside, Ink::dim, style)) + "\n";
}

// "tensor 8 x pipeline 16 x data 128": the degrees above one.
std::string degrees(const Strategy& s) {
    std::string text;
    const auto add = [&](const char* what, int n) {
        if (n > 1) text += fmt::format("{}{} {}", text.empty() ? "" : " x ", what, n);
    };
    add("tensor", s.tensor_parallel);
    add("context", s.context_parallel);
    add("pipeline", s.pipeline_parallel);
    add("data", s.data_parallel);
    add("expert", s.expert_parallel);
    add("expert-tensor", s.expert_tensor_parallel);
    return text.empty() ? "one device" : text;
}

// ", on the host: 25 % of the optimizer, activations": those that go.
std::string offload_text(const Offload& o, const Away& away) {
    std::string text;
    const auto add = [&](Tier tier, const std::string& what) {
        if (tier != Tier::none) text += (text.empty() ? ", on the host: " : ", ") + what + (tier == Tier::nvme ? " (on NVMe)" : "");
    };
    if (away.updated > 0) add(o.optimizer, away.updated < 1 ? fmt::format("{:.3g} % of the optimizer", 100 * away.updated) : "optimizer");
    add(o.gradients, "gradients");
    add(o.parameters, "parameters");
    if (away.activations) add(o.activations, "activations");
    return text;
}

// ", gradients as factors of rank 4": what travels in their place.
std::string compression_text(const Strategy& g) {
    const Compression& c = g.compression;
    const std::string warm = c.phase == Compression::Phase::warmup ? " after the warm-up that this is of" : "";
    switch (g.gradient_compression) {
    case GradientCompression::none:
        return "";
    case GradientCompression::powersgd:
        return fmt::format(", gradients as factors of rank {}{}", c.rank, warm);
    case GradientCompression::top_k:
        return fmt::format(", the largest {:.3g} % of gradients{}", 100 * c.density, warm);
    case GradientCompression::onebit_adam:
    case GradientCompression::onebit_lamb:
        return fmt::format(", momentum as signs ({}){}", name(g.gradient_compression), warm);
    case GradientCompression::zero_one_adam:
        return fmt::format(", drift as signs every {} steps (zero-one-adam){}", c.local_steps, warm);
    default:
        return fmt::format(", gradients in {}{}{}", name(g.gradient_compression), c.hierarchical ? " between nodes" : "", warm);
    }
}

// ", weights in int8, gradients in int4, a second copy over 16, DiLoCo every 32 steps": what travels otherwise than plain.
std::string travel_text(const Strategy& g) {
    std::string text;
    if (g.quantized_weights != QuantizedWeights::none) text += fmt::format(", weights in {}", name(g.quantized_weights));
    if (g.quantized_gradients != QuantizedGradients::none) text += fmt::format(", gradients in {}", name(g.quantized_gradients));
    if (g.secondary_shard_size > 1) text += fmt::format(", a second copy over {}", g.secondary_shard_size);
    text += compression_text(g);
    const Synchronization& s = g.synchronization;
    text += loose_strategy_text(g);
    if (g.workers() && !g.sends_signs() && !g.loose())
        text += fmt::format(
            ", {}{} every {} step{}",
            g.streaming()                             ? "streaming DiLoCo"
            : g.diloco()                              ? "DiLoCo"
            : s.kind == Synchronization::Kind::fedavg ? "FedAvg"
                                                      : "local SGD",
            g.replicas_of_worker() > 1 ? fmt::format(" between {} workers of {} replicas", g.worker_count(), g.replicas_of_worker()) : "",
            s.inner_steps, s.inner_steps == 1 ? "" : "s");
    if (g.streaming()) text += fmt::format(" in {} fragments, merged {} steps later", s.fragments, s.overlap_steps);
    if (g.diloco() && s.payload_dtype != DType::fp32) text += fmt::format(" in {}", name(s.payload_dtype));
    return text;
}

// "405.9 billion".
std::string count_text(double n) {
    if (n >= 1e12) return fmt::format("{:.2f} trillion", n * 1e-12);
    if (n >= 1e9) return fmt::format("{:.1f} billion", n * 1e-9);
    return n >= 1e6 ? fmt::format("{:.1f} million", n * 1e-6) : grouped(static_cast<std::int64_t>(n));
}

// Unequal loads: who has the most, and what a capacity drops. Nothing where all experts have the same.
std::string experts_line(const Report& r, const Scenario& s, const TextStyle& style) {
    if (r.experts.load.empty()) return "";
    const double most = r.experts.fullest_expert;
    if (most < 1 + 1e-9) return "";
    std::string text = fmt::format("{} experts: the fullest of a layer has {:.2f} x the mean load", r.experts.load.size(), most);
    if (s.strategy.expert_parallel > 1 && !s.model.moe->pads())
        text += fmt::format(", the fullest of {} ranks {:.2f} x, and the others wait for it", s.strategy.expert_parallel,
                            r.experts.fullest_rank);
    if (r.experts.dropped_fraction > 0)
        text += fmt::format("; {:.2g} % of the tokens' rows find their expert full and are dropped", r.experts.dropped_fraction * 100);
    return wrapped(text, style.width, "  ", "    ");
}

// "64 x NVIDIA H100", or of unlike nodes "48 x NVIDIA H100 and 16 x NVIDIA A100".
std::string devices_text(const Report& r, const Cluster& c) {
    const auto title = [](const Device& d) { return d.title.empty() ? d.name : d.title; };
    int own = r.world_size;
    std::string rest;
    for (const OtherNodes& o : c.others) {
        own -= o.nodes * c.devices_per_node;
        rest += fmt::format(" and {} x {}", grouped(o.nodes * c.devices_per_node), title(o.device));
    }
    return fmt::format("{} x {}{}", grouped(own), title(c.device), rest);
}

// "LoRA of rank 16 beside qkv, proj: 40.1 million parameters trained (0.06 %), base in nf4".
std::string tuning_line(const Report& r, const Scenario& s) {
    const Trainable& t = s.model.trainable;
    if (!t.partial()) return "";
    std::string what = "tuned in part", where;
    for (LoraTarget target : t.targets) where += (where.empty() ? " beside " : ", ") + std::string(name(target));
    if (t.lora) what = fmt::format("LoRA of rank {}{}", t.rank, where);
    if (t.frozen_layers > 0) what += fmt::format(", the first {} layers frozen", t.frozen_layers);
    const char* base = t.base_dtype == BaseDType::nf4 ? ", base in nf4" : "";
    return fmt::format("  {}: {} parameters trained ({:.2g} %){}\n", what, count_text(r.trained_parameters),
                       100 * r.trained_parameters / r.parameters, base);
}

// "a step moves 4.27 GB between nodes, 12.3 GB to the hosts and 8.2 GB back": empty where it moves nothing there.
std::string traffic_line(const Report& r, const TextStyle& style) {
    const Traffic& t = r.traffic;
    std::string text;
    for (const auto& [bytes, where] : {std::pair{t.between_nodes, "between nodes"},
                                       {t.to_host, "to the hosts"},
                                       {t.from_host, "from the hosts"},
                                       {t.to_disk, "to NVMe"},
                                       {t.from_disk, "from NVMe"}})
        if (bytes > 0) text += fmt::format("{}{} {}", text.empty() ? "a step moves " : ", ", metric(bytes, 3, "B"), where);
    return text.empty() ? text : wrapped(text, style.width, "  ", "    ");
}

std::string headline(const Report& r, const Scenario& s, const TextStyle& style) {
    const Cluster& c = s.cluster;
    std::string fits = r.memory.fits ? paint("fits", r.narrow() ? Ink::yellow : Ink::green, style) : paint("DOES NOT FIT", Ink::red, style);
    if (r.narrow()) fits += paint(", narrowly", Ink::yellow, style);
    std::string text = paint(r.name, Ink::bold, style) + ": " + fits + "\n";
    const int nodes = (r.world_size + c.devices_per_node - 1) / std::max(1, c.devices_per_node);
    text += fmt::format("  {}, {} parameters, {}\n", s.model.name.empty() ? "a model of its own" : s.model.name, count_text(r.parameters),
                        name(s.training.precision));
    text += tuning_line(r, s);
    text += fmt::format("  {} on {} node{}\n", devices_text(r, c), grouped(nodes), nodes == 1 ? "" : "s");
    text += wrapped(strategy_text(s, &r.away), style.width, "  ", "    ");
    text += fmt::format("  {} sequences of {} tokens a step: {} microbatch{} of {}\n", grouped(s.training.global_batch_size),
                        grouped(s.training.sequence_length), grouped(r.microbatches), r.microbatches == 1 ? "" : "es",
                        s.training.micro_batch_size);
    if (r.staleness.worst > 0)
        text += fmt::format("  gradients are {:.2f} updates old in the mean, {} at most; up to {} versions of the weights on a stage; {}\n",
                            r.staleness.mean, r.staleness.worst, r.staleness.versions,
                            s.strategy.offload.delayed_update ? "the host updates beside the next step"
                                                              : fmt::format("drained every {} steps", s.strategy.flush_every));
    text += meetings_text(r, style);
    text += loose_text(r, s, style);
    if (style.detailed) text += traffic_line(r, style);
    text += fmt::format("  {}\n", software_text(s));
    if (!s.perturb.empty())
        text += paint(wrapped("perturbed: " + perturbation_text(s.perturb), style.width, "  ", "    "), Ink::yellow, style);
    text += experts_line(r, s, style);
    if (!r.memory.fits) text += paint(wrapped(why_not(r.memory), style.width, "  ", "    "), Ink::red, style);
    if (r.narrow()) text += paint(wrapped(how_narrow(r), style.width, "  ", "    "), Ink::yellow, style);
    return text;
}

std::string energy_text(double joules) {
    return joules >= 3.6e5 ? fmt::format("{:.2f} kWh a step", joules / 3.6e6) : metric(joules, 3, "J") + " a step";
}

// "a trillion tokens  186.2 days, 1.12 M USD, 402 MWh".
std::string pace_line(const std::string& what, const Report& r, double tokens, const TextStyle& style) {
    return "  " + pad_right(what, 20) + paint(to_text(at_this_pace(r, tokens)), Ink::bold, style) + "\n";
}

std::string figures(const Report& r, const TextStyle& style) {
    using Row = std::array<std::string, 4>;
    std::vector<Row> rows;
    rows.push_back({"step time", seconds_text(r.step_time_s), "tokens/s",
                    fmt::format("{} ({} a device)", metric(r.tokens_per_s, 3), metric(r.tokens_per_s_per_gpu, 4))});
    rows.push_back({"MFU", fmt::format("{:.1f} %", r.mfu * 100), "model TFLOP/s",
                    fmt::format("{:.{}f} a device, {} peak {:.{}f}", r.model_tflops_per_gpu, r.model_tflops_per_gpu < 1 ? 4 : 1,
                                r.peak_dtype, r.peak_tflops_per_gpu, r.peak_tflops_per_gpu < 10 ? 2 : 0)});
    rows.push_back({"HFU", fmt::format("{:.1f} %", r.hfu * 100), "samples/s", fmt::format("{:.4g}", r.samples_per_s)});
    const bool pipeline = r.configuration.pipeline > 1;
    const double waits = pipeline ? r.bubble_fraction : r.breakdown_s[Category::straggler_wait] / r.step_time_s;
    rows.push_back({pipeline ? "bubble" : "stragglers", fmt::format("{:.1f} % of the step", waits * 100), "model FLOPs",
                    metric(r.flops_per_step, 4, "FLOP") + " a step"});
    if (r.energy_j > 0 || r.cost_usd > 0) {
        rows.push_back({"energy", r.energy_j > 0 ? energy_text(r.energy_j) : "not known", "cost",
                        r.cost_usd > 0 ? fmt::format("{:.3g} USD a step", r.cost_usd) : "not known"});
    }
    std::string text = "\n";
    for (const Row& row : rows) {
        text += "  " + pad_right(row[0], 11) + paint(pad_right(row[1], 19), Ink::bold, style) + pad_right(row[2], 15) + row[3] + "\n";
    }
    text += pace_line("a trillion tokens", r, 1e12, style);
    if (r.run_tokens > 0) text += pace_line("the run, no losses", r, r.run_tokens, style);
    text += "  " + paint("MFU: model FLOPs, attention in full, no recompute; HFU: those executed, masked", Ink::dim, style) + "\n";
    text += "  " + paint("halves of causal attention left out", Ink::dim, style) + "\n";
    const TimeToTarget& t = r.target;
    if (!t.name.empty())
        text += wrapped(fmt::format("to {}: {} sequences, {} steps, {:.4g} days{}, without failures", t.name, metric(t.samples, 4),
                                    metric(t.steps, 4), t.s / 86400, t.usd > 0 ? ", " + metric(t.usd, 4) + " USD" : ""),
                        style.width, "  ", "    ");
    return text;
}

std::string breakdown(const Report& r, const TextStyle& style) {
    std::string text = heading("Time of a step", "mean over all devices", style);
    const int width = std::clamp(style.width - 52, 16, 48);
    for (std::size_t c = 0; c < categories.size(); ++c) {
        const double share = r.breakdown_s[c] / r.step_time_s;
        if (share < 0.0005) continue;
        text += "  " + pad_right(categories[c].text, 24) + bar(share, width, categories[c].ink, style) +
                fmt::format(" {:5.1f} %  {:>9}\n", share * 100, seconds_text(r.breakdown_s[c]));
    }
    if (const double share = r.host_wait_s / r.step_time_s; share >= 0.005)
        text += fmt::format("  devices wait for their hosts {:.1f} % of the step\n", share * 100);
    return text;
}

std::array<Bytes, memory_kind_count + 1> parts(const StageMemory& s) {
    std::array<Bytes, memory_kind_count + 1> p{};
    for (std::size_t k = 0; k < s.by_kind.size(); ++k) p[k] = s.by_kind[k];
    p.back() = s.reserved;
    return p;
}

// One cell a share of `scale`, each kind in its colour or letter. Ends are rounded, so the bar is as long as the sum says.
std::string stacked(const StageMemory& s, Bytes scale, int width, const TextStyle& style) {
    std::string text;
    double sum = 0;
    int at = 0;
    const auto p = parts(s);
    for (std::size_t k = 0; k < p.size(); ++k) {
        sum += static_cast<double>(p[k].count) / static_cast<double>(scale.count) * width;
        const int end = std::clamp(static_cast<int>(sum + 0.5), at, width);
        std::string cells;
        for (; at < end; ++at) cells += style.unicode && style.colour ? std::string("\u2588") : std::string(1, kinds[k].letter);
        if (!cells.empty()) text += paint(cells, kinds[k].ink, style);
    }
    for (; at < width; ++at) text += style.unicode ? "\u00b7" : ".";
    return text;
}

std::string legend(const StageMemory& s, const TextStyle& style) {
    const auto p = parts(s);
    std::string text, line = fmt::format("  stage {} at its peak:", s.stage);
    for (std::size_t k = 0; k < p.size(); ++k) {
        if (p[k].count < 50000) continue; // would read 0.0 MB
        const std::string mark = style.unicode && style.colour ? std::string("\u2588") : std::string(1, kinds[k].letter);
        const std::string item = "  " + paint(mark, kinds[k].ink, style) + fmt::format(" {} {}", kinds[k].text, gb(p[k]));
        if (columns(line) + columns(item) > style.width) text += line + "\n", line = "  ";
        line += item;
    }
    return text + line + "\n";
}

// Memory as tools show it: the need leaves out what the allocator gives up before memory runs out, tools count it.
std::string as_shown(const StageMemory& s) {
    const Bytes allocated = peak_as(s, MemoryMeasure::allocated), reserved = peak_as(s, MemoryMeasure::reserved),
                device = peak_as(s, MemoryMeasure::device);
    if (allocated == device) return {};
    return fmt::format("  needed {}; allocated {}, reserved {}, on the device {}\n", gb(s.peak), gb(allocated), gb(reserved), gb(device));
}

bool alike(const StageMemory& a, const StageMemory& b) {
    return a.peak == b.peak && a.by_kind == b.by_kind && a.peak_op_name == b.peak_op_name;
}

// "a node's memory: 301.2 GB of 2000.0 GB, 15 %: gradients 60.1 GB, optimizer 241.1 GB".
std::string node_memory_text(const char* what, const NodeMemory& node, const TextStyle& style) {
    if (node.used.peak.count == 0) return {};
    std::string text = fmt::format("a node's {}: {}", what, gb(node.used.peak));
    if (node.capacity.count > 0)
        text += fmt::format(" of {}, {:.0f} %", gb(node.capacity),
                            100 * static_cast<double>(node.used.peak.count) / static_cast<double>(node.capacity.count));
    const char* separator = ": ";
    for (std::size_t k = 0; k < node.used.by_kind.size(); ++k) {
        if (node.used.by_kind[k].count < 50000) continue;
        text += fmt::format("{}{} {}", separator, kinds[k].text, gb(node.used.by_kind[k]));
        separator = ", ";
    }
    return paint(wrapped(text, style.width, "  ", "    "), node.fits() ? Ink::plain : Ink::red, style);
}

std::string memory_text(const Report& r, const TextStyle& style) {
    const MemoryReport& m = r.memory;
    if (m.stages.empty()) return {};
    const StageMemory& full = fullest(m);
    std::string text = heading("Memory of a device",
                               fmt::format("capacity {} = {:.1f} GiB, as its driver shows it", gb(m.capacity), gib(m.capacity)), style);
    const Bytes scale = std::max(full.peak, m.capacity);
    const int width = std::clamp(style.width - 66, 16, 48);
    for (std::size_t i = 0; i < m.stages.size();) {
        std::size_t end = i + 1;
        while (end < m.stages.size() && alike(m.stages[i], m.stages[end])) ++end;
        const StageMemory& s = m.stages[i];
        const std::string label =
            end == i + 1 ? fmt::format("stage {}", s.stage) : fmt::format("stages {}-{}", s.stage, m.stages[end - 1].stage);
        const bool over = s.peak > m.capacity;
        const double share = static_cast<double>(s.peak.count) / static_cast<double>(std::max<std::int64_t>(1, m.capacity.count));
        const std::string size = fmt::format(" {:>9} {:4.0f} %", gb(s.peak), share * 100);
        text += "  " + pad_right(label, 13) + stacked(s, scale, width, style) + paint(size, over ? Ink::red : Ink::plain, style) + "  " +
                paint(clip(s.peak_op_name, std::max(12, style.width - width - 35)), Ink::dim, style) + "\n";
        i = end;
    }
    text += legend(full, style);
    for (const ReserveItem& item : full.reserve) {
        const std::string source = (item.kept ? "(a cache, not needed) " : "") + item.source;
        text += "    " + pad_right(item.name, 24) + fmt::format("{:>9}  ", gb(item.bytes)) +
                paint(style.detailed ? source : clip(source, std::max(20, style.width - 41)), Ink::dim, style) + "\n";
    }
    return text + as_shown(full) + node_memory_text("memory", m.host, style) + node_memory_text("NVMe", m.disk, style);
}

// Fields of a group of constants that the scenario leaves to defaults.
std::string unstated(CostGroup g, const Scenario& s) {
    static constexpr std::pair<CostGroup, const char*> fields[] = {
        {CostGroup::memory, "/strategy/fused"},           {CostGroup::memory, "/runtime/fused_norm"},
        {CostGroup::memory, "/runtime/fused_optimizer"},  {CostGroup::host, "/runtime/cuda_graphs"},
        {CostGroup::host, "/runtime/launch_us"},          {CostGroup::experts, "/runtime/fused_experts"},
        {CostGroup::experts, "/runtime/token_dispatcher"}};
    std::string text;
    for (const auto& [group, field] : fields)
        if (group == g && s.defaults.contains(field)) text += (text.empty() ? "" : ", ") + dotted(field);
    if (g == CostGroup::host && s.cluster.host.speed == 1) text += std::string(text.empty() ? "" : ", ") + "cluster.host.speed";
    return text;
}

std::string open_fields_text(const Scenario& s) {
    const OpenFields open = open_fields_of(s);
    std::string text;
    for (std::size_t f = 0; f < open.size(); ++f)
        if (open[f]) text += (text.empty() ? "" : " and ") + dotted(open_fields[f]);
    return text;
}

struct PartOfInterval {
    std::string words;
    double share = 0;        // of the variance of the step time
    std::string more_fields; // which could make it surer
};

// The groups of constants, and what open fields add to them, the largest first. The rest, which no group describes, is not among them.
std::vector<PartOfInterval> parts_of_interval(const Report& r, const Scenario& s) {
    const LearnedConstants* learned = learned_for(s);
    const OpenFields open = learned ? OpenFields{} : open_fields_of(s);
    // The interval is of the devices' own step, before it waits for samples (r.shares are of the step with its wait).
    const CostShares& drawn_by = r.configuration.shares != CostShares{} ? r.configuration.shares : r.shares;
    BeliefArray parts = parts_of_spread(learned ? learned->time : beliefs_before(open), drawn_by);
    const BeliefArray all = spreads_before().with(open);
    std::vector<PartOfInterval> list;
    for (std::size_t f = 0; f < open.size(); ++f) {
        if (!open[f]) continue;
        const std::size_t of = widened[f];
        const double added = parts[of] * std::pow(spreads_before().open[f] / all[of], 2);
        list.push_back({"the default of " + dotted(open_fields[f]), added, {}});
        parts[of] -= added;
    }
    for (int g = 0; g < cost_group_count; ++g) {
        const auto group = static_cast<CostGroup>(g);
        list.push_back({in_words(group), parts[g], unstated(group, s)});
    }
    std::sort(list.begin(), list.end(), [](const PartOfInterval& a, const PartOfInterval& b) { return a.share > b.share; });
    return list;
}

// Where most of the interval of the step time comes from: the largest parts, to four fifths of it.
std::string comes_from(const Report& r, const Scenario& s) {
    std::string text, fields;
    double told = 0;
    for (const PartOfInterval& p : parts_of_interval(r, s)) {
        if (told >= 0.8 || p.share < 0.1) break;
        told += p.share;
        text += fmt::format("{} {:.0f}, ", p.words, p.share * r.error_bar.step_time * 100);
        if (!p.more_fields.empty()) fields += (fields.empty() ? "" : ", ") + p.more_fields;
    }
    if (text.empty()) return {};
    text = fmt::format("the interval, {:.0f} % to either side on average, comes from: {}all else {:.0f}", r.error_bar.step_time * 100, text,
                       (1 - told) * r.error_bar.step_time * 100);
    const auto percent = [](double share) { return std::round(share * 100); };
    if (r.error_bar.all_stated > 0 && percent(r.error_bar.all_stated) < percent(r.error_bar.step_time))
        text += fmt::format("; with {} stated it would be {:.0f} %", open_fields_text(s), r.error_bar.all_stated * 100);
    return fields.empty() ? text : text + "; also left to defaults: " + fields;
}

// The error bar, and the groups of constants: each with its source, or by kind, the surest first.
std::vector<std::string> rests_on(const Report& r, const Scenario& s, bool detailed) {
    std::vector<std::string> lines;
    if (r.error_bar.rows > 0) lines.push_back(to_text(r.error_bar));
    if (const std::string from = comes_from(r, s); r.error_bar.rows > 0 && !from.empty()) lines.push_back(from);
    if (detailed) {
        for (const Provenance& p : r.provenance) lines.push_back(to_text(p));
        return lines;
    }
    for (const char* kind : {"measured", "fitted", "datasheet", "stated", "assumed"}) {
        std::string line;
        for (const Provenance& p : r.provenance)
            if (p.kind == kind) line += (line.empty() ? std::string(kind) + ": " : ", ") + p.what;
        if (!line.empty()) lines.push_back(line);
    }
    return lines;
}

std::string list(const std::string& title, const std::vector<std::string>& lines, const TextStyle& style) {
    if (lines.empty()) return {};
    std::string text = heading(title, "", style);
    for (const std::string& l : lines) text += wrapped(l, style.width, "  - ", "    ");
    return text;
}

} // namespace

std::string to_text(const AtThisPace& pace) {
    return span_text(pace.seconds) + ", " + (pace.cost_usd > 0 ? metric(pace.cost_usd, 3) + " USD" : std::string("cost not known")) + ", " +
           (pace.energy_j > 0 ? metric(pace.energy_j / 3600, 3, "Wh") : std::string("energy not known"));
}

const char* in_words(Category category) { return categories[static_cast<std::size_t>(category)].text; }

std::string strategy_text(const Scenario& s, const Away* away) {
    const Strategy& g = s.strategy;
    std::string text = degrees(g);
    if (g.pipeline_parallel > 1) text += ", " + g.schedule;
    if (g.virtual_pipeline > 1) text += fmt::format(", {} chunks a stage", g.virtual_pipeline);
    if (g.microbatch_group_size > 0) text += fmt::format(", {} microbatches a turn", g.microbatch_group_size);
    if (g.sequence_parallel) text += ", sequence parallel";
    if (g.zero_stage > 0) text += fmt::format(", ZeRO {}", g.zero_stage);
    if (g.shard_group_size > 0) text += fmt::format(" over {}", g.shard_group_size);
    static constexpr std::array<const char*, 5> recompute{"", ", selective recompute", ", full recompute", ", recompute by op",
                                                          ", recompute within a memory budget"};
    text += travel_text(g) + recompute[static_cast<std::size_t>(g.recompute)];
    if (g.recompute == RecomputeKind::budget) text += fmt::format(" of {:g}", g.recompute_budget);
    if (g.recompute_segments > 0)
        text += fmt::format(" in {} segment{} a chunk", g.recompute_segments, g.recompute_segments == 1 ? "" : "s");
    if (g.recompute_segment_layers > 0) text += fmt::format(" in segments of {}", g.recompute_segment_layers);
    if (g.recompute != RecomputeKind::none && g.recompute_per_chunk > 0)
        text += fmt::format(" of {} layer{} a chunk", g.recompute_per_chunk, g.recompute_per_chunk == 1 ? "" : "s");
    return text + offload_text(g.offload, away ? *away : Away{g.offload.optimizer_fraction, true});
}

std::string to_text(const Report& report, const Scenario& scenario, const TextStyle& style) {
    std::string text = headline(report, scenario, style);
    if (report.step_time_s > 0) text += figures(report, style) + breakdown(report, style);
    text += memory_text(report, style);
    text += list("Notes", report.notes, style);
    return text + list(style.detailed ? "Basis of the prediction" : "Basis of the prediction  (-v: with every source)",
                       rests_on(report, scenario, style.detailed), style);
}

} // namespace orrery
