// Reading a dataset of published measurements.
#include "sim/validate/validate.hpp"

#include "sim/scenario/input_file.hpp"
#include "sim/scenario/parse.hpp"
#include "sim/scenario/suggest.hpp"
#include "sim/validate/statistics.hpp"
#include "topology/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace orrery {

namespace {

using OrderedJson = nlohmann::ordered_json;

std::optional<double> number(const OrderedJson& measured, const char* key) {
    return measured.contains(key) && measured.at(key).is_number() ? std::optional<double>(measured.at(key).get<double>()) : std::nullopt;
}

std::string text_of(const OrderedJson& object, const char* key, const std::string& otherwise = "") {
    return object.contains(key) && object.at(key).is_string() ? printable(object.at(key).get<std::string>()) : otherwise;
}

// The memory that the figure counts: stated ("memory_measure"), else in the source's words. Most publish torch's allocated peak.
MemoryMeasure measure_of(const OrderedJson& row, const OrderedJson& dataset) {
    for (const OrderedJson* from : {&row, &dataset}) {
        const std::string said = text_of(*from, "memory_measure");
        if (said == "allocated") return MemoryMeasure::allocated;
        if (said == "reserved") return MemoryMeasure::reserved;
        if (said == "device") return MemoryMeasure::device;
        if (said == "resident") return MemoryMeasure::resident;
    }
    for (const OrderedJson* from : {&row, &dataset}) {
        const std::string note = text_of(*from, "note");
        if (note.find("nvidia-smi") != std::string::npos) return MemoryMeasure::device;
        if (note.find("max_reserved") != std::string::npos || note.find("reserved peak") != std::string::npos)
            return MemoryMeasure::reserved;
        if (note.find("max_memory_allocated") != std::string::npos) return MemoryMeasure::allocated;
    }
    return MemoryMeasure::allocated;
}

// The fields that rows of the same job share; the strategy may differ.
std::string job_of(const OrderedJson& scenario) {
    const OrderedJson training =
        scenario.contains("training") && scenario.at("training").is_object() ? scenario.at("training") : OrderedJson::object();
    return OrderedJson::array({scenario.value("model", OrderedJson()), scenario.value("cluster", OrderedJson()),
                               training.value("global_batch_size", OrderedJson()), training.value("sequence_length", OrderedJson()),
                               training.value("precision", OrderedJson())})
        .dump();
}

// Figures that are not known would be compared with nothing, and nobody told.
std::string unknown_figures(const OrderedJson& row) {
    static const std::vector<std::string> known{"step_time_s", "step_time_readings_s", "step_time_noise",
                                                "memory_gb",   "bubble_fraction",      "fits"};
    std::string text;
    if (!row.contains("measured") || !row.at("measured").is_object()) return text;
    for (const auto& [key, value] : row.at("measured").items()) {
        if (std::find(known.begin(), known.end(), key) != known.end()) continue;
        text += (text.empty() ? "" : ", ") + ("\"" + key + "\"");
    }
    if (!text.empty()) text += " is no figure that is compared: known are " + join(known);
    return text;
}

enum class Wants { text, flag, number, above_zero, numbers, list, object };

std::string missed(const OrderedJson& value, Wants wants) {
    const auto sane = [](const OrderedJson& v, double least) {
        return v.is_number() && v.get<double>() >= least && v.get<double>() <= 1e15;
    };
    switch (wants) {
    case Wants::text:
        return value.is_string() ? "" : "a text";
    case Wants::flag:
        return value.is_boolean() ? "" : "true or false";
    case Wants::number:
        return sane(value, 0) ? "" : "a number of at least 0";
    case Wants::above_zero:
        return sane(value, 1e-12) ? "" : "a number above 0";
    case Wants::numbers:
        return value.is_array() && std::all_of(value.begin(), value.end(), [&](const OrderedJson& v) { return sane(v, 1e-12); })
                   ? ""
                   : "a list of numbers above 0";
    case Wants::list:
        return value.is_array() ? "" : "a list";
    case Wants::object:
        return value.is_object() ? "" : "an object";
    }
    return {};
}

// The first of these keys whose value is not what it must be: "\"name\" = 5 must be a text"; "" where all are. null stands for none.
std::string wrong_type(const OrderedJson& object, std::initializer_list<std::pair<const char*, Wants>> keys) {
    for (const auto& [key, wants] : keys) {
        if (!object.contains(key) || (object.at(key).is_null() && wants != Wants::object)) continue;
        const OrderedJson& value = object.at(key);
        if (const std::string expected = missed(value, wants); !expected.empty())
            return std::string("\"") + key + "\" = " + value.dump().substr(0, 40) + " must be " + expected;
    }
    return {};
}

std::string wrong_types_of_dataset(const OrderedJson& j) {
    return wrong_type(j, {{"name", Wants::text},
                          {"source", Wants::text},
                          {"note", Wants::text},
                          {"memory_measure", Wants::text},
                          {"held_out", Wants::flag},
                          {"step_time_noise", Wants::number}});
}

std::string wrong_types_of_row(const OrderedJson& row) {
    const std::string wrong = wrong_type(row, {{"name", Wants::text},
                                               {"source", Wants::text},
                                               {"note", Wants::text},
                                               {"memory_measure", Wants::text},
                                               {"measured", Wants::object},
                                               {"assumed", Wants::list},
                                               {"not_comparable", Wants::list}});
    if (!wrong.empty() || !row.contains("measured")) return wrong;
    const std::string figure = wrong_type(row.at("measured"), {{"step_time_s", Wants::above_zero},
                                                               {"step_time_readings_s", Wants::numbers},
                                                               {"step_time_noise", Wants::number},
                                                               {"memory_gb", Wants::above_zero},
                                                               {"bubble_fraction", Wants::number},
                                                               {"fits", Wants::flag}});
    return figure.empty() ? figure : "measured: " + figure;
}

// A list where there is one; null and nothing are an empty one.
OrderedJson list_of(const OrderedJson& object, const char* key) {
    return object.contains(key) && object.at(key).is_array() ? object.at(key) : OrderedJson::array();
}

ValidationRow read_row(const OrderedJson& j, const OrderedJson& dataset, const std::string& base_dir) {
    ValidationRow row;
    row.dataset = text_of(dataset, "name");
    row.name = text_of(j, "name");
    row.source = text_of(j, "source", text_of(dataset, "source"));
    row.note = text_of(j, "note");
    row.scenario_json = j.at("scenario").dump();
    row.base_dir = base_dir;
    row.job = job_of(j.at("scenario"));
    const OrderedJson measured = j.value("measured", OrderedJson::object());
    row.measured.step_time_s = number(measured, "step_time_s");
    row.measured.memory_gb = number(measured, "memory_gb");
    row.measured.bubble_fraction = number(measured, "bubble_fraction");
    if (measured.contains("fits") && measured.at("fits").is_boolean()) row.measured.fits = measured.at("fits").get<bool>();
    row.step_time_noise = number(measured, "step_time_noise");
    if (!row.step_time_noise) row.step_time_noise = number(dataset, "step_time_noise");
    for (const OrderedJson& reading : list_of(measured, "step_time_readings_s")) {
        if (reading.is_number()) row.step_time_readings_s.push_back(reading.get<double>());
    }
    if (!row.measured.step_time_s && !row.step_time_readings_s.empty()) row.measured.step_time_s = median(row.step_time_readings_s);
    row.held_out = dataset.contains("held_out") && dataset.at("held_out") == true;
    for (const OrderedJson& what : list_of(j, "not_comparable")) row.fits_not_comparable = row.fits_not_comparable || what == "fits";
    row.memory_measure = measure_of(j, dataset);
    row.doubtful = row.note.find("Doubtful:") != std::string::npos;
    for (const OrderedJson& a : list_of(j, "assumed")) {
        if (a.is_string()) row.assumed.push_back(a.get<std::string>());
    }
    return row;
}

} // namespace

