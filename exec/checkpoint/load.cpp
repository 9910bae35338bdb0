// Reads checkpoints. Whatever is on the disk, the result is what was saved, or an error that names the file and what is wrong with it.
#include "exec/checkpoint/files.hpp"
#include "sim/trace/bytes.hpp"
#include "sim/trace/format.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>

namespace orrery {

namespace fs = std::filesystem;
using namespace checkpoint_file;

namespace checkpoint_file {

std::string part_name(int part) { return "part-" + std::to_string(part); }
std::string folder_name(std::int64_t step) { return fmt::format("step-{:08}", step); }

std::int64_t step_of(const std::string& name) {
    if (!name.starts_with("step-")) return -1;
    std::int64_t step = -1;
    const char *begin = name.data() + 5, *end = name.data() + name.size();
    const auto [ptr, error] = std::from_chars(begin, end, step);
    return error == std::errc() && ptr == end && folder_name(step) == name ? step : -1;
}

std::int64_t elements(std::span<const std::int64_t> shape) {
    std::int64_t n = 1;
    for (const std::int64_t d : shape) n *= d;
    return n;
}

} // namespace checkpoint_file

namespace {

std::string read_all(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    if (!in) throw std::runtime_error("is missing");
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    if (in.bad()) throw std::runtime_error("cannot be read");
    return bytes;
}

// The elements of a tensor that have arrived, while its pieces come.
struct Filling {
    CheckpointTensor tensor;
    std::vector<bool> there;
};
using Fillings = std::map<std::string, Filling>;

constexpr std::int64_t largest = std::int64_t{1} << 40; // elements of a tensor: a number above is no tensor's

std::vector<std::int64_t> shape(ByteReader& in) {
    std::vector<std::int64_t> result(in.count("dimensions"));
    double all = 1;
    for (std::int64_t& n : result) {
        n = in.integer_in(0, largest, "dimension");
        all *= static_cast<double>(std::max<std::int64_t>(n, 1));
    }
    if (all > static_cast<double>(largest)) throw std::runtime_error("a tensor of too many elements");
    return result;
}

CheckpointPiece piece(ByteReader& in) {
    CheckpointPiece p;
    p.tensor = in.text();
    p.shape = shape(in);
    p.offset = shape(in);
    p.extent = shape(in);
    p.begin = in.integer_in(0, largest, "first element");
    p.count = in.integer_in(0, largest, "number of elements");
    const std::uint64_t dtype = in.number();
    if (dtype != static_cast<std::uint64_t>(DType::fp32) && dtype != static_cast<std::uint64_t>(DType::fp64) &&
        dtype != static_cast<std::uint64_t>(DType::bf16))
        throw std::runtime_error(p.tensor + ": of type " + std::to_string(dtype));
    p.dtype = static_cast<DType>(dtype);
    if (p.offset.size() != p.shape.size() || p.extent.size() != p.shape.size())
        throw std::runtime_error(p.tensor + ": a box of other dimensions");
    for (std::size_t d = 0; d < p.shape.size(); ++d)
        if (p.offset[d] + p.extent[d] > p.shape[d]) throw std::runtime_error(p.tensor + ": a box outside its tensor");
    if (p.begin + p.count > elements(p.extent)) throw std::runtime_error(p.tensor + ": a piece longer than its box");
    return p;
}

// Calls put(first element of the whole tensor, first of the piece, how many) for each run of elements that lie side by side in both.
template <class Put> void runs(const CheckpointPiece& p, Put&& put) {
    const std::int64_t row = p.extent.empty() ? 1 : p.extent.back();
    for (std::int64_t at = p.begin; at < p.begin + p.count;) {
        std::int64_t rest = at, place = 0, stride = 1;
        for (std::size_t d = p.shape.size(); d-- > 0;) {
            place += (p.offset[d] + rest % p.extent[d]) * stride;
            rest /= p.extent[d];
            stride *= p.shape[d];
        }
        const std::int64_t n = std::min(row - at % row, p.begin + p.count - at);
        put(place, at - p.begin, n);
        at += n;
    }
}

void fill(Fillings& fillings, const CheckpointPiece& p, std::string_view bytes) {
    const auto [it, fresh] = fillings.try_emplace(p.tensor);
    Filling& f = it->second;
    const auto width = static_cast<std::size_t>(bytes_per_element(p.dtype));
    if (fresh) {
        f.tensor.shape = p.shape;
        f.tensor.dtype = p.dtype;
        f.tensor.data.resize(static_cast<std::size_t>(elements(p.shape)) * width);
        f.there.assign(static_cast<std::size_t>(elements(p.shape)), false);
    }
    if (f.tensor.shape != p.shape || f.tensor.dtype != p.dtype)
        throw std::runtime_error(p.tensor + ": its pieces disagree on its shape or type");
    runs(p, [&](std::int64_t place, std::int64_t from, std::int64_t n) {
        std::memcpy(f.tensor.data.data() + static_cast<std::size_t>(place) * width, bytes.data() + static_cast<std::size_t>(from) * width,
                    static_cast<std::size_t>(n) * width);
        std::fill_n(f.there.begin() + place, n, true);
    });
}

void read_part(const fs::path& file, std::uint64_t size, Fillings& fillings) {
    const std::string bytes = read_all(file);
    if (bytes.size() != size) throw std::runtime_error(fmt::format("has {} bytes where {} were written", bytes.size(), size));
    if (!bytes.starts_with(magic)) throw std::runtime_error("is no part of a checkpoint");
    std::string_view rest = std::string_view(bytes).substr(magic.size());
    ByteReader head(rest);
    if (const std::uint64_t v = head.fixed(4); v != version)
        throw std::runtime_error(fmt::format("is of version {}; this program reads version {}", v, version));
    const std::uint64_t length = head.fixed(8);
    rest.remove_prefix(12);
    if (length > rest.size()) throw std::runtime_error("is corrupt: its directory is longer than the file");
    const std::string_view listed = rest.substr(0, length);
    rest.remove_prefix(length);
    ByteReader in(listed);
    std::vector<CheckpointPiece> pieces(in.count("pieces"));
    std::size_t data = 0;
    for (CheckpointPiece& p : pieces) {
        p = piece(in);
        data += static_cast<std::size_t>(p.count) * static_cast<std::size_t>(bytes_per_element(p.dtype));
    }
    if (rest.size() != data + 8 * (pieces.size() + 1)) throw std::runtime_error("is corrupt: its pieces do not fill it");
    ByteReader sums(rest.substr(data));
    if (sums.fixed(8) != trace_file::checksum(listed)) throw std::runtime_error("is corrupt: the checksum of its directory does not match");
    for (const CheckpointPiece& p : pieces) {
        const std::string_view own =
            rest.substr(0, static_cast<std::size_t>(p.count) * static_cast<std::size_t>(bytes_per_element(p.dtype)));
        rest.remove_prefix(own.size());
        if (sums.fixed(8) != trace_file::checksum(own))
            throw std::runtime_error("is corrupt: the checksum of " + p.tensor + " does not match");
        fill(fillings, p, own);
    }
}

struct Index {
    CheckpointState state;
    std::vector<std::pair<std::string, std::uint64_t>> parts;
};

Index read_index(const fs::path& file) {
    const auto json = nlohmann::json::parse(read_all(file));
    if (json.at("version") != version)
        throw std::runtime_error(fmt::format("is of version {}; this program reads version {}", json.at("version").dump(), version));
    Index index;
    index.state = {json.at("step"), json.at("seed"), json.at("facts")};
    for (const auto& part : json.at("parts")) {
        const std::string name = part.at("file");
        if (name.find('/') != std::string::npos) throw std::runtime_error("names a part outside its folder: " + name);
        index.parts.emplace_back(name, part.at("bytes"));
    }
    return index;
}

// Runs `read`, its error completed with the file.
template <class Read> auto from(const fs::path& file, Read&& read) {
    try {
        return read();
    } catch (const nlohmann::json::exception& e) {
        throw std::runtime_error(file.string() + " is corrupt: " + e.what());
    } catch (const std::runtime_error& e) { throw std::runtime_error(file.string() + " " + e.what()); }
}

} // namespace

std::vector<std::int64_t> checkpoint_steps(const fs::path& folder) {
    std::vector<std::int64_t> steps;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none)) {
        const std::int64_t step = step_of(entry.path().filename().string());
        if (step >= 0 && fs::exists(entry.path() / state_name)) steps.push_back(step);
    }
    std::ranges::sort(steps);
    return steps;
}

Checkpoint load_checkpoint(const fs::path& path) {
    fs::path folder = path;
    if (!fs::exists(folder / state_name)) {
        const std::vector<std::int64_t> steps = checkpoint_steps(path);
        if (steps.empty()) throw std::runtime_error(path.string() + ": no checkpoint is there");
        folder /= folder_name(steps.back());
    }
    const Index index = from(folder / state_name, [&] { return read_index(folder / state_name); });
    Fillings fillings;
    for (const auto& part : index.parts)
        from(folder / part.first, [&] {
            read_part(folder / part.first, part.second, fillings);
            return 0;
        });
    Checkpoint result{index.state, {}};
    for (auto& [name, f] : fillings) {
        if (std::ranges::find(f.there, false) != f.there.end())
            throw std::runtime_error(folder.string() + ": " + name + " is not whole: a piece is missing");
        result.tensors.emplace(name, std::move(f.tensor));
    }
    return result;
}

} // namespace orrery
