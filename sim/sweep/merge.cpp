#include "sim/sweep/merge.hpp"

#include "sim/scenario/input_file.hpp"
#include "sim/sweep/store.hpp"

#include <filesystem>
#include <stdexcept>

namespace orrery {
namespace {

// A part that was killed before its first point leaves an empty file. SQLite would make a database of it, or wait for a pipe.
bool has_points(const std::string& file) {
    std::error_code failed;
    return std::filesystem::file_size(file, failed) > 0;
}

void refuse_other_files(const std::vector<std::string>& files) {
    for (const std::string& file : files) {
        std::error_code failed;
        if (std::filesystem::is_regular_file(file, failed)) continue; // of any size
        throw std::runtime_error(file + " " + unreadable(file));
    }
}

} // namespace

Merged merge_stores(const std::vector<std::string>& files, const std::string& into) {
    refuse_other_files(files); // before anything is written
    SweepStore target(into);
    std::map<std::string, SweepRow> known = target.rows();
    Merged merged;
    for (const std::string& file : files) {
        std::error_code failed;
        if (std::filesystem::equivalent(file, into, failed) || !has_points(file)) continue;
        std::vector<SweepRow> fresh;
        for (auto& [hash, row] : SweepStore(file).rows()) {
            ++merged.read;
            const auto [it, added] = known.emplace(hash, row);
            if (added)
                fresh.push_back(row);
            else if (!(it->second == row) && ++merged.differ == 1)
                merged.first_that_differs = {row.label, file};
        }
        target.commit(fresh);
        merged.added += static_cast<std::int64_t>(fresh.size());
    }
    return merged;
}

} // namespace orrery
