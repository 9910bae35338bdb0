#include "exec/checkpoint/folder_lock.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace orrery {
namespace {

enum class Taken { yes, no, of_a_removed_file };

// Whoever leaves removes the file: a lock on what is no longer there keeps nobody out.
Taken take_once(int fd, const std::filesystem::path& file) {
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK || errno == EINTR) return Taken::no;
        return Taken::yes; // this file system has no locks
    }
    struct stat ours {};
    struct stat there {};
    const bool same = ::fstat(fd, &ours) == 0 && ::stat(file.c_str(), &there) == 0 && ours.st_ino == there.st_ino;
    return same ? Taken::yes : Taken::of_a_removed_file;
}

std::string contents(int fd) {
    std::array<char, 256> text{};
    const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
    return {text.data(), static_cast<std::size_t>(n > 0 ? n : 0)};
}

void sign(int fd) {
    std::array<char, 128> host{};
    if (::gethostname(host.data(), host.size() - 1) != 0) host.fill(0);
    const std::string text = fmt::format("process {} on {}", getpid(), host.data());
    const bool written = ::ftruncate(fd, 0) == 0 && ::pwrite(fd, text.data(), text.size(), 0) >= 0 && ::fsync(fd) == 0;
    static_cast<void>(written); // on a full disk nobody learns who it is
}

} // namespace

FolderLock::FolderLock(const std::filesystem::path& folder, double patience_s) : file_(folder / ".lock") {
    using Clock = std::chrono::steady_clock;
    const auto until = Clock::now() + std::chrono::duration<double>(patience_s);
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    while (true) {
        fd_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (fd_ < 0) {
            problem_ =
                fmt::format("{}: cannot be opened: {}: make the folder writable, or name another", file_.string(), std::strerror(errno));
            return;
        }
        const Taken taken = take_once(fd_, file_);
        if (taken == Taken::yes) break;
        const std::string who = contents(fd_);
        ::close(fd_);
        fd_ = -1;
        if (taken == Taken::no && Clock::now() >= until) {
            problem_ = fmt::format("{} is in use: {} writes its checkpoints there: wait until that run has ended, or name another folder",
                                   folder.string(), who.empty() ? "another run" : "another run (" + who + ")");
            return;
        }
        if (taken == Taken::no) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    sign(fd_);
}

std::optional<std::string> FolderLock::holder(const std::filesystem::path& folder) {
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored); // asks the server: this machine may remember that there was none
    const int fd = ::open((folder / ".lock").c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return std::nullopt;
    const std::string who = contents(fd);
    ::close(fd);
    return who;
}

FolderLock::~FolderLock() {
    if (fd_ < 0) return;
    std::error_code ignored;
    std::filesystem::remove(file_, ignored); // before others can have the lock
    ::close(fd_);
}

} // namespace orrery
