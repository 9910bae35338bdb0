#include "exec/calibrate/calibrate.hpp"
#include "exec/local/clock.hpp"
#include "exec/local/executor.hpp"
#include "exec/queues/dependencies.hpp"
#include "exec/runtime/world.hpp"
#include "sim/scenario/parse.hpp"
#include "topology/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace orrery {

namespace {

double median(std::vector<double> v) {
    const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
    std::nth_element(v.begin(), middle, v.end());
    return *middle;
}

Scenario scenario_of(const std::string& text) {
    ParseResult parsed = parse_scenario(text);
    require(parsed.scenario && parsed.problems.empty(), "a calibration scenario with problems: " + to_text(parsed.problems));
    return std::move(*parsed.scenario);
}

std::unique_ptr<World> world_of(const Scenario& scenario, const SampleOptions& options) {
    auto world = make_world(scenario, options.stored ? options.stored(scenario) : DType::fp32);
    world->facts.forced_routing = scenario.model.moe && !scenario.model.moe->pads(); // as many rows as an op's size says
    initialise(*world);
    return world;
}

using Sizes = std::map<std::pair<double, double>, std::vector<double>>; // by FLOPs and bytes
using Times = std::map<std::string, Sizes>;                             // by key
using Parts = std::map<std::pair<std::string, std::string>, Sizes>;     // by key and part

// The key and the size of an op whose time says what its kind takes. Communication: where ranks share a memory. Of several transfers
// in one op the record has only the last.
std::optional<std::pair<std::string, KernelSize>> kind_of(const World& world, int rank, const Op& op, bool shared_memory) {
    if (op.queue == compute_queue) return std::pair{kernel_key(world.plan, op), kernel_size(world.plan, op)};
    if (!shared_memory) return std::nullopt;
    if (const auto* c = std::get_if<Collective>(&op.work)) {
        const std::size_t members = world.members[c->comm][rank].size();
        return std::pair{communication_key(*c), communication_size(*c, members)};
    }
    const auto* x = std::get_if<Exchange>(&op.work);
    if (!x || x->transfers.size() != 1) return std::nullopt;
    return std::pair{std::string(transfer_key), KernelSize{0, static_cast<double>(x->transfers[0].bytes.count)}};
}

// Each issued op's median over the steps, of every rank. parts: where computations are told apart by part too, or null.
void train(const Scenario& scenario, const SampleOptions& options, Times& times, Parts* parts = nullptr) {
    const int steps = options.steps;
    const auto world = world_of(scenario, options);
    const auto executor = options.executor ? options.executor(*world) : serial_executor(*world);
    const Corpus corpus{"", world->scenario.model.vocab_size, 1};
    std::map<std::pair<std::int32_t, std::int32_t>, std::vector<double>> by_issue; // and rank
    for (const std::int64_t began = wall_ns(); static_cast<double>(wall_ns() - began) < options.warm_s * 1e9;) {
        load_batch(*world, corpus, 0);
        executor->step(nullptr);
    }
    for (int step = 0; step <= steps; ++step) {
        load_batch(*world, corpus, step * world->plan.steps);
        std::vector<OpTime> record;
        executor->step(&record);
        if (step == 0) continue;
        for (const OpTime& t : record) by_issue[{t.rank, t.issue}].push_back(static_cast<double>(t.cpu) * 1e-3);
    }
    for (auto& [at, us] : by_issue) {
        const Op& op = *world->rank(at.first).order->issues[at.second].op;
        const auto kind = kind_of(*world, at.first, op, !options.executor);
        if (!kind) continue;
        const std::pair size{kind->second.flops, kind->second.bytes};
        const double middle = median(std::move(us));
        times[kind->first][size].push_back(middle);
        if (parts && op.queue == compute_queue) (*parts)[{kind->first, part_of(op)}][size].push_back(middle);
    }
}

std::vector<KernelSample> medians(Times& times) {
    std::vector<KernelSample> samples;
    for (auto& [key, sizes] : times)
        for (auto& [size, us] : sizes) samples.push_back({key, {size.first, size.second}, median(std::move(us))});
    return samples;
}

constexpr const char* gpt = R"("activation": "gelu", "norm": "layernorm", "position": "learned", "tied_embeddings": true)";
constexpr const char* llama = R"("activation": "swiglu", "norm": "rmsnorm", "position": "rope", "tied_embeddings": false, "bias": false)";

struct Shape {
    int hidden, heads, sequence, batch, vocabulary;
    const char* family;
    int micro_batch = batch;
};

// Two layers of that shape, scaled to heads of whole multiples of `unit` columns. more: fields of the strategy, after a comma.
std::string text_of(const Shape& s, int unit, double scale, const std::string& cluster, const char* precision, const char* framework,
                    bool flash, const char* more = "") {
    const int hidden = std::max(s.heads * unit, static_cast<int>(std::lround(s.hidden * scale / s.heads / unit)) * s.heads * unit);
    return fmt::format(
        R"({{"name": "calibration", "model": {{"layers": 2, "hidden_size": {}, "attention_heads": {}, "vocab_size": {}, {}}},
            "cluster": {{{}}},
            "training": {{"global_batch_size": {}, "micro_batch_size": {}, "sequence_length": {}, "precision": "{}", "optimizer": "adamw",
                          "gradient_clipping": 1.0}},
            "strategy": {{"framework": "{}", "flash_attention": {}{}}}}})",
        hidden, s.heads, s.vocabulary, s.family, cluster, s.batch, s.micro_batch, s.sequence, precision, framework, flash, more);
}

} // namespace

