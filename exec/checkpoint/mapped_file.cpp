#include "exec/checkpoint/mapped_file.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace orrery {

MappedFile::MappedFile(const std::filesystem::path& file) {
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe without a writer would keep us
    if (fd < 0) throw std::runtime_error(errno == ENOENT ? "is missing" : std::string("cannot be read: ") + std::strerror(errno));
    struct stat is {};
    const bool regular = ::fstat(fd, &is) == 0 && S_ISREG(is.st_mode);
    const auto size = regular ? static_cast<std::size_t>(is.st_size) : 0;
    void* const at = size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0) : nullptr;
    const int reason = errno;
    ::close(fd);
    if (!regular) throw std::runtime_error("is no regular file: it must have a length");
    if (at == MAP_FAILED) throw std::runtime_error(std::string("cannot be mapped into memory: ") + std::strerror(reason));
    if (size > 0) ::madvise(at, size, MADV_RANDOM); // places all over it are drawn: what lies around them is not wanted
    bytes_ = {static_cast<const char*>(at), size};
}

MappedFile::~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

} // namespace orrery
