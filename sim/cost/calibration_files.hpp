// Reading calibration files: shared by calibration.cpp, calibration_links.cpp and calibration_fabric.cpp, included by nobody else.
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

// A user's own fabric (use_calibration found "what": "fabric"): serves clusters of its kinds and NIC rates from now on. Throws where a
// constant is missing.
void use_fabric(const Json& j);

} // namespace orrery::calibration
