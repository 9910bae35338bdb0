// Example: 126 layers, 16 stages of 8 chunks, split [7, 8, .., 8, 7]: chunk 0 (stage 0's first) and chunk 127 (stage 15's last) hold no
// layer, only the embedding and the output layer; all others hold one.
#include "sim/scenario/layers.hpp"

#include "sim/scenario/practice.hpp"
#include "sim/scenario/resolve.hpp"
#include "sim/scenario/trainable.hpp"
#include "sim/schedules/schedule.hpp"

#include <algorithm>
#include <numeric>

namespace orrery {
namespace {

std::string list_text(const std::vector<int>& numbers) {
    std::string text = "[";
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (i == 12 && numbers.size() > 14) return text + ", .., " + std::to_string(numbers.back()) + "]";
        text += (i > 0 ? ", " : "") + std::to_string(numbers[i]);
    }
    return text + "]";
}

// The pipeline rank that holds a chunk. A schedule that is not known, or has no place for so many chunks, is reported by the checker; until
// then its chunks go round.
int stage_of_chunk(const Strategy& s, int chunk) {
    const ScheduleInfo* schedule = find_schedule(s.schedule);
    const int stage = schedule ? schedule->stage_of(chunk, s.pipeline_parallel) : -1;
    return stage >= 0 && stage < s.pipeline_parallel ? stage : chunk % s.pipeline_parallel;
}

std::vector<int> spread_stages(const std::vector<int>& split, const Strategy& s) {
    std::vector<int> chunks(static_cast<std::size_t>(s.pipeline_parallel) * static_cast<std::size_t>(s.virtual_pipeline));
    for (int stage = 0; stage < s.pipeline_parallel; ++stage) {
        const std::vector<int> own = split_stage(split[stage], s.virtual_pipeline, stage == 0);
        std::size_t next = 0;
        for (int chunk = 0; chunk < static_cast<int>(chunks.size()); ++chunk)
            if (stage_of_chunk(s, chunk) == stage) chunks[chunk] = own[next++];
    }
    return chunks;
}

// nanotron's stages: a block goes to the stage at hand, which is full once the cost up to and with it (weights a token is multiplied with,
// of the layers and the output layer) passes the stage's share. Example: 24 layers of 4 + 6 and an output layer of 24.5, in four stages of
// 66.1: [7, 7, 6, 4]. A stage for the output layer alone, with another after it for the loss, cannot be said: it takes a layer from
// before.
std::vector<int> split_by_cost(const Model& m, int stages) {
    const auto hidden = static_cast<double>(m.hidden_size);
    const double layer = hidden * (4.0 * static_cast<double>(m.attention_heads * m.head_dim) + 3.0 * static_cast<double>(m.ffn_size));
    const double share = (layer * m.layers + hidden * static_cast<double>(m.vocab_size)) / stages;
    std::vector<int> split(static_cast<std::size_t>(stages));
    std::size_t stage = 0;
    for (int i = 1; i <= m.layers; ++i) {
        ++split[stage];
        if (layer * i > share * static_cast<double>(stage + 1) && stage + 1 < split.size()) ++stage;
    }
    for (std::size_t c = split.size() - 1; c-- > 1;)
        if (split[c] == 0) --split[c - 1], ++split[c];
    return split;
}

bool by_cost(const Scenario& sc) {
    const Strategy& s = sc.strategy;
    return practice_of(sc).stages_by_cost && s.virtual_pipeline == 1 && s.pipeline_parallel > 1;
}

// Where Megatron puts what predicts further tokens: behind all layers, in the last chunk of a stage that is not the first
// (validate_layer_layout of megatron/core/transformer/pipeline_parallel_layer_layout.py, 2025; its guide on multi-token prediction).
void resolve_mtp_chunk(Reading& reading) {
    Strategy& s = reading.scenario.strategy;
    const int last = static_cast<int>(s.layers_per_chunk.size()) - 1, chunk = s.mtp_chunk;
    if (reading.scenario.model.mtp_layers == 0 || chunk == last) s.mtp_chunk = -1; // of the first a note says so
    if (s.mtp_chunk < 0) return;
    const auto refuse = [&](const std::string& why) {
        reading.problem("/strategy/mtp_chunk",
                        "strategy.mtp_chunk = " + std::to_string(chunk) + " " + why + ": leave it out, for the last chunk");
    };
    if (chunk > last)
        return refuse("is none of the " + std::to_string(last + 1) + " chunks, 0 to " + std::to_string(last) +
                      ", of pipeline_parallel x virtual_pipeline");
    if (const ScheduleInfo* schedule = find_schedule(s.schedule); schedule && schedule->directions > 1)
        return refuse("is not modelled with strategy.schedule = " + s.schedule + ", which has several copies of the model");
    for (int c = chunk + 1; c <= last; ++c)
        if (s.layers_per_chunk[c] > 0)
            return refuse("has layers behind it, in chunk " + std::to_string(c) + ", and what predicts further tokens needs the last one");
    const int stage = stage_of_chunk(s, chunk);
    bool ends = stage > 0;
    for (int c = chunk + 1; c <= last; ++c) ends = ends && stage_of_chunk(s, c) != stage;
    if (!ends) refuse("is not the last chunk of its stage, or is on the first stage, where Megatron does not put it");
}

} // namespace

