// Whose folder of checkpoints it is: one supervisor's at a time. Where an earlier one was killed, its ranks save and end by themselves; who
// does not, for he is stopped, is ended, so that no two runs ever write to one folder.
#pragma once

#include <filesystem>
#include <string>

namespace orrery {

class FolderOwner {
  public:
    // `watch`: where the ranks' signs of life are. Waits `patience_s` for what is left of an earlier run on this machine.
    FolderOwner(std::filesystem::path folder, const std::filesystem::path& watch, double patience_s = 10);
    ~FolderOwner();
    FolderOwner(const FolderOwner&) = delete;
    FolderOwner& operator=(const FolderOwner&) = delete;
    const std::string& problem() const { return problem_; } // why it is not ours; "": it is

  private:
    std::filesystem::path file_;
    std::string problem_;
};

} // namespace orrery
