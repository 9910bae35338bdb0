// See input_file.hpp.
#include "sim/scenario/input_file.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace orrery {

std::string unreadable(const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code failed;
    const fs::file_status status = fs::status(path, failed);
    if (!fs::exists(status)) return "does not exist";
    if (fs::is_directory(status)) return "is a folder; name a file in it";
    if (!fs::is_regular_file(status)) return "is a device or a pipe; name a regular file";
    const auto size = fs::file_size(path, failed);
    if (failed) return "has no size that can be read";
    if (size > largest_input) return "has " + std::to_string(size) + " bytes; an input has at most " + std::to_string(largest_input);
    return size == 0 ? "is empty" : ""; // files of /proc say so too, and some of them never end
}

bool read_file(const std::string& path, std::string& text) {
    if (!unreadable(path).empty()) return false;
    std::ifstream file(path, std::ios::binary);
    if (!file) return false;
    std::stringstream buffer;
    buffer << file.rdbuf();
    text = buffer.str();
    return !file.bad();
}

} // namespace orrery
