// Is a file read as its bytes say, and is a file that lies refused in one line?
#include "written.hpp"

#include "exec/weights/safetensors.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

std::string refusal(const std::string& bytes, const char* name = "lies.safetensors") {
    const auto file = scratch_folder("hostile") / name;
    write_file(file, bytes);
    try {
        const SafeTensors read(file);
        return "";
    } catch (const std::runtime_error& e) {
        EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
        EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
        return e.what();
    }
}

// The bytes of a file as the format's own page lays them out.
TEST(SafeTensors, ReadsAFileWrittenByHand) {
    const std::string header =
        R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
        R"("b":{"dtype":"BF16","shape":[1,2],"data_offsets":[8,12]},"c":{"dtype":"F16","shape":[4],"data_offsets":[12,20]},)"
        R"("n":{"dtype":"I64","shape":[],"data_offsets":[20,28]}}  )";
    const std::string bytes("\x00\x00\x80\x3f\x00\x00\x20\xc0" // 1, -2.5
                            "\x80\x3f\x49\x40"                 // 1, 3.140625
                            "\x00\x3c\x00\xc1\x01\x00\x00\x7c" // 1, -2.5, 2^-24, infinity
                            "\x07\x00\x00\x00\x00\x00\x00\x00",
                            28);
    const auto file = scratch_folder("golden") / "model.safetensors";
    write_file(file, with_length(header, bytes));
    const SafeTensors read(file.parent_path());
    ASSERT_EQ(read.tensors().size(), 4u);
    const auto value = [&](const char* name, std::int64_t i) {
        const SafeTensor* t = read.find(name);
        return read_weight(t->data, i, t->floating(name));
    };
    EXPECT_EQ(value("a", 0), 1);
    EXPECT_EQ(value("a", 1), -2.5);
    EXPECT_EQ(value("b", 1), 3.140625);
    EXPECT_EQ(read.find("b")->shape, (std::vector<std::int64_t>{1, 2}));
    EXPECT_EQ(value("c", 1), -2.5);
    EXPECT_EQ(value("c", 2), std::ldexp(1.0, -24));
    EXPECT_EQ(value("c", 3), INFINITY);
    EXPECT_THROW(value("n", 0), std::runtime_error);
    EXPECT_EQ(read.find("none"), nullptr);
}

TEST(SafeTensors, RefusesWhatLies) {
    const auto one = [](const char* entry, std::size_t bytes = 8) {
        return with_length(std::string("{") + entry + "}", std::string(bytes, 'x'));
    };
    const auto expect = [](const std::string& bytes, const char* words) {
        const std::string why = refusal(bytes);
        EXPECT_NE(why.find(words), std::string::npos) << why;
    };
    EXPECT_EQ(refusal(one(R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})")), "");
    expect("", "shorter than 8 bytes");
    expect("abc", "shorter than 8 bytes");
    expect(std::string(8, '\xff') + "{}", "a header of 18446744073709551615 bytes");
    expect(std::string("\x00\x10\x00\x00\x00\x00\x00\x00{}", 10), "is cut off: its header has 4096 bytes");
    expect(with_length("not json", ""), "no JSON object");
    expect(with_length("[1]", ""), "no JSON object");
    expect(with_length(std::string(100000, '['), ""), "no JSON object");
    expect(one(R"("a":3)"), "lacks dtype");
    expect(one(R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0]})"), "lacks dtype");
    expect(one(R"("a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]})"), "does not know: F33");
    expect(one(R"("a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), "where a count belongs");
    expect(one(R"("a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,8]})"), "where a count belongs");
    expect(one(R"("a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]})"), "too many elements");
    expect(one(R"("a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]})"), "where its shape needs 12");
    expect(one(R"("a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), "where its shape needs 8");
    expect(one(R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 7), "is cut off: a ends at byte 8 and 7 are there");
    expect(one(R"("a":{"dtype":"F32","shape":[2],"data_offsets":[18446744073709551608,18446744073709551615]})"), "where its shape needs 8");
    expect(one(R"("a":{"dtype":"F32","shape":[2],"data_offsets":[18446744073709551600,18446744073709551608]})"), "is cut off");
    expect(one(R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]})"), "overlaps");
    expect(one(R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]})"), "belong to no tensor");
    expect(one(R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})"), "behind its last tensor");
}

// Each cut and each flipped byte of a header: an error or the file, never anything else.
TEST(SafeTensors, EveryDamageIsSeenOrHarmless) {
    const std::string whole =
        with_length(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[1,3],"data_offsets":[8,14]}})",
                    std::string(14, 'x'));
    for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_NE(refusal(whole.substr(0, n)), "") << n;
    for (std::size_t at = 0; at + 14 < whole.size(); ++at)
        for (const int bit : {0, 4, 7}) {
            std::string damaged = whole;
            damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
            refusal(damaged);
        }
}

TEST(SafeTensors, AnIndexOfSeveralFiles) {
    const auto folder = scratch_folder("index");
    write_f64(folder / "one.safetensors", {{"a", {{2}, {1, 2}}}});
    write_f64(folder / "two.safetensors", {{"b", {{1}, {3}}}});
    const auto index = [&](const std::string& map) {
        write_file(folder / "model.safetensors.index.json", R"({"weight_map": )" + map + "}");
    };
    const auto why = [&] {
        try {
            return std::to_string(SafeTensors(folder).tensors().size());
        } catch (const std::runtime_error& e) { return std::string(e.what()); }
    };
    index(R"({"a": "one.safetensors", "b": "two.safetensors"})");
    EXPECT_EQ(why(), "2");
    index(R"({"a": "two.safetensors", "b": "two.safetensors"})");
    EXPECT_NE(why().find("has no a, which the index says"), std::string::npos) << why();
    index(R"({"a": "one.safetensors", "b": "three.safetensors"})");
    EXPECT_NE(why().find("three.safetensors is missing"), std::string::npos) << why();
    index(R"({"a": "../one.safetensors"})");
    EXPECT_NE(why().find("outside its folder"), std::string::npos) << why();
    index("7");
    EXPECT_NE(why().find("no weight_map"), std::string::npos) << why();
}

// What does not fit one file is divided; nothing is lost.
TEST(SafeTensors, ManyBytesBecomeSeveralFiles) {
    const WeightFiles files = plan_files({{"a", {3}}, {"b", {5}}, {"c", {100}}, {"d", {1}}}, WeightType::f32, 40);
    ASSERT_EQ(files.files.size(), 3u);
    EXPECT_EQ(files.files[0].name, "model-00001-of-00003.safetensors");
    EXPECT_EQ(files.places.at("b").file, 0u);
    EXPECT_EQ(files.places.at("c").file, 1u);
    EXPECT_EQ(files.places.at("d").file, 2u);
    EXPECT_EQ(nlohmann::json::parse(files.index)["weight_map"]["d"], "model-00003-of-00003.safetensors");
    EXPECT_EQ(nlohmann::json::parse(files.index)["metadata"]["total_size"], 109 * 4);
}

} // namespace
