// Files of weights: 8 bytes that say how long the header is (little-endian), the header (JSON: of each tensor its type, its shape and
// where its bytes begin and end behind the header), the bytes. They are mapped into memory: only what is asked for is read.
#pragma once

#include "exec/checkpoint/mapped_file.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

enum class WeightType : std::uint8_t { f64, f32, f16, bf16 };
std::int64_t bytes_of(WeightType t); // of an element
double read_weight(const std::byte* data, std::int64_t i, WeightType t);
void write_weight(std::byte* data, std::int64_t i, double value, WeightType t); // to nearest, ties to even; not f16

struct SafeTensor {
    std::string type; // as the file has it: "F32", "BF16", "I64", ..
    std::vector<std::int64_t> shape;
    const std::byte* data = nullptr;
    std::filesystem::path file;

    // Throws std::runtime_error where it is none of floating point that this reads.
    WeightType floating(const std::string& name) const;
};

class SafeTensors {
  public:
    // A file, an index of several ("..index.json"), or a folder with either. Throws std::runtime_error, a line that names the file and its
    // fault: it is none, is cut off, or its header lies about what follows.
    explicit SafeTensors(const std::filesystem::path& path);

    const std::map<std::string, SafeTensor>& tensors() const { return tensors_; }
    const SafeTensor* find(const std::string& name) const; // null: it is not there
    // Of all headers and sizes: another for other files, but for values alone.
    std::uint64_t fingerprint() const { return fingerprint_; }

  private:
    void open(const std::filesystem::path& file);

    std::vector<MappedFile> files_;
    std::map<std::string, SafeTensor> tensors_;
    std::uint64_t fingerprint_ = 0;
};

// Tensors to be written, by name, as files: model.safetensors, or as many as `most` bytes each need, and an index of them.
struct WeightFiles {
    struct At {
        std::size_t file;
        std::uint64_t begin; // in the file
    };
    struct Draft {
        std::string name;
        std::string head; // everything before the bytes
        std::uint64_t size;
    };
    std::vector<Draft> files;
    std::map<std::string, At> places;
    std::string index; // the text of model.safetensors.index.json; empty: one file
};
WeightFiles plan_files(const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& tensors, WeightType type,
                       std::uint64_t most = 5'000'000'000);

} // namespace orrery
