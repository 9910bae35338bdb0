// See sweep.hpp. A point is the base document with one value an axis put in place; constraints read fields of that document, or the usual
// defaults where the document leaves them out.
#include "sim/scenario/sweep.hpp"

#include "sim/scenario/constraint.hpp"
#include "sim/scenario/fields.hpp"
#include "sim/scenario/resolve.hpp"
#include "sim/scenario/suggest.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

namespace orrery {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr std::int64_t most_points = 1'000'000; // a row of each is kept until the end

std::vector<std::string> steps_of(std::string_view pointer) {
    std::vector<std::string> steps;
    for (std::size_t at = 1; at <= pointer.size();) {
        const std::size_t slash = std::min(pointer.find('/', at), pointer.size());
        steps.push_back(plain_step(pointer.substr(at, slash - at)));
        at = slash + 1;
    }
    return steps;
}

// Puts a value where the pointer says; a preset's name on the way becomes {"preset": name}, as with --set.
void put(Json& document, const std::vector<std::string>& steps, const Json& value) {
    Json* at = &document;
    for (const std::string& step : steps) {
        if (at->is_string()) *at = Json{{"preset", *at}};
        const bool digits =
            !step.empty() && step.size() < 7 && std::all_of(step.begin(), step.end(), [](char c) { return c >= '0' && c <= '9'; });
        if (at->is_array() && digits && std::stoul(step) < at->size()) {
            at = &(*at)[std::stoul(step)];
            continue;
        }
        if (!at->is_object()) *at = Json::object();
        at = &(*at)[step];
    }
    *at = value;
}

// A field of the model or the cluster that the document leaves to a preset, a file or a default.
std::optional<double> number_of_preset(const Json& document, const std::string& pointer, const std::string& base_dir) {
    const bool cluster = pointer.starts_with("/cluster/");
    const char* section = cluster ? "cluster" : "model";
    const Field* field = find_field(dotted(pointer));
    if ((!cluster && !pointer.starts_with("/model/")) || field == nullptr || !document.contains(section)) return std::nullopt;
    Reading reading;
    reading.options.base_dir = base_dir;
    (cluster ? read_cluster : read_model)(reading, document[section], pointer_step(section));
    Scenario& s = reading.scenario;
    if (!reading.problems.empty() || (pointer.starts_with("/model/moe/") && !s.model.moe)) return std::nullopt;
    if (const auto* slot = std::get_if<IntSlot>(&field->slot)) return *(*slot)(s);
    if (const auto* slot = std::get_if<LongSlot>(&field->slot)) return static_cast<double>(*(*slot)(s));
    if (const auto* slot = std::get_if<NumberSlot>(&field->slot)) return *(*slot)(s);
    if (const auto* slot = std::get_if<BoolSlot>(&field->slot)) return *(*slot)(s) ? 1 : 0;
    return std::nullopt;
}

std::optional<double> number_at(const Json& document, const std::string& pointer, const std::string& base_dir) {
    const Json* at = &document;
    for (const std::string& step : steps_of(pointer)) {
        if (!at->is_object() || !at->contains(step)) {
            // A degree that is left out is 1; data_parallel is derived, so it must be given to be compared.
            const Field* field = find_field(dotted(pointer));
            const bool degree =
                field != nullptr && field->minimum == 1 && (pointer.ends_with("_parallel") || pointer.ends_with("/virtual_pipeline"));
            if (degree && pointer != "/strategy/data_parallel") return 1;
            return number_of_preset(document, pointer, base_dir);
        }
        at = &(*at)[step];
    }
    if (at->is_boolean()) return at->get<bool>() ? 1 : 0;
    return at->is_number() ? std::optional<double>(at->get<double>()) : std::nullopt;
}

std::string word(const std::string& json_text) {
    return json_text.size() > 1 && json_text.front() == '"' ? json_text.substr(1, json_text.size() - 2) : json_text;
}

} // namespace

struct SweepDocument::Data {
    std::string name, base_json, base_dir;
    std::shared_ptr<const OwnConstants> constants;
    Json base;
    std::vector<SweepAxis> axes;
    std::vector<std::vector<Json>> values;
    std::vector<std::vector<std::string>> steps;
    std::vector<std::string> words; // what an axis is called in labels
    std::vector<std::string> constraints;
    std::int64_t size = 1;
};

SweepDocument::SweepDocument(std::unique_ptr<Data> data) : data_(std::move(data)) {}
SweepDocument::~SweepDocument() = default;
SweepDocument::SweepDocument(SweepDocument&&) noexcept = default;
SweepDocument& SweepDocument::operator=(SweepDocument&&) noexcept = default;

const std::string& SweepDocument::name() const { return data_->name; }
const std::string& SweepDocument::base_json() const { return data_->base_json; }
const std::string& SweepDocument::base_dir() const { return data_->base_dir; }
const std::vector<SweepAxis>& SweepDocument::axes() const { return data_->axes; }
const std::vector<std::string>& SweepDocument::constraints() const { return data_->constraints; }
std::int64_t SweepDocument::size() const { return data_->size; }

