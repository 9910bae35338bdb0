#include "exec/weights/safetensors.hpp"

#include "exec/kernels/kernel.hpp"
#include "sim/trace/format.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>
#include <stdexcept>

namespace orrery {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t longest_header = 100'000'000; // the format's own limit
constexpr double largest = 1e13;                      // elements of a tensor: more is no tensor's

struct WeightKind {
    const char* name;
    std::uint64_t bytes;
};
constexpr WeightKind kinds[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},  {"I32", 4},     {"I16", 2},    {"I8", 1},
                                {"U64", 8}, {"U32", 4}, {"U16", 2}, {"U8", 1},   {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
constexpr const char* floating_names[] = {"F64", "F32", "F16", "BF16"};

float from_half(std::uint16_t x) {
    const int exponent = x >> 10 & 31, mantissa = x & 1023;
    const float magnitude = exponent == 0    ? std::ldexp(static_cast<float>(mantissa), -24)
                            : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                             : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
    return x >> 15 ? -magnitude : magnitude;
}

[[noreturn]] void reject(const fs::path& file, const std::string& why) { throw std::runtime_error(file.string() + " " + why); }

std::uint64_t whole_number(const nlohmann::json& j, const std::string& of) {
    if (!j.is_number_unsigned()) throw std::runtime_error(of + " has " + j.dump().substr(0, 40) + " where a count belongs");
    return j.get<std::uint64_t>();
}

struct Extent {
    std::uint64_t begin, end;
    std::string name;
};

// One tensor of the header: what it is and which bytes it takes. Throws what is wrong with it.
Extent read_entry(const std::string& name, const nlohmann::json& j, SafeTensor& t) {
    if (!j.is_object() || !j.contains("dtype") || !j["dtype"].is_string() || !j.contains("shape") || !j["shape"].is_array() ||
        !j.contains("data_offsets") || !j["data_offsets"].is_array() || j["data_offsets"].size() != 2)
        throw std::runtime_error(name + " lacks dtype, shape or data_offsets");
    t.type = j["dtype"].get<std::string>();
    const auto* kind = std::ranges::find_if(kinds, [&](const WeightKind& k) { return t.type == k.name; });
    if (kind == std::end(kinds)) throw std::runtime_error(name + " is of a type this program does not know: " + t.type.substr(0, 40));
    double all = 1;
    for (const auto& d : j["shape"]) {
        const std::uint64_t n = whole_number(d, name);
        all *= static_cast<double>(n);
        if (static_cast<double>(n) > largest || all > largest) throw std::runtime_error(name + " has too many elements for a tensor");
        t.shape.push_back(static_cast<std::int64_t>(n));
    }
    const std::uint64_t begin = whole_number(j["data_offsets"][0], name), end = whole_number(j["data_offsets"][1], name);
    const std::uint64_t needed = static_cast<std::uint64_t>(all) * kind->bytes;
    if (end < begin || end - begin != needed)
        throw std::runtime_error(fmt::format("{} has bytes {} to {} where its shape needs {}", name, begin, end, needed));
    return {begin, end, name};
}

// Tensors lie one behind the other and fill the file.
void check_order(std::vector<Extent> list, std::uint64_t size) {
    std::ranges::sort(list, [](const Extent& a, const Extent& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    std::uint64_t at = 0;
    for (const Extent& e : list) {
        if (e.end > size) throw std::runtime_error(fmt::format("is cut off: {} ends at byte {} and {} are there", e.name, e.end, size));
        if (e.begin < at) throw std::runtime_error(e.name + " overlaps the tensor before it");
        if (e.begin > at) throw std::runtime_error(fmt::format("has {} bytes before {} that belong to no tensor", e.begin - at, e.name));
        at = e.end;
    }
    if (at != size) throw std::runtime_error(fmt::format("has {} bytes behind its last tensor", size - at));
}

nlohmann::json read_header(std::string_view bytes, std::uint64_t& length) {
    if (bytes.size() < 8) throw std::runtime_error("is no safetensors file: it is shorter than 8 bytes");
    length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(bytes[i]);
    if (length > longest_header) throw std::runtime_error(fmt::format("is no safetensors file: a header of {} bytes", length));
    if (length > bytes.size() - 8)
        throw std::runtime_error(fmt::format("is cut off: its header has {} bytes and {} are there", length, bytes.size() - 8));
    nlohmann::json j = nlohmann::json::parse(bytes.substr(8, length), nullptr, false);
    if (!j.is_object()) throw std::runtime_error("is no safetensors file: its header is no JSON object");
    return j;
}

std::map<std::string, std::string> read_index(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    const nlohmann::json j = nlohmann::json::parse(in, nullptr, false);
    if (!j.is_object() || !j.contains("weight_map") || !j["weight_map"].is_object()) reject(file, "has no weight_map");
    std::map<std::string, std::string> of;
    for (const auto& [name, at] : j["weight_map"].items()) {
        if (!at.is_string() || at.get<std::string>().find('/') != std::string::npos || at.get<std::string>().starts_with('.'))
            reject(file, "names a file outside its folder for " + name);
        of[name] = at.get<std::string>();
    }
    return of;
}

// The file that a user's path means.
fs::path entry_of(const fs::path& path) {
    std::error_code none;
    if (!fs::is_directory(path, none)) return path;
    for (const char* name : {"model.safetensors.index.json", "model.safetensors"})
        if (fs::exists(path / name, none)) return path / name;
    reject(path, "has neither model.safetensors nor model.safetensors.index.json: name the file, or the folder that has one of them");
}

} // namespace

std::int64_t bytes_of(WeightType t) { return t == WeightType::f64 ? 8 : t == WeightType::f32 ? 4 : 2; }

double read_weight(const std::byte* data, std::int64_t i, WeightType t) {
    const auto get = [&](auto zero) {
        std::memcpy(&zero, data + i * static_cast<std::int64_t>(sizeof zero), sizeof zero); // the file's addresses are not aligned
        return zero;
    };
    switch (t) {
    case WeightType::f64:
        return get(0.0);
    case WeightType::f32:
        return static_cast<double>(get(0.0f));
    case WeightType::f16:
        return static_cast<double>(from_half(get(std::uint16_t{0})));
    case WeightType::bf16:
        return static_cast<double>(from_bf16(get(std::uint16_t{0})));
    }
    return 0;
}

void write_weight(std::byte* data, std::int64_t i, double value, WeightType t) {
    const auto put = [&](auto x) { std::memcpy(data + i * static_cast<std::int64_t>(sizeof x), &x, sizeof x); };
    switch (t) {
    case WeightType::f64:
        return put(value);
    case WeightType::f32:
        return put(static_cast<float>(value));
    case WeightType::bf16:
    case WeightType::f16:
        return put(to_bf16(static_cast<float>(value)));
    }
}

WeightType SafeTensor::floating(const std::string& name) const {
    for (std::size_t i = 0; i < std::size(floating_names); ++i)
        if (type == floating_names[i]) return static_cast<WeightType>(i);
    reject(file, fmt::format("has {} as {}: this program reads weights of F64, F32, F16 and BF16", name, type));
}

SafeTensors::SafeTensors(const fs::path& path) {
    const fs::path entry = entry_of(path);
    if (entry.extension() != ".json") {
        open(entry);
        return;
    }
    const auto index = read_index(entry);
    std::set<std::string> files;
    for (const auto& [name, file] : index) files.insert(file);
    for (const std::string& file : files) open(entry.parent_path() / file);
    for (const auto& [name, file] : index) {
        const SafeTensor* const t = find(name);
        if (!t || t->file.filename() != file) reject(entry.parent_path() / file, "has no " + name + ", which the index says it has");
    }
}

const SafeTensor* SafeTensors::find(const std::string& name) const {
    const auto it = tensors_.find(name);
    return it == tensors_.end() ? nullptr : &it->second;
}

void SafeTensors::open(const fs::path& file) {
    try {
        const std::string_view bytes = files_.emplace_back(file).bytes();
        std::uint64_t length = 0;
        const nlohmann::json header = read_header(bytes, length);
        const std::string_view data = bytes.substr(8 + length);
        std::vector<Extent> extents;
        for (const auto& [name, entry] : header.items()) {
            if (name == "__metadata__") continue;
            SafeTensor t;
            t.file = file;
            const Extent e = read_entry(name, entry, t);
            t.data = reinterpret_cast<const std::byte*>(data.data()) + (e.begin <= data.size() ? e.begin : 0);
            extents.push_back(e);
            if (!tensors_.emplace(name, std::move(t)).second) throw std::runtime_error(name + " is in two files");
        }
        check_order(std::move(extents), data.size());
        fingerprint_ = std::rotl(fingerprint_, 7) ^ trace_file::checksum(bytes.substr(0, 8 + length)) ^ bytes.size();
    } catch (const std::runtime_error& e) { reject(file, e.what()); }
}

WeightFiles plan_files(const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& tensors, WeightType type, std::uint64_t most) {
    struct Group {
        nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
        std::uint64_t bytes = 0;
        std::vector<std::string> names;
    };
    std::vector<Group> groups(1);
    WeightFiles out;
    std::uint64_t total = 0;
    for (const auto& [name, shape] : tensors) {
        std::uint64_t bytes = static_cast<std::uint64_t>(bytes_of(type));
        for (const std::int64_t d : shape) bytes *= static_cast<std::uint64_t>(d);
        if (groups.back().bytes > 0 && groups.back().bytes + bytes > most) groups.emplace_back();
        Group& g = groups.back();
        g.header[name] = {
            {"dtype", floating_names[static_cast<int>(type)]}, {"shape", shape}, {"data_offsets", {g.bytes, g.bytes + bytes}}};
        out.places[name] = {groups.size() - 1, g.bytes};
        g.names.push_back(name);
        g.bytes += bytes;
        total += bytes;
    }
    nlohmann::ordered_json index{{"metadata", {{"total_size", total}}}, {"weight_map", nlohmann::ordered_json::object()}};
    for (std::size_t i = 0; i < groups.size(); ++i) {
        std::string text = groups[i].header.dump();
        text.resize((text.size() + 7) / 8 * 8, ' '); // the bytes begin aligned
        std::string head;
        for (int b = 0; b < 8; ++b) head += static_cast<char>(text.size() >> 8 * b & 255);
        head += text;
        const std::string name =
            groups.size() == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, groups.size());
        for (const std::string& tensor : groups[i].names) {
            out.places[tensor].begin += head.size();
            index["weight_map"][tensor] = name;
        }
        out.files.push_back({name, head, head.size() + groups[i].bytes});
    }
    if (groups.size() > 1) out.index = index.dump(2) + "\n";
    return out;
}

} // namespace orrery
