#include "exec/checkpoint/files.hpp"
#include "sim/trace/bytes.hpp"
#include "sim/trace/format.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <stdexcept>
#include <unistd.h>

namespace orrery {

namespace fs = std::filesystem;
using namespace checkpoint_file;

namespace {

[[noreturn]] void fail(const fs::path& file, const char* what, int reason) {
    throw Unwritten(fmt::format("{}: cannot {} the checkpoint: {}", file.string(), what, std::strerror(reason)));
}

// A file whose bytes are on the disk when close() has returned.
class DurableFile {
  public:
    explicit DurableFile(fs::path path)
        : path_(std::move(path)), fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
        if (fd_ < 0) fail(path_, "create", errno);
    }
    ~DurableFile() {
        if (fd_ >= 0) ::close(fd_);
    }
    DurableFile(const DurableFile&) = delete;
    DurableFile& operator=(const DurableFile&) = delete;

    void write(std::string_view bytes) {
        while (!bytes.empty()) {
            const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) fail(path_, "write", errno);
            bytes.remove_prefix(static_cast<std::size_t>(n));
        }
    }
    void close() {
        if (::fsync(fd_) != 0) fail(path_, "flush", errno);
        const int closed = ::close(fd_);
        fd_ = -1;
        if (closed != 0) fail(path_, "close", errno);
    }

  private:
    fs::path path_;
    int fd_;
};

// A rename is on the disk when its folder is.
void flush_folder(const fs::path& folder) {
    const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) fail(folder, "flush", errno);
    const int flushed = ::fsync(fd), reason = errno;
    ::close(fd);
    if (flushed != 0 && reason != EINVAL) fail(folder, "flush", reason);
}

void put_shape(ByteWriter& out, const std::vector<std::int64_t>& shape) {
    out.number(shape.size());
    for (const std::int64_t n : shape) out.integer(n);
}

std::string directory(std::span<const CheckpointPiece> pieces) {
    ByteWriter out;
    out.number(pieces.size());
    for (const CheckpointPiece& p : pieces) {
        out.text(p.tensor);
        put_shape(out, p.shape);
        put_shape(out, p.offset);
        put_shape(out, p.extent);
        out.integer(p.begin);
        out.integer(p.count);
        out.number(static_cast<std::uint64_t>(p.dtype));
    }
    return std::move(out.bytes);
}

std::string_view bytes_of(const CheckpointPiece& p) {
    return {reinterpret_cast<const char*>(p.data),
            static_cast<std::size_t>(p.count) * static_cast<std::size_t>(bytes_per_element(p.dtype))};
}

// A part: its head and directory, the bytes of its pieces, the checksums of both.
template <class Write> void write_pieces(std::span<const CheckpointPiece> pieces, Write&& write) {
    ByteWriter head;
    head.bytes = magic;
    const std::string listed = directory(pieces);
    head.fixed(version, 4);
    head.fixed(listed.size(), 8);
    write(head.bytes);
    write(listed);
    ByteWriter sums; // of the directory, then of each piece; the file's own sum is over these
    sums.fixed(trace_file::checksum(listed), 8);
    for (const CheckpointPiece& p : pieces) {
        write(bytes_of(p));
        sums.fixed(trace_file::checksum(bytes_of(p)), 8);
    }
    write(sums.bytes);
}

// Its state first: what a kill leaves in the middle of it is no checkpoint (remove_drafts).
void remove_checkpoint(const fs::path& step) {
    fs::remove(step / state_name);
    fs::remove_all(step);
}

void remove_older(const fs::path& folder, std::int64_t step, int keep) {
    std::vector<std::int64_t> steps = checkpoint_steps(folder);
    std::erase(steps, step);
    for (std::size_t i = 0; i + static_cast<std::size_t>(std::max(keep, 1)) - 1 < steps.size(); ++i)
        remove_checkpoint(folder / folder_name(steps[i]));
}

} // namespace

CheckpointPiece whole(std::string tensor, std::vector<std::int64_t> shape, DType dtype, const std::byte* data) {
    const std::int64_t count = elements(shape);
    return {std::move(tensor), shape, std::vector<std::int64_t>(shape.size(), 0), shape, 0, count, dtype, data};
}

std::string part_bytes(std::span<const CheckpointPiece> pieces) {
    std::string bytes;
    write_pieces(pieces, [&](std::string_view more) { bytes += more; });
    return bytes;
}

CheckpointDraft::CheckpointDraft(const fs::path& folder, std::int64_t step)
    : folder_(folder), draft_(folder / ("." + folder_name(step) + ".draft")), final_(folder / folder_name(step)) {}

void CheckpointDraft::write_part(int part, std::span<const CheckpointPiece> pieces) const {
    std::error_code made;
    fs::create_directories(draft_, made);
    if (made) fail(draft_, "create", made.value());
    DurableFile file(draft_ / part_name(part));
    write_pieces(pieces, [&](std::string_view bytes) { file.write(bytes); });
    file.close();
}

void CheckpointDraft::seal(const CheckpointState& state, int parts, int keep) const {
    nlohmann::ordered_json json{
        {"version", version}, {"step", state.step}, {"seed", state.seed}, {"facts", state.facts}, {"parts", nlohmann::json::array()}};
    for (int i = 0; i < parts; ++i) {
        const fs::path part = draft_ / part_name(i);
        std::error_code none;
        const auto size = fs::file_size(part, none);
        if (none) fail(part, "seal", none.value());
        json["parts"].push_back({{"file", part_name(i)}, {"bytes", size}});
    }
    json[checksum_key] = trace_file::checksum(index_text(json));
    DurableFile file(draft_ / state_name);
    file.write(index_text(json));
    file.close();
    flush_folder(draft_);
    std::error_code moved;
    fs::remove(final_ / state_name, moved); // the same step, saved before: a run that went back
    fs::remove_all(final_, moved);
    fs::rename(draft_, final_, moved);
    if (moved) fail(final_, "rename", moved.value());
    flush_folder(folder_);
    remove_older(folder_, state.step, keep);
}

void CheckpointDraft::discard() const {
    std::error_code ignored;
    fs::remove_all(draft_, ignored);
}

void save_checkpoint(const fs::path& folder, const CheckpointState& state, std::span<const CheckpointPiece> pieces, int keep) {
    const CheckpointDraft draft(folder, state.step);
    draft.discard(); // of a run that died
    try {
        draft.write_part(0, pieces);
        draft.seal(state, 1, keep);
    } catch (...) {
        draft.discard();
        throw;
    }
}

CheckpointWriter::~CheckpointWriter() {
    if (running_.valid()) running_.wait();
}

void CheckpointWriter::begin(const CheckpointState& state, std::span<const CheckpointPiece> pieces) {
    finish();
    struct Copy {
        CheckpointState state;
        std::vector<CheckpointPiece> pieces;
        std::vector<std::vector<std::byte>> bytes;
    };
    auto copy = std::make_shared<Copy>(Copy{state, {pieces.begin(), pieces.end()}, {}});
    for (CheckpointPiece& p : copy->pieces) {
        const std::string_view bytes = bytes_of(p);
        const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
        copy->bytes.emplace_back(begin, begin + bytes.size());
        p.data = copy->bytes.back().data();
    }
    running_ = std::async(std::launch::async,
                          [copy, folder = folder_, keep = keep_] { save_checkpoint(folder, copy->state, copy->pieces, keep); });
}

void CheckpointWriter::look() {
    if (running_.valid() && running_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) running_.get();
}

void CheckpointWriter::finish() {
    if (running_.valid()) running_.get();
}

} // namespace orrery
