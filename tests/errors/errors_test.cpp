// Is the message good? Every *.json of this folder must fail, with exactly the text beside it. UPDATE_GOLDEN=1 rewrites the texts for
// review.
#include "sim/scenario/parse.hpp"
#include "sim/scenario/sweep.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

using namespace orrery;
namespace fs = std::filesystem;

namespace {

const fs::path folder = ORRERY_SOURCE_DIR "/tests/errors";

std::string text_of(const fs::path& path) {
    std::ifstream stream(path, std::ios::binary);
    std::stringstream text;
    text << stream.rdbuf();
    return text.str();
}

std::vector<std::string> cases() {
    std::vector<std::string> names;
    for (const auto& file : fs::directory_iterator(folder))
        if (file.path().extension() == ".json") names.push_back(file.path().stem().string());
    std::sort(names.begin(), names.end());
    return names;
}

// The text that a program would print for this file; "" where it finds nothing wrong.
std::string message_of(const std::string& text) {
    ParseOptions options;
    options.base_dir = "";
    if (is_sweep(text)) return to_text(parse_sweep(text, options).problems);
    const ParseResult read = parse_scenario(text, options);
    return to_text(read.scenario ? unsupported(*read.scenario) : read.problems);
}

class Message : public testing::TestWithParam<std::string> {};

} // namespace

TEST_P(Message, SaysWhereWhatAndTheWayOut) {
    const std::string said = message_of(text_of(folder / (GetParam() + ".json")));
    EXPECT_FALSE(said.empty()) << GetParam() << ".json must fail";
    const fs::path beside = folder / (GetParam() + ".txt");
    if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(beside, std::ios::binary) << said;
    EXPECT_EQ(said, text_of(beside));
}

INSTANTIATE_TEST_SUITE_P(Errors, Message, testing::ValuesIn(cases()), [](const auto& test) { return test.param; });
