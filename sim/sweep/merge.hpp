// Results of several machines in one file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orrery {

struct Merged {
    std::int64_t read = 0;   // rows of all files
    std::int64_t added = 0;  // that `into` did not have
    std::int64_t differ = 0; // known already with other figures: another build or processor; those that were there first stay
    std::vector<std::string> first_that_differs{}; // label and file
};

// Adds the rows of the files to `into`, which is made where it is not there. Files that a killed program left are read as far as it had
// committed. Throws std::runtime_error where a file is not there, is no sweep's, or cannot be written.
Merged merge_stores(const std::vector<std::string>& files, const std::string& into);

} // namespace orrery
