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
#include <utility>

namespace orrery {

namespace fs = std::filesystem;
using namespace checkpoint_file;

namespace checkpoint_file {

std::string index_text(const nlohmann::ordered_json& index) {
    return index.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

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
        dtype != static_cast<std::uint64_t>(DType::bf16) && dtype != static_cast<std::uint64_t>(DType::fp16))
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

struct Index {
    CheckpointState state;
    std::vector<std::pair<std::string, std::uint64_t>> parts;
};

Index read_index(const fs::path& file) {
    auto json = nlohmann::ordered_json::parse(read_all(file));
    if (json.at("version") != version)
        throw std::runtime_error(fmt::format("is of version {}; this program reads version {}", json.at("version").dump(), version));
    if (json.contains(checksum_key)) { // older programs wrote none
        const std::uint64_t written = json.at(checksum_key);
        json.erase(checksum_key);
        if (trace_file::checksum(index_text(json)) != written) throw std::runtime_error("is corrupt: its checksum does not match");
    }
    Index index;
    index.state = {json.at("step"), json.at("seed"), json.at("facts")};
    if (index.state.step < 0) throw std::runtime_error(fmt::format("is corrupt: it is of step {}", index.state.step));
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
    } catch (const nlohmann::json::parse_error&) {
        throw std::runtime_error(file.string() + " is corrupt: it is no JSON, or its end is missing");
    } catch (const nlohmann::json::exception&) {
        throw std::runtime_error(file.string() + " is corrupt: a field that every checkpoint has is missing there, or has another type");
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

std::vector<fs::path> checkpoints_in(const fs::path& path) {
    if (fs::exists(path / state_name)) return {path};
    std::vector<fs::path> found;
    for (const std::int64_t step : checkpoint_steps(path)) found.insert(found.begin(), path / folder_name(step));
    return found;
}

namespace {

// A run that dies while it removes a checkpoint leaves a folder with parts of it, or an empty one.
bool half_removed(const fs::path& step) {
    std::error_code none;
    if (step_of(step.filename().string()) < 0 || !fs::is_directory(step, none)) return false;
    const auto part = [](const fs::directory_entry& e) { return e.path().filename().string().starts_with("part-"); };
    return std::all_of(fs::directory_iterator(step, none), fs::directory_iterator(), part);
}

} // namespace

void remove_drafts(const fs::path& folder) {
    std::error_code none;
    std::vector<fs::path> drafts;
    for (const auto& entry : fs::directory_iterator(folder, none))
        if (const std::string name = entry.path().filename().string();
            (name.starts_with(".step-") && name.ends_with(".draft")) || half_removed(entry.path()))
            drafts.push_back(entry.path());
    for (const fs::path& d : drafts) fs::remove_all(d, none);
}

CheckpointFiles::CheckpointFiles(const fs::path& folder) : folder_(folder) {
    const Index index = from(folder / state_name, [&] { return read_index(folder / state_name); });
    state_ = index.state;
    for (const auto& part : index.parts)
        from(folder / part.first, [&] {
            open_part(folder / part.first, part.second);
            return 0;
        });
}

void CheckpointFiles::open_part(const fs::path& file, std::uint64_t size) {
    const std::string_view bytes = parts_.emplace_back(file).bytes();
    if (bytes.size() != size) throw std::runtime_error(fmt::format("has {} bytes where {} were written", bytes.size(), size));
    if (!bytes.starts_with(magic)) throw std::runtime_error("is no part of a checkpoint");
    std::string_view rest = bytes.substr(magic.size());
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
    for (CheckpointPiece& p : pieces) {
        p.data = reinterpret_cast<const std::byte*>(rest.data());
        rest.remove_prefix(static_cast<std::size_t>(p.count) * static_cast<std::size_t>(bytes_per_element(p.dtype)));
        std::vector<Piece>& alike = pieces_[p.tensor];
        if (!alike.empty() && (alike[0].at.shape != p.shape || alike[0].at.dtype != p.dtype))
            throw std::runtime_error(p.tensor + ": its pieces disagree on its shape or type");
        alike.push_back({file, p, sums.fixed(8)});
    }
}

std::vector<std::string> CheckpointFiles::names() const {
    std::vector<std::string> names;
    for (const auto& [name, pieces] : pieces_) names.push_back(name);
    return names;
}

const std::vector<std::int64_t>* CheckpointFiles::shape(const std::string& tensor) const {
    const auto it = pieces_.find(tensor);
    return it == pieces_.end() ? nullptr : &it->second[0].at.shape;
}

DType CheckpointFiles::dtype(const std::string& tensor) const { return pieces_.at(tensor)[0].at.dtype; }

void CheckpointFiles::read(const CheckpointPiece& wanted, const Put& put) const {
    struct Run {
        std::int64_t place, from, n; // in the whole tensor; in the piece; elements
    };
    const auto runs_of = [](const CheckpointPiece& p) {
        std::vector<Run> list;
        runs(p, [&](std::int64_t place, std::int64_t from, std::int64_t n) {
            if (!list.empty() && list.back().place + list.back().n == place)
                list.back().n += n;
            else
                list.push_back({place, from, n});
        });
        return list;
    };
    const std::vector<Run> mine = runs_of(wanted);
    const std::vector<Piece>& pieces = pieces_.at(wanted.tensor);
    const std::int64_t all = elements(pieces[0].at.shape);
    std::vector<bool> there(static_cast<std::size_t>(wanted.count), false);
    for (const Piece& p : pieces) {
        const auto width = static_cast<std::int64_t>(bytes_per_element(p.at.dtype));
        auto next = mine.begin();
        for (const Run& r : runs_of(p.at)) {
            while (next != mine.end() && next->place + next->n <= r.place) ++next;
            for (auto m = next; m != mine.end() && m->place < r.place + r.n; ++m) {
                if (!std::exchange(p.checked, true) && trace_file::checksum({reinterpret_cast<const char*>(p.at.data),
                                                                             static_cast<std::size_t>(p.at.count * width)}) != p.checksum)
                    throw std::runtime_error(p.file.string() + " is corrupt: the checksum of " + wanted.tensor + " does not match");
                const std::int64_t begin = std::max(m->place, r.place), end = std::min(m->place + m->n, r.place + r.n);
                const std::int64_t at = m->from + begin - m->place;
                put(at, p.at.data + (r.from + begin - r.place) * width, end - begin);
                std::fill_n(there.begin() + at, end - begin, true);
            }
        }
    }
    for (const Run& m : mine)
        for (std::int64_t i = 0; i < m.n && m.place + i < all; ++i)
            if (!there[m.from + i]) throw std::runtime_error(folder_.string() + ": " + wanted.tensor + " is not whole: a piece is missing");
}

Checkpoint load_checkpoint(const fs::path& path) {
    const std::vector<fs::path> found = checkpoints_in(path);
    if (found.empty()) throw std::runtime_error(path.string() + ": no checkpoint is there");
    const CheckpointFiles files(found[0]);
    Checkpoint result{files.state(), {}};
    for (const std::string& name : files.names()) {
        CheckpointTensor& t = result.tensors[name];
        t.shape = *files.shape(name);
        t.dtype = files.dtype(name);
        const auto width = static_cast<std::int64_t>(bytes_per_element(t.dtype));
        t.data.resize(elements(t.shape) * width);
        files.read(whole(name, t.shape, t.dtype, nullptr), [&](std::int64_t place, const std::byte* bytes, std::int64_t n) {
            std::memcpy(t.data.data() + place * width, bytes, static_cast<std::size_t>(n * width));
        });
    }
    return result;
}

} // namespace orrery
