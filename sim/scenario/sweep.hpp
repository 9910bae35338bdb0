// A sweep's text: a scenario with "sweep" (JSON pointer -> list of values) and "constraints", expanded to scenarios one by one.
// Points are numbered 0 .. size()-1, the last axis fastest; a point is built only when asked for, so that a sweep may be large.
#pragma once

#include "sim/scenario/parse.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

struct SweepAxis {
    std::string pointer;             // "/strategy/tensor_parallel"
    std::vector<std::string> values; // each as JSON text: "8", "\"1f1b\""
};

struct SweepPoint {
    std::string label;                               // "tensor_parallel=8 schedule=1f1b": only what varies
    std::vector<std::string> values;                 // JSON text, one an axis, in the axes' order
    std::string json;                                // the whole scenario's text, without "sweep" and "constraints"
    std::optional<std::string> rejected;             // the constraint it breaks; the scenario itself is not parsed here
    std::shared_ptr<const OwnConstants> constants{}; // of all points: ParseOptions::constants
    std::string base_dir{};                          // .. and what the paths in it start from
};

class SweepDocument {
  public:
    ~SweepDocument();
    SweepDocument(SweepDocument&&) noexcept;
    SweepDocument& operator=(SweepDocument&&) noexcept;

    const std::string& name() const;
    const std::string& base_json() const; // the scenario's text without "sweep" and "constraints"
    const std::string& base_dir() const;  // for ParseOptions of the points
    const std::vector<SweepAxis>& axes() const;
    const std::vector<std::string>& constraints() const;
    std::int64_t size() const;                  // how many combinations
    SweepPoint point(std::int64_t index) const; // const and without hidden state: threads may ask side by side

  private:
    struct Data;
    explicit SweepDocument(std::unique_ptr<Data> data);
    std::unique_ptr<Data> data_;
    friend struct SweepReader;
};

struct SweepResult {
    std::optional<SweepDocument> document;
    std::vector<Problem> problems;
};

// Does this text hold a "sweep"? (False for what is not JSON.)
bool is_sweep(std::string_view json_text);

SweepResult parse_sweep(std::string_view json_text, const ParseOptions& options = {});
SweepResult load_sweep(const std::string& path, const std::vector<std::string>& overrides = {},
                       std::shared_ptr<const OwnConstants> constants = {});

} // namespace orrery
