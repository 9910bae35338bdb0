// Does any calibration, dataset, table or trace end the program, or give what no measurement can? Valid files with some of their values
// or bytes replaced: they are refused with a std::runtime_error or a problem, or what they give is finite. ORRERY_FUZZ=n runs n of each.
#include "tests/fuzz/hostile.hpp"

#include "sim/compare/compare.hpp"
#include "sim/cost/calibration_ranges.hpp"
#include "sim/cost/own_constants.hpp"
#include "sim/fit/fit.hpp"
#include "sim/report/report.hpp"
#include "sim/trace/bytes.hpp"
#include "sim/trace/format.hpp"
#include "sim/validate/validate.hpp"
#include "tests/unit/trace/sample.hpp"
#include "topology/input_error.hpp"
#include "topology/text.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace orrery::fuzz {
namespace {

class Files : public testing::Test {
  protected:
    std::filesystem::path folder = std::filesystem::temp_directory_path() / ("orrery-fuzz-" + std::to_string(::getpid()));
    void SetUp() override { std::filesystem::create_directories(folder); }
    void TearDown() override { std::filesystem::remove_all(folder); }
    std::string write(const std::string& name, const std::string& bytes) const {
        const auto path = folder / name;
        std::filesystem::remove(path);
        std::ofstream(path, std::ios::binary) << bytes;
        return path.string();
    }
    static std::string sealed(const std::string& payload) {
        ByteWriter out;
        out.bytes = trace_file::magic;
        out.fixed(trace_file::version, 4);
        out.fixed(payload.size(), 8);
        out.fixed(trace_file::checksum(payload), 8);
        return out.bytes + payload;
    }
};

std::string scenario_of(const std::string& device_name) {
    return fmt::format(R"({{"name": "calibrated", "model": {{"layers": 2, "hidden_size": 256, "attention_heads": 4, "vocab_size": 1000}},
        "cluster": {{"device": {{"preset": "h100-sxm-80gb", "name": "{}"}}, "nodes": 1, "devices_per_node": 2}},
        "training": {{"global_batch_size": 4, "micro_batch_size": 1, "sequence_length": 128}},
        "strategy": {{"framework": "megatron", "tensor_parallel": 2}}}})",
                       device_name);
}

// Each is for a device of its own name: one accepted does not serve the next.
TEST_F(Files, Calibrations) {
    std::vector<Json> whole;
    for (const EmbeddedFile& f : calibration_files())
        if (f.name.starts_with("kernels_")) whole.push_back(Json::parse(f.text));
    ASSERT_GT(whole.size(), 10u);
    const int count = setting("ORRERY_FUZZ", 300);
    int accepted = 0;
    for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
        Random r{static_cast<std::uint64_t>(setting("ORRERY_FUZZ_SEED", 1)) * 1000133 + static_cast<std::uint64_t>(i)};
        Json file = whole[r.next() % whole.size()];
        file.erase("inherits");
        file.erase("covers");
        file = r.chance(90) ? mutated(file, r) : file;
        const std::string device = "fuzz-" + std::to_string(i);
        if (file.is_object() && r.chance(97)) file["device"] = device;
        SCOPED_TRACE(file.dump());
        try {
            const auto own = std::make_shared<OwnConstants>();
            own->add(file.dump());
            ++accepted;
            ParseOptions parsing;
            parsing.constants = own;
            const ParseResult parsed = parse_scenario(scenario_of(device), parsing);
            ASSERT_TRUE(parsed.scenario) << to_text(parsed.problems);
            const Report report = predict(*parsed.scenario).report;
            EXPECT_TRUE(std::isfinite(report.step_time_s) && report.step_time_s > 0);
            EXPECT_LE(report.mfu, 1.5) << "of a datasheet's peak";
        } catch (const std::runtime_error& e) { EXPECT_FALSE(std::string(e.what()).empty()); }
    }
    fmt::print("{} calibrations, {} of them accepted\n", count, accepted);
    EXPECT_GT(accepted, count / 50);
}

