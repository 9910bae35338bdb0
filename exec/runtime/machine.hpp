// The machine of this process, for traces and reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orrery {

std::string processor_name(); // "AMD EPYC 9B45": of the first processor; "unknown processor"
int processors();             // that this process may use
int online_processors();      // that the machine has

std::int64_t physical_memory(); // bytes, of the whole machine

// A library that a part of the program needs and may do without.
struct Library {
    std::string what, file;
    bool found = false;
    std::string detail;
};
std::vector<Library> optional_libraries();

} // namespace orrery
