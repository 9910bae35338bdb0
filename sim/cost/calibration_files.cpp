// Finds and parses the compiled-in calibration files.
#include "sim/cost/calibration_files.hpp"

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

namespace orrery::calibration {

[[noreturn]] void broken(std::string_view file, std::string_view what) {
    fmt::print(stderr, "orrery: calibration file {}: {}\n", file, what);
    std::abort();
}

namespace {

struct Parsed {
    std::once_flag once;
    Json json;
};

} // namespace

// The embedded files are ours: a mistake in one is a bug, found by the first test. Each is parsed when it is first asked for, by whichever
// thread of a sweep asks.
const Json& parsed(const EmbeddedFile& file) {
    static const std::unique_ptr<Parsed[]> all = std::make_unique<Parsed[]>(calibration_files().size());
    Parsed& own = all[&file - calibration_files().data()];
    std::call_once(own.once, [&] {
        own.json = Json::parse(file.text, nullptr, false);
        if (own.json.is_discarded() || !own.json.is_object() || !own.json.contains("what"))
            broken(file.name, "not a JSON object with \"what\"");
    });
    return own.json;
}

std::vector<const Json*> files_of(std::string_view what) {
    std::vector<const Json*> out;
    for (const EmbeddedFile& f : calibration_files())
        if (f.name.substr(0, what.size()) == what) out.push_back(&parsed(f)); // only what is asked for
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
