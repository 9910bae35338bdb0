// The report of `simexec run`.
#include "exec/kernels/room.hpp"
#include "exec/runtime/machine.hpp"
#include "exec/simexec/gpu.hpp"
#include "exec/simexec/training.hpp"
#include "sim/report/model_flops.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace orrery::simexec {

bool rounded(const Scenario& s, const RunOptions& how) {
    const DType p = s.training.precision;
    return (p == DType::bf16 || p == DType::fp16) && !how.fp32 && !how.fp64 && how.device == "cpu";
}

std::string on_processor(const Cores& cores) {
    std::string text = fmt::format("{} on {}", gemm_library(), processor_name());
    if (cores.threads > 1) text += fmt::format(", {} threads a rank", cores.threads);
    return text + shared_cores(cores);
}

std::string shared_cores(const Cores& cores) {
    return cores.shared() ? fmt::format(", {} ranks share {} core{}", cores.ranks, cores.cores, cores.cores == 1 ? "" : "s") : "";
}

Figures figures(const Scenario& s, double step_s, const RunOptions& how) {
    const double tokens = static_cast<double>(s.training.global_batch_size * s.training.sequence_length);
    const double flops = model_flops_per_sequence(s.model, static_cast<double>(s.training.sequence_length),
                                                  static_cast<double>(s.training.document_tokens)) *
                         static_cast<double>(s.training.global_batch_size);
    const bool gpu = how.device == "cuda";
    const auto peak = s.cluster.device.peak.find(gpu ? name(stored_on_gpu(s)) : "fp32");
    const int ranks = s.world_size();
    Figures f{tokens / step_s, flops / step_s, std::nullopt,
              ranks == 1 ? "one " + s.cluster.device.name : fmt::format("{} x {}", ranks, s.cluster.device.name)};
    if (gpu == (s.cluster.device.architecture != "cpu") && peak != s.cluster.device.peak.end() && peak->second.value > 0)
        f.mfu = f.flops_per_s / (peak->second.value * static_cast<double>(ranks));
    return f;
}

namespace {

std::string stored_as(const World& world, const RunOptions& how) {
    if (rounded(world.scenario, how))
        return fmt::format("fp32 arithmetic, buffers rounded as in {}", name(world.scenario.training.precision));
    return fmt::format("{}{}", name(world.real), how.device == "cpu" ? "" : " as the device stores it");
}

// The most of any rank of each stage: alive as the plan counts it, and allocated here.
std::string memory_text(const World& world, const Result& r, const MemoryReport& predicted) {
    std::vector<std::int64_t> most(predicted.stages.size(), 0), allocated = most;
    for (const auto& rank : world.ranks) {
        if (!rank) continue;
        const auto s = static_cast<std::size_t>(rank->stage);
        most[s] = std::max(most[s], rank->memory.device().highest);
        allocated[s] = std::max(allocated[s], r.allocated[rank->rank]);
    }
    std::string text;
    for (std::size_t s = 0; s < most.size(); ++s) {
        if (most[s] == 0) continue; // no rank of it is in this process
        const std::int64_t expected = predicted.stages[s].allocated_peak.count;
        text += fmt::format("  memory of stage {}: {} bytes at the peak, {}; {} allocated\n", s, grouped(most[s]),
                            most[s] == expected ? "as predicted" : "predicted " + grouped(expected), grouped(allocated[s]));
    }
    return text;
}

// The memory of each stage if experts got no more than their mean rows, or the rows that the scenario says.
std::string room_text(const World& world) {
    const Scenario& s = world.scenario;
    if (!leaves_expert_room(s)) return {};
    const MemoryReport without = memory(executed_plan(s), s);
    std::string text;
    for (std::size_t stage = 0; stage < without.stages.size(); ++stage)
        text += fmt::format("{}{}", stage > 0 ? ", " : "", grouped(without.stages[stage].allocated_peak.count));
    return fmt::format("  with room for {:g} x the mean of experts' rows (runtime.expert_room); predicted without it: {} bytes\n",
                       s.runtime.expert_room, text);
}

// Outside the device: the host's memory (1), and NVMe (2), on processors a file of the folder for temporary files.
std::int64_t predicted_elsewhere(const StageMemory& stage, int memory) { return (memory == 1 ? stage.host : stage.disk).peak.count; }

// The most of any rank of each stage.
std::string elsewhere_text(const World& world, const MemoryReport& predicted) {
    std::string text;
    for (const int memory : {1, 2})
        for (std::size_t s = 0; s < predicted.stages.size(); ++s) {
            std::int64_t most = -1;
            for (const auto& rank : world.ranks)
                if (rank && rank->stage == static_cast<int>(s)) most = std::max(most, rank->memory.arena(memory).highest());
            const std::int64_t expected = predicted_elsewhere(predicted.stages[s], memory);
            if (most < 0 || expected == 0) continue;
            text += fmt::format("  {} of stage {}: {} bytes allocated, predicted {}\n", memory == 1 ? "host memory" : "NVMe", s,
                                grouped(most), grouped(expected));
        }
    return text;
}

// A trainer's communicators, as the prediction counts them for the stage.
std::int64_t predicted_communicators(const StageMemory& stage) {
    for (const ReserveItem& i : stage.reserve)
        if (i.name == "communicator buffers") return i.bytes.count;
    return 0;
}

std::int64_t bytes_of(const std::vector<CommunicatorMemory>& communicators) {
    std::int64_t sum = 0;
    for (const CommunicatorMemory& c : communicators) sum += c.bytes;
    return sum;
}

// The most of any rank that is here.
std::string communicators_text(const World& world, const Result& r, const MemoryReport& predicted) {
    const Rank* most = nullptr;
    const auto of = [&](const Rank& rank) { return bytes_of(r.communicators[rank.rank]); };
    for (const auto& rank : world.ranks)
        if (rank && !r.communicators[rank->rank].empty() && (!most || of(*rank) > of(*most))) most = rank.get();
    if (!most) return {};
    return fmt::format("  communicators of rank {}: {} bytes of the device, predicted {}\n", most->rank, grouped(of(*most)),
                       grouped(predicted_communicators(predicted.stages[most->stage])));
}

nlohmann::ordered_json memory_of(const Rank& rank, const Result& r, const StageMemory& predicted) {
    nlohmann::ordered_json j{{"rank", rank.rank},
                             {"peak_bytes", rank.memory.device().highest},
                             {"allocated_bytes", r.allocated[rank.rank]},
                             {"predicted_bytes", predicted.allocated_peak.count}};
    for (const auto& [memory, called] : {std::pair{1, "host"}, {2, "nvme"}}) { // RankMemory::arena
        const std::int64_t expected = predicted_elsewhere(predicted, memory);
        if (expected == 0) continue;
        j[fmt::format("{}_allocated_bytes", called)] = rank.memory.arena(memory).highest();
        j[fmt::format("{}_predicted_bytes", called)] = expected;
    }
    const auto& communicators = r.communicators[rank.rank];
    if (communicators.empty()) return j;
    for (const CommunicatorMemory& c : communicators) j["communicators"][c.name] = c.bytes;
    j["communicators_predicted_bytes"] = predicted_communicators(predicted);
    return j;
}

} // namespace