std::int64_t deferred_output_gradients(const Scenario& s) {
    if (s.strategy.deferred_output_gradients <= 0 || s.strategy.data_parallel <= 0 || s.training.micro_batch_size <= 0) return 0;
    const ScheduleInfo* schedule = find_schedule(s.strategy.schedule);
    const bool waits = s.strategy.pipeline_parallel > 1 && schedule && !schedule->splits_backward && !schedule->asynchronous &&
                       s.runtime.loss != LossKind::chunked && trains(s.model, ModelPart::head, -1);
    return waits ? std::min<std::int64_t>(s.strategy.deferred_output_gradients, s.microbatches()) : 0;
}

namespace {

// Chunks of a list that is stated may be empty (Megatron's layout "Ettt|(tt|)*29,m|L" has such for what predicts further tokens, and
// "tt||t" passes on what it gets); a stage of nothing but these has no parameters, and is not modelled.
void check_chunks(Reading& reading, const std::string& where, bool stated) {
    const Strategy& s = reading.scenario.strategy;
    const std::vector<int>& chunks = s.layers_per_chunk;
    const ScheduleInfo* schedule = find_schedule(s.schedule);
    const bool may = stated && !(schedule && (schedule->splits_backward || schedule->directions > 1));
    std::vector<bool> holds(static_cast<std::size_t>(s.pipeline_parallel));
    for (std::size_t c = 0; c < chunks.size(); ++c) {
        const bool end = c == 0 || c + 1 == chunks.size();
        if (chunks[c] > 0 || end || s.mtp_chunk == static_cast<int>(c))
            holds[stage_of_chunk(s, static_cast<int>(c))] = true;
        else if (!may)
            return reading.problem(where, dotted(where) + " leaves chunk " + std::to_string(c) + " of " + std::to_string(chunks.size()) +
                                              " without a layer: only the first, beside the embedding, and the last, beside the output "
                                              "layer, may have none" +
                                              (stated ? " with strategy.schedule = " + s.schedule : std::string()));
    }
    const auto none = std::find(holds.begin(), holds.end(), false);
    if (none != holds.end())
        reading.problem(where, dotted(where) + " leaves stage " + std::to_string(none - holds.begin()) + " of " +
                                   std::to_string(holds.size()) +
                                   " without a layer: a chunk may have none where another of its stage has some");
}

void resolve_split(Reading& reading) {
    Scenario& sc = reading.scenario;
    Strategy& s = sc.strategy;
    const int layers = sc.model.layers;
    const std::int64_t chunks = static_cast<std::int64_t>(s.pipeline_parallel) * s.virtual_pipeline;
    const std::vector<int>& split = reading.layer_split;
    const std::string where = "/strategy/layer_split";
    if (layers + 2 < chunks && split.empty()) {
        reading.problem("/strategy/pipeline_parallel",
                        "strategy.pipeline_parallel = " + std::to_string(s.pipeline_parallel) +
                            (s.virtual_pipeline > 1 ? " x virtual_pipeline = " + std::to_string(s.virtual_pipeline) : std::string()) +
                            " makes " + std::to_string(chunks) + " chunks of " + std::to_string(layers) +
                            " layers: every chunk but the first and the last needs one");
        return;
    }
    if (split.empty()) {
        s.layers_per_chunk = usual_split(sc);
        resolve_mtp_chunk(reading);
        check_chunks(reading, "/strategy/pipeline_parallel", false);
        if (layers % chunks != 0)
            note_default(reading, "/strategy/layer_split", list_text(s.layers_per_chunk),
                         by_cost(sc) ? "layers of each stage, divided by what they cost"
                                     : "layers of each chunk, the ends the fewest, as they have embedding and loss");
        return;
    }
    const std::int64_t sum = std::accumulate(split.begin(), split.end(), std::int64_t{0});
    const auto count = static_cast<std::int64_t>(split.size());
    if (count != s.pipeline_parallel && count != chunks) {
        reading.problem(where, "strategy.layer_split has " + std::to_string(count) +
                                   " entries: it needs pipeline_parallel = " + std::to_string(s.pipeline_parallel) +
                                   (chunks != s.pipeline_parallel ? ", or pipeline_parallel x virtual_pipeline = " + std::to_string(chunks)
                                                                  : std::string()));
        return;
    }
    if (sum != layers) {
        reading.problem(where, "strategy.layer_split = " + list_text(split) + " adds up to " + std::to_string(sum) +
                                   ": it must be layers = " + std::to_string(layers));
        return;
    }
    s.layers_per_chunk = count == chunks ? split : spread_stages(split, s);
    resolve_mtp_chunk(reading);
    check_chunks(reading, where, true);
}

void resolve_recompute_layers(Reading& reading) {
    Strategy& s = reading.scenario.strategy;
    const std::string where = "/strategy/recompute_layers";
    if (const int most = *std::max_element(s.layers_per_chunk.begin(), s.layers_per_chunk.end()); s.recompute_per_chunk > most)
        reading.problem(where, "strategy.recompute_layers = {per_chunk: " + std::to_string(s.recompute_per_chunk) +
                                   "} is more than a chunk holds: at most " + std::to_string(most));
    if (s.recompute_layers.empty()) return;
    std::vector<int> held(static_cast<std::size_t>(s.pipeline_parallel));
    for (int chunk = 0; chunk < static_cast<int>(s.layers_per_chunk.size()); ++chunk)
        held[stage_of_chunk(s, chunk)] += s.layers_per_chunk[chunk];
    if (s.recompute_layers.size() == 1) {
        const int count = s.recompute_layers[0];
        const int most = *std::max_element(held.begin(), held.end());
        if (count > most)
            reading.problem(where, "strategy.recompute_layers = " + std::to_string(count) + " is more than a stage holds: at most " +
                                       std::to_string(most));
        s.recompute_layers.assign(held.size(), 0);
        for (std::size_t i = 0; i < held.size(); ++i) s.recompute_layers[i] = std::min(count, held[i]);
        return;
    }
    if (s.recompute_layers.size() != held.size()) {
        reading.problem(where, "strategy.recompute_layers has " + std::to_string(s.recompute_layers.size()) +
                                   " entries: it needs one a stage, pipeline_parallel = " + std::to_string(s.pipeline_parallel));
        return;
    }
    for (std::size_t i = 0; i < held.size(); ++i)
        if (s.recompute_layers[i] > held[i])
            reading.problem(where + "/" + std::to_string(i), "strategy.recompute_layers." + std::to_string(i) + " = " +
                                                                 std::to_string(s.recompute_layers[i]) +
                                                                 " is more than that stage holds: " + std::to_string(held[i]) + " layers");
}

} // namespace