SweepPoint SweepDocument::point(std::int64_t index) const {
    SweepPoint point;
    point.constants = data_->constants;
    point.base_dir = data_->base_dir;
    std::vector<std::size_t> chosen(data_->axes.size());
    for (std::size_t axis = chosen.size(); axis-- > 0;) {
        const auto count = static_cast<std::int64_t>(data_->values[axis].size());
        chosen[axis] = static_cast<std::size_t>(index % count);
        index /= count;
    }
    Json document = data_->base;
    for (std::size_t axis = 0; axis < chosen.size(); ++axis) {
        const std::string& text = data_->axes[axis].values[chosen[axis]];
        put(document, data_->steps[axis], data_->values[axis][chosen[axis]]);
        point.values.push_back(text);
        if (data_->axes[axis].values.size() > 1) point.label += (point.label.empty() ? "" : " ") + data_->words[axis] + "=" + word(text);
    }
    for (const std::string& constraint : data_->constraints) {
        const ConstraintAnswer answer =
            evaluate_constraint(constraint, [&](const std::string& p) { return number_at(document, p, data_->base_dir); });
        if (answer.error.empty() && answer.holds) continue;
        point.rejected = answer.error.empty() ? "constraint: " + constraint : "constraint: " + constraint + ": " + answer.error;
        break;
    }
    if (!point.label.empty() && document.contains("name") && document["name"].is_string())
        document["name"] = document["name"].get<std::string>() + ", " + point.label;
    point.json = document.dump();
    return point;
}

// Reads the two keys a sweep has beside a scenario's.
struct SweepReader {
    SweepDocument::Data data;
    std::vector<Problem> problems;
    std::vector<std::vector<std::string>> overridden; // fields, by their steps

    void override_base(const std::string& text) {
        std::vector<std::string> steps = override_path(text);
        if (!steps.empty() && (steps.front() == "sweep" || steps.front() == "constraints"))
            problems.push_back({"/" + steps.front(), "--set " + steps.front() +
                                                         ": a sweep's lists and constraints are not overridden: change them in the "
                                                         "file, or fix a field that it varies, as in --set strategy.tensor_parallel=8"});
        else
            apply_override(data.base, text, problems);
        overridden.push_back(std::move(steps));
    }

    // A field that an override gives is not varied: the list of its one value. Nothing: no override gives it.
    std::optional<Ordered> fixed(const std::string& pointer) {
        const std::vector<std::string> steps = steps_of(pointer);
        for (const std::vector<std::string>& o : overridden) {
            if (o.size() <= steps.size() || !std::equal(steps.begin(), steps.end(), o.begin())) continue;
            problems.push_back(
                {"/sweep" + pointer_step(pointer), "--set gives a field below " + pointer +
                                                       ", which the sweep varies as a whole: it would have no effect. Change "
                                                       "the values in the file"});
        }
        if (std::ranges::find(overridden, steps) == overridden.end()) return std::nullopt;
        const Json* at = &data.base;
        for (const std::string& step : steps) at = at->is_array() ? &at->at(std::stoul(step)) : &at->at(step);
        return Ordered::array({Ordered::parse(at->dump())});
    }

    void read_axis(const std::string& pointer, const Ordered& list) {
        const std::string where = "/sweep" + pointer_step(pointer);
        if (!pointer.starts_with('/') || pointer.size() < 2) {
            problems.push_back({where, "sweep names \"" + pointer + "\": its keys are JSON pointers, as in \"/strategy/tensor_parallel\""});
            return;
        }
        if (!list.is_array() || list.empty()) {
            problems.push_back({where, "sweep of " + pointer + " must be a list of values, as in [1, 2, 4, 8]"});
            return;
        }
        check_field(pointer, where, "sweep");
        SweepAxis axis{pointer, {}};
        std::vector<Json> values;
        for (const Ordered& item : list) {
            axis.values.push_back(item.dump());
            values.push_back(Json::parse(item.dump()));
        }
        if (data.size > most_points / static_cast<std::int64_t>(values.size())) {
            problems.push_back({where, "with this list the sweep has " + std::to_string(data.size) + " x " + std::to_string(values.size()) +
                                           " combinations: at most " + std::to_string(most_points) +
                                           "; shorten its lists, or sweep in several files"});
            return;
        }
        data.size *= static_cast<std::int64_t>(values.size());
        data.axes.push_back(std::move(axis));
        data.values.push_back(std::move(values));
        data.steps.push_back(steps_of(pointer));
    }

