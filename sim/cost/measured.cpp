#include "sim/cost/measured.hpp"

#include "topology/overloaded.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery {

namespace {

const char* name(Direction d) {
    switch (d) {
    case Direction::forward:
        return "fwd";
    case Direction::backward:
        return "bwd";
    case Direction::input_gradient:
        return "dx";
    case Direction::weight_gradient:
        return "dw";
    }
    return "";
}

const char* name(CrossEntropy::Part p) {
    switch (p) {
    case CrossEntropy::Part::maximum:
        return "max";
    case CrossEntropy::Part::sums:
        return "sums";
    case CrossEntropy::Part::loss:
        return "loss";
    case CrossEntropy::Part::gradient:
        return "gradient";
    }
    return "";
}

// Distinguishes ops of one kind.
std::string variant(const Work& work) {
    return std::visit(Overloaded{
                          [](const Linear& w) { return std::string(w.groups > 1 ? "grouped " : "") + name(w.direction); },
                          [](const Attention& w) { return std::string(name(w.direction)) + (w.causal ? " causal" : ""); },
                          [](const Norm& w) { return std::string(name(w.direction)) + (w.kind == NormKind::rmsnorm ? " rms" : ""); },
                          [](const CrossEntropy& w) { return std::string(name(w.part)); },
                          [](const OptimizerStep& w) {
                              constexpr const char* kinds[] = {"sgd", "momentum", "adam", "lamb", "lars", "muon"};
                              return std::string(kinds[static_cast<int>(w.kind)]) +
                                     (w.part == OptimizerStep::Part::norms        ? " norms"
                                      : w.part == OptimizerStep::Part::apply      ? " apply"
                                      : w.part == OptimizerStep::Part::undo       ? " undo"
                                      : w.part == OptimizerStep::Part::again      ? " again"
                                      : w.part == OptimizerStep::Part::direction  ? " direction"
                                      : w.part == OptimizerStep::Part::orthogonal ? " orthogonal"
                                                                                  : "");
                          },
                          [](const GradientNorm&) { return std::string(); },
                          [](const Compress& w) { return std::string(name(w.part)); },
                          [](const auto& w) {
                              if constexpr (requires { w.direction; })
                                  return std::string(name(w.direction));
                              else
                                  return std::string();
                          },
                      },
                      work);
}

const Buffer& at(const Plan& plan, BufferId b) { return plan.buffers[b]; }

bool floating(DType t) { return t != DType::int64 && t != DType::int32 && t != DType::uint8 && t != DType::boolean && t != DType::int1; }

// The type of the narrowest floating operand: that of the model's activations, independent of the type of its sums.
DType type_of(const Plan& plan, const Op& op) {
    DType narrowest = DType::fp32;
    bool any = false;
    for (const auto* list : {&op.out, &op.in})
        for (const BufferId b : *list) {
            const DType t = at(plan, b).dtype;
            if (!floating(t) || (any && bytes_per_element(t) >= bytes_per_element(narrowest))) continue;
            narrowest = t;
            any = true;
        }
    return narrowest;
}

} // namespace

std::string kernel_key(const Plan& plan, const Op& op) {
    const std::string which = variant(op.work);
    return std::string(kind_name(op.work)) + (which.empty() ? "" : " " + which) + " " + name(type_of(plan, op));
}

KernelSize kernel_size(const Plan& plan, const Op& op) {
    KernelSize size{flops(op.work).count, 0};
    if (const auto* e = std::get_if<Embedding>(&op.work)) {
        size.bytes = 2 * static_cast<double>(e->tokens * e->hidden) * bytes_per_element(type_of(plan, op));
        return size;
    }
    if (const auto* a = std::get_if<Attention>(&op.work)) {
        const double rows = static_cast<double>(a->batch * a->heads * a->seq_q);
        size.bytes = rows * static_cast<double>(a->seq_kv) * a->share * bytes_per_element(type_of(plan, op));
        return size;
    }
    for (const auto* list : {&op.in, &op.out})
        for (const BufferId b : *list) size.bytes += static_cast<double>(at(plan, b).bytes.count);
    return size;
}

std::string kernel_key(const std::string& key, const KernelSize& size) {
    return fmt::format("{} of {:.0f} FLOPs, {:.0f} bytes", key, size.flops, size.bytes);
}

std::string kernel_key(const std::string& key, const KernelSize& size, const std::string& part) {
    return kernel_key(key, size) + ", " + part;
}

std::string part_of(const Op& op) {
    std::string part;
    for (std::size_t begin = 0; begin <= op.name.size();) {
        const std::size_t end = std::min(op.name.find('.', begin), op.name.size());
        const std::string_view piece = std::string_view(op.name).substr(begin, end - begin);
        const bool numbered = piece.size() > 1 && (piece[0] == 'c' || piece[0] == 'l') &&
                              std::ranges::all_of(piece.substr(1), [](char x) { return x >= '0' && x <= '9'; });
        if (!numbered) part += (part.empty() ? "" : ".") + std::string(piece);
        begin = end + 1;
    }
    return part;
}

double law_us(const KernelLaw& law, const KernelSize& size) {
    double us = law.start_us;
    if (law.gflops_per_s > 0) us += size.flops / (law.gflops_per_s * 1e3);
    if (law.gb_per_s > 0) us += size.bytes / (law.gb_per_s * 1e3);
    return us;
}

std::string communication_key(const Collective& c) { return std::string(name(c.kind)) + " " + name(c.dtype) + " of ranks"; }

KernelSize communication_size(const Collective& c, std::size_t members) {
    return {0, static_cast<double>(c.bytes.count) * static_cast<double>(members)};
}

std::optional<double> measured_us(const Device& device, const std::string& key, const KernelSize& size) {
    auto law = device.kernels.find(kernel_key(key, size));
    if (law == device.kernels.end()) law = device.kernels.find(key);
    if (law == device.kernels.end()) return std::nullopt;
    return law_us(law->second, size);
}

std::optional<double> measured_us(const Device& device, const Plan& plan, const Op& op) {
    if (device.kernels.empty()) return std::nullopt;
    const std::string key = kernel_key(plan, op);
    const KernelSize size = kernel_size(plan, op);
    const auto law = device.kernels.find(kernel_key(key, size, part_of(op)));
    return law == device.kernels.end() ? measured_us(device, key, size) : law_us(law->second, size);
}

} // namespace orrery
