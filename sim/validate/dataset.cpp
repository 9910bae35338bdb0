// Reading a dataset of published measurements.
#include "sim/validate/validate.hpp"

#include "sim/scenario/suggest.hpp"
#include "sim/validate/statistics.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace orrery {

namespace {

using Json = nlohmann::ordered_json;

std::optional<double> number(const Json& measured, const char* key) {
    return measured.contains(key) && measured.at(key).is_number() ? std::optional<double>(measured.at(key).get<double>()) : std::nullopt;
}

// What the figure counts: said outright ("memory_measure"), else in the source's words. Most publish torch's allocated peak.
MemoryMeasure measure_of(const Json& row, const Json& dataset) {
    for (const Json* from : {&row, &dataset}) {
        const std::string said = from->value("memory_measure", "");
        if (said == "allocated") return MemoryMeasure::allocated;
        if (said == "reserved") return MemoryMeasure::reserved;
        if (said == "device") return MemoryMeasure::device;
    }
    for (const Json* from : {&row, &dataset}) {
        const std::string note = from->value("note", "");
        if (note.find("nvidia-smi") != std::string::npos) return MemoryMeasure::device;
        if (note.find("max_reserved") != std::string::npos || note.find("reserved peak") != std::string::npos)
            return MemoryMeasure::reserved;
        if (note.find("max_memory_allocated") != std::string::npos) return MemoryMeasure::allocated;
    }
    return MemoryMeasure::allocated;
}

// What rows have in common that are the same job, done in other ways.
std::string job_of(const Json& scenario) {
    const Json training = scenario.value("training", Json::object());
    return Json::array({scenario.value("model", Json()), scenario.value("cluster", Json()), training.value("global_batch_size", Json()),
                        training.value("sequence_length", Json()), training.value("precision", Json())})
        .dump();
}

// Figures that are not known would be compared with nothing, and nobody told.
std::string unknown_figures(const Json& row) {
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

ValidationRow read_row(const Json& j, const Json& dataset, const std::string& base_dir) {
    ValidationRow row;
    row.dataset = dataset.value("name", "");
    row.name = j.value("name", "");
    row.source = j.value("source", dataset.value("source", ""));
    row.note = j.value("note", "");
    row.scenario_json = j.at("scenario").dump();
    row.base_dir = base_dir;
    row.job = job_of(j.at("scenario"));
    const Json measured = j.value("measured", Json::object());
    row.measured.step_time_s = number(measured, "step_time_s");
    row.measured.memory_gb = number(measured, "memory_gb");
    row.measured.bubble_fraction = number(measured, "bubble_fraction");
    if (measured.contains("fits") && measured.at("fits").is_boolean()) row.measured.fits = measured.at("fits").get<bool>();
    row.step_time_noise = number(measured, "step_time_noise");
    if (!row.step_time_noise) row.step_time_noise = number(dataset, "step_time_noise");
    for (const Json& reading : measured.value("step_time_readings_s", Json::array())) {
        if (reading.is_number()) row.step_time_readings_s.push_back(reading.get<double>());
    }
    if (!row.measured.step_time_s && !row.step_time_readings_s.empty()) row.measured.step_time_s = median(row.step_time_readings_s);
    row.held_out = dataset.value("held_out", false);
    for (const Json& what : j.value("not_comparable", Json::array())) row.fits_not_comparable = row.fits_not_comparable || what == "fits";
    row.memory_measure = measure_of(j, dataset);
    row.doubtful = row.note.find("Doubtful:") != std::string::npos;
    for (const Json& a : j.value("assumed", Json::array())) {
        if (a.is_string()) row.assumed.push_back(a.get<std::string>());
    }
    return row;
}

} // namespace

DatasetResult load_dataset(const std::string& path) {
    DatasetResult result;
    std::ifstream file(path);
    if (!file) {
        result.problems.push_back(path + ": cannot be read");
        return result;
    }
    std::stringstream text;
    text << file.rdbuf();
    Json j = Json::parse(text.str(), nullptr, false);
    if (j.is_discarded()) {
        result.problems.push_back(path + ": is not JSON");
        return result;
    }
    if (!j.is_object() || !j.contains("rows") || !j.at("rows").is_array()) {
        result.problems.push_back(path + ": is not a validation dataset: it has no list of \"rows\"");
        return result;
    }
    if (!j.contains("name")) j["name"] = std::filesystem::path(path).stem().string();
    const std::string base_dir = std::filesystem::path(path).parent_path().string();
    const auto has_scenario = [](const Json& row) { return row.is_object() && row.contains("scenario"); };
    result.other_table = std::none_of(j.at("rows").begin(), j.at("rows").end(), has_scenario);
    if (result.other_table) return result;
    std::size_t at = 0;
    for (const Json& row : j.at("rows")) {
        const std::string where = path + ": rows[" + std::to_string(at++) + "]" +
                                  (row.is_object() && row.contains("name") ? " (" + row.value("name", "") + ")" : "");
        if (!has_scenario(row))
            result.problems.push_back(where + " has no \"scenario\"");
        else if (!row.at("scenario").is_object())
            result.problems.push_back(where + ": its \"scenario\" must be the object itself, not " + row.at("scenario").dump());
        else if (const std::string unknown = unknown_figures(row); !unknown.empty())
            result.problems.push_back(where + ": measured: " + unknown);
        else
            result.rows.push_back(read_row(row, j, base_dir));
    }
    return result;
}

} // namespace orrery
