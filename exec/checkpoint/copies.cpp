#include "exec/checkpoint/copies.hpp"

#include "exec/checkpoint/files.hpp"
#include "sim/trace/format.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <set>
#include <thread>
#include <unistd.h>

namespace orrery {

namespace fs = std::filesystem;
using namespace checkpoint_file;

namespace {

constexpr const char* about_name = "about.json"; // seed, facts and number of parts of a step
constexpr std::size_t most_steps = 4;            // that a gathering looks at, newest first

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The file is there whole or not at all: memory needs no flush.
void put(const fs::path& file, std::string_view bytes, int rank) {
    std::error_code failed;
    fs::create_directories(file.parent_path(), failed);
    const fs::path draft = file.parent_path() / fmt::format(".{}-{}-{}", file.filename().string(), rank, getpid());
    std::ofstream out(draft, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (out) fs::rename(draft, file, failed);
    if (!out || failed) {
        fs::remove(draft, failed);
        throw Unwritten(fmt::format("{}: a copy of the checkpoint cannot be kept in memory: is there room?", file.string()));
    }
}

std::string read(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

void wait_for(const PeerLink& link, void* request, const char* what, int peer) {
    for (const double began = now_s(); !link.done(request);) {
        if (now_s() - began > link.patience_s)
            throw LostCopy(fmt::format("rank {}: {} rank {} has not come for {:.0f} s", link.rank, what, peer, link.patience_s));
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
}

// Steps of a folder with what is said about them, and their parts.
struct Held {
    nlohmann::json about;
    std::set<std::int64_t> parts;
};
std::map<std::int64_t, Held> held(const fs::path& folder) {
    std::map<std::int64_t, Held> steps;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none)) {
        const std::int64_t step = step_of(entry.path().filename().string());
        if (step < 0) continue;
        Held h;
        h.about = nlohmann::json::parse(read(entry.path() / about_name), nullptr, false);
        if (!h.about.is_object() || !h.about.contains("parts")) continue;
        for (const auto& file : fs::directory_iterator(entry.path(), none)) {
            const std::string name = file.path().filename().string();
            std::int64_t part = -1;
            if (name.starts_with("part-") && std::from_chars(name.data() + 5, name.data() + name.size(), part).ec == std::errc{})
                h.parts.insert(part);
        }
        steps[step] = std::move(h);
    }
    return steps;
}

// The lowest rank that holds each part of a step; empty where a part is nowhere.
struct Found {
    std::int64_t step = -1;
    std::vector<int> holders;             // by part
    std::vector<std::vector<char>> holds; // by rank and part
    int knows = 0;                        // a rank that has seed and facts
};

std::optional<Found> where(std::int64_t step, const std::map<std::int64_t, Held>& mine, const PeerLink& link) {
    const auto own = mine.find(step);
    const std::int64_t parts_here = own == mine.end() ? 0 : own->second.about.at("parts").get<std::int64_t>();
    const auto gather = [&](const std::vector<std::int64_t>& v) {
        return link.ranks > 1 ? link.gather(v) : std::vector<std::vector<std::int64_t>>{v};
    };
    std::int64_t parts = 0;
    Found f{step, {}, {}, 0};
    const auto counts = gather({parts_here});
    for (std::size_t r = counts.size(); r-- > 0;)
        if (counts[r][0] > 0) parts = counts[r][0], f.knows = static_cast<int>(r);
    if (parts <= 0 || parts > (1 << 20)) return std::nullopt;
    std::vector<std::int64_t> have(static_cast<std::size_t>(parts), 0);
    if (own != mine.end())
        for (const std::int64_t p : own->second.parts)
            if (p < parts) have[p] = 1;
    f.holders.assign(parts, -1);
    const auto all = gather(have);
    for (std::size_t r = 0; r < all.size(); ++r) {
        f.holds.emplace_back(all[r].begin(), all[r].end());
        for (std::size_t p = 0; p < f.holders.size(); ++p)
            if (all[r][p] && f.holders[p] < 0) f.holders[p] = static_cast<int>(r);
    }
    return std::ranges::find(f.holders, -1) == f.holders.end() ? std::optional(f) : std::nullopt;
}

// A file from the rank that holds it to one that does not; called by both, and by nobody else.
void pass(const PeerLink& link, int from, int to, const fs::path& file) {
    std::uint64_t size = 0;
    std::string bytes;
    if (link.rank == from) {
        bytes = read(file);
        size = bytes.size();
        wait_for(link, link.send(to, &size, sizeof size), "a part of the copy for", to);
        wait_for(link, link.send(to, bytes.data(), bytes.size()), "a part of the copy for", to);
    } else {
        wait_for(link, link.receive(from, &size, sizeof size), "a part of the copy from", from);
        bytes.resize(size);
        wait_for(link, link.receive(from, bytes.data(), bytes.size()), "a part of the copy from", from);
        put(file, bytes, link.rank);
    }
}

} // namespace

namespace {
int sender_to(int rank, int ranks) { return (rank + ranks - std::max(1, ranks / 2)) % ranks; } // whose peer this rank is
} // namespace

int peer_of(int rank, int ranks) { return (rank + std::max(1, ranks / 2)) % ranks; }

struct MemoryCopies::Copy {
    std::int64_t step = 0;
    std::string about, part; // this rank's
    std::string from_part;   // of the rank whose peer this one is
    std::uint64_t size = 0, from_size = 0;
    std::vector<void*> requests;
    bool sized = false; // from_size has come, and the part itself is asked for
    void* from_request = nullptr;
    std::future<void> written, from_written;
};

MemoryCopies::MemoryCopies(fs::path folder, PeerLink link, std::int64_t first) : folder_(std::move(folder)), link_(std::move(link)) {
    std::error_code failed;
    for (const auto& [step, h] : held(folder_))
        if (step > first) fs::remove_all(folder_ / folder_name(step), failed);
    fs::create_directories(folder_, failed);
    if (failed) throw Unwritten(fmt::format("{}: cannot be made: {}", folder_.string(), failed.message()));
}

MemoryCopies::~MemoryCopies() {
    if (running_ && (running_->from_request || !running_->requests.empty())) // the run has failed, and a peer may still send
        static_cast<void>(running_.release());
}

void MemoryCopies::begin(const CheckpointState& state, std::span<const CheckpointPiece> pieces) {
    finish();
    running_ = std::make_unique<Copy>();
    Copy& c = *running_;
    c.step = state.step;
    c.about = nlohmann::json{{"seed", state.seed}, {"facts", state.facts}, {"parts", link_.ranks}}.dump();
    c.part = part_bytes(pieces);
    const fs::path place = folder_ / folder_name(state.step);
    c.written = std::async(std::launch::async, [&c, place, rank = link_.rank] {
        put(place / about_name, c.about, rank);
        put(place / part_name(rank), c.part, rank);
    });
    if (link_.ranks < 2) return;
    const int to = peer_of(link_.rank, link_.ranks), from = sender_to(link_.rank, link_.ranks);
    c.size = c.part.size();
    c.requests = {link_.send(to, &c.size, sizeof c.size), link_.send(to, c.part.data(), c.part.size())};
    c.from_request = link_.receive(from, &c.from_size, sizeof c.from_size);
}

// Whether this rank's copies stand.
bool MemoryCopies::move() {
    Copy& c = *running_;
    const auto ended = [](std::future<void>& f) {
        if (!f.valid()) return true;
        if (f.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
        f.get();
        return true;
    };
    std::erase_if(c.requests, [&](void* r) { return link_.done(r); });
    if (c.from_request && link_.done(c.from_request)) {
        c.from_request = nullptr;
        const int from = sender_to(link_.rank, link_.ranks);
        if (!c.sized) {
            c.sized = true;
            c.from_part.resize(c.from_size);
            c.from_request = link_.receive(from, c.from_part.data(), c.from_part.size());
        } else {
            c.from_written = std::async(std::launch::async, [&c, place = folder_ / folder_name(c.step), from, rank = link_.rank] {
                put(place / part_name(from), c.from_part, rank);
            });
        }
    }
    const bool own = ended(c.written), of_peer = ended(c.from_written);
    return own && of_peer && c.requests.empty() && !c.from_request;
}

void MemoryCopies::look() {
    if (!running_ || !move()) return;
    // The one before stays: another rank may not have all of this one yet.
    std::vector<std::int64_t> older;
    for (const auto& [step, h] : held(folder_))
        if (step < running_->step) older.push_back(step);
    std::error_code ignored;
    for (std::size_t i = 0; i + 1 < older.size(); ++i) fs::remove_all(folder_ / folder_name(older[i]), ignored);
    running_.reset();
}

void MemoryCopies::finish() {
    for (const double began = now_s(); running_; look()) {
        if (now_s() - began > link_.patience_s)
            throw LostCopy(fmt::format("rank {}: the copy of step {} in a peer's memory has not ended for {:.0f} s", link_.rank,
                                       running_->step, link_.patience_s));
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
}

std::optional<fs::path> gather_copies(const fs::path& folder, const PeerLink& link) {
    const auto mine = held(folder);
    std::set<std::int64_t> steps;
    std::vector<std::int64_t> newest(most_steps, -1);
    std::size_t i = 0;
    for (auto it = mine.rbegin(); it != mine.rend() && i < most_steps; ++it) newest[i++] = it->first;
    const auto all = link.ranks > 1 ? link.gather(newest) : std::vector<std::vector<std::int64_t>>{newest};
    for (const auto& of_rank : all) steps.insert(of_rank.begin(), of_rank.end());
    for (auto it = steps.rbegin(); it != steps.rend() && *it >= 0; ++it) {
        const auto found = where(*it, mine, link);
        if (!found) continue;
        const fs::path place = folder / folder_name(*it);
        const auto each = [&](const std::string& name, int holder, const auto& has) {
            for (int r = 0; r < link.ranks; ++r)
                if (!has(r) && (link.rank == holder || link.rank == r)) pass(link, holder, r, place / name);
        };
        std::vector<std::int64_t> knows{mine.contains(*it)};
        const auto known = link.ranks > 1 ? link.gather(knows) : std::vector<std::vector<std::int64_t>>{knows};
        each(about_name, found->knows, [&](int r) { return known[r][0] != 0; });
        for (std::size_t p = 0; p < found->holders.size(); ++p)
            each(part_name(static_cast<int>(p)), found->holders[p], [&](int r) { return found->holds[r][p] != 0; });
        const auto about = nlohmann::json::parse(read(place / about_name));
        nlohmann::ordered_json index{{"version", version}, {"step", *it}, {"seed", about.at("seed")}, {"facts", about.at("facts")}};
        for (std::size_t p = 0; p < found->holders.size(); ++p)
            index["parts"].push_back(
                {{"file", part_name(static_cast<int>(p))}, {"bytes", fs::file_size(place / part_name(static_cast<int>(p)))}});
        put(place / state_name, index.dump(), link.rank);
        return place;
    }
    return std::nullopt;
}

fs::path copies_folder(const fs::path& checkpoints) {
    const std::string whole = fs::absolute(checkpoints).lexically_normal().string();
    return fmt::format("/dev/shm/orrery-{}-{:016x}", getuid(), trace_file::checksum(whole));
}

} // namespace orrery
