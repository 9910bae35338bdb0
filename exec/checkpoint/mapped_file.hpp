// A file mapped into memory: however long, it is there at once, and only what is looked at is read.
#pragma once

#include <filesystem>
#include <string_view>

namespace orrery {

class MappedFile {
  public:
    // Throws std::runtime_error with the reason, without the file's name: it is not there, or has no length (a pipe, a device).
    explicit MappedFile(const std::filesystem::path& file);
    ~MappedFile();
    MappedFile(MappedFile&& other) noexcept : bytes_(other.bytes_) { other.bytes_ = {}; }
    MappedFile& operator=(MappedFile&&) = delete;
    std::string_view bytes() const { return bytes_; }

  private:
    std::string_view bytes_;
};

} // namespace orrery
