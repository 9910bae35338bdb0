// Does each chunk hold the layers DESIGN says it holds?
#include "sim/scenario/layers.hpp"
#include "sim/scenario/parse.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <numeric>
#include <string>
#include <vector>

using namespace orrery;

namespace {

ParseResult pipeline(int layers, int stages, int chunks, const std::string& schedule, const std::string& split = "") {
    const std::string text = R"({"model": {"layers": )" + std::to_string(layers) +
                             R"(, "hidden_size": 256, "attention_heads": 8, "vocab_size": 1000},
        "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": )" +
                             std::to_string(stages) + R"(},
        "training": {"global_batch_size": 64, "sequence_length": 128},
        "strategy": {"pipeline_parallel": )" +
                             std::to_string(stages) + R"(, "virtual_pipeline": )" + std::to_string(chunks) + R"(, "schedule": ")" +
                             schedule + "\"" + (split.empty() ? "" : ", \"layer_split\": " + split) + "}}";
    return parse_scenario(text);
}

std::vector<int> chunks_of(const ParseResult& result) {
    EXPECT_TRUE(result.scenario) << to_text(result.problems);
    return result.scenario ? result.scenario->strategy.layers_per_chunk : std::vector<int>{};
}

using List = std::vector<int>;

} // namespace

TEST(Layers, LlamasListPerStageShortensTheFirstAndTheLastChunk) {
    const ParseResult read = load_scenario(ORRERY_SOURCE_DIR "/scenarios/llama3-405b-16k-h100.json");
    const List chunks = chunks_of(read);
    ASSERT_EQ(chunks.size(), 128u);
    EXPECT_EQ(chunks.front(), 0);
    EXPECT_EQ(chunks.back(), 0);
    for (std::size_t c = 1; c + 1 < chunks.size(); ++c) EXPECT_EQ(chunks[c], 1) << c;
}

TEST(Layers, WithoutAListTheyAreEvenAndTheFirstThenTheLastGoShort) {
    EXPECT_EQ(chunks_of(pipeline(16, 4, 1, "1f1b")), (List{4, 4, 4, 4}));
    EXPECT_EQ(chunks_of(pipeline(15, 4, 1, "1f1b")), (List{3, 4, 4, 4}));
    EXPECT_EQ(chunks_of(pipeline(14, 4, 1, "1f1b")), (List{3, 4, 4, 3}));
    EXPECT_EQ(chunks_of(pipeline(13, 4, 1, "1f1b")), (List{3, 3, 4, 3}));
    EXPECT_EQ(chunks_of(pipeline(6, 4, 2, "interleaved-1f1b")), (List{0, 1, 1, 1, 1, 1, 1, 0}));
}

TEST(Layers, AListPerChunkIsTakenAsItIs) {
    EXPECT_EQ(chunks_of(pipeline(8, 2, 2, "interleaved-1f1b", "[1, 3, 2, 2]")), (List{1, 3, 2, 2}));
}

// Stage 0 holds chunks 0 and 2, stage 1 chunks 1 and 3; 3 = 1 + 2 where the first is short, 2 + 1 where the last is.
TEST(Layers, AListPerStageIsSpreadOverItsChunksInModelOrder) {
    EXPECT_EQ(chunks_of(pipeline(7, 2, 2, "interleaved-1f1b", "[3, 4]")), (List{1, 2, 2, 2}));
    EXPECT_EQ(chunks_of(pipeline(7, 2, 2, "interleaved-1f1b", "[4, 3]")), (List{2, 2, 2, 1}));
}

// zb-v: stage 0 holds chunks 0 and 3, the first and the last of the model.
TEST(Layers, ASchedulesThatFoldsBackPutsTheLastChunkOnTheFirstStage) {
    EXPECT_EQ(chunks_of(pipeline(7, 2, 2, "zb-v", "[3, 4]")), (List{1, 2, 2, 2}));
}

TEST(Layers, EvenSplitsAddUpAndDifferByOne) {
    for (int layers = 1; layers < 70; ++layers) {
        for (int parts = 1; parts <= layers; ++parts) {
            const List split = even_split(layers, parts);
            EXPECT_EQ(std::accumulate(split.begin(), split.end(), 0), layers);
            const auto [least, most] = std::minmax_element(split.begin(), split.end());
            EXPECT_LE(*most - *least, 1);
        }
    }
}

// Stages of 1/p of the weights of layers and output layer, the block that passes the share still in: the 1.1B of the validation set, whose
// logged memory of the first stage (18 bytes a parameter) is that of 4 layers of 8 stages and 2 of 16. A stage between is never empty here.
TEST(Layers, NanotronDividesByCost) {
    const auto stages = [](int count) {
        ParseOptions options;
        options.overrides = {"strategy.pipeline_parallel=" + std::to_string(count)};
        const ParseResult read =
            parse_scenario(R"({"model": {"layers": 24, "hidden_size": 2048, "attention_heads": 32, "ffn_size": 4096, "vocab_size": 50257},
            "cluster": {"preset": "dgx-a100-80gb", "nodes": 2}, "strategy": {"framework": "nanotron", "schedule": "1f1b"},
            "training": {"global_batch_size": 64, "sequence_length": 128}})",
                           options);
        return chunks_of(read);
    };
    EXPECT_EQ(stages(2), (List{14, 10}));
    EXPECT_EQ(stages(4), (List{7, 7, 6, 4}));
    EXPECT_EQ(stages(8), (List{4, 3, 3, 4, 3, 3, 4, 0}));
    EXPECT_EQ(stages(16), (List{2, 2, 1, 2, 2, 1, 2, 2, 1, 2, 2, 1, 2, 1, 1, 0}));
}

