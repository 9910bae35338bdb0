// Mutated files of every format that `simrun ingest` reads: each gives a cluster that the parser takes, or one clear line. Never a crash.
// ORRERY_FUZZ_INGEST sets how many are tried, ORRERY_FUZZ_SEED where to begin.
#include "sim/scenario/parse.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "topology/ingest/ingest.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace orrery;
namespace fs = std::filesystem;

namespace {

std::vector<ingest::InputFile> seeds() {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(ORRERY_SOURCE_DIR "/tests/unit/ingest/files")) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    std::vector<ingest::InputFile> out;
    for (const fs::path& path : paths) {
        std::ifstream stream(path, std::ios::binary);
        std::stringstream text;
        text << stream.rdbuf();
        out.push_back({path.filename().string(), text.str()});
    }
    return out;
}

// One damage: a byte, a cut, a line twice, a line gone, two lines exchanged, a number made huge, a piece of another file.
void damage(std::string& text, fuzz::Random& random, const std::vector<ingest::InputFile>& others) {
    if (text.empty()) return;
    const auto at = [&] { return random.next() % text.size(); };
    const auto line_at = [&] {
        const std::size_t begin = text.rfind('\n', at());
        const std::size_t from = begin == std::string::npos ? 0 : begin + 1;
        return std::pair(from, std::min(text.find('\n', from), text.size() - 1) + 1 - from);
    };
    switch (random.next() % 8) {
    case 0:
        text[at()] = static_cast<char>(random.next());
        break;
    case 1:
        text.resize(at());
        break;
    case 2: {
        const auto [from, n] = line_at();
        text.insert(from, text.substr(from, n));
        break;
    }
    case 3: {
        const auto [from, n] = line_at();
        text.erase(from, n);
        break;
    }
    case 4:
        text.erase(at(), random.next() % 20);
        break;
    case 5: {
        const std::size_t digit = text.find_first_of("0123456789", at());
        if (digit != std::string::npos)
            text.replace(digit, 1, random.of({"", "-", "0", "99999999", "1e308", "nan", "18446744073709551616", "0x"}));
        break;
    }
    case 6: {
        const std::string& other = others[random.next() % others.size()].text;
        text.insert(at(), other.substr(random.next() % other.size(), 200));
        break;
    }
    default:
        text.insert(at(), random.of({"<", ">", "\"", "[", "]", "{", "}", ":", "\n", "- ", "\t", "&", "GPU0", "\xff"}));
    }
}

} // namespace

TEST(FuzzIngest, DamagedFilesGiveAClusterOrOneLine) {
    const auto files = seeds();
    ASSERT_GE(files.size(), 9u);
    fuzz::Random random{static_cast<std::uint64_t>(fuzz::setting("ORRERY_FUZZ_SEED", 1))};
    int taken = 0, refused = 0;
    for (int i = 0; i < fuzz::setting("ORRERY_FUZZ_INGEST", 4000); ++i) {
        ingest::InputFile file = files[static_cast<std::size_t>(i) % files.size()];
        for (std::uint64_t n = 1 + random.next() % 4; n > 0; --n) damage(file.text, random, files);
        ingest::IngestOptions options;
        options.device = "h100-sxm-80gb";
        options.graph = random.chance(25);
        SCOPED_TRACE(fmt::format("number {} ({}):\n{}", i, file.name, file.text));
        try {
            const auto result = ingest::ingest(std::span(&file, 1), options);
            const nlohmann::json scenario{{"model", "gpt2-124m"}, {"cluster", nlohmann::json::parse(result.cluster)}};
            for (const Problem& p : parse_scenario(scenario.dump(), {}).problems)
                EXPECT_FALSE(p.where.starts_with("/cluster")) << p.what << result.cluster;
            ++taken;
        } catch (const ingest::IngestError& e) {
            const std::string said = e.what();
            EXPECT_TRUE(said.starts_with(file.name)) << said;
            EXPECT_EQ(said.find('\n'), std::string::npos) << said;
            EXPECT_LT(said.size(), 500u) << said;
            ++refused;
        }
        if (HasFailure()) return;
    }
    EXPECT_GT(taken, 0);
    EXPECT_GT(refused, 0);
}
