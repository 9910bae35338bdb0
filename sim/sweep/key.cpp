// The key of a point's results. A prediction depends on the contents of a file that the scenario names, not on its path.
#include "sim/sweep/key.hpp"

#include "sim/cost/own_constants.hpp"
#include "sim/scenario/input_file.hpp"
#include "sim/sweep/sweep.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <mutex>

namespace orrery {

const char* predictors_hash(); // generated: of the code and the data that predict

namespace {

namespace fs = std::filesystem;

// FNV-1a, 64 bits.
struct Fnv {
    std::uint64_t value = 14695981039346656037u;
    void mix(std::string_view text) {
        for (unsigned char c : text) value = (value ^ c) * 1099511628211u;
    }
};

// Thousands of points name one file: it is read again only where it was written since.
std::uint64_t hash_of_file(const fs::path& path) {
    struct Known {
        fs::file_time_type written;
        std::uintmax_t size;
        std::uint64_t hash;
    };
    static std::mutex mutex;
    static std::map<std::string, Known> known;
    std::error_code failed;
    const fs::file_time_type written = fs::last_write_time(path, failed);
    const std::uintmax_t size = fs::file_size(path, failed);
    const std::lock_guard lock(mutex);
    const auto it = known.find(path.string());
    if (it != known.end() && it->second.written == written && it->second.size == size) return it->second.hash;
    std::string text;
    Fnv hash;
    if (read_file(path.string(), text)) hash.mix(text);
    known.insert_or_assign(path.string(), Known{written, size, hash.value});
    return hash.value;
}

// Any text that is the name of a file there may be read as one, whatever its field is called.
void mix_files(Fnv& key, const nlohmann::json& value, const std::string& base_dir) {
    if (value.is_structured())
        for (const nlohmann::json& item : value) mix_files(key, item, base_dir);
    if (!value.is_string()) return;
    const std::string& name = value.get_ref<const std::string&>();
    std::error_code none; // a text may be no path at all
    if (name.empty() || name.find('\0') != std::string::npos) return;
    if (const fs::path path = fs::path(base_dir) / name; fs::is_regular_file(path, none))
        key.mix(fmt::format("{:016x}", hash_of_file(path)));
}

} // namespace

std::string deal_hash(const SweepPoint& point) {
    Fnv key;
    key.mix(ORRERY_VERSION);
    key.mix(point.json);
    return fmt::format("{:016x}", key.value);
}

std::string point_hash(const SweepPoint& point) {
    Fnv key;
    key.mix(ORRERY_VERSION);
    key.mix(predictors_hash());
    if (point.constants) key.mix(point.constants->text());
    key.mix(point.json);
    mix_files(key, nlohmann::json::parse(point.json, nullptr, false), point.base_dir);
    if (point.rejected) key.mix(*point.rejected);
    return fmt::format("{:016x}", key.value);
}

} // namespace orrery
