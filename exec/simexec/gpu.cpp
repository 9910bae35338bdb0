#include "exec/simexec/gpu.hpp"

#include "exec/local/clock.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <numeric>

namespace orrery::simexec {
namespace {

constexpr std::int64_t warm_up_ns = 1'000'000'000;
constexpr int most_settling = 20; // steps until the loss's scale fits: from 65536 down to 1 there are 16

template <class T> T middle(std::vector<T> v) {
    std::ranges::nth_element(v, v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2));
    return v[v.size() / 2];
}

std::int64_t end_of(const std::vector<OpTime>& times) {
    std::int64_t last = 0;
    for (const OpTime& t : times) last = std::max(last, t.end);
    return last;
}

// "training.micro_batch_size=2" into a scenario's JSON.
void override_field(nlohmann::ordered_json& json, const std::string& text) {
    const auto equals = text.find('=');
    std::string path = "/" + text.substr(0, equals);
    std::ranges::replace(path, '.', '/');
    const std::string value = text.substr(equals + 1);
    const auto parsed = nlohmann::ordered_json::parse(value, nullptr, false);
    json[nlohmann::ordered_json::json_pointer(path)] = parsed.is_discarded() ? nlohmann::ordered_json(value) : parsed;
}

} // namespace

DType stored_on_gpu(const Scenario& s) {
    const DType p = s.training.precision;
    return p == DType::bf16 || p == DType::fp16 ? p : DType::fp32;
}

std::size_t middle_step(const std::vector<std::vector<OpTime>>& records, const Others* others) {
    Others::Numbers ends;
    for (const auto& r : records) ends.push_back(end_of(r));
    if (others)
        for (const Others::Numbers& of_rank : others->gather(Others::Numbers(ends)))
            for (std::size_t i = 0; i < ends.size(); ++i) ends[i] = std::max(ends[i], of_rank[i]);
    std::vector<std::size_t> order(records.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return ends[i]; });
    return order[order.size() / 2];
}

Measured measure_on_gpu(World& world, const Corpus& corpus, int steps, std::vector<std::int64_t> delays, Progress& progress,
                        const std::optional<LaunchedRank>& launched) {
    Fleet fleet = cuda_fleet(world, launched, first_step_patience);
    fleet.delays = std::move(delays);
    StreamDevice& first = *fleet.devices[0];
    Measured m;
    m.on = first.name() + ", " + fleet.software;
    if (launched) m.others = over(fleet, *launched, first_step_patience);
    const auto executor = queues_executor(world, std::move(fleet));
    std::vector<std::vector<OpTime>> records;
    std::vector<double> seconds;
    const std::int64_t start = wall_ns();
    const auto warms_up = [&] { // as many steps on all ranks
        const bool here = wall_ns() - start < warm_up_ns;
        return m.others ? m.others->any(here) : here;
    };
    const auto left_out = [&] {
        const LossScale* scale = loss_scale(world);
        return scale ? scale->skipped : 0;
    };
    int step = 0;
    for (bool settled = false; step < 2 || warms_up() || (!settled && step < most_settling); ++step) {
        const std::int64_t before = left_out();
        load_batch(world, corpus, step);
        executor->step(nullptr);
        settled = left_out() == before; // a step that is left out has no optimizer to measure
        progress.show(step, 2 * steps, "warming up");
    }
    for (int i = 0; i < 2 * steps; ++i) { // events cost a little: steps with and without, in turn
        load_batch(world, corpus, step + i);
        std::vector<OpTime> record;
        const bool timed = i % 2 == 1;
        const std::int64_t began = wall_ns();
        executor->step(timed ? &record : nullptr);
        if (timed)
            records.push_back(std::move(record));
        else
            seconds.push_back(static_cast<double>(wall_ns() - began) * 1e-9);
        progress.show(i + 1, 2 * steps, "measuring");
    }
    std::int64_t free = 0, all = 0;
    if (first.memory(free, all).ok()) m.used_bytes = all - free;
    m.step_s = middle(seconds);
    m.times = std::move(records[middle_step(records, m.others ? &*m.others : nullptr)]);
    return m;
}

std::string device_preset(const std::string& name) {
    constexpr std::pair<const char*, const char*> known[] = {
        {"B200", "b200-192gb"},    {"H200", "h200-sxm-141gb"},        {"H100 PCIe", "h100-pcie-80gb"}, {"H100", "h100-sxm-80gb"},
        {"H800", "h800-sxm-80gb"}, {"A100-SXM4-40", "a100-sxm-40gb"}, {"A100-SXM", "a100-sxm-80gb"},   {"A100", "a100-pcie-80gb"},
        {"L40S", "l40s"},          {"RTX 4090", "rtx-4090"}};
    for (const auto& [part, preset] : known)
        if (name.find(part) != std::string::npos) return preset;
    throw std::runtime_error("there is no device preset for a " + name + ": add one to scenarios/devices, and its name here");
}

std::string measured_row(const std::string& file, const std::vector<std::string>& overrides, const Measured& measured,
                         const std::optional<std::string>& so_far) {
    const auto text = read_text(file);
    auto scenario = nlohmann::ordered_json::parse(text.value_or("{}"));
    std::string name = scenario.value("name", std::filesystem::path(file).stem().string());
    for (const std::string& o : overrides) {
        override_field(scenario, o);
        if (!o.starts_with("runtime.allocator")) name += " " + o;
    }
    if (auto& cluster = scenario["cluster"]; cluster.contains("device")) { // simexec issues ops, not the scenario's framework
        auto& device = cluster["device"];
        if (device.is_string()) device = nlohmann::ordered_json{{"preset", device}};
        if (!device.contains("launch_us")) device["launch_us"] = gpu_issue_us;
    }
    const std::string source = "measured by simexec check --device cuda on " + measured.on;
    auto dataset = nlohmann::ordered_json::parse(so_far.value_or("{}"), nullptr, false);
    auto rows = nlohmann::ordered_json::array();
    if (dataset.is_object() && dataset.contains("rows"))
        for (const auto& row : dataset["rows"])
            if (row.value("name", "") != name) rows.push_back(row);
    rows.push_back({{"name", name},
                    {"source", source},
                    {"scenario", scenario},
                    {"measured", {{"step_time_s", measured.step_s}, {"memory_gb", static_cast<double>(measured.used_bytes) * 1e-9}}}});
    return nlohmann::ordered_json{{"name", "measured by simexec on " + measured.on.substr(0, measured.on.find(','))},
                                  {"source", source},
                                  {"memory_measure", "device"},
                                  {"rows", rows}}
               .dump(1) +
           "\n";
}

} // namespace orrery::simexec
