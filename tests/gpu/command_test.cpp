// Does simexec start without a GPU, and say what it lacks?
#include "tests/gpu/device.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>

namespace orrery::test {
namespace {

struct Said {
    int exit;
    std::string text;
};

Said simexec(const std::string& arguments) {
    FILE* pipe = popen((std::string(ORRERY_BINARY_DIR "/bin/simexec ") + arguments + " 2>&1").c_str(), "r");
    Said said{0, {}};
    std::array<char, 4096> part;
    while (const std::size_t n = std::fread(part.data(), 1, part.size(), pipe)) said.text.append(part.data(), n);
    said.exit = WEXITSTATUS(pclose(pipe));
    return said;
}

TEST(Simexec, DoctorSaysWhetherThereIsAGpu) {
    const Said said = simexec("doctor");
    EXPECT_EQ(said.exit, 0) << said.text;
    const Gpu gpu = open_gpu();
    EXPECT_NE(said.text.find(gpu.device ? "CUDA        1" : "CUDA        no GPU can be used: "), std::string::npos) << said.text;
}

TEST(Simexec, WithoutAGpuSaysSoAndStops) {
    if (open_gpu().device) GTEST_SKIP() << "there is a GPU";
    for (const char* command :
         {"run " ORRERY_SOURCE_DIR "/scenarios/tiny-gpt.json --steps 1",
          "run " ORRERY_SOURCE_DIR "/scenarios/tiny-gpt.json --steps 1 --executor queues",
          "check " ORRERY_SOURCE_DIR "/scenarios/tiny-gpt.json", "replay " ORRERY_SOURCE_DIR "/scenarios/tiny-gpt.json", "calibrate"}) {
        const Said said = simexec(std::string(command) + " --device cuda");
        EXPECT_EQ(said.exit, 1) << command << ": " << said.text;
        EXPECT_NE(said.text.find("GPU"), std::string::npos) << command << ": " << said.text;
    }
}

TEST(Simexec, TrainsOnTheGpuByQueues) {
    const Gpu gpu = open_gpu();
    if (!gpu.device) GTEST_SKIP() << gpu.why_not;
    const Said said = simexec("run " ORRERY_SOURCE_DIR "/scenarios/tiny-gpt.json --steps 2 --device cuda --executor queues -q");
    EXPECT_EQ(said.exit, 0) << said.text;
}

TEST(Simexec, TrainsOnTheGpu) {
    const Gpu gpu = open_gpu();
    if (!gpu.device) GTEST_SKIP() << gpu.why_not;
    const Said said = simexec("run " ORRERY_SOURCE_DIR "/scenarios/tiny-gpt.json --steps 2 --device cuda -q");
    EXPECT_EQ(said.exit, 0) << said.text;
}

} // namespace
} // namespace orrery::test
