// LoRA's adapters in the matrices beside which they stand: W + alpha / rank B A (Hu et al., arXiv:2106.09685). A process holds parts of a
// matrix and other parts of its adapters, so the adapters are brought together as files that all processes read.
#pragma once

#include "exec/weights/names.hpp"
#include "exec/weights/safetensors.hpp"
#include "sim/plan/plan.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace orrery {

// By the plan's name: "l0.qkv.weight.lora_a" [rank, columns] and ".lora_b" [rows, rank], of experts [experts, .., ..]. Empty: no LoRA.
using AdapterShapes = std::map<std::string, std::vector<std::int64_t>>;
AdapterShapes adapters_of(const Plan& plan);

// In the file of all adapters: by their own names, as the plan has them. Nothing: it is no adapter.
std::optional<Counterpart> place_of_adapter(const AdapterShapes& adapters, const std::string& tensor);

class Merge {
  public:
    // files: where all adapters are, whole, as numbers of 64 bits. Throws std::runtime_error: they are not there.
    Merge(const std::filesystem::path& files, const AdapterShapes& adapters, const Trainable& trainable);
    Merge(const Merge&) = delete;
    Merge& operator=(const Merge&) = delete;

    class Adapter {
      public:
        // Adds what it makes of the matrix to values, which lie from this column of this row on; rows of experts one behind the other.
        void add(std::int64_t row, std::int64_t column, std::span<double> values) const;

      private:
        friend class Merge;
        const std::byte *a_ = nullptr, *b_ = nullptr;
        std::int64_t rows_ = 0, columns_ = 0, rank_ = 0; // of one matrix
        double scale_ = 1;
    };
    const Adapter* beside(const std::string& tensor) const; // null: there is none

  private:
    SafeTensors files_;
    std::map<std::string, Adapter> adapters_; // by the matrix's name
};

} // namespace orrery
