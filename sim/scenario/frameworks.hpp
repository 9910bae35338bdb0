// What each framework does when nobody says otherwise, by year of its release: the table behind every default.
#pragma once

#include "sim/scenario/scenario.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

struct Scenario;

struct FrameworkInfo {
    const char* name;
    const char* title;
    const char* summary;
};
std::span<const FrameworkInfo> frameworks(); // sorted by name
const FrameworkInfo* find_framework(std::string_view name);

// A row of the table: from `year` on, `field` ("strategy.overlap.pipeline") is `value` (JSON) because of `source`. A later row of the same
// field wins. architecture: only on devices of that one ("" any).
struct FrameworkDefault {
    const char* framework;
    int year;
    const char* architecture;
    const char* field;
    const char* value;
    const char* source;
};
std::span<const FrameworkDefault> framework_defaults();

// The rows that hold for this framework, year and device, one a field, the framework's own before the general ones ("*").
std::vector<FrameworkDefault> defaults_of(std::string_view framework, int year, std::string_view architecture);

// Whether its layers, losses and optimizers are Megatron-Core's: framework megatron, and nemo, whose recipes run on it.
bool megatron_core(std::string_view framework);

// Whether PyTorch's autocast picks the dtypes: fp32 parameters, linears and attention in 16 bits, and in fp32 what comes of the embedding,
// norms and the residual adds (its operator lists; framework ddp, as its gradients are those of fp32 parameters).
bool in_autocast(const Scenario& scenario);
// What a framework does in its own way and no scenario says otherwise, by its code.
struct FrameworkHabits {
    // Layers after Megatron's: gate and up are the columns of one linear, the loss makes its softmax in the place of its fp32 copy of the
    // logits, and the gradient in the softmax.
    bool megatrons_layers = false;
    // A linear's gathered input is kept for its weight gradient (the gather is an op of autograd's like any other), where Megatron keeps
    // the shard and gathers it again.
    bool keeps_gathered = false;
    // What attention and MLP add to the residual stream lives until their backward pass. Of nanotron, by its logs: in 29 runs each layer
    // has 2.0 such rows a token in flight more than its code explains.
    bool holds_branches = false;
    // Layers hold [sequence, batch, hidden] and attention [batch, sequence, heads]: a copy turns its result round.
    bool turns_attention = false;
    // The loss makes its softmax in a second copy in fp32, when the 16-bit logits are gone.
    bool copies_logits_twice = false;
    // Pipeline stages are cut by their layers' cost, embedding and head among them, where others give each as many layers.
    bool stages_by_cost = false;
    // Pipeline transfers are awaited one after another, activations first (its p2p.py), where others batch those of a moment.
    bool transfers_one_by_one = false;
    // Of a layer that a list recomputes it keeps what its policy names (jax.checkpoint_policies.save_only_these_names) and makes the rest
    // again; others keep what a checkpointed function returned as well.
    bool keeps_named_alone = false;
};
FrameworkHabits habits_of(std::string_view framework);

// Whether the loss is PyTorch's own on 16-bit logits: its log-softmax, nll_loss's gradient and that of the logits have 16 bits too.
bool loss_in_sixteen_bits(const Scenario& scenario);
// Whether a norm reads a copy in fp32 of a residual stream in 16 bits (InternLM: norm(residual.float())).
bool widens_for_norms(const Scenario& scenario);

} // namespace orrery