    // A misspelt pointer would be a problem of every point: say it once. Fields below a preset or a list are left to the points.
    void check_field(const std::string& pointer, const std::string& where, const std::string& who) {
        const std::string path = dotted(pointer);
        if (find_field(path) != nullptr || path.find("device.") != std::string::npos || path.starts_with("perturb") ||
            path.starts_with("cluster.graph") || path == "model.preset")
            return;
        if (const std::string_view meant = field_of_short_name(path.substr(path.rfind('.') + 1)); !meant.empty()) {
            problems.push_back({where, who + " names " + pointer + ", which is not a field: did you mean \"" + pointer_of(meant) + "\"?"});
            return;
        }
        std::vector<std::string> known;
        const std::size_t dot = path.rfind('.');
        const std::string section = dot == std::string::npos ? "" : path.substr(0, dot);
        const Fields* fields = section.empty()        ? &scenario_fields()
                               : section == "model"   ? &model_fields()
                               : section == "cluster" ? &cluster_fields()
                                                      : nullptr;
        if (fields == nullptr)
            if (const Field* f = find_field(section))
                if (const auto* s = std::get_if<SectionSlot>(&f->slot)) fields = &s->fields();
        if (fields != nullptr)
            for (const Field& f : *fields) known.push_back(pointer_of((section.empty() ? "" : section + ".") + std::string(f.key)));
        const auto near = nearest(pointer, known);
        problems.push_back(
            {where, who + " names " + pointer + ", which is not a field" + (near ? ": did you mean \"" + *near + "\"?" : "")});
    }

    void read_constraints(const Ordered& list) {
        if (!list.is_array()) {
            problems.push_back(
                {"/constraints",
                 "constraints must be a list of texts, as in [\"/strategy/tensor_parallel * /strategy/pipeline_parallel <= 64\"]"});
            return;
        }
        for (std::size_t i = 0; i < list.size(); ++i) {
            const std::string where = "/constraints/" + std::to_string(i);
            if (!list[i].is_string()) {
                problems.push_back({where, "a constraint is a text, as in \"/strategy/tensor_parallel <= 8\""});
                continue;
            }
            const std::string text = list[i].get<std::string>();
            std::vector<std::string> named;
            const ConstraintAnswer answer = evaluate_constraint(text, [&](const std::string& pointer) {
                if (std::ranges::find(named, pointer) == named.end()) named.push_back(pointer);
                return std::optional<double>(1);
            });
            if (answer.syntax) problems.push_back({where, "\"" + text + "\": " + answer.error});
            for (const std::string& pointer : named)
                if (!answer.syntax) check_field(pointer, where, "constraint \"" + text + "\"");
            data.constraints.push_back(text);
        }
    }

    void name_axes() {
        for (const SweepAxis& axis : data.axes) {
            const std::string last = axis.pointer.substr(axis.pointer.rfind('/') + 1);
            const bool alone =
                std::count_if(data.axes.begin(), data.axes.end(), [&](const SweepAxis& a) { return a.pointer.ends_with("/" + last); }) == 1;
            data.words.push_back(alone ? last : axis.pointer.substr(1));
        }
    }

    SweepResult finish() {
        if (!problems.empty()) return {std::nullopt, problems};
        name_axes();
        data.base_json = data.base.dump();
        data.name = data.base.contains("name") && data.base["name"].is_string() ? data.base["name"].get<std::string>() : "sweep";
        SweepResult result;
        result.document = SweepDocument(std::make_unique<SweepDocument::Data>(std::move(data)));
        return result;
    }
};

bool is_sweep(std::string_view json_text) {
    const Json document = Json::parse(json_text, nullptr, false, true);
    return document.is_object() && document.contains("sweep");
}

SweepResult parse_sweep(std::string_view json_text, const ParseOptions& options) {
    SweepReader reader;
    reader.data.base_dir = options.base_dir;
    reader.data.constants = options.constants;
    reader.data.base = read_json(json_text, reader.problems);
    if (!reader.problems.empty()) return {std::nullopt, reader.problems};
    const Ordered document = Ordered::parse(json_text, nullptr, false, true); // keeps the axes in the file's order
    if (!document.is_object() || !document.contains("sweep") || !document["sweep"].is_object() || document["sweep"].empty())
        return {std::nullopt,
                {{"/sweep",
                  "a sweep needs \"sweep\": an object of JSON pointers and lists, as in {\"/strategy/tensor_parallel\": [1, 2, 4, 8]}"}}};
    reader.data.base.erase("sweep");
    reader.data.base.erase("constraints");
    for (const auto& [key, value] : reader.data.base.items())
        if (const auto near = nearest(key, {"constraints", "sweep"}); near && !find_field(key))
            return {std::nullopt, {{"/" + key, key + " is not a field: did you mean \"" + *near + "\"?"}}};
    for (const std::string& text : options.overrides) reader.override_base(text);
    if (!reader.problems.empty()) return {std::nullopt, reader.problems};
    for (const auto& [pointer, list] : document["sweep"].items()) reader.read_axis(pointer, reader.fixed(pointer).value_or(list));
    if (document.contains("constraints")) reader.read_constraints(document["constraints"]);
    return reader.finish();
}

SweepResult load_sweep(const std::string& path, const std::vector<std::string>& overrides, std::shared_ptr<const OwnConstants> constants) {
    std::string text;
    if (!read_file(path, text)) return {std::nullopt, {{"", "cannot read " + path}}};
    ParseOptions options;
    options.base_dir = std::filesystem::path(path).parent_path().string();
    options.overrides = overrides;
    options.constants = std::move(constants);
    return parse_sweep(text, options);
}

} // namespace orrery
