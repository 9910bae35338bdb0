// The built-in calibration's prediction of each measurement of a table.
#include "sim/fit/experts.hpp"
#include "sim/fit/laws.hpp"
#include "sim/fit/prefill.hpp"

#include "sim/cost/attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace orrery {

namespace {

std::string time_class(double us) { return us < 10 ? "< 10 us" : us < 100 ? "10 to 100 us" : us < 1000 ? "0.1 to 1 ms" : "1 ms and more"; }

Checked check_gemm(const MeasuredTable& t) {
    Checked out;
    const auto device = find_device(t.device);
    if (!device) return {{}, {fmt::format("{}: no device {}", t.file, t.device)}};
    const KernelTables kernels = kernel_tables(*device, {}, t.constants.get());
    std::set<std::string> dtypes;
    for (std::size_t i = 0; i < t.rows.size(); ++i) dtypes.insert(t.text(i, "dtype"));
    for (const std::string& dtype : dtypes) {
        const auto table = kernels.gemm.find(dtype);
        if (table == kernels.gemm.end()) {
            out.skipped.push_back(fmt::format("{}: no table for {} on {}", t.file, dtype, t.device));
            continue;
        }
        GemmDevice d = burst_device(*device, dtype);
        d.array = kernels.systolic.array;
        std::vector<double> law, measured, bytes;
        const std::size_t first = out.points.size();
        for (std::size_t i = 0; i < t.rows.size(); ++i) {
            if (t.text(i, "dtype") != dtype) continue;
            const GemmProblem p = problem_of(t, i, dtype);
            law.push_back(gemm_us(table->second, d, p)), measured.push_back(t.number(i, "us")), bytes.push_back(p.m * p.k);
            out.points.push_back({"gemm", dtype, time_class(measured.back()), t.device, measured.back(), law.back()});
        }
        if (dtype == "bf16") continue;
        // The collector's 8-bit ops quantise their input first; training does that in a kernel of its own.
        const Cast cast = fit_cast(law, measured, bytes, d.l2);
        for (std::size_t i = 0; i < law.size(); ++i) out.points[first + i].predicted += cast.us(bytes[i], d.l2);
        out.skipped.push_back(fmt::format(
            "{}, {}: the cast of the input is fitted out: {:.1f} us and {:.3g} us a million elements, {:.3g} beyond {:.0f} % of the cache",
            t.file, dtype, cast.fixed, cast.per_element * 1e6, (cast.per_element + cast.beyond) * 1e6, cast.share * 100));
    }
    return out;
}

const char* kernel_of(const std::string& implementation) {
    if (implementation == "FA1") return "flash-1";
    if (implementation == "FA2") return "flash-2";
    if (implementation == "FA3") return "flash-3";
    if (implementation == "cudnn") return "cudnn";
    return nullptr;
}

Checked check_attention(const MeasuredTable& t) {
    Checked out;
    std::set<std::string> without;
    for (std::size_t i = 0; i < t.rows.size(); ++i) {
        const auto device = find_device(t.text(i, "device"));
        const char* kernel = kernel_of(t.text(i, "implementation"));
        if (!device || kernel == nullptr) {
            without.insert(t.text(i, "device") + " " + t.text(i, "implementation"));
            continue;
        }
        const KernelTables kernels = kernel_tables(*device, {}, t.constants.get());
        const AttentionDevice d{double(std::max(1, device->processors)), device->peak.at("bf16").value * 1e-12,
                                device->memory_bandwidth.value * 1e-6, 1};
        const bool causal = t.number(i, "causal") != 0;
        const auto whole = [&](const char* c) { return static_cast<std::int64_t>(t.number(i, c)); };
        Attention op{Direction::forward,
                     whole("batch"),
                     whole("seq"),
                     whole("seq"),
                     whole("heads"),
                     whole("heads"),
                     whole("head_dim"),
                     whole("head_dim"),
                     causal,
                     causal ? 0.5 : 1.0,
                     DType::bf16,
                     AttentionKernel::flash2,
                     0};
        const bool both = t.text(i, "op") == "fwd+bwd", backward = t.text(i, "op") == "bwd";
        const double flops = 4.0 * op.batch * op.heads * op.qk_dim * double(op.seq_q) * double(op.seq_kv) * op.share *
                             (both       ? 3.5
                              : backward ? 2.5
                                         : 1);
        const AttentionTable& table = kernels.attention.at(kernel);
        double us = backward ? 0 : attention_us(kernels, table, d, op);
        op.direction = Direction::backward;
        if (both || backward) us += attention_us(kernels, table, d, op);
        out.points.push_back({"attention " + t.text(i, "op"), kernel, op.seq_q < 2048 ? "< 2048 tokens" : "2048 tokens and more",
                              device->name, flops / t.number(i, "tflops") * 1e-6, us});
    }
    for (const std::string& w : without) out.skipped.push_back(t.file + ": no law for " + w);
    return out;
}

Checked check_prefill(const MeasuredTable& t) {
    Checked out;
    const std::string name = t.device.starts_with("mla_") ? t.device.substr(4) : t.device;
    const auto device = find_device(name);
    if (!device) return {{}, {fmt::format("{}: no device {}", t.file, name)}};
    const KernelTables kernels = kernel_tables(*device, {}, t.constants.get());
    const char* kind = is_latent(t) ? "latent" : "full";
    const auto table = kernels.prefill.find(kind);
    if (table == kernels.prefill.end()) return {{}, {fmt::format("{}: no constants of {} attention's prefill for {}", t.file, kind, name)}};
    std::set<int> without;
    for (std::size_t i = 0; i < t.rows.size(); ++i) {
        const PrefillProblem p = prefill_problem(t, i);
        const int dim = static_cast<int>((p.qk + p.v) / 2);
        if (!table->second.efficiency.contains(dim)) {
            without.insert(dim);
            continue;
        }
        const double us = t.number(i, "fwd_us");
        out.points.push_back({fmt::format("prefill {}", kind), fmt::format("{} d{}", t.text(i, "dtype"), dim), time_class(us), name, us,
                              prefill_us(table->second, prefill_device(*device), p)});
    }
    for (int dim : without) out.skipped.push_back(fmt::format("{}: no constants for a head dimension of {}", t.file, dim));
    return out;
}

} // namespace

