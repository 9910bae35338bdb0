#include "exec/weights/weights.hpp"

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/kernels/shards.hpp"
#include "exec/runtime/tensors.hpp"
#include "exec/weights/config.hpp"
#include "exec/weights/drafts.hpp"
#include "exec/weights/merge.hpp"
#include "topology/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace orrery {

namespace fs = std::filesystem;

namespace {

// A stretch of a rank's part that lies side by side in a tensor of the file: elements from `at` of the part, from `begin` of source. In the
// plan's tensor they begin at this row and column.
struct Stretch {
    std::int64_t at;
    std::size_t source;
    std::int64_t begin, count, row, column;
};

// Rows of the plan's tensor, all dimensions but the last flattened.
std::int64_t whole_row(const ShardView& v, std::int64_t row, std::size_t dimensions) {
    std::int64_t index = 0, stride = 1;
    for (std::size_t d = dimensions; d-- > 0;) {
        index += (row % v.local[d] + v.offset[d]) * stride;
        row /= v.local[d];
        stride *= v.whole[d];
    }
    return index;
}

// Calls put for the elements that the file has, in its order where it is transposed; rows that pad a vocabulary are left out.
template <class Put> void stretches(const ShardView& v, const TensorPart& part, const Counterpart& c, Put&& put) {
    const bool vector = v.local.size() == 1;
    const std::size_t dimensions = vector ? 1 : v.local.size() - 1;
    const std::int64_t columns = vector ? 1 : v.local.back(), first = vector ? 0 : v.offset.back();
    const std::int64_t end = part.begin + part.count, top = part.begin / columns, bottom = (end + columns - 1) / columns;
    const auto row = [&](std::int64_t whole) { return whole < c.rows ? std::optional(c.place(whole)) : std::nullopt; };
    if (!c.transposed) {
        for (std::int64_t r = top; r < bottom; ++r) {
            const std::int64_t from = std::max(part.begin, r * columns), to = std::min(end, (r + 1) * columns);
            const std::int64_t whole = whole_row(v, r, dimensions), column = first + from - r * columns;
            if (const auto at = row(whole))
                put(Stretch{from - part.begin, at->source, at->row * c.columns + column, to - from, whole, column});
        }
        return;
    }
    std::vector<std::int64_t> rows;
    std::vector<std::optional<Counterpart::Row>> places;
    for (std::int64_t r = top; r < bottom; ++r) places.push_back(row(rows.emplace_back(whole_row(v, r, dimensions))));
    for (std::int64_t j = 0; j < columns; ++j)
        for (std::int64_t r = top; r < bottom; ++r) {
            const std::int64_t i = r * columns + j;
            const auto known = static_cast<std::size_t>(r - top);
            const auto& at = places[known];
            if (i >= part.begin && i < end && at)
                put(Stretch{i - part.begin, at->source, (j + first) * c.rows + at->row, 1, rows[known], j + first});
        }
}

ShardView view_of(const World& world, const Rank& rank, const TensorPart& part) {
    return shard_view(world.plan, world.plan.buffers[part.tensor], rank.context.at, rank.context.expert_at);
}

WeightFamily family_of(const World& world) {
    std::vector<std::string> ignored;
    const auto family = weight_family(world.scenario.model, ignored);
    require(family.has_value(), "weights of a model that no file has");
    return *family;
}

// The tensor whose values a part has, parameters and master copies alike; empty: other states.
std::string tensor_of(const TensorPart& part, Quantity what) { return what == Quantity::states ? tensor_of_master(part.name) : part.name; }

// Other states and adapters have no counterpart.
std::optional<Counterpart> counterpart_of(const World& world, WeightFamily family, const Rank& rank, const TensorPart& part,
                                          Quantity what) {
    const std::string tensor = tensor_of(part, what);
    auto c = tensor.empty() ? std::nullopt : counterpart(world.scenario.model, family, tensor);
    if (!c) return c;
    const ShardView v = view_of(world, rank, part);
    std::int64_t rows = 1;
    for (std::size_t d = 0; d + 1 < std::max<std::size_t>(2, v.whole.size()); ++d) rows *= v.whole[d];
    const LogicalTensor& logical = world.plan.tensors[world.plan.buffers[part.tensor].tensor];
    require((rows == c->rows || (has_vocabulary_rows(logical) && rows > c->rows)) &&
                (v.whole.size() == 1 ? 1 : v.whole.back()) == c->columns,
            "a tensor of the plan has another shape than its counterpart in files");
    return c;
}

// All tensors of the model as files have them, each once, in the order of the layers.
std::vector<Counterpart::Source> sources_of(const World& world, WeightFamily family) {
    std::vector<Counterpart::Source> all;
    std::set<std::string> seen;
    for (const LogicalTensor& t : world.plan.tensors)
        if (const auto c = counterpart(world.scenario.model, family, t.name))
            for (const Counterpart::Source& s : c->sources)
                if (seen.insert(s.name).second) all.push_back(s);
    return all;
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

const SafeTensor& demand(const SafeTensors& files, const Counterpart::Source& s, const std::string& prefix) {
    const SafeTensor* found = files.find(s.name);
    if (!found && s.name.starts_with(prefix)) found = files.find(s.name.substr(prefix.size()));
    if (!found) throw std::runtime_error(fmt::format("the weights have no {}", s.name));
    if (found->shape != s.shape)
        throw std::runtime_error(fmt::format("{} has {} as {} where the scenario's model needs {}", found->file.string(), s.name,
                                             shape_text(found->shape), shape_text(s.shape)));
    return *found;
}

// Everything that a file has is of the model, or known to be idle.
void check_whole(const World& world, const SafeTensors& files, WeightFamily family) {
    const std::string prefix = prefix_of(family);
    std::set<std::string> names;
    for (const Counterpart::Source& s : sources_of(world, family)) {
        demand(files, s, prefix).floating(s.name);
        names.insert(s.name);
        if (s.name.starts_with(prefix)) names.insert(s.name.substr(prefix.size()));
    }
    for (const auto& [name, tensor] : files.tensors())
        if (!names.contains(name) && !is_idle(world.scenario.model, name))
            throw std::runtime_error(fmt::format("{} has {}, and the scenario's model has no such tensor", tensor.file.string(), name));
}

// The place of a part in the files; nothing: it is not written.
using PlaceOf = std::function<std::optional<Counterpart>(const Rank& rank, const TensorPart& part, Quantity what)>;

// merged: what adapters add to the values; null: nothing.
void write_parts(const World& world, const fs::path& folder, const WeightFiles& files, WeightType type, Quantity what,
                 const PlaceOf& place_of, const Merge* merged) {
    const std::int64_t width = bytes_of(type);
    std::vector<FileWriter> writers;
    for (const WeightFiles::Draft& f : files.files) writers.emplace_back(draft_of(folder, f.name));
    std::vector<double> values;
    std::string bytes;
    const auto write = [&](const Rank& rank, const TensorPart& part, const Counterpart& c, const Merge::Adapter* adapter) {
        stretches(view_of(world, rank, part), part, c, [&](const Stretch& s) {
            values.resize(s.count);
            for (std::int64_t i = 0; i < s.count; ++i) values[i] = read_element(part.data, s.at + i, part.stored);
            if (adapter) adapter->add(s.row, s.column, values);
            bytes.resize(s.count * width);
            for (std::int64_t i = 0; i < s.count; ++i) write_weight(reinterpret_cast<std::byte*>(bytes.data()), i, values[i], type);
            const WeightFiles::At at = files.places.at(c.sources[s.source].name);
            writers[at.file].put(at.begin + static_cast<std::uint64_t>(s.begin * width), bytes);
        });
    };
    std::set<std::tuple<std::string, std::vector<std::int64_t>, std::int64_t>> written; // replicas write once
    for (const auto& rank : world.ranks) {
        if (!rank) continue;
        for (const TensorPart& part : parts_of(world, *rank, what)) {
            const auto c = place_of(*rank, part, what);
            if (c && written.insert({part.name, view_of(world, *rank, part).offset, part.begin}).second)
                write(*rank, part, *c, merged ? merged->beside(tensor_of(part, what)) : nullptr);
        }
    }
    for (FileWriter& w : writers) w.close();
}

void name_files(const World& world, const fs::path& folder, const WeightFiles& files, WeightType type) {
    name_drafts(folder, files);
    write_text(folder / "config.json", config_text(world.scenario.model, family_of(world), world.scenario.training.sequence_length,
                                                   type == WeightType::bf16 ? "bfloat16" : "float32"));
}

} // namespace

std::string why_no_weights(const Scenario& s, WeightWays ways) {
    std::vector<std::string> why;
    if (!weight_family(s.model, why)) return fmt::format("files of weights have no model like this one: {}", fmt::join(why, "; "));
    if (ways.read && s.model.trainable.base_dtype == BaseDType::nf4)
        return "model.trainable.base_dtype = nf4: weights are read in types of their own, and are not made 4 bits here: use same";
    if (ways.written && s.strategy.workers())
        return "strategy.synchronization.kind: workers have weights of their own between their meetings: keep a --checkpoint";
    return "";
}

void load_weights(World& world, const SafeTensors& files) {
    const WeightFamily family = family_of(world);
    check_whole(world, files, family);
    const std::string prefix = prefix_of(family);
    for (const Quantity what : {Quantity::parameters, Quantity::states})
        for (const auto& rank : world.ranks) {
            if (!rank) continue;
            for (const TensorPart& part : parts_of(world, *rank, what)) {
                const auto c = counterpart_of(world, family, *rank, part, what);
                if (!c) continue;
                std::vector<const SafeTensor*> from;
                for (const Counterpart::Source& s : c->sources) from.push_back(&demand(files, s, prefix));
                const DType planned = world.plan.buffers[part.tensor].dtype;
                const bool rounds = what == Quantity::parameters && rank->context.rounds;
                std::memset(part.data, 0, static_cast<std::size_t>(part.count) * bytes_per_element(part.stored)); // what pads a vocabulary
                stretches(view_of(world, *rank, part), part, *c, [&](const Stretch& s) {
                    const WeightType type = from[s.source]->floating(c->sources[s.source].name);
                    for (std::int64_t i = 0; i < s.count; ++i) {
                        double x = read_weight(from[s.source]->data, s.begin + i, type);
                        if (rounds && planned == DType::bf16) x = static_cast<double>(from_bf16(to_bf16(static_cast<float>(x))));
                        if (rounds && planned == DType::fp16) x = static_cast<double>(from_fp16(to_fp16(static_cast<float>(x))));
                        write_element(part.data, s.at + i, x, part.stored);
                    }
                });
            }
        }
    initialise_common(world);
}

void export_weights(const World& world, const fs::path& folder, WeightType type, int process, const FirstFailed& first_failed) {
    const bool first = process == 0;
    const WeightFamily family = family_of(world);
    std::vector<std::pair<std::string, std::vector<std::int64_t>>> tensors;
    for (const Counterpart::Source& s : sources_of(world, family)) tensors.emplace_back(s.name, s.shape);
    const WeightFiles files = plan_files(tensors, type);
    const fs::path apart = folder / ".adapters"; // all of them, whole, for as long as this takes
    const auto together = [&](auto&& work) {     // a step that all end before the next one begins
        std::string wrong;
        try {
            work();
        } catch (const std::exception& e) { wrong = e.what(); }
        const int failed = first_failed(!wrong.empty());
        if (failed < 0) return;
        std::error_code ignored;
        if (first) {
            remove_drafts(folder, files);
            fs::remove_all(apart, ignored);
        }
        if (failed != process) throw UnwrittenElsewhere("another rank's part of the weights could not be written");
        throw Unwritten(wrong);
    };
    const auto write_all = [&](const fs::path& to, const WeightFiles& drafts, WeightType as, const PlaceOf& place_of, const Merge* merged) {
        together([&] {
            if (first) make_drafts(to, drafts);
        });
        together([&] { write_parts(world, to, drafts, as, Quantity::parameters, place_of, merged); });
        together([&] { write_parts(world, to, drafts, as, Quantity::states, place_of, merged); }); // master copies over what was rounded
    };
    std::optional<Merge> merged;
    if (const AdapterShapes adapters = adapters_of(world.plan); !adapters.empty()) {
        const WeightFiles whole = plan_files({adapters.begin(), adapters.end()}, WeightType::f64);
        write_all(
            apart, whole, WeightType::f64,
            [&](const Rank&, const TensorPart& part, Quantity what) { return place_of_adapter(adapters, tensor_of(part, what)); }, nullptr);
        together([&] {
            if (first) name_drafts(apart, whole);
        });
        together([&] { merged.emplace(apart, adapters, world.scenario.model.trainable); });
    }
    write_all(
        folder, files, type,
        [&](const Rank& rank, const TensorPart& part, Quantity what) { return counterpart_of(world, family, rank, part, what); },
        merged ? &*merged : nullptr);
    together([&] {
        if (!first) return;
        name_files(world, folder, files, type);
        std::error_code ignored;
        fs::remove_all(apart, ignored);
    });
}

} // namespace orrery
