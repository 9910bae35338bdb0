// Tables of measurements: CSV with a header line, plain or gzipped, or a JSON list of rows (bare, or an object's "rows").
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

class OwnConstants;

struct MeasuredTable {
    std::string file;                          // its name without folder
    std::string device;                        // "h100-sxm-80gb" of gemm_h100-sxm-80gb.csv.gz; empty where rows name theirs
    std::map<std::string, std::size_t> column; // by name
    std::vector<std::vector<std::string>> rows;
    std::shared_ptr<const OwnConstants> constants{}; // of a user's own, that a check or a fit starts from

    bool has(std::string_view name) const { return column.contains(std::string(name)); }
    // Both throw std::runtime_error where there is no such column; number() also where the cell is no finite number. An empty cell is 0.
    const std::string& text(std::size_t row, const char* name) const;
    double number(std::size_t row, const char* name) const;
};

// Throws std::runtime_error with file and line where it cannot be read.
MeasuredTable read_table(const std::string& path);
MeasuredTable parse_table(const std::string& name, const std::string& csv);
MeasuredTable parse_json_table(const std::string& name,
                               const std::string& text); // a cell: text as it is, all else as JSON; "" where a row has none

} // namespace orrery
