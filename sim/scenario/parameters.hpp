// How many parameters a model has, exactly: embeddings, positions, biases, norms, router, shared experts; multi-token-prediction
// layers are not counted (papers leave them out). The vocabulary is counted as given, without the padding a plan adds.
#pragma once

#include "sim/scenario/scenario.hpp"

#include <cstdint>

namespace orrery {

std::int64_t parameter_count(const Model& model);

// Parameters one token meets: of the routed experts only the top_k it is sent to. Equal to parameter_count for a dense model.
std::int64_t active_parameter_count(const Model& model);

std::int64_t norm_parameters(const Model& model, std::int64_t width);
int layer_norms(const Model& model);                          // norms of a layer over the whole width, ahead of its parts and behind them
bool is_moe_layer(const Model& model, int layer);             // layer 0 is the first
int mixture_layers(const Model& model, int before);           // how many of the layers [0, before) have experts
std::int64_t attention_parameters(const Model& model);        // of one layer, its norms on queries and keys included
std::int64_t dense_mlp_parameters(const Model& model);        // of one layer
std::int64_t moe_parameters(const Model& model, bool active); // of one layer: router, experts (or the active ones), shared experts
std::int64_t layer_parameters(const Model& model, int layer); // with the layer's norms

std::int64_t table_parameters(const Model& model); // embeddings of ids and positions, the output layer

// Bytes of optimizer states for each element that is trained: its master copy, where it has one, and moments. Under Muon that of matrices;
// tables, norms and biases have a second moment.
double optimizer_state_bytes(const Training& training);

} // namespace orrery