TableKind kind_of(const MeasuredTable& t) {
    if (t.has("m") && t.has("n") && t.has("k") && t.has("us") && t.has("dtype")) return TableKind::gemm;
    if (t.has("implementation") && t.has("tflops") && t.has("seq")) return TableKind::attention_rates;
    if (is_experts(t)) return TableKind::experts;
    if (is_prefill(t)) return TableKind::attention_prefill;
    if (t.has("system") && t.has("bytes") && t.has("us") && t.has("devices")) return TableKind::collectives;
    if (t.has("gpu") && t.has("gpus") && t.has("busbw_GBps")) return TableKind::points;
    if (t.has("forward_ms") && (t.has("case") || (t.has("hidden_size") && t.has("micro_batch_size")))) return TableKind::passes;
    if (t.has("dispatch_gb_s") && t.has("tokens_per_gpu") && t.has("ep")) return TableKind::dispatch;
    return TableKind::unknown;
}

Checked check(const MeasuredTable& t) {
    switch (kind_of(t)) {
    case TableKind::gemm:
        return check_gemm(t);
    case TableKind::attention_rates:
        return check_attention(t);
    case TableKind::attention_prefill:
        return check_prefill(t);
    case TableKind::experts:
        return check_experts(t);
    case TableKind::collectives:
        return check_collectives(t);
    case TableKind::points: {
        std::vector<std::string> skipped;
        Checked out = check_collectives(collectives_of(t, skipped));
        out.skipped.insert(out.skipped.end(), skipped.begin(), skipped.end());
        return out;
    }
    case TableKind::dispatch:
        return check_dispatch(t);
    case TableKind::passes:
        return check_passes(t);
    case TableKind::unknown:
        break;
    }
    return {{}, {t.file + ": its columns are those of no table there is a law for"}};
}

} // namespace orrery
