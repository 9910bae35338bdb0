// Scenarios whose fields are each within their limits but whose products are not: more elements than 64 bits count in bytes, or a
// simulation that would take more memory than simrun allows itself. Tests hold the memory of accepted scenarios to it.
#include "sim/scenario/practice.hpp"
#include "sim/scenario/resolve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

// Tensors alive on one rank: a few dozen of these of 8 bytes stay below 2^63.
constexpr double most_elements = 1e16;

// Bytes that a plan and its simulation take, measured (the most of several strategies, rounded up).
constexpr double most_bytes = 3.5e9, bytes_of_pass = 820, bytes_of_layer = 2e5, bytes_of_ring_step = 1e4;

// The bytes are fewer where a group of devices lies like another: its links are then the other's, moved (Fabric::find_moves).
double bytes_of_device(const Cluster& c) {
    const bool alike = !c.graph && c.others.empty() && c.inter.down.empty() && c.inter.routing != Routing::ecmp;
    return alike ? 1000 : 3300;
}

// Rows a token has in the widest tensor of a layer, or of the output layer.
double widest(const Scenario& sc) {
    const Model& m = sc.model;
    const double heads = m.attention_heads, hidden = static_cast<double>(m.hidden_size);
    const double latent = heads * (m.attention.qk_nope_head_dim + m.attention.qk_rope_head_dim + m.attention.v_head_dim);
    double width =
        std::max({2.0 * static_cast<double>(m.ffn_size), 3 * heads * m.head_dim, latent, hidden, static_cast<double>(m.vocab_size)});
    if (!m.moe) return width;
    const MoeSpec& e = *m.moe;
    const double routed = e.top_k * std::max(1.0, e.capacity_factor) * std::max(hidden, 2.0 * static_cast<double>(e.expert_ffn_size));
    const double shared = 2.0 * e.shared_experts * static_cast<double>(std::max(e.shared_expert_ffn_size, e.expert_ffn_size));
    return std::max({width, routed, shared, static_cast<double>(e.experts)});
}

void check_tensors(Reading& reading) {
    const Scenario& sc = reading.scenario;
    const Training& t = sc.training;
    const Strategy& s = sc.strategy;
    const double micro = static_cast<double>(t.micro_batch_size), sequence = static_cast<double>(t.sequence_length) / s.context_parallel;
    const double scores = s.flash_attention ? 0 : micro * sc.model.attention_heads / s.tensor_parallel * sequence * sequence;
    const double slots = practice_of(sc).keeps_masks ? micro * sequence * sc.model.moe->top_k * sc.model.moe->capacity_factor : 0;
    const double elements = std::max(micro * sequence * std::max(widest(sc), slots), scores);
    const double microbatches = static_cast<double>(sc.microbatches());
    const double kept = s.schedule == "gpipe" ? microbatches : std::min(microbatches, 4.0 * s.pipeline_parallel * s.virtual_pipeline);
    const double all = elements * (sc.model.layers + sc.model.mtp_layers) * kept;
    if (all <= most_elements) return;
    reading.problem(
        "/training/sequence_length",
        fmt::format("training.micro_batch_size x sequence_length = {} x {} makes tensors of {:.2g} elements, over all layers and "
                    "the {:.4g} microbatches alive at once {:.2g}: at most {:.0g} can be counted; lower them, the model's widths or "
                    "its layers",
                    t.micro_batch_size, t.sequence_length, elements, kept, all, most_elements));
}

bool in_three_passes(const std::string& schedule) { return schedule.starts_with("zb-") || schedule.starts_with("dualpipe"); }

