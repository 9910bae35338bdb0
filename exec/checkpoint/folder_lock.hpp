// One job at a time writes checkpoints into a folder: two would remove each other's. The lock is the system's, so it is gone with the
// process that holds it, however that ends. Its file `.lock` says who holds it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace orrery {

class FolderLock {
  public:
    // Makes the folder. Where another holds the lock, it waits up to patience_s: a process that was just killed takes a moment to end. A
    // file system without locks lets everyone in.
    explicit FolderLock(const std::filesystem::path& folder, double patience_s = 0);
    ~FolderLock();
    FolderLock(const FolderLock&) = delete;
    FolderLock& operator=(const FolderLock&) = delete;
    // Who holds it, as this machine sees the folder, which it makes; nothing: nobody does.
    static std::optional<std::string> holder(const std::filesystem::path& folder);
    const std::string& problem() const { return problem_; } // why it is not ours, and what to do; "": it is ours

  private:
    std::filesystem::path file_;
    int fd_ = -1; // the open file, where it is ours; -1: it is not
    std::string problem_;
};

} // namespace orrery
