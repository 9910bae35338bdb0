#include "exec/runtime/text_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <functional>
#include <stdexcept>

namespace orrery {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& file, const std::string& why) { throw std::runtime_error(file.string() + ": " + why); }

MappedFile mapped(const fs::path& file) {
    try {
        return MappedFile(file);
    } catch (const std::runtime_error& e) { refuse(file, e.what()); }
}

// Megatron's index: a magic of nine bytes, a version (8 bytes), a code of the type (1 byte).
int width_by_index(const fs::path& file, const fs::path& index) {
    std::array<char, 18> head{};
    std::ifstream in(index, std::ios::binary);
    if (!in.read(head.data(), head.size()) || std::memcmp(head.data(), "MMIDIDX\0\0", 9) != 0) return 0;
    switch (head[17]) {
    case 1:
        return 1;
    case 4:
        return 4;
    case 8:
        return 2;
    default:
        refuse(file, fmt::format("{} says that its tokens are of type {}; this program reads uint8 (1), int32 (4) and uint16 (8)",
                                 index.string(), static_cast<int>(head[17])));
    }
}

// llm.c's: 256 numbers of 4 bytes, the first of which is a magic.
int width_by_header(std::string_view bytes) {
    std::int32_t magic = 0;
    if (bytes.size() < 1024) return 0;
    std::memcpy(&magic, bytes.data(), sizeof magic);
    return magic == 20240520 ? 2 : magic == 20240801 ? 4 : 0;
}

} // namespace

TextFile::TextFile(const fs::path& file, TokenType type, std::int64_t vocabulary) : file_(mapped(file)), tokens_(file_.bytes()) {
    fs::path index = file;
    index.replace_extension(".idx");
    const bool asks = type == TokenType::by_file && file.extension() == ".bin";
    const bool wide = vocabulary > std::int64_t{1} << 16; // ids of two bytes would leave some of it out
    const int by_index = asks ? width_by_index(file, index) : 0, by_header = asks ? width_by_header(tokens_) : 0;
    width_ = type == TokenType::uint16   ? 2
             : type == TokenType::uint32 ? 4
             : by_index > 0              ? by_index
             : by_header > 0             ? by_header
             : asks                      ? (wide ? 4 : 2)
                                         : 1;
    why_ = type != TokenType::by_file ? "as --token-type says"
           : by_index > 0             ? "as the .idx file beside it says (--token-type sets another)"
           : by_header > 0            ? "as its header says, which llm.c writes (--token-type sets another)"
           : asks && wide             ? "guessed from its name in .bin and a vocabulary of more than 65,536 (--token-type sets another)"
           : asks                     ? "guessed from its name in .bin, as nanoGPT writes them (--token-type sets another)"
                                      : "guessed, for its name does not end in .bin (--token-type sets another)";
    if (by_index == 0 && by_header > 0) tokens_.remove_prefix(1024);
    if (tokens_.size() % static_cast<std::size_t>(width_) != 0)
        refuse(file, fmt::format("has {} bytes, which is no whole number of tokens of {} bytes: give its type with --token-type",
                                 tokens_.size(), width_));
}

std::string TextFile::form() const { return fmt::format("tokens of {} byte{}, {}", width_, width_ == 1 ? "" : "s", why_); }

std::int64_t TextFile::fingerprint() const {
    constexpr std::size_t places = 512, bytes = 64;
    const std::string_view all = file_.bytes();
    std::string some = fmt::format("{} {} ", all.size(), width_);
    for (std::size_t i = 0; i < places; ++i) {
        const std::size_t from = all.size() / places * i;
        some += all.substr(std::min(from, all.size()), all.size() <= places * bytes ? all.size() / places + 1 : bytes);
    }
    some += all.substr(all.size() - std::min(all.size(), places));
    return static_cast<std::int64_t>(std::hash<std::string>{}(some));
}

} // namespace orrery
