#include "exec/weights/drafts.hpp"

#include "exec/checkpoint/checkpoint.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace orrery {

namespace fs = std::filesystem;

FileWriter::FileWriter(fs::path path) : path_(std::move(path)), fd_(::open(path_.c_str(), O_WRONLY | O_CLOEXEC)) {
    if (fd_ < 0) fail("open");
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), begin_(other.begin_), pending_(std::move(other.pending_)) {}

FileWriter::~FileWriter() {
    if (fd_ >= 0) ::close(fd_);
}

void FileWriter::put(std::uint64_t place, std::string_view bytes) {
    if (place != begin_ + pending_.size() || pending_.size() > (1u << 20)) flush(), begin_ = place;
    pending_ += bytes;
}

void FileWriter::flush() {
    std::string_view rest = pending_;
    for (std::uint64_t at = begin_; !rest.empty();) {
        const ssize_t n = ::pwrite(fd_, rest.data(), rest.size(), static_cast<off_t>(at));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) fail("write");
        at += static_cast<std::uint64_t>(n);
        rest.remove_prefix(static_cast<std::size_t>(n));
    }
    pending_.clear();
}

void FileWriter::close() {
    flush();
    if (::fsync(fd_) != 0) fail("flush");
}

void FileWriter::fail(const char* what) const {
    throw Unwritten(fmt::format("{}: cannot {} the weights: {}", path_.string(), what, std::strerror(errno)));
}

void write_text(const fs::path& file, std::string_view text) {
    const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) throw Unwritten(fmt::format("{}: cannot create the weights: {}", file.string(), std::strerror(errno)));
    ::close(fd);
    FileWriter out(file);
    out.put(0, text);
    out.close();
}

fs::path draft_of(const fs::path& folder, const std::string& name) { return folder / ("." + name + ".draft"); }

void make_drafts(const fs::path& folder, const WeightFiles& files) {
    std::error_code made;
    fs::create_directories(folder, made);
    if (made) throw Unwritten(fmt::format("{}: cannot create the folder: {}", folder.string(), made.message()));
    for (const WeightFiles::Draft& f : files.files) {
        const fs::path path = draft_of(folder, f.name);
        write_text(path, f.head);
        const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
        const int full = fd < 0 ? errno : ::posix_fallocate(fd, 0, static_cast<off_t>(f.size));
        if (fd >= 0) ::close(fd);
        if (full != 0) throw Unwritten(fmt::format("{}: no room for {} bytes of weights: {}", path.string(), f.size, std::strerror(full)));
    }
}

void name_drafts(const fs::path& folder, const WeightFiles& files) {
    const fs::path index = folder / "model.safetensors.index.json";
    std::error_code moved;
    fs::remove(index, moved);
    for (const WeightFiles::Draft& f : files.files) {
        fs::rename(draft_of(folder, f.name), folder / f.name, moved);
        if (moved) throw Unwritten(fmt::format("{}: cannot rename the weights: {}", (folder / f.name).string(), moved.message()));
    }
    if (!files.index.empty()) write_text(index, files.index);
}

void remove_drafts(const fs::path& folder, const WeightFiles& files) noexcept {
    std::error_code ignored;
    for (const WeightFiles::Draft& f : files.files) fs::remove(draft_of(folder, f.name), ignored);
}

} // namespace orrery
