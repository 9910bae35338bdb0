// Does a folder of checkpoints belong to one run at a time, and to nobody once that run is gone?
#include "exec/checkpoint/folder_lock.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <optional>
#include <sys/wait.h>
#include <unistd.h>

namespace orrery {
namespace {

namespace fs = std::filesystem;

class FolderLocks : public testing::Test {
  protected:
    fs::path folder = fs::temp_directory_path() / ("orrery-lock-" + std::to_string(::getpid()));
    void TearDown() override { fs::remove_all(folder); }
};

TEST_F(FolderLocks, OneAtATime) {
    std::optional<FolderLock> first(folder);
    EXPECT_EQ(first->problem(), "");
    const FolderLock second(folder);
    EXPECT_NE(second.problem().find(folder.string() + " is in use"), std::string::npos) << second.problem();
    EXPECT_NE(second.problem().find("process " + std::to_string(getpid())), std::string::npos) << second.problem();
    EXPECT_NE(second.problem().find("name another folder"), std::string::npos) << second.problem();
    first.reset();
    EXPECT_FALSE(fs::exists(folder / ".lock"));
    EXPECT_EQ(FolderLock(folder).problem(), "");
}

// A process that is killed takes its lock with it; whoever waits for that gets it.
TEST_F(FolderLocks, AKilledProcessHoldsNone) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        const FolderLock lock(folder);
        const char byte = lock.problem().empty() ? 'y' : 'n';
        if (write(ready[1], &byte, 1) == 1) pause();
        _exit(1);
    }
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'y');
    EXPECT_NE(FolderLock(folder).problem(), "");
    kill(child, SIGKILL);
    EXPECT_EQ(FolderLock(folder, 10).problem(), "");
    waitpid(child, nullptr, 0);
    close(ready[0]);
    close(ready[1]);
}

TEST_F(FolderLocks, AFileInItsPlaceIsNamed) {
    std::ofstream(folder) << "a file";
    const FolderLock lock(folder);
    EXPECT_NE(lock.problem().find("cannot be opened: Not a directory"), std::string::npos) << lock.problem();
}

} // namespace
} // namespace orrery
