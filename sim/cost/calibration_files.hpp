// Reading calibration files: shared by calibration_*.cpp and own_constants.cpp, included by nobody else.
#pragma once

#include "sim/cost/calibration.hpp"

#include <nlohmann/json_fwd.hpp>

namespace orrery::calibration {

using Json = nlohmann::json;

[[noreturn]] void broken(std::string_view file, std::string_view what); // a mistake in a file of ours: says so and aborts
const Json& parsed(const EmbeddedFile& file);                           // one of calibration_files(); parsed once a process
std::vector<const Json*> files_of(std::string_view what);               // those whose name begins so, in order of names
Source source_of(const Json& j);
bool lists(const Json& j, const std::string& text); // whether an array has this text
double rate(const Json& j, const char* key);        // GB/s to bytes/us

void replace_groups(KernelTables& t, const Json& file); // by those the file states

// A user's own fabric ("what": "fabric"): throws where a constant is missing or is not what it must be.
void check_fabric(const Json& j);
bool serves(const Json& fabric, const Cluster& cluster); // it names the cluster's kind and the rate of its NICs
FabricTable own_fabric(const Json& j);

} // namespace orrery::calibration
