// A measured step of a job of several processes as one trace.
#pragma once

#include "exec/local/executor.hpp"
#include "exec/simexec/others.hpp"
#include "sim/trace/trace.hpp"

#include <optional>
#include <span>
#include <string>

namespace orrery::simexec {

// record: of this process's ranks, on the clock of all. At rank 0 the trace of all ranks, elsewhere nothing. All processes at once.
std::optional<Trace> merged_trace(const World& world, std::span<const OpTime> record, const std::string& source, const Others& others);

} // namespace orrery::simexec
