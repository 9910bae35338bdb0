// Fine-tuning: what is trained must be there, and something must be trained.
#include "sim/scenario/practice.hpp"
#include "sim/scenario/resolve.hpp"
#include "sim/scenario/suggest.hpp"
#include "sim/scenario/trainable.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery {
namespace {

std::vector<std::string> targets_of(const Model& m) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < std::size(Spelling<LoraTarget>::all); ++i)
        if (has(m, static_cast<LoraTarget>(i))) names.emplace_back(Spelling<LoraTarget>::all[i]);
    return names;
}

void check_what_is_trained(Reading& reading, const Model& m) {
    const Trainable& t = m.trainable;
    if (t.lora && !t.frozen.empty())
        return reading.problem("/model/trainable/frozen",
                               "model.trainable.frozen has nothing to name with model.trainable.lora, which trains adapters alone: leave "
                               "one of the two out");
    for (std::size_t i = 0; i < t.targets.size(); ++i)
        if (!has(m, t.targets[i])) {
            const std::string at = "/model/trainable/lora/targets/" + std::to_string(i);
            reading.problem(at, dotted(at) + " = " + name(t.targets[i]) + " is no linear of this model's layers: it has " +
                                    join(targets_of(m)));
        }
    const int layers = m.layers + m.mtp_layers;
    if (t.frozen_layers > layers)
        return reading.problem("/model/trainable/frozen_layers", "model.trainable.frozen_layers = " + std::to_string(t.frozen_layers) +
                                                                     " is more than the layers of the model, " + std::to_string(layers) +
                                                                     (m.mtp_layers > 0 ? " with mtp_layers" : "") + ": lower it");
    if (!sound(reading, {"/model"}) || *trained_parameters(m) > 0) return;
    const bool by_layers = t.frozen_layers >= m.layers;
    reading.problem(by_layers ? "/model/trainable/frozen_layers" : "/model/trainable/frozen",
                    std::string("model.trainable leaves nothing to train: ") +
                        (by_layers ? "lower frozen_layers below model.layers = " + std::to_string(m.layers) : "take a part out of frozen"));
}

} // namespace

void check_trainable(Reading& reading) {
    const Scenario& sc = reading.scenario;
    const Trainable& t = sc.model.trainable;
    if (!sound(reading, {"/model"})) return;
    if (t.base_dtype == BaseDType::nf4 && !t.lora)
        reading.problem("/model/trainable/base_dtype",
                        "model.trainable.base_dtype = nf4 keeps what is not trained in 4 bits, and without model.trainable.lora the model "
                        "itself is trained: add lora");
    if (!t.partial()) return;
    check_what_is_trained(reading, sc.model);
    if (!sound(reading, {"/model", "/strategy", "/training"})) return;
    const auto refuse = [&](bool broken, const char* pointer, const std::string& what) {
        if (broken) reading.problem(pointer, what);
    };
    const DType p = sc.training.precision;
    refuse(t.base_dtype == BaseDType::nf4 && bytes_per_element(p) < 2, "/training/precision",
           std::string("training.precision = ") + name(p) +
               " multiplies in few bits what model.trainable.base_dtype = nf4 makes 16 bits "
               "wide: use bf16 or fp16");
    refuse(sc.runtime.fp8_all_gather && p == DType::fp8, "/runtime/fp8_all_gather",
           "runtime.fp8_all_gather is not modelled with model.trainable: set it to false");
    const bool experts = std::any_of(t.targets.begin(), t.targets.end(), of_experts);
    refuse(t.lora && experts && sc.strategy.expert_tensor_parallel > 1, "/strategy/expert_tensor_parallel",
           "strategy.expert_tensor_parallel = " + std::to_string(sc.strategy.expert_tensor_parallel) +
               " divides the linears of experts, which is not modelled with model.trainable.lora beside them: set it to 1");
    refuse(t.lora && experts && sc.runtime.fp8_dispatch, "/runtime/fp8_dispatch",
           "runtime.fp8_dispatch sends 8-bit tokens, which is not modelled with model.trainable.lora beside experts' linears: set it to "
           "false");
    refuse(
        t.dropout > 0 && sc.strategy.tensor_parallel > 1, "/model/trainable/lora/dropout",
        fmt::format("model.trainable.lora.dropout = {:g} is not modelled with tensor_parallel = {}: set it to 0, or tensor_parallel to 1",
                    t.dropout, sc.strategy.tensor_parallel));
}

} // namespace orrery
