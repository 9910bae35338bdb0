// The first page of VALIDATION.md: for whom predictions are good, and for whom not, in plain words, from the errors of sources that no
// constant was fitted to (as they were when they were first predicted, half of what was mended since taken off).
#include "sim/validate/statistics.hpp"
#include "sim/validate/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace orrery {

namespace {

// Who asks, in words, and which rows are like that.
struct ReaderKind {
    const char* who;
    bool (*is)(const Configuration& c);
};

bool on(const Configuration& c, std::string_view part) { return c.device.find(part) != std::string::npos; }

constexpr ReaderKind kinds[] = {
    {"Megatron, NeMo and Transformer Engine, dense models", [](const Configuration& c) { return c.stack == Stack::modules && !c.experts; }},
    {"Megatron, NeMo and Transformer Engine, mixtures of experts",
     [](const Configuration& c) { return c.stack == Stack::modules && c.experts; }},
    {"PyTorch's own (FSDP, DDP, torchtitan, Transformers), dense models",
     [](const Configuration& c) { return c.stack == Stack::eager && !c.experts; }},
    {"PyTorch's own, mixtures of experts", [](const Configuration& c) { return c.stack == Stack::eager && c.experts; }},
    {"DeepSpeed's ZeRO", [](const Configuration& c) { return c.stack == Stack::zero; }},
    {"JAX and other software", [](const Configuration& c) { return c.stack == Stack::other; }},
    {"jobs on V100", [](const Configuration& c) { return on(c, "v100"); }},
    {"jobs on A100 and A800", [](const Configuration& c) { return on(c, "a100") || on(c, "a800"); }},
    {"jobs on H100, H200 and H800", [](const Configuration& c) { return on(c, "h100") || on(c, "h200") || on(c, "h800"); }},
    {"jobs on H20", [](const Configuration& c) { return on(c, "h20-"); }},
    {"jobs on B200, B300, GB200 and GB300", [](const Configuration& c) { return on(c, "b200") || on(c, "b300"); }},
    {"jobs on MI250X and MI300X and their like", [](const Configuration& c) { return c.device.starts_with("mi"); }},
    {"jobs on GeForce boards", [](const Configuration& c) { return c.device.starts_with("rtx"); }},
    {"jobs on TPUs", [](const Configuration& c) { return c.device.starts_with("tpu"); }},
    {"jobs on one node's devices (at most 8)", [](const Configuration& c) { return c.devices <= 8; }},
    {"jobs on more than 8 devices", [](const Configuration& c) { return c.devices > 8; }},
    {"pipelines", [](const Configuration& c) { return c.pipeline > 1; }},
    {"tensor parallelism", [](const Configuration& c) { return c.tensor > 1; }},
    {"parameters sharded over ranks (ZeRO 3, FSDP)", [](const Configuration& c) { return c.zero == 3; }},
    {"8 bits and less", [](const Configuration& c) { return c.precision_bits <= 8; }},
    {"steps that wait for the host a tenth of the time", [](const Configuration& c) { return c.host_share > 0.1; }},
};

struct Verdict {
    std::string text;
    double mean = 0;
};

constexpr double good = 0.10, poor = 0.20;
constexpr std::size_t few_rows = 4, few_sources = 2; // fewer say nothing of a new source

// "- jobs on A100: 6.9 % off on average (88 runs of 7 sources, 4.3 % too fast); memory 6.0 %"
std::optional<Verdict> verdict(const ReaderKind& kind, const std::vector<Experience>& rows) {
    std::vector<double> sizes, errors, memory;
    std::set<std::string_view> sources;
    for (const Experience& e : rows) {
        if (!e.unseen || !kind.is(e.configuration)) continue;
        if (e.memory) memory.push_back(std::abs(*e.memory));
        if (!e.step_time) continue;
        sources.insert(source_of(e.dataset));
        sizes.push_back(std::abs(*e.step_time));
        errors.push_back(*e.step_time);
    }
    if (sizes.empty()) return std::nullopt;
    const double bias = mean(errors);
    Verdict v;
    v.mean = sizes.size() < few_rows || sources.size() < few_sources ? -1 : mean(sizes);
    v.text =
        fmt::format("- {}: {:.0f} % off on average, half of them less than {:.0f} % ({} run{} of {} source{}; on average {:.0f} % too {})",
                    kind.who, 100 * mean(sizes), 100 * median(sizes), sizes.size(), sizes.size() == 1 ? "" : "s", sources.size(),
                    sources.size() == 1 ? "" : "s", 100 * std::abs(bias), bias < 0 ? "fast" : "slow");
    if (memory.size() >= few_rows) v.text += fmt::format("; memory {:.0f} % ({} runs)", 100 * mean(memory), memory.size());
    v.text += "\n";
    return v;
}

} // namespace

std::string for_whom(const Validation& v) {
    const std::vector<Experience> rows = left_out_rows(v);
    std::string of[4]; // good, fair, poor, hardly known
    for (const ReaderKind& kind : kinds)
        if (const auto one = verdict(kind, rows)) of[one->mean < 0 ? 3 : one->mean <= good ? 0 : one->mean <= poor ? 1 : 2] += one->text;
    if (of[0].empty() && of[1].empty() && of[2].empty()) return {};
    std::string text =
        "## For whom predictions are good, and for whom not\n\nStep times of runs from sources that no constant was fitted to: "
        "what you can expect for a job of yours. A job is of several kinds: expect the worst of them. Memory has no grade: its mean error "
        "stands behind.\n";
    static constexpr const char* heads[] = {
        "Good: a strategy that is 10 % better is found", "Fair: good enough to rank strategies, not to promise a step time",
        "Poor: measure a step and use `simrun learn`", "Hardly known: fewer than four runs, or one source"};
    for (std::size_t i = 0; i < std::size(heads); ++i)
        if (!of[i].empty()) text += fmt::format("\n**{}**\n\n{}", heads[i], of[i]);
    // All rows where none is of such a source.
    const ValidationSummary& s = v.held_out.step_time.n > 0 ? v.held_out : v.overall;
    const PairsSummary& p = s.pairs;
    if (p.n > 0)
        text += fmt::format("\nThe faster of two strategies of one job is named in {:.0f} % of {} pairs of these sources. ",
                            100 * static_cast<double>(p.right) / static_cast<double>(p.n), p.n);
    if (s.fits.n > 0)
        text += fmt::format("Whether a job fits is answered rightly for {:.0f} % of {} runs whose source says so.", 100 * s.fits.accuracy,
                            s.fits.n);
    return text + "\n";
}

} // namespace orrery
