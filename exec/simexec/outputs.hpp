// Files and folders that a subcommand is asked to write. They are looked at before anything is trained.
#pragma once

#include "exec/simexec/command.hpp"
#include "sim/trace/trace.hpp"

#include <span>
#include <string>
#include <vector>

namespace orrery::simexec {

// An option and what it names; an empty path: it was not given.
struct WantedOutput {
    const char* option;
    std::string path;
    bool folder = false; // it is made where it is not there
};

// Why one of them cannot be written, as far as that can be told without writing; empty: all can.
std::string why_unwritable(const std::vector<WantedOutput>& all);
// The same of all that this process of `run` writes.
std::string why_unwritable(const Options& options, const RunOptions& how);

// Why a run must not write checkpoints into its folder: it does not go on from those there, and would remove them. Empty: it may.
std::string holds_other_run(const RunOptions& how);

// For Perfetto where --trace asked for a name in .json, else compact. Throws Unwritten.
void write_trace_file(const Trace& trace, const std::string& file, const std::string& asked);

} // namespace orrery::simexec
