#include "exec/simexec/outputs.hpp"

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/queues/launch.hpp"
#include "topology/input_error.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace orrery::simexec {

namespace fs = std::filesystem;

namespace {

// The error number of a write there; 0: none is expected.
int reason_against(fs::path path, bool folder) {
    struct stat about {};
    if (::stat(path.c_str(), &about) == 0) {
        if (folder && !S_ISDIR(about.st_mode)) return ENOTDIR;
        if (!folder && S_ISDIR(about.st_mode)) return EISDIR;
        return ::access(path.c_str(), folder ? W_OK | X_OK : W_OK) == 0 ? 0 : errno;
    }
    if (errno != ENOENT) return errno;
    do path = path.has_parent_path() ? path.parent_path() : fs::path("."); // a folder is made with those above it
    while (folder && ::stat(path.c_str(), &about) != 0 && errno == ENOENT);
    if (::stat(path.c_str(), &about) != 0) return errno;
    if (!S_ISDIR(about.st_mode)) return ENOTDIR;
    return ::access(path.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
}

bool same_folder(const fs::path& a, const fs::path& b) {
    std::error_code none;
    return fs::equivalent(a, b, none);
}

} // namespace

std::string why_unwritable(const std::vector<WantedOutput>& all) {
    for (const WantedOutput& w : all) {
        if (w.path.empty()) continue;
        fs::path path = w.path;
        if (w.folder && !path.has_filename()) path = path.parent_path(); // "runs/a/"
        if (const int reason = reason_against(path, w.folder); reason != 0)
            return fmt::format("{} {}: cannot be written: {}", w.option, w.path, std::strerror(reason));
    }
    return "";
}

std::string why_unwritable(const Options& options, const RunOptions& how) {
    std::vector<WantedOutput> all{{"--checkpoint", how.checkpoint, true}, {"--export-weights", how.export_weights, true}};
    const auto launched = launched_rank();
    if (!launched || launched->rank == 0) // the others, perhaps on machines without these folders, write none
        all.insert(all.end(), {{"-o", options.output}, {"--trace", how.trace}, {"--log", how.log}, {"--routing", how.routing}});
    return why_unwritable(all);
}

std::string holds_other_run(const RunOptions& how) {
    if (how.checkpoint.empty() || !how.watch.empty() || checkpoint_steps(how.checkpoint).empty()) return "";
    if (!how.resume.empty() && (same_folder(how.resume, how.checkpoint) || same_folder(fs::path(how.resume) / "..", how.checkpoint)))
        return "";
    return fmt::format("{0} holds checkpoints of an earlier run: add --resume {0} to go on from them, or name another folder",
                       how.checkpoint);
}

void write_trace_file(const Trace& trace, const std::string& file, const std::string& asked) {
    try {
        if (asked.ends_with(".json"))
            export_perfetto(trace, file);
        else
            save(trace, file);
    } catch (const InputError& e) { throw Unwritten("--trace " + std::string(e.what())); }
}

} // namespace orrery::simexec