DatasetResult load_dataset(const std::string& path) {
    DatasetResult result;
    std::string text;
    if (const std::string why = unreadable(path); !why.empty() || !read_file(path, text)) {
        result.problems.push_back(path + (why.empty() ? " cannot be read" : " " + why));
        return result;
    }
    if (const std::vector<Problem> wrong = json_problems(text); !wrong.empty()) {
        result.problems.push_back(path + ": " + problem_text(wrong.front()));
        return result;
    }
    OrderedJson j = OrderedJson::parse(text, nullptr, true, true);
    if (!j.is_object() || !j.contains("rows") || !j.at("rows").is_array()) {
        result.problems.push_back(path + ": is not a validation dataset: it has no list of \"rows\"");
        return result;
    }
    if (const std::string wrong = wrong_types_of_dataset(j); !wrong.empty()) {
        result.problems.push_back(path + ": " + wrong);
        return result;
    }
    if (!j.contains("name")) j["name"] = std::filesystem::path(path).stem().string();
    const std::string base_dir = std::filesystem::path(path).parent_path().string();
    const auto has_scenario = [](const OrderedJson& row) { return row.is_object() && row.contains("scenario"); };
    result.other_table = std::none_of(j.at("rows").begin(), j.at("rows").end(), has_scenario);
    if (result.other_table) return result;
    std::size_t at = 0;
    for (const OrderedJson& row : j.at("rows")) {
        const std::string where = path + ": rows[" + std::to_string(at++) + "]" +
                                  (row.is_object() && row.contains("name") ? " (" + text_of(row, "name") + ")" : "");
        if (!has_scenario(row))
            result.problems.push_back(where + " has no \"scenario\"");
        else if (!row.at("scenario").is_object())
            result.problems.push_back(where + ": its \"scenario\" must be the object itself, not " +
                                      row.at("scenario").dump().substr(0, 40));
        else if (const std::string wrong = wrong_types_of_row(row); !wrong.empty())
            result.problems.push_back(where + ": " + wrong);
        else if (const std::string unknown = unknown_figures(row); !unknown.empty())
            result.problems.push_back(where + ": measured: " + unknown);
        else
            result.rows.push_back(read_row(row, j, base_dir));
    }
    return result;
}

} // namespace orrery
