// Does a checkpoint come back as it was, whatever shards it was written from, and is it there completely or not at all?
#include "exec/checkpoint/checkpoint.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>
#include <sys/resource.h>
#include <unistd.h>

namespace orrery {
namespace {

namespace fs = std::filesystem;

class Checkpoints : public testing::Test {
  protected:
    fs::path folder = fs::temp_directory_path() / ("orrery-checkpoint-" + std::to_string(::getpid()));
    std::vector<double> values = std::vector<double>(4 * 6 * 5);
    CheckpointState state{200, 0xfedcba9876543210u, {{"corpus", "a \"text\".txt"}}};

    void SetUp() override {
        fs::remove_all(folder);
        std::iota(values.begin(), values.end(), 0.25);
    }
    void TearDown() override { fs::remove_all(folder); }

    const std::byte* data() const { return reinterpret_cast<const std::byte*>(values.data()); }
    CheckpointPiece all() const { return whole("parameters/w", {4, 6, 5}, DType::fp64, data()); }
    void expect_values(const Checkpoint& c) const {
        ASSERT_TRUE(c.tensors.contains("parameters/w"));
        const CheckpointTensor& t = c.tensors.at("parameters/w");
        EXPECT_EQ(t.shape, (std::vector<std::int64_t>{4, 6, 5}));
        ASSERT_EQ(t.data.size(), values.size() * 8);
        EXPECT_EQ(std::memcmp(t.data.data(), values.data(), t.data.size()), 0);
    }
    std::string complaint() const {
        try {
            load_checkpoint(folder);
        } catch (const std::runtime_error& e) {
            EXPECT_TRUE(std::string(e.what()).starts_with(folder.string())) << e.what();
            return e.what();
        }
        return {};
    }
};

TEST_F(Checkpoints, ComeBackAsTheyWere) {
    const float scalar = 0.1f;
    save_checkpoint(folder, state,
                    std::vector{all(), whole("loss_scale", {}, DType::fp32, reinterpret_cast<const std::byte*>(&scalar)),
                                whole("empty", {0, 3}, DType::fp32, nullptr)});
    const Checkpoint c = load_checkpoint(folder);
    EXPECT_EQ(c.state.step, 200);
    EXPECT_EQ(c.state.seed, state.seed);
    EXPECT_EQ(c.state.facts, state.facts);
    expect_values(c);
    float back = 0;
    std::memcpy(&back, c.tensors.at("loss_scale").data.data(), 4);
    EXPECT_EQ(back, scalar);
    EXPECT_TRUE(c.tensors.at("empty").data.empty());
    expect_values(load_checkpoint(folder / "step-00000200"));
}

// An index that somebody changed is refused; one without a checksum, as programs before it wrote them, is taken as it is.
TEST_F(Checkpoints, OfAChangedIndexAreRefused) {
    save_checkpoint(folder, state, std::vector{all()});
    const fs::path index = folder / "step-00000200" / "state.json";
    std::ifstream in(index);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto put = [&](const std::string& step, bool sum) {
        std::string changed = text;
        const std::string from = "\"step\": 200";
        ASSERT_NE(changed.find(from), std::string::npos) << text;
        changed.replace(changed.find(from), from.size(), "\"step\": " + step);
        if (!sum)
            changed.replace(changed.find(",\n \"checksum\""), changed.rfind('\n', changed.size() - 2) - changed.find(",\n \"checksum\""),
                            "");
        std::ofstream(index) << changed;
    };
    EXPECT_EQ(complaint(), "");
    put("150", true);
    EXPECT_NE(complaint().find("its checksum does not match"), std::string::npos) << complaint();
    put("200", false);
    EXPECT_EQ(complaint(), "");
    put("-3", false);
    EXPECT_NE(complaint().find("is of step -3"), std::string::npos) << complaint();
}

// Shards over two dimensions, each cut again flat as ZeRO does, in parts of several processes.
TEST_F(Checkpoints, AreWholeFromShardsOfAnyStrategy) {
    for (const int flat : {1, 2, 3}) {
        const CheckpointDraft draft(folder, 7);
        std::vector<std::vector<double>> kept;
        int part = 0;
        for (std::int64_t r = 0; r < 2; ++r)
            for (std::int64_t c = 0; c < 3; ++c) {
                std::vector<double> box; // rows 2 r.., columns 2 c..
                for (std::int64_t i = 2 * r; i < 2 * r + 2; ++i)
                    for (std::int64_t j = 2 * c; j < 2 * c + 2; ++j)
                        for (std::int64_t k = 0; k < 5; ++k) box.push_back(values[(i * 6 + j) * 5 + k]);
                const auto size = static_cast<std::int64_t>(box.size());
                kept.push_back(std::move(box));
                for (int f = 0; f < flat; ++f) {
                    const std::int64_t begin = size * f / flat, end = size * (f + 1) / flat;
                    const CheckpointPiece piece{
                        "parameters/w", {4, 6, 5},   {2 * r, 2 * c, 0}, {2, 2, 5},
                        begin,          end - begin, DType::fp64,       reinterpret_cast<const std::byte*>(kept.back().data() + begin)};
                    draft.write_part(part++, std::vector{piece});
                }
            }
        EXPECT_TRUE(checkpoint_steps(folder).empty() || flat > 1) << "not sealed yet";
        draft.seal({7, 1, {}}, part);
        expect_values(load_checkpoint(folder));
    }
}

TEST_F(Checkpoints, OfManyTheNewestIsTakenAndOldOnesGo) {
    for (std::int64_t step : {1, 2, 10}) {
        state.step = step;
        save_checkpoint(folder, state, std::vector{all()}, 2);
    }
    EXPECT_EQ(checkpoint_steps(folder), (std::vector<std::int64_t>{2, 10}));
    EXPECT_EQ(load_checkpoint(folder).state.step, 10);
    fs::create_directories(folder / ".step-00000011.draft");
    fs::create_directories(folder / "step-00000012"); // a folder without its state is none
    EXPECT_EQ(load_checkpoint(folder).state.step, 10);
}

TEST_F(Checkpoints, EveryByteThatChangesIsSeen) {
    save_checkpoint(folder, state, std::vector{all()});
    const fs::path part = folder / "step-00000200" / "part-0";
    std::ifstream in(part, std::ios::binary);
    const std::string good{std::istreambuf_iterator<char>(in), {}};
    for (std::size_t i = 0; i < good.size(); ++i) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ 0x10);
        fs::remove(part); // overwriting a file makes ext4 flush it
        std::ofstream(part, std::ios::binary) << bad;
        EXPECT_NE(complaint(), "") << "byte " << i;
    }
    std::ofstream(part, std::ios::binary) << good.substr(0, good.size() / 2);
    EXPECT_NE(complaint().find("bytes where"), std::string::npos);
    std::ofstream(part, std::ios::binary) << good;
    EXPECT_EQ(complaint(), "");
    fs::remove(part);
    EXPECT_NE(complaint().find("part-0 is missing"), std::string::npos) << complaint();
}

