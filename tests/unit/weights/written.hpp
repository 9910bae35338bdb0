// Safetensors files written by hand, for tests of their reader.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <unistd.h>
#include <vector>

namespace orrery::test {

struct HandMade {
    std::vector<std::int64_t> shape;
    std::vector<double> values;
};
using HandMadeTensors = std::map<std::string, HandMade>;

inline std::filesystem::path scratch_folder(const std::string& name) {
    const auto folder = std::filesystem::path(testing::TempDir()) / fmt::format("weights_{}_{}", getpid(), name); // tests run side by side
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    return folder;
}

inline std::string with_length(const std::string& header, const std::string& bytes) {
    std::string file;
    for (int b = 0; b < 8; ++b) file += static_cast<char>(header.size() >> 8 * b & 255);
    return file + header + bytes;
}

inline void write_file(const std::filesystem::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

inline void write_f64(const std::filesystem::path& file, const HandMadeTensors& tensors) {
    nlohmann::ordered_json header;
    std::string bytes;
    for (const auto& [name, t] : tensors) {
        const std::size_t begin = bytes.size();
        bytes.append(reinterpret_cast<const char*>(t.values.data()), 8 * t.values.size());
        header[name] = {{"dtype", "F64"}, {"shape", t.shape}, {"data_offsets", {begin, bytes.size()}}};
    }
    write_file(file, with_length(header.dump(), bytes));
}

} // namespace orrery::test
