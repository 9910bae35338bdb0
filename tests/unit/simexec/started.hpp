// simexec run to its end, for tests of what it prints and leaves.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace orrery::test {

inline const std::string simexec_program = ORRERY_BINARY_DIR "/bin/simexec";
inline const std::string small_job =
    " " ORRERY_SOURCE_DIR "/scenarios/tiny-gpt.json --set model.layers=1 --set model.hidden_size=16 --set training.sequence_length=16 "
    "--set training.global_batch_size=4 --set training.micro_batch_size=1";

inline std::filesystem::path scratch(const std::string& name) {
    return std::filesystem::path(testing::TempDir()) / ("orrery_simexec_" + std::to_string(getpid()) + "_" + name);
}

struct ProgramOutcome {
    int code;
    std::string out, err;
};

inline ProgramOutcome run_simexec(const std::string& arguments) {
    const auto out = scratch("out"), err = scratch("err");
    const int status = std::system((simexec_program + " " + arguments + " > " + out.string() + " 2> " + err.string()).c_str());
    const auto text = [](const std::filesystem::path& file) {
        std::ifstream in(file);
        return std::string{std::istreambuf_iterator<char>(in), {}};
    };
    return {WEXITSTATUS(status), text(out), text(err)};
}

inline nlohmann::json report_of(const std::string& arguments) {
    const ProgramOutcome o = run_simexec(arguments + " --json");
    EXPECT_EQ(o.code, 0) << o.err;
    return nlohmann::json::parse(o.out, nullptr, false);
}

} // namespace orrery::test
