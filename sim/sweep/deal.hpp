// A sweep on processes that mpirun started: rank 0 deals the points out, a few at a time to whoever asks, computes too, and alone writes
// the file; the others compute. Nothing that reached rank 0 is lost: the same command goes on from its file after any end.
#pragma once

#include "sim/ranks/transport.h"
#include "sim/sweep/sweep.hpp"

#include <string>

namespace orrery {

// Rank 0's part; the others call work_for_sweep with the same document. Rows do not depend on the number of ranks.
// Throws std::runtime_error as run_sweep does, and where a rank has another document.
SweepRun deal_sweep(const SweepDocument& document, const std::string& database, const SweepRunOptions& options,
                    const OrreryTransport& transport);
void work_for_sweep(const SweepDocument& document, const OrreryTransport& transport, const Replans& replans = {});

// A row as bytes and back, every bit of it.
std::vector<std::uint8_t> bytes_of(const SweepRow& row);
SweepRow row_of(const std::vector<std::uint8_t>& bytes);

} // namespace orrery