TEST_F(Files, Datasets) {
    const Json row = {
        {"name", "a run"},
        {"source", "arXiv:1"},
        {"scenario", Json::parse(scenario_of("h100-sxm-80gb"))},
        {"measured",
         {{"step_time_s", 1.5}, {"memory_gb", 20.0}, {"step_time_readings_s", {1.4, 1.5, 1.6}}, {"step_time_noise", 0.02}, {"fits", true}}},
        {"assumed", {"micro_batch_size"}},
        {"not_comparable", {"fits"}}};
    const Json dataset = {
        {"name", "fuzz"}, {"source", "nobody"}, {"note", "max_memory_allocated"}, {"held_out", true}, {"rows", {row, row}}};
    const int count = setting("ORRERY_FUZZ", 300);
    int accepted = 0;
    for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
        Random r{static_cast<std::uint64_t>(setting("ORRERY_FUZZ_SEED", 1)) * 1000151 + static_cast<std::uint64_t>(i)};
        const Json mine = mutated(dataset, r);
        SCOPED_TRACE(mine.dump());
        const std::string text = mine.dump();
        DatasetResult read = load_dataset(write("set.json", r.chance(5) ? text.substr(0, text.size() / 2) : text));
        if (!read.problems.empty()) continue;
        for (const ValidationRow& one : read.rows) EXPECT_TRUE(is_printable(one.name) && is_printable(one.dataset));
        if (i % 8 != 0) continue;
        ++accepted;
        const Validation v = validate(std::move(read.rows), 1);
        EXPECT_FALSE(to_csv(v).empty());
        EXPECT_FALSE(to_json(v).empty());
        EXPECT_FALSE(to_text(v).empty());
    }
    fmt::print("{} datasets, {} of them validated\n", count, accepted);
    EXPECT_GT(accepted, 0);
}

TEST_F(Files, Tables) {
    const std::vector<std::string> headers = {"dtype,m,n,k,batch,us", "op,bytes,ranks,us", "dtype,heads,us", "kind,n,bytes,us,nodes"};
    const int count = setting("ORRERY_FUZZ", 300);
    for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
        Random r{static_cast<std::uint64_t>(setting("ORRERY_FUZZ_SEED", 1)) * 1000159 + static_cast<std::uint64_t>(i)};
        std::string csv =
            r.of<const char*>({"dtype,m,n,k,batch,us", "dtype,m,n,k,batch,us", "dtype,m,n,k,us", "op,bytes,ranks,us", "\xff\xfe,m"}) +
            std::string("\n");
        for (std::uint64_t n = r.next() % 20; n > 0; --n) {
            csv += r.of<const char*>({"bf16", "fp8", "\x1b[2J", "", "=1+1"});
            for (int c = 0; c < 5; ++c)
                csv +=
                    "," + (r.chance(70) ? std::to_string(1ull << r.next() % 20)
                                        : r.of<const char*>({"0", "-1", "1e308", "nan", "inf", "x", "", "9223372036854775807", "1e-308"}));
            csv += "\n";
        }
        SCOPED_TRACE(csv);
        try {
            const MeasuredTable table = parse_table("gemm_h100-sxm-80gb.csv", csv);
            if (r.chance(70))
                for (const Compared& point : check(table).points) EXPECT_FALSE(std::isnan(point.predicted)) << point.op;
            else
                EXPECT_FALSE(fit(table).empty());
        } catch (const std::runtime_error& e) { EXPECT_FALSE(std::string(e.what()).empty()); }
    }
}

TEST_F(Files, Traces) {
    const std::string path = write("whole.trace", "");
    save(sample_trace(3, 2, 4, true), path);
    std::ifstream in(path, std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(in), {}};
    const std::string payload = whole.substr(trace_file::header_bytes);
    const int count = setting("ORRERY_FUZZ", 1000);
    int accepted = 0;
    for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
        Random r{static_cast<std::uint64_t>(setting("ORRERY_FUZZ_SEED", 1)) * 1000171 + static_cast<std::uint64_t>(i)};
        std::string bytes = payload;
        for (std::uint64_t n = 1 + r.next() % 4; n > 0; --n) {
            const std::size_t at = r.next() % bytes.size();
            if (r.chance(80))
                bytes[at] = static_cast<char>(r.next());
            else
                bytes.erase(at, 1 + r.next() % 8);
            if (bytes.empty()) bytes = "x";
        }
        try {
            const Trace trace = load_trace(write("mine.trace", sealed(bytes)));
            ++accepted;
            const Comparison c = compare(trace, sample_trace(3, 2, 4, false));
            EXPECT_TRUE(is_printable(to_text(c, 10)));
            EXPECT_FALSE(to_json(c, 10).empty());
        } catch (const std::runtime_error& e) { EXPECT_FALSE(std::string(e.what()).empty()); }
    }
    fmt::print("{} traces, {} of them accepted\n", count, accepted);
    EXPECT_GT(accepted, count / 50);
}

} // namespace
} // namespace orrery::fuzz