// A pass of a chunk is simulated in one piece, or in one a layer where weights or gradients are gathered and reduced layer by layer.
void check_memory(Reading& reading) {
    const Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    const double layers = sc.model.layers + sc.model.mtp_layers, chunks = static_cast<double>(s.pipeline_parallel) * s.virtual_pipeline;
    const double pieces = s.zero_stage >= 2 ? layers + 2 * chunks : chunks;
    const double of_microbatch = pieces * (in_three_passes(s.schedule) ? 3 : 2) * bytes_of_pass;
    const double microbatches = static_cast<double>(sc.microbatches()) * (asynchronous_schedule(s) ? s.flush_every : 1);
    const bool ring = s.context_parallel > 1 && s.context_parallel_kind == ContextKind::ring;
    const double rings = ring ? layers * s.context_parallel * bytes_of_ring_step : 0;
    const double rest = rings + layers * bytes_of_layer + static_cast<double>(sc.cluster.devices()) * bytes_of_device(sc.cluster);
    if (rest + microbatches * of_microbatch <= most_bytes) return;
    const double fit = std::floor((most_bytes - rest) / of_microbatch);
    if (rest > most_bytes / 2 && rings > rest / 2)
        return reading.problem(
            "/strategy/context_parallel",
            fmt::format(
                "strategy.context_parallel = {} with {} layers would take about {:.1f} GB to simulate, more than the {:g} GB allowed: "
                "lower it, or set context_parallel_kind = allgather or ulysses",
                s.context_parallel, layers, rest * 1e-9, most_bytes * 1e-9));
    const std::int64_t of_ranks = static_cast<std::int64_t>(s.data_parallel) * sc.training.micro_batch_size;
    reading.problem(
        "/training/global_batch_size",
        fmt::format("training.global_batch_size = {} is {:.0f} microbatches of {:.0f} passes each, about {:.1f} GB to simulate, more "
                    "than the {:g} GB allowed: {}raise micro_batch_size, or lower the pipeline's stages and chunks",
                    sc.training.global_batch_size, microbatches, of_microbatch / bytes_of_pass,
                    (rest + microbatches * of_microbatch) * 1e-9, most_bytes * 1e-9,
                    fit >= 1 ? fmt::format("lower it to {:.0f} or less, ", fit * static_cast<double>(of_ranks)) : ""));
}

// Every link of a cluster is kept: those of devices and NICs, and in a mesh those between each two devices of a node.
void check_links(Reading& reading) {
    const Cluster& c = reading.scenario.cluster;
    if (c.graph) return;
    constexpr double most_links = 3e7;
    const double inside = c.intra.kind == IntraKind::nvlink_mesh || c.intra.kind == IntraKind::infinity_fabric ? c.devices_per_node : 2;
    const double links = static_cast<double>(c.nodes) * (c.devices_per_node * (inside + 4) + 2.0 * c.inter.nics_per_node);
    if (links > most_links)
        reading.problem("/cluster/nodes",
                        fmt::format("cluster.nodes = {} with {} devices and {} NICs each have about {:.2g} links: at most {:.0g} "
                                    "are kept; lower nodes, devices_per_node or inter_node.nics_per_node",
                                    c.nodes, c.devices_per_node, c.inter.nics_per_node, links, most_links));
}

// Switches of a group are joined each to each, and so are the groups: the links of both are kept one by one.
void check_dragonfly(Reading& reading) {
    const Cluster& c = reading.scenario.cluster;
    if (c.graph || c.nodes < 2 || c.inter.topology != InterTopology::dragonfly) return;
    constexpr double most_links = 5e6;
    const double switches = std::max(1, c.inter.dragonfly.switches_per_group), nodes = std::max(1, c.inter.dragonfly.nodes_per_switch);
    const double groups = std::max<double>(c.inter.dragonfly.groups, std::ceil(c.nodes / nodes / switches));
    const double links = groups * switches * switches + groups * groups;
    if (links > most_links)
        reading.problem(
            "/cluster/inter_node/dragonfly",
            fmt::format("cluster.inter_node.dragonfly of {:.0f} groups of {:.0f} switches has about {:.2g} links between switches: "
                        "at most {:.0g} are kept; lower groups or switches_per_group",
                        groups, switches, links, most_links));
}

} // namespace

void check_bounds(Reading& reading) {
    check_links(reading);
    check_dragonfly(reading);
    if (!reading.problems.empty()) return; // the sizes are not known yet
    check_tensors(reading);
    check_memory(reading);
}

} // namespace orrery
