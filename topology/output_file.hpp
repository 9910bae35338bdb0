// Files that programs write.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

namespace orrery {

struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
};
using OutputFile = std::unique_ptr<std::FILE, CloseFile>;

// Opened to be written from its beginning. Throws InputError with the path and the reason where that cannot be; a pipe that nobody reads
// is such a reason after two seconds, as to open it would wait for a reader without end.
OutputFile open_output(const std::string& path);
// Ends the file. Throws InputError where not all of it was written: `written` says whether each part was, as far as it was asked for.
void close_output(OutputFile file, bool written, const std::string& path);

} // namespace orrery
