#include "sim/search/refine.hpp"

#include "sim/schedules/schedule.hpp"
#include "sim/search/choose.hpp"
#include "topology/at.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace orrery {

namespace {

constexpr double gain = 0.0005;        // what a move must bring, as a share of the score
constexpr std::size_t most_moves = 48; // of a round

struct Shape {
    int stages = 1;
    std::vector<int> stage_of; // by chunk

    std::vector<int> layers_of_stages(const std::vector<int>& layers) const {
        std::vector<int> held(at(stages));
        for (std::size_t c = 0; c < layers.size(); ++c) held[at(stage_of[c])] += layers[c];
        return held;
    }
};

// One layer from a chunk to another of another stage, one of both the first or the last of the model.
void layer_moves(const Shape& shape, const Refinement& now, std::vector<Refinement>& moves) {
    const int chunks = static_cast<int>(now.layers.size()), last = chunks - 1;
    std::vector<int> fewest(at(shape.stages), -1), most(at(shape.stages), -1); // chunk of each stage
    for (int c = 0; c < chunks; ++c) {
        int& few = fewest[at(shape.stage_of[at(c)])];
        int& many = most[at(shape.stage_of[at(c)])];
        if (few < 0 || now.layers[at(c)] < now.layers[at(few)]) few = c;
        if (many < 0 || now.layers[at(c)] > now.layers[at(many)]) many = c;
    }
    const auto move = [&](int from, int to) {
        if (shape.stage_of[at(from)] == shape.stage_of[at(to)] || now.layers[at(from)] == 0) return;
        Refinement next = now;
        --next.layers[at(from)], ++next.layers[at(to)];
        if (!next.recomputed.empty()) {
            const std::vector<int> held = shape.layers_of_stages(next.layers);
            for (std::size_t s = 0; s < held.size(); ++s) next.recomputed[s] = std::min(next.recomputed[s], held[s]);
        }
        moves.push_back(std::move(next));
    };
    for (int s = 0; s < shape.stages; ++s)
        for (const int end : {last, 0}) {
            move(end, fewest[at(s)]);
            move(most[at(s)], end);
        }
}

// Less recomputation on one stage, or on all of them.
void recompute_moves(const Shape& shape, const Refinement& now, std::vector<Refinement>& moves) {
    const std::vector<int> held = shape.layers_of_stages(now.layers);
    const std::vector<int> counts = now.recomputed.empty() ? held : now.recomputed;
    const auto less = [](int n, int how) { return how == 0 ? 0 : how == 1 ? n / 2 : n - std::max(1, n / 8); };
    for (int how = 0; how < 3; ++how) {
        Refinement all = now;
        all.recomputed = counts;
        for (int& n : all.recomputed) n = std::max(0, less(n, how));
        moves.push_back(all);
        for (std::size_t s = 0; s < counts.size(); ++s) {
            if (counts[s] == 0) continue;
            Refinement one = now;
            one.recomputed = counts;
            one.recomputed[s] = std::max(0, less(counts[s], how));
            moves.push_back(std::move(one));
        }
    }
}

std::vector<Refinement> moves_of(const Shape& shape, const Refinement& now, RefineFields fields) {
    std::vector<Refinement> all, out;
    if (fields.recompute) recompute_moves(shape, now, all);
    if (fields.layers) layer_moves(shape, now, all);
    std::set<std::pair<std::vector<int>, std::vector<int>>> seen{{now.layers, now.recomputed}};
    for (Refinement& r : all)
        if (out.size() < most_moves && seen.insert({r.layers, r.recomputed}).second) out.push_back(std::move(r));
    return out;
}

// "5 4x2 3": as many as are alike stand together.
std::string list(const std::vector<int>& numbers) {
    std::string text;
    for (std::size_t i = 0, end = 0; i < numbers.size(); i = end) {
        while (end < numbers.size() && numbers[end] == numbers[i]) ++end;
        text += fmt::format("{}{}{}", i == 0 ? "" : " ", numbers[i], end - i > 1 ? fmt::format("x{}", end - i) : "");
    }
    return text;
}

// The fields that this strategy has, of those that the scenario leaves free.
RefineFields fields_of(const Strategy& s, RefineFields fields) {
    const ScheduleInfo* info = find_schedule(s.schedule);
    if (!info || info->directions > 1) return {false, false};
    return {fields.layers && s.pipeline_parallel > 1,
            fields.recompute && s.recompute != RecomputeKind::none && s.recompute_every == 0 && s.recompute_per_chunk == 0};
}

} // namespace

std::string Refinement::words() const { return "layers " + list(layers) + (recomputed.empty() ? "" : ", recomputed " + list(recomputed)); }

double least_share(const Scenario& from, const SweepRow& row, RefineFields fields) {
    const Strategy& s = from.strategy;
    fields = fields_of(s, fields);
    // A backward pass takes twice its forward pass: of all three, what is made again is at most a quarter.
    const double kept = fields.recompute ? 0.75 : 1;
    if (!fields.layers) return kept;
    // A split for slower devices spares the others' waits as well, which the row does not say.
    if (!from.cluster.others.empty() || !from.perturb.empty()) return 0;
    const double steps = static_cast<double>(s.virtual_pipeline) * static_cast<double>(from.microbatches());
    const ScheduleInfo& info = *find_schedule(s.schedule);
    const bool filled = info.splits_backward || info.asynchronous; // with weight gradients, or with the next step
    const double filling = filled ? 0 : (s.pipeline_parallel - 1) / steps;
    return kept * std::min(1.0, (1 - row.bubble_fraction) * (1 + filling));
}

std::vector<SearchPoint> refine(const Scenario& from, const SearchPoint& point, RefineFields fields, const EvaluateRefinements& evaluate,
                                int rounds) {
    const Strategy& s = from.strategy;
    const ScheduleInfo* info = find_schedule(s.schedule);
    fields = fields_of(s, fields);
    if (!info || (!fields.layers && !fields.recompute)) return {};
    Shape shape{s.pipeline_parallel, {}};
    for (int c = 0; c < static_cast<int>(s.layers_per_chunk.size()); ++c) shape.stage_of.push_back(info->stage_of(c, shape.stages));
    Refinement now{s.layers_per_chunk, s.recompute_layers};
    double best = point.score;
    bool surely = fits_surely(point.row);
    std::vector<SearchPoint> steps;
    for (int round = 0; round < rounds; ++round) {
        const std::vector<Refinement> moves = moves_of(shape, now, fields);
        std::vector<SearchPoint> found = moves.empty() ? std::vector<SearchPoint>{} : evaluate(moves);
        std::size_t chosen = found.size();
        double least = best * (1 - gain);
        for (std::size_t i = 0; i < found.size(); ++i) {
            const SweepRow& row = found[i].row;
            if (row.status != PointStatus::fits || (surely && !fits_surely(row)) || !(found[i].score < least)) continue;
            least = found[i].score;
            chosen = i;
        }
        if (chosen == found.size()) break;
        now = moves[chosen];
        best = least;
        surely = surely || fits_surely(found[chosen].row);
        found[chosen].refined = now.words();
        steps.push_back(std::move(found[chosen]));
    }
    return steps;
}

} // namespace orrery
