#include "sim/sweep/merge.hpp"

#include "sim/sweep/store.hpp"

#include <filesystem>
#include <stdexcept>

namespace orrery {

Merged merge_stores(const std::vector<std::string>& files, const std::string& into) {
    for (const std::string& file : files) // before anything is written
        if (!std::filesystem::exists(file)) throw std::runtime_error("there is no file " + file + ": name files that sweeps have written");
    SweepStore target(into);
    std::map<std::string, SweepRow> known = target.rows();
    Merged merged;
    for (const std::string& file : files) {
        std::error_code failed;
        if (std::filesystem::equivalent(file, into, failed)) continue;
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
