// A file of text or of token ids, mapped into memory: however long, it is there at once, and only what is drawn from it is read.
#pragma once

#include "exec/checkpoint/mapped_file.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace orrery {

// The form of one token of the file: a byte; two or four bytes, little-endian; or as the file's name and first bytes say (Megatron's .idx
// beside it, llm.c's header, else two bytes where it ends in .bin, as nanoGPT's, or four where the vocabulary has more, else a byte).
enum class TokenType : std::uint8_t { by_file, byte, uint16, uint32 };

class TextFile {
  public:
    // Throws std::runtime_error, with the file and what is wrong: it is not there, has no length (a pipe, a device), is of another type.
    // vocabulary: of the model that reads it; 0: not known.
    explicit TextFile(const std::filesystem::path& file, TokenType type = TokenType::by_file, std::int64_t vocabulary = 0);

    std::string_view tokens() const { return tokens_; } // their bytes, without a header
    int width() const { return width_; }                // bytes of a token: 1, 2 or 4
    std::int64_t count() const { return static_cast<std::int64_t>(tokens_.size()) / width_; }
    // The size taken for a token, and what says so: "tokens of 2 bytes, as nanoGPT writes files that end in .bin".
    std::string form() const;
    // Stands for the contents: of the length and some thousand places, so that long files take no time.
    std::int64_t fingerprint() const;

  private:
    MappedFile file_;
    std::string_view tokens_;
    int width_ = 1;
    const char* why_ = ""; // what says so
};

} // namespace orrery