TEST(Layers, RecomputeLayersBecomeOneCountAStage) {
    ParseOptions options;
    options.overrides = {"strategy.recompute=full", "strategy.recompute_layers=5", "strategy.pipeline_parallel=4"};
    options.overrides.push_back("model.layers=18");
    const ParseResult read = parse_scenario(R"({"model": {"layers": 1, "hidden_size": 256, "attention_heads": 8, "vocab_size": 1000},
        "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 4}, "training": {"global_batch_size": 64, "sequence_length": 128}})",
                                            options);
    ASSERT_TRUE(read.scenario) << to_text(read.problems);
    EXPECT_EQ(read.scenario->strategy.layers_per_chunk, (List{4, 5, 5, 4}));
    EXPECT_EQ(read.scenario->strategy.recompute_layers, (List{4, 5, 5, 4}));
}

// Megatron's unit test of layouts has an empty chunk in the middle; a stage of nothing else holds no parameter.
TEST(Layers, AChunkInTheMiddleMayBeEmptyWhereItsStageIsNot) {
    EXPECT_EQ(chunks_of(pipeline(4, 2, 2, "interleaved-1f1b", "[2, 1, 0, 1]")), (List{2, 1, 0, 1}));
    const auto refused = [](const ParseResult& read, const char* why) {
        ASSERT_FALSE(read.scenario);
        EXPECT_NE(to_text(read.problems).find(why), std::string::npos) << to_text(read.problems);
    };
    refused(pipeline(4, 4, 1, "1f1b", "[2, 0, 2, 0]"), "leaves stage 1 of 4 without a layer");
    refused(pipeline(4, 2, 2, "zb-v", "[2, 0, 1, 1]"), "leaves chunk 1 of 4 without a layer");
}

TEST(Layers, FurtherTokensHaveAChunkBehindAllLayersOnALaterStage) {
    const auto with = [](const std::string& split, int chunk, int mtp_layers = 1) {
        ParseOptions options;
        options.overrides = {"model.mtp_layers=" + std::to_string(mtp_layers), "strategy.mtp_chunk=" + std::to_string(chunk)};
        return parse_scenario(R"({"model": {"layers": 4, "hidden_size": 256, "attention_heads": 8, "vocab_size": 1000},
            "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
            "training": {"global_batch_size": 64, "sequence_length": 128},
            "strategy": {"pipeline_parallel": 4, "virtual_pipeline": 2, "schedule": "interleaved-1f1b", "layer_split": )" +
                                  split + "}}",
                              options);
    };
    const auto chunk_of = [&](const ParseResult& read) {
        EXPECT_TRUE(read.scenario) << to_text(read.problems);
        return read.scenario ? read.scenario->strategy.mtp_chunk : -2;
    };
    EXPECT_EQ(chunk_of(with("[1, 1, 0, 1, 1, 0, 0, 0]", 6)), 6);
    EXPECT_EQ(chunk_of(with("[1, 1, 1, 1, 0, 0, 0, 0]", 7)), -1) << "the last, where they are anyhow";
    EXPECT_EQ(chunk_of(with("[1, 1, 1, 1, 0, 0, 0, 0]", 6, 0)), -1) << "there are none";
    for (const auto& [split, chunk, why] : {std::tuple{"[1, 1, 0, 1, 0, 0, 0, 1]", 6, "has layers behind it"},
                                            {"[1, 1, 1, 1, 0, 0, 0, 0]", 4, "on the first stage"},
                                            {"[1, 3, 0, 0, 0, 0, 0, 0]", 2, "not the last chunk of its stage"},
                                            {"[1, 1, 1, 1, 0, 0, 0, 0]", 8, "none of the 8 chunks"}}) {
        const ParseResult read = with(split, chunk);
        ASSERT_FALSE(read.scenario) << split;
        EXPECT_NE(to_text(read.problems).find(why), std::string::npos) << to_text(read.problems);
    }
}

TEST(Layers, GroupsOfMicrobatchesAreOfInterleavedSchedulesAlone) {
    const auto with = [](const std::string& schedule, int stages, int chunks, int group) {
        ParseOptions options;
        options.overrides = {"strategy.microbatch_group_size=" + std::to_string(group),
                             "strategy.schedule=" + schedule,
                             "strategy.virtual_pipeline=" + std::to_string(chunks),
                             "strategy.pipeline_parallel=" + std::to_string(stages),
                             "model.layers=8",
                             "cluster.devices_per_node=" + std::to_string(stages)};
        return parse_scenario(R"({"model": {"layers": 8, "hidden_size": 256, "attention_heads": 8, "vocab_size": 1000},
            "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
            "training": {"global_batch_size": 14, "sequence_length": 128}, "strategy": {"pipeline_parallel": 4}})",
                              options);
    };
    const ParseResult grouped = with("interleaved-1f1b", 4, 2, 5), plain = with("1f1b", 4, 1, 5), few = with("interleaved-1f1b", 4, 2, 3);
    ASSERT_TRUE(grouped.scenario) << to_text(grouped.problems); // 14 microbatches are 5, 5 and 4
    EXPECT_EQ(grouped.scenario->strategy.microbatch_group(), 5);
    ASSERT_TRUE(plain.scenario) << to_text(plain.problems);
    EXPECT_EQ(plain.scenario->strategy.microbatch_group(), 4);
    bool noted = false;
    for (const std::string& n : plain.scenario->notes) noted = noted || n.find("microbatch_group_size has no effect") != std::string::npos;
    EXPECT_TRUE(noted);
    ASSERT_FALSE(few.scenario);
    EXPECT_EQ(few.problems.front().where, "/strategy/microbatch_group_size");
}
