// The machine itself, and the cluster file made of what was measured.
#include "exec/calibrate/calibrate.hpp"
#include "exec/kernels/kernel.hpp"
#include "exec/local/clock.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>
#include <thread>
#include <unistd.h>

namespace orrery {

namespace {

std::string processor_name() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);) {
        const auto colon = line.find(": ");
        if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
    }
    return "a processor that gives no name";
}

// Median of several copies of 64 MiB, each over memory the one before pushed out of the caches.
double copy_rate() {
    constexpr std::size_t size = std::size_t{64} << 20;
    std::vector<std::byte> from(size, std::byte{1}), to(size);
    std::vector<double> seconds;
    for (int i = 0; i < 7; ++i) {
        from[i] = std::byte{static_cast<unsigned char>(i)};
        const std::int64_t begin = wall_ns();
        std::memcpy(to.data(), from.data(), size);
        seconds.push_back(static_cast<double>(wall_ns() - begin) * 1e-9);
    }
    std::ranges::sort(seconds);
    return static_cast<double>(size) / seconds[seconds.size() / 2] * 1e-9;
}

// Half of a round trip between two spinning threads, the median of many: now and then one of them loses its core, which is no part of a
// hand-over. With one core each is the scheduler's, and the figure says so.
double handover() {
    std::atomic<int> turn{0};
    constexpr int rounds = 4000;
    std::thread other([&] {
        for (int i = 0; i < rounds; ++i) {
            while (turn.load(std::memory_order_acquire) != 2 * i + 1) std::this_thread::yield();
            turn.store(2 * i + 2, std::memory_order_release);
        }
    });
    std::vector<std::int64_t> ns;
    std::int64_t before = wall_ns();
    for (int i = 0; i < rounds; ++i) {
        turn.store(2 * i + 1, std::memory_order_release);
        while (turn.load(std::memory_order_acquire) != 2 * i + 2) std::this_thread::yield();
        const std::int64_t now = wall_ns();
        ns.push_back(now - before);
        before = now;
    }
    other.join();
    std::ranges::nth_element(ns, ns.begin() + rounds / 2);
    return static_cast<double>(ns[rounds / 2]) * 1e-3 / 2;
}

// To four digits, as the double that prints so; what is far below what a clock tells is nothing.
double rounded(double v) { return v < 1e-6 ? 0 : std::stod(fmt::format("{:.4g}", v)); }

// GB/s or GFLOP/s; what is faster than any memory has no part in a time (0), as the fit of noisy samples may say.
double rate(double v) { return v < 1e9 ? rounded(v) : 0; }

void add_laws(nlohmann::ordered_json& device, const std::map<std::string, FittedLaw>& laws) {
    for (const auto& [key, fitted] : laws) {
        nlohmann::ordered_json law{{"start_us", rounded(fitted.law.start_us)}, {"gb_per_s", rate(fitted.law.gb_per_s)}};
        if (fitted.law.gflops_per_s > 0) law["gflops_per_s"] = rate(fitted.law.gflops_per_s);
        law["points"] = fitted.points;
        law["error"] = std::round(fitted.error * 1e4) / 1e4;
        device["kernels"][key] = std::move(law);
    }
}

nlohmann::ordered_json device_json(const MachineFacts& machine, const std::map<std::string, FittedLaw>& laws,
                                   std::span<const KernelSample> samples) {
    double peak = 0; // GFLOP/s
    for (const KernelSample& s : samples)
        if (s.us > 0) peak = std::max(peak, s.size.flops / s.us * 1e-3);
    nlohmann::ordered_json device{
        {"name", "calibrated-cpu"}, {"title", machine.processor}, {"vendor", "cpu"}, {"architecture", "cpu"}, {"processors", 1}};
    device["memory_mib"] = std::floor(machine.memory_mib / machine.cores);
    device["memory_gb_per_s"] = rounded(2 * machine.copy_gb_per_s);
    device["l2_mib"] = rounded(machine.cache_mib);
    device["peak_tflops"] = {{"fp32", rounded(peak * 1e-3)}};
    device["scale_up_gb_per_s"] = rounded(machine.copy_gb_per_s);
    device["launch_us"] = 0;
    add_laws(device, laws);
    device["sources"] = {
        {"kernels", fmt::format("measured: thread-CPU times of training steps on one thread, {}; median of steps, {} sizes", machine.gemm,
                                samples.size())},
        {"peak_tflops", "measured: the fastest GEMM met"},
        {"memory_gb_per_s", "measured: copies of 64 MiB, read and written"},
        {"memory_mib", "measured: the machine's memory, an equal part for each core"},
        {"scale_up_gb_per_s", "measured: copies of 64 MiB"},
        {"launch_us", "convention: the host's part is in the kernels' times"}};
    return device;
}

