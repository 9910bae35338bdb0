// Does ./dev leave what is built alone? Run in a folder of its own, where cmake and ninja only take notes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>

namespace {

namespace fs = std::filesystem;

class Dev : public testing::Test {
  protected:
    void SetUp() override {
        fs::create_directories(root_ / "tools");
        fs::copy_file(fs::path(ORRERY_SOURCE_DIR) / "dev", root_ / "dev");
        tool("cmake",
             R"(while [[ $# -gt 0 ]]; do case $1 in -B) build=$2 ;; -S) from=$2 ;; -DORRERY_WERROR=*) werror=${1#*=} ;;
 -DORRERY_UNITY=*) unity=${1#*=} ;; esac; shift; done
old() { sed -n "s/^$1:BOOL=//p" "$build/CMakeCache.txt" 2>/dev/null || true; }
werror=${werror:-$(old ORRERY_WERROR)} unity=${unity:-$(old ORRERY_UNITY)}
echo "${werror:-unasked}${unity:+,together $unity}" >>"$from/configured"
printf 'CMAKE_HOME_DIRECTORY:INTERNAL=%s\nORRERY_WERROR:BOOL=%s\nORRERY_UNITY:BOOL=%s\n' "$from" "$werror" "$unity" >"$build/CMakeCache.txt"
touch "$build/build.ninja")");
        tool("ninja", "mkdir -p \"$2/bin\"; printf '#!/bin/sh\\n' >\"$2/bin/simrun\"; chmod +x \"$2/bin/simrun\"");
        tool("ctest", "exit 0");
    }
    void TearDown() override { fs::remove_all(root_); }
    void dev(const std::string& words) {
        const std::string line = "cd '" + root_.string() +
                                 "' && unset ORRERY_WERROR ORRERY_UNITY; PATH=\"$PWD/tools:$PATH\" ORRERY_SKIP_PACKAGES=1 " + words +
                                 " >/dev/null 2>&1";
        EXPECT_EQ(std::system(line.c_str()), 0) << words;
    }
    // The options it was configured with, one time after the other.
    std::string configured() const {
        std::ifstream in(root_ / "configured");
        std::string text{std::istreambuf_iterator<char>(in), {}};
        std::ranges::replace(text, '\n', ' ');
        return text;
    }

  private:
    void tool(const std::string& name, const std::string& script) {
        const fs::path file = root_ / "tools" / name;
        std::ofstream(file) << "#!/usr/bin/env bash\n" << script << "\n";
        fs::permissions(file, fs::perms::owner_all);
    }
    fs::path root_ = fs::path(testing::TempDir()) / ("orrery_dev_" + std::to_string(getpid()));
};

TEST_F(Dev, RunBehindTestRebuildsNothing) {
    dev("ORRERY_WERROR=1 ./dev test");
    dev("./dev run x.json");
    dev("./dev test");
    EXPECT_EQ(configured(), "ON ");
    dev("ORRERY_WERROR=0 ./dev run x.json");
    dev("./dev run x.json");
    EXPECT_EQ(configured(), "ON OFF ");
}

TEST_F(Dev, RunBehindCiRebuildsNothing) {
    dev("ORRERY_WERROR=1 ORRERY_UNITY=1 ./dev test");
    dev("./dev run x.json");
    EXPECT_EQ(configured(), "ON,together ON ");
    dev("ORRERY_UNITY=0 ./dev build");
    dev("./dev run x.json");
    EXPECT_EQ(configured(), "ON,together ON ON,together OFF ");
}

// Unasked, the compiler decides whether warnings are errors (CMakeLists.txt), and nothing is configured twice.
TEST_F(Dev, SaysNothingOfWarningsUntilAskedFor) {
    dev("./dev run x.json");
    dev("./dev test");
    EXPECT_EQ(configured(), "unasked ");
    dev("ORRERY_WERROR=1 ./dev test");
    EXPECT_EQ(configured(), "unasked ON ");
}

} // namespace
