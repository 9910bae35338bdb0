// Is the message good where a file that describes a machine is damaged? Every file of ingest/ must be refused, with exactly the line beside
// it (.txt). UPDATE_GOLDEN=1 rewrites the lines for review.
#include "topology/ingest/ingest.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace orrery;
namespace fs = std::filesystem;

namespace {

const fs::path ingest_folder = ORRERY_SOURCE_DIR "/tests/errors/ingest";

std::string content_of(const fs::path& path) {
    std::ifstream stream(path, std::ios::binary);
    std::stringstream text;
    text << stream.rdbuf();
    return text.str();
}

std::vector<std::string> damaged_files() {
    std::vector<std::string> names;
    for (const auto& file : fs::directory_iterator(ingest_folder))
        if (file.path().extension() != ".txt") names.push_back(file.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

class Damaged : public testing::TestWithParam<std::string> {};

} // namespace

TEST_P(Damaged, IsRefusedInOneLine) {
    const ingest::InputFile file{GetParam(), content_of(ingest_folder / GetParam())};
    std::string said;
    try {
        (void)ingest::ingest(std::span(&file, 1), {});
    } catch (const ingest::IngestError& e) { said = std::string(e.what()) + "\n"; }
    EXPECT_FALSE(said.empty()) << GetParam() << " must be refused";
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
    const fs::path beside = ingest_folder / (GetParam() + ".txt");
    if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(beside, std::ios::binary) << said;
    EXPECT_EQ(said, content_of(beside));
}

INSTANTIATE_TEST_SUITE_P(Ingest, Damaged, testing::ValuesIn(damaged_files()), [](const auto& test) {
    std::string name = test.param;
    for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    return name;
});