double sample_issue(const SampleOptions& options, const std::string& scenario) {
    const auto world = world_of(scenario_of(scenario), options);
    const auto executor = options.executor ? options.executor(*world) : serial_executor(*world);
    const Corpus corpus{"", world->scenario.model.vocab_size, 1};
    std::vector<double> us;
    for (int step = 0; step < 4 * options.steps; ++step) {
        load_batch(*world, corpus, step);
        const std::int64_t began = wall_ns();
        executor->step(nullptr);
        if (step >= options.steps) us.push_back(static_cast<double>(wall_ns() - began) * 1e-3);
    }
    const auto computes = [](const Issue& i) { return i.op->queue == compute_queue && !is_host_only(*i.op); };
    return median(std::move(us)) / static_cast<double>(std::ranges::count_if(world->orders[0].issues, computes));
}

std::vector<std::string> calibration_scenarios(double scale) {
    const Shape shapes[] = {{64, 4, 64, 1, 256, gpt},      {64, 4, 128, 4, 256, llama},   {128, 4, 128, 2, 512, gpt},
                            {128, 8, 64, 1, 1024, llama},  {256, 8, 128, 1, 2048, gpt},   {256, 4, 256, 2, 512, llama},
                            {384, 6, 192, 2, 4096, gpt},   {512, 8, 256, 1, 1024, llama}, {512, 8, 128, 4, 8192, gpt},
                            {768, 12, 128, 1, 2048, llama}};
    std::vector<std::string> scenarios;
    for (const Shape& s : shapes)
        for (const bool flash : {true, false}) {
            if (!flash && s.hidden > 256) continue; // stored scores: the small models are enough
            scenarios.push_back(text_of(s, 4, scale, R"("preset": "local-cpu", "devices_per_node": 1)", "fp32", "ddp", flash));
        }
    for (Shape s : {shapes[0], shapes[2], shapes[5], shapes[7]}) // two ranks: what they say to each other
        for (const auto& [framework, more] : {std::pair{"megatron", R"(, "tensor_parallel": 2, "sequence_parallel": true)"},
                                              {"megatron", R"(, "tensor_parallel": 2, "sequence_parallel": false)"},
                                              {"ddp", R"(, "data_parallel": 2)"},
                                              {"fsdp", R"(, "data_parallel": 2, "zero_stage": 3)"},
                                              {"megatron", R"(, "pipeline_parallel": 2, "schedule": "gpipe")"}}) {
            s.batch = 2, s.micro_batch = 1;
            scenarios.push_back(text_of(s, 4, scale, R"("preset": "local-cpu", "devices_per_node": 2)", "fp32", framework, true, more));
        }
    return scenarios;
}

std::vector<std::string> gpu_calibration_scenarios(const std::string& preset, double scale) {
    const Shape shapes[] = {{768, 12, 1024, 4, 50304, gpt},     {768, 12, 1024, 16, 50304, gpt},   {1024, 16, 2048, 4, 32000, llama},
                            {1600, 25, 1024, 8, 50304, gpt},    {2048, 16, 2048, 4, 32000, llama}, {4096, 32, 2048, 1, 32000, llama},
                            {4096, 32, 4096, 1, 128256, llama}, {8192, 64, 4096, 1, 32000, llama}};
    const std::string cluster = fmt::format(R"("device": "{}", "nodes": 1, "devices_per_node": 1)", preset);
    std::vector<std::string> scenarios;
    for (const Shape& s : shapes)
        for (const char* precision : {"bf16", "fp32"})
            for (const bool flash : {true, false}) {
                if (s.hidden > 2048 && (!flash || std::string_view(precision) == "fp32"))
                    continue; // scores and fp32 models of that size have their law from the smaller
                scenarios.push_back(text_of(s, 8, scale, cluster, precision, "megatron", flash));
            }
    return scenarios;
}

std::string gpu_issue_scenario(const std::string& preset) {
    return fmt::format(
        R"({{"name": "issue", "model": {{"layers": 4, "hidden_size": 64, "attention_heads": 1, "vocab_size": 256, {}}},
            "cluster": {{"device": "{}", "nodes": 1, "devices_per_node": 1}},
            "training": {{"global_batch_size": 8, "micro_batch_size": 1, "sequence_length": 64, "precision": "bf16", "optimizer": "adamw"}}, "strategy": {{"framework": "megatron"}}}})",
        gpt, preset);
}

std::vector<KernelSample> sample_kernels(const SampleOptions& options, std::vector<std::string> scenarios) {
    if (scenarios.empty()) scenarios = calibration_scenarios(options.scale);
    Times times;
    for (std::size_t i = 0; i < scenarios.size(); ++i) {
        if (options.progress) options.progress(i, scenarios.size());
        train(scenario_of(scenarios[i]), options, times);
    }
    if (options.progress) options.progress(scenarios.size(), scenarios.size());
    return medians(times);
}

std::vector<KernelSample> sample_own(const SampleOptions& options, const Scenario& scenario) {
    Times times;
    Parts parts;
    train(scenario, options, times, &parts);
    std::vector<KernelSample> samples = medians(times);
    for (auto& [key, sizes] : parts)
        for (auto& [size, us] : sizes) samples.push_back({key.first, {size.first, size.second}, median(std::move(us)), key.second});
    return samples;
}

} // namespace orrery