// What runs take: storage, and defaults of "run". Processes that die start again on this machine, which is not repaired.
void add_run(nlohmann::ordered_json& json, const RunFacts& run) {
    json["storage"] = {{"write_gb_per_s", rounded(run.write_gb_per_s)},
                       {"read_gb_per_s", rounded(run.read_gb_per_s)},
                       {"per_node_gb_per_s", rounded(std::max(run.write_gb_per_s, run.read_gb_per_s))}};
    json["sources"]["storage"] = fmt::format("measured: checkpoints of two sizes in the working folder ({})", run.of);
    nlohmann::ordered_json save{{"kind", run.waits ? "sync" : "async"}, {"barrier_s", rounded(run.block_s)}};
    if (!run.waits) save["copy_gb_per_s"] = rounded(run.copy_gb_per_s > 0 ? std::min(run.copy_gb_per_s, 1e6) : 1e6);
    json["run"] = {{"failures", {{"transient", 1}}},
                   {"detect_s", {{"crash", rounded(run.detect_s)}}},
                   {"restart", {{"schedule_s", 0}, {"init_s", rounded(run.start_s)}, {"init_s_per_1024_ranks", 0}, {"compile_s", 0}}},
                   {"checkpoint", std::move(save)}};
    json["sources"]["run"] = fmt::format("measured: supervised runs ({}), medians", run.of);
}

} // namespace

std::string gpu_cluster_json(const std::string& preset, const std::string& measured_on, double issue_us,
                             const std::map<std::string, FittedLaw>& laws, std::span<const KernelSample> samples) {
    nlohmann::ordered_json json{{"name", "calibrated-gpu"}, {"title", measured_on}, {"nodes", 1}, {"devices_per_node", 1}};
    json["device"] = {{"preset", preset}, {"launch_us", std::round(issue_us * 100) / 100}};
    add_laws(json["device"], laws);
    json["device"]["sources"] = {
        {"kernels", fmt::format("measured: times of ops between CUDA events, training steps on {}; median of steps, {} sizes", measured_on,
                                samples.size())}};
    return json.dump(2) + "\n";
}

MachineFacts measure_machine() {
    MachineFacts m;
    m.processor = processor_name();
    m.gemm = gemm_library();
    m.cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    m.memory_mib = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE)) / (1 << 20);
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    m.cache_mib = cache > 0 ? static_cast<double>(cache) / (1 << 20) : 8;
    m.copy_gb_per_s = copy_rate();
    m.handover_us = handover();
    return m;
}

std::string cluster_json(const MachineFacts& machine, const std::map<std::string, FittedLaw>& laws, std::span<const KernelSample> samples,
                         const RunFacts& run) {
    nlohmann::ordered_json json{{"name", "calibrated"}, {"title", machine.processor + ", a rank a core"}};
    json["device"] = device_json(machine, laws, samples);
    json["nodes"] = 1;
    json["devices_per_node"] = machine.cores;
    json["intra_node"] = {
        {"kind", "shared-memory"}, {"gb_per_s", rounded(machine.copy_gb_per_s)}, {"latency_us", rounded(machine.handover_us)}};
    json["sources"] = {{"intra_node", "measured: copies of 64 MiB, and the hand-over between two threads that spin"}};
    if (run.write_gb_per_s > 0) add_run(json, run);
    return json.dump(2) + "\n";
}

} // namespace orrery