ScheduleShape shape_of(const Strategy& s) {
    ScheduleShape shape;
    shape.stages = s.pipeline_parallel;
    shape.chunks_per_stage = s.virtual_pipeline;
    shape.group = s.microbatch_group_size;
    return shape;
}

std::vector<int> even_split(int layers, int parts) {
    const int whole = (layers + parts - 1) / parts;
    std::vector<int> split(static_cast<std::size_t>(parts), whole);
    const int missing = parts * whole - layers;
    for (int i = 0; i < missing; ++i) --split[i % 2 == 0 ? i / 2 : parts - 1 - i / 2];
    return split;
}

std::vector<int> usual_split(const Scenario& sc) {
    const Strategy& s = sc.strategy;
    return by_cost(sc) ? split_by_cost(sc.model, s.pipeline_parallel)
                       : even_split(sc.model.layers, s.pipeline_parallel * s.virtual_pipeline);
}

std::vector<int> split_stage(int layers, int chunks, bool first_stage) {
    const int whole = (layers + chunks - 1) / chunks;
    std::vector<int> split(static_cast<std::size_t>(chunks), whole);
    const int missing = chunks * whole - layers;
    for (int i = 0; i < missing; ++i) --split[first_stage ? i : chunks - 1 - i];
    return split;
}

void resolve_layers(Reading& reading) {
    resolve_split(reading);
    if (!reading.scenario.strategy.layers_per_chunk.empty()) resolve_recompute_layers(reading);
}

} // namespace orrery