TEST_F(Checkpoints, AMissingPieceIsNamed) {
    CheckpointPiece most = all();
    most.count -= 1;
    save_checkpoint(folder, state, std::vector{most});
    EXPECT_NE(complaint().find("parameters/w is not whole"), std::string::npos) << complaint();
    EXPECT_THROW(load_checkpoint(folder / "nowhere"), std::runtime_error);
}

// A file may grow to a kilobyte here, as on a full disk: the write fails, what was there before stays.
TEST_F(Checkpoints, AFullDiskLeavesTheOneBefore) {
    values.resize(200);
    const auto small = whole("parameters/w", {4}, DType::fp64, data()), large = whole("parameters/w", {200}, DType::fp64, data());
    state.step = 1;
    save_checkpoint(folder, state, std::vector{small});
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    rlimit tight = before;
    tight.rlim_cur = 1024;
    const auto old = std::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
    state.step = 2;
    std::string said;
    try {
        CheckpointWriter writer(folder);
        writer.begin(state, std::vector{large});
        writer.finish();
    } catch (const std::runtime_error& e) { said = e.what(); }
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, old);
    EXPECT_NE(said.find("cannot write the checkpoint"), std::string::npos) << said;
    EXPECT_EQ(load_checkpoint(folder).state.step, 1);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator{}), 1) << "a draft was left behind";
}

TEST_F(Checkpoints, WrittenBehindTheCallersBackHoldWhatItWasThen) {
    CheckpointWriter writer(folder);
    const std::vector<double> then = values;
    writer.begin(state, std::vector{all()});
    std::ranges::fill(values, -1); // training goes on
    writer.finish();
    values = then;
    expect_values(load_checkpoint(folder));
}

} // namespace
} // namespace orrery
