#include "topology/output_file.hpp"

#include "topology/input_error.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace orrery {
namespace {

constexpr std::chrono::milliseconds between{20};
constexpr int tries = 100; // two seconds: a reader that is started beside the program may come a little later

[[noreturn]] void refuse(const std::string& path, int reason) {
    if (reason == ENXIO) throw InputError(path + ": cannot be written: it is a pipe that nobody reads; start its reader, or name a file");
    if (reason == EISDIR) throw InputError(path + ": cannot be written: it is a folder; name a file in it");
    throw InputError(path + ": cannot be written: " + std::strerror(reason));
}

bool is_pipe(const std::string& path) {
    struct stat about {};
    return ::stat(path.c_str(), &about) == 0 && S_ISFIFO(about.st_mode);
}

} // namespace

OutputFile open_output(const std::string& path) {
    const bool pipe = is_pipe(path);
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | (pipe ? O_NONBLOCK : 0);
    int descriptor = -1;
    for (int n = 0; n < tries; ++n) {
        descriptor = ::open(path.c_str(), flags, 0666);
        if (descriptor >= 0 || !pipe || errno != ENXIO) break;
        std::this_thread::sleep_for(between);
    }
    if (descriptor < 0) refuse(path, errno);
    if (pipe) ::fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK);
    OutputFile file(::fdopen(descriptor, "wb"));
    if (file) return file;
    const int reason = errno;
    ::close(descriptor);
    refuse(path, reason);
}

void close_output(OutputFile file, bool written, const std::string& path) {
    const int reason = errno; // of the part that was not written
    const bool closed = std::fclose(file.release()) == 0;
    if (!written) refuse(path, reason);
    if (!closed) refuse(path, errno);
}

} // namespace orrery
