// Files of weights that many processes write: drafts of their full size first, filled by whoever holds a part, named when they are whole.
#pragma once

#include "exec/weights/safetensors.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace orrery {

// Writes stretches of one file at their places, those that lie side by side at once. Throws Unwritten.
class FileWriter {
  public:
    explicit FileWriter(std::filesystem::path path); // of a file that is there
    FileWriter(FileWriter&& other) noexcept;
    FileWriter& operator=(FileWriter&&) = delete;
    ~FileWriter();
    void put(std::uint64_t place, std::string_view bytes);
    void close(); // when all is on the disk

  private:
    void flush();
    [[noreturn]] void fail(const char* what) const;

    std::filesystem::path path_;
    int fd_;
    std::uint64_t begin_ = 0;
    std::string pending_;
};

// All throw Unwritten.
void write_text(const std::filesystem::path& file, std::string_view text);
std::filesystem::path draft_of(const std::filesystem::path& folder, const std::string& name);
void make_drafts(const std::filesystem::path& folder, const WeightFiles& files); // with their headers; a disk that is too full says so here
void name_drafts(const std::filesystem::path& folder, const WeightFiles& files); // and the index, in place of those of an export before
void remove_drafts(const std::filesystem::path& folder, const WeightFiles& files) noexcept;

} // namespace orrery