std::string as_json(const World& world, const Result& r, const RunOptions& how, const MemoryReport& predicted) {
    const Figures f = figures(world.scenario, r.step_s, how);
    nlohmann::ordered_json j{{"name", world.scenario.name},
                             {"world_size", world.plan.mesh.ranks()},
                             {"executor", how.executor},
                             {"kernels", how.device == "cuda" ? r.on : gemm_library()},
                             {"numbers", stored_as(world, how)},
                             {"processor", processor_name()},
                             {"threads_per_rank", r.threads},
                             {"first_step", r.first_step},
                             {"steps", r.steps},
                             {"first_loss", r.first_loss},
                             {"last_loss", r.last_loss},
                             {"step_time_s", r.step_s},
                             {"tokens_per_s", f.tokens_per_s},
                             {"model_tflops", f.flops_per_s / 1e12}};
    if (f.mfu) j["mfu"] = *f.mfu;
    if (const LossScale* scale = loss_scale(world)) j["loss_scale"] = scale->factor, j["steps_left_out"] = scale->skipped;
    if (leaves_expert_room(world.scenario)) j["expert_room"] = world.scenario.runtime.expert_room;
    if (r.eval_loss) j["eval_loss"] = *r.eval_loss;
    for (const auto& rank : world.ranks)
        if (rank) j["memory"].push_back(memory_of(*rank, r, predicted.stages[rank->stage]));
    if (!r.checkpoint.empty()) j["checkpoint"] = r.checkpoint;
    if (r.copied > 0) j["checkpoint_copy_bytes"] = r.copied;
    if (!how.export_weights.empty()) j["weights"] = how.export_weights;
    return j.dump(2) + "\n";
}

std::string as_text(const World& world, const Result& r, const RunOptions& how, const MemoryReport& predicted, const TextStyle& style) {
    const Figures f = figures(world.scenario, r.step_s, how);
    std::string text =
        paint(world.scenario.name, Ink::bold, style) + fmt::format(": {} on {}, {} executor, {}\n\n", counted(r.steps, "step"),
                                                                   counted(world.plan.mesh.ranks(), "rank"), how.executor, r.on);
    if (world.scenario.training.precision != DType::fp32)
        text += fmt::format("  {} training: {}\n", name(world.scenario.training.precision), stored_as(world, how));
    if (const LossScale* scale = loss_scale(world))
        text += fmt::format("  loss scale {}, {} left out whose gradients overflowed\n", scale->factor, counted(scale->skipped, "step"));
    if (!how.text_form.empty()) text += fmt::format("  text       {}: {} {}\n", how.text, grouped(how.text_tokens), how.text_form);
    text += fmt::format("  loss       {:.4f} -> {:.4f}\n", r.first_loss, r.last_loss);
    if (r.eval_loss) text += fmt::format("  of held text  {:.4f}\n", *r.eval_loss);
    text += fmt::format("  step time  {} (median)      tokens/s  {}\n", seconds_text(r.step_s), metric(f.tokens_per_s, 4));
    text += fmt::format("  model FLOP/s  {}", metric(f.flops_per_s, 4)) +
            (f.mfu ? fmt::format("              MFU  {:.1f} % of {}\n", 100 * *f.mfu, f.peak_of) : "\n");
    if (const std::int64_t last = r.first_step + r.steps; world.plan.steps > 1 && last > how.steps)
        text +=
            fmt::format("  {} steps in all, where --steps asked for {}: they come in periods of {}\n", last, how.steps, world.plan.steps);
    text +=
        memory_text(world, r, predicted) + room_text(world) + elsewhere_text(world, predicted) + communicators_text(world, r, predicted);
    if (!r.checkpoint.empty()) text += "  checkpoint " + r.checkpoint + "\n";
    if (r.copied > 0) text += fmt::format("  while one is written: {} bytes of the host's memory for a copy\n", grouped(r.copied));
    if (!how.export_weights.empty()) text += "  weights " + how.export_weights + "\n";
    if (!how.trace.empty() && !r.record.empty()) text += "  trace of the last step " + how.trace + "\n";
    return text;
}

} // namespace orrery::simexec
