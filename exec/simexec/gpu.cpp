#include "exec/simexec/gpu.hpp"

#include "exec/local/clock.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

namespace orrery::simexec {
namespace {

constexpr double patience = 120;   // seconds: the first step makes GEMM plans and workspaces

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

DType stored_on_gpu(const Scenario& s) { return s.training.precision == DType::bf16 ? DType::bf16 : DType::fp32; }

Measured measure_on_gpu(World& world, const Corpus& corpus, int steps, std::vector<std::int64_t> delays, Progress& progress) {
    Fleet fleet = cuda_fleet(world, std::nullopt, patience);
    fleet.delays = std::move(delays);
    StreamDevice& first = *fleet.devices[0];
    Measured m;
    m.on = first.name() + ", " + fleet.software;
    const auto executor = queues_executor(world, std::move(fleet));
    std::vector<std::vector<OpTime>> records;
    std::vector<double> seconds;
    constexpr int warm_up = 2;
    const int total = warm_up + 2 * steps;
    for (int i = 0; i < total; ++i) {   // events cost a little: steps with and without, in turn
        load_batch(world, corpus, i);
        std::vector<OpTime> record;
        const bool timed = i % 2 == 1;
        const std::int64_t began = wall_ns();
        executor->step(timed ? &record : nullptr);
        if (i >= warm_up && timed) records.push_back(std::move(record));
        if (i >= warm_up && !timed) seconds.push_back(static_cast<double>(wall_ns() - began) * 1e-9);
        progress.show(i + 1, total, "measuring");
    }
    std::int64_t free = 0, all = 0;
    if (first.memory(free, all).ok()) m.used_bytes = all - free;
    m.step_s = middle(seconds);
    std::ranges::sort(records, {}, end_of);
    m.times = records[records.size() / 2];
    return m;
}

std::string device_preset(const std::string& name) {
    constexpr std::pair<const char*, const char*> known[] = {{"B200", "b200-192gb"}, {"H200", "h200-sxm-141gb"}, {"H100 PCIe", "h100-pcie-80gb"}, {"H100", "h100-sxm-80gb"}, {"H800", "h800-sxm-80gb"},
                                                             {"A100-SXM4-40", "a100-sxm-40gb"}, {"A100-SXM", "a100-sxm-80gb"}, {"A100", "a100-pcie-80gb"}, {"L40S", "l40s"}, {"RTX 4090", "rtx-4090"}};
    for (const auto& [part, preset] : known)
        if (name.find(part) != std::string::npos) return preset;
    throw std::runtime_error("there is no device preset for a " + name + ": add one to scenarios/devices, and its name here");
}

std::string measured_row(const std::string& file, const std::vector<std::string>& overrides, const Measured& measured) {
    const auto text = read_text(file);
    auto scenario = nlohmann::ordered_json::parse(text.value_or("{}"));
    std::string name = scenario.value("name", std::filesystem::path(file).stem().string());
    for (const std::string& o : overrides) {
        override_field(scenario, o);
        name += " " + o;
    }
    const std::string source = "measured by simexec check --device cuda on " + measured.on;
    nlohmann::ordered_json row{{"name", name}, {"source", source}, {"scenario", scenario}, {"measured", {{"step_time_s", measured.step_s}, {"memory_gb", static_cast<double>(measured.used_bytes) * 1e-9}}}};
    return nlohmann::ordered_json{{"name", "measured: " + name}, {"source", source}, {"memory_measure", "device"}, {"rows", {row}}}.dump(1) + "\n";
}

} // namespace orrery::simexec
