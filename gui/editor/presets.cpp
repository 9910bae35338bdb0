#include "gui/editor/presets.hpp"

#include "gui/core/tr.hpp"
#include "sim/scenario/layers.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>

namespace orrery {
namespace {

using OrderedJson = nlohmann::ordered_json;

// How devices are shared out, beside fields_of_stages: a preset of this says all of it anew.
constexpr const char* parallelism[] = {"framework",         "data_parallel",    "tensor_parallel",       "sequence_parallel",
                                       "pipeline_parallel", "context_parallel", "context_parallel_kind", "zero_stage",
                                       "shard_group_size"};

// Null: left out. -1: as many as a node has.
struct PresetChange {
    const char* id;
    bool anew;
    const char* fields;
};
constexpr PresetChange changes[] = {
    {"ddp", true, R"({"framework": "ddp"})"},
    {"fsdp", true, R"({"framework": "fsdp2"})"},
    {"zero1", true, R"({"framework": "megatron", "zero_stage": 1})"},
    {"tensor", true, R"({"framework": "megatron", "tensor_parallel": -1, "sequence_parallel": true, "zero_stage": 1})"},
    {"3d", true,
     R"({"framework": "megatron", "tensor_parallel": -1, "sequence_parallel": true, "pipeline_parallel": 2, "schedule": "1f1b", "zero_stage": 1})"},
    {"interleaved", true,
     R"({"framework": "megatron", "tensor_parallel": -1, "sequence_parallel": true, "pipeline_parallel": 2, "virtual_pipeline": 2, "schedule": "interleaved-1f1b", "zero_stage": 1})"},
    {"zero-bubble", true,
     R"({"framework": "megatron", "tensor_parallel": -1, "sequence_parallel": true, "pipeline_parallel": 2, "schedule": "zb-h1", "zero_stage": 1})"},
    {"context", true, R"({"framework": "megatron", "context_parallel": 2, "zero_stage": 1})"},
    {"recompute-none", false, R"({"recompute": "none", "recompute_layers": null})"},
    {"recompute-selective", false, R"({"recompute": "selective", "recompute_layers": null})"},
    {"recompute-full", false, R"({"recompute": "full", "recompute_layers": null})"},
};

} // namespace

std::vector<Preset> presets() {
    return {
        {"ddp", tr("Data parallel"), tr("Every device holds the whole model; gradients are summed")},
        {"fsdp", tr("Fully sharded (FSDP)"), tr("Parameters, gradients and optimizer states in shards, gathered layer by layer")},
        {"zero1", tr("Data parallel, ZeRO 1"), tr("Optimizer states in shards")},
        {"tensor", tr("Tensor parallel in a node"), tr("Layers split over the devices of a node, replicas between nodes")},
        {"3d", tr("Tensor and pipeline, 1F1B"), tr("Layers split in a node, two stages between nodes")},
        {"interleaved", tr("Tensor and pipeline, interleaved"), tr("Two chunks for each stage: a smaller bubble, more transfers")},
        {"zero-bubble", tr("Tensor and pipeline, zero bubble"), tr("Weight gradients fill the bubble")},
        {"context", tr("Long sequences: context parallel"), tr("Each sequence split over two devices")},
        {"recompute-none", tr("Recompute nothing"), tr("All activations are kept")},
        {"recompute-selective", tr("Recompute attention"), tr("Attention alone: its activations are large, and cheap to compute again")},
        {"recompute-full", tr("Recompute whole layers"), tr("Only the inputs of layers are kept")},
    };
}

std::string with_preset(const std::string& text, const std::string& id, int devices_per_node) {
    const OrderedJson json = OrderedJson::parse(text, nullptr, false, true);
    const auto* change = std::find_if(std::begin(changes), std::end(changes), [&](const PresetChange& c) { return id == c.id; });
    if (!json.is_object() || change == std::end(changes)) return {};
    OrderedJson strategy = json.contains("strategy") && json["strategy"].is_object() ? json["strategy"] : OrderedJson::object();
    if (change->anew) {
        for (const char* field : parallelism) strategy.erase(field);
        for (const char* field : fields_of_stages) strategy.erase(field);
    }
    const OrderedJson fields = OrderedJson::parse(change->fields);
    for (const auto& [field, value] : fields.items()) {
        if (value.is_null())
            strategy.erase(field);
        else
            strategy[field] = value == -1 ? OrderedJson(devices_per_node) : value;
    }
    std::string out = "{";
    for (const auto& [field, value] : strategy.items())
        out += (out.size() > 1 ? ", " : "") + OrderedJson(field).dump() + ": " + value.dump();
    return out + "}";
}

} // namespace orrery
