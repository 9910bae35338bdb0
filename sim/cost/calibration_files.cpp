// Finds and parses the compiled-in calibration files.
#include "sim/cost/calibration_files.hpp"

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace orrery::calibration {

[[noreturn]] void broken(std::string_view file, std::string_view what) {
    fmt::print(stderr, "orrery: calibration file {}: {}\n", file, what);
    std::abort();
}

// The embedded files are ours: a mistake in one is a bug, found by the first test.
Json parse(const EmbeddedFile& file) {
    Json j = Json::parse(file.text, nullptr, false);
    if (j.is_discarded() || !j.is_object() || !j.contains("what")) broken(file.name, "not a JSON object with \"what\"");
    return j;
}

std::vector<Json> files_of(std::string_view what) {
    std::vector<Json> out;
    for (const EmbeddedFile& f : calibration_files())
        if (f.name.substr(0, what.size()) == what) out.push_back(parse(f)); // parsing is a sweep's cost: only what is asked for
    if (out.empty()) broken(what, "no file of this kind is compiled in");
    return out;
}

Source source_of(const Json& j) {
    if (!j.contains("source")) return {};
    return {j["source"].at("kind").get<std::string>(), j["source"].at("text").get<std::string>()};
}

bool lists(const Json& j, const std::string& text) {
    for (const Json& e : j)
        if (e == text) return true;
    return false;
}

double rate(const Json& j, const char* key) { return j[key].get<double>() * 1e3; } // GB/s to bytes/us

} // namespace orrery::calibration
