// The output of nccl-tests and rccl-tests as they print it: tables of sizes, times and bandwidths, one or several programs in a file, lines
// prefixed by mpirun ("[1,0]<stdout>:") or srun ("0: ").
#pragma once

#include "sim/plan/work.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

struct NcclRow {
    double bytes = 0; // as nccl-tests counts them: of a gather the whole output
    double out_of_place_us = 0;
    double in_place_us = 0; // 0: not printed
    int line = 0;
    double us() const { return in_place_us > 0 ? 0.5 * (out_of_place_us + in_place_us) : out_of_place_us; }
};

// One table: one program on one set of ranks.
struct NcclCurve {
    std::string file;
    CollectiveKind kind = CollectiveKind::all_reduce;
    std::string program; // "all_reduce"
    std::string assumed; // what of the above the file does not say: "" or words
    int ranks = 0;
    int nodes = 0;         // hosts of the "# Rank" lines; 0: there are none
    std::string device;    // of those lines: "NVIDIA H100 80GB HBM3"
    bool one_byte = false; // elements of one byte
    std::vector<NcclRow> rows;
};

bool looks_like_nccl_tests(std::string_view text);

// Every table of the text. Programs without a collective of ours (sendrecv, gather, scatter, hypercube) are passed over and named in
// `skipped`. Throws std::runtime_error with file and line where a row is damaged, or where the file has no table.
std::vector<NcclCurve> parse_nccl_tests(const std::string& file, std::string_view text, std::vector<std::string>& skipped);

} // namespace orrery
