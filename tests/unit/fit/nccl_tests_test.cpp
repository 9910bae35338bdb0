// Is nccl-tests' output read as it is printed, and does a fit to it find the fabric it came from?
#include "sim/cost/collectives.hpp"
#include "sim/fit/fabric.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

using namespace orrery;
namespace fs = std::filesystem;

namespace {

const fs::path real_logs = ORRERY_SOURCE_DIR "/../shared/samples/nccl_tests";

// A row as nccl-tests prints it; factor: busbw / algbw.
std::string row_text(double bytes, double us, double factor, const char* op = "sum", const char* root = "-1") {
    const double bw = bytes / us / 1e3;
    return fmt::format("{:12.0f} {:13.0f} {:>9} {:>7} {:>7} {:8.1f} {:7.2f} {:7.2f} {:>6} {:8.1f} {:7.2f} {:7.2f} {:>6}\n", bytes,
                       bytes / 4, "float", op, root, us, bw, bw * factor, "0", us, bw, bw * factor, "0");
}

const std::string header =
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n";

std::vector<NcclCurve> read(const std::string& text, std::vector<std::string>* skipped = nullptr, const std::string& file = "f.log") {
    std::vector<std::string> unused;
    return parse_nccl_tests(file, text, skipped ? *skipped : unused);
}

std::string error_of(const std::string& text) {
    try {
        (void)read(text);
    } catch (const std::runtime_error& e) { return e.what(); }
    return "";
}

Cluster site(int nodes) {
    Cluster c;
    c.device = *find_device("h100-sxm-80gb");
    c.nodes = nodes;
    c.intra = {IntraKind::nvswitch, c.device.scale_up, Time::microseconds(0.6)};
    c.inter.kind = InterKind::infiniband;
    c.inter.nics_per_node = 8;
    c.inter.nic_bandwidth = BytesPerSecond::gigabits(400);
    c.inter.latency = Time::microseconds(1);
    return c;
}

// What a site with these constants would print.
std::string output_of(const FabricTable& fabric, CollectiveKind kind, const char* program, int nodes, const char* prefix) {
    const Cluster cluster = site(nodes);
    std::vector<int> ranks(static_cast<std::size_t>(cluster.devices()));
    std::iota(ranks.begin(), ranks.end(), 0);
    const Group group = group_of(Fabric(cluster), domain_of(cluster), ranks);
    std::string text = fmt::format("{}# Collective test starting: {}_perf\n", prefix, program);
    for (int r = 0; r < cluster.devices(); ++r)
        text += fmt::format("{}#  Rank {:2} Group  0 Pid {:6} on host{:02} device {:2} [0x1b] NVIDIA H100 80GB HBM3\n", prefix, r, 4000 + r,
                            r / 8, r % 8);
    std::istringstream lines(header);
    for (std::string line; std::getline(lines, line);) text += prefix + line + "\n";
    for (double bytes = 1024; bytes <= 4.3e9; bytes *= 4) {
        const double us = multi_node(link_table(cluster), fabric, group, kind, bytes, false, true, CollectiveAlgorithm::automatic).us;
        text += prefix + row_text(bytes, us, volume(kind, group.n), kind == CollectiveKind::all_reduce ? "sum" : "none");
    }
    return text + prefix + "# Out of bounds values : 0 OK\n" + prefix + "# Avg bus bandwidth    : 100.0\n";
}

} // namespace

TEST(NcclTests, PrefixesOfMpirunAndSrunAreTakenOff) {
    for (const char* prefix : {"", "0: ", " 12: ", "[1,0]<stdout>:", "   [1,0]<stdout>:"}) {
        std::string text;
        std::istringstream lines(header + row_text(65536, 100, 1.875) + row_text(1048576, 400, 1.875));
        for (std::string line; std::getline(lines, line);) text += prefix + line + "\n";
        const auto curves = read(text);
        ASSERT_EQ(curves.size(), 1u) << prefix;
        EXPECT_EQ(curves[0].kind, CollectiveKind::all_reduce);
        EXPECT_EQ(curves[0].ranks, 16) << "2 x 15 / 16";
        ASSERT_EQ(curves[0].rows.size(), 2u);
        EXPECT_DOUBLE_EQ(curves[0].rows[1].us(), 400);
    }
}

TEST(NcclTests, SeveralProgramsInAFileAreSeveralCurves) {
    const std::string text = "$ mpirun ./build/all_reduce_perf -b 1M -e 4M\n" + header + row_text(1048576, 100, 1.75) +
                             row_text(4194304, 300, 1.75) + "# Avg bus bandwidth : 1\n$ ./build/alltoall_perf\n" + header +
                             row_text(1048576, 90, 0.875, "none") + "# Avg bus bandwidth : 1\n" + "$ ./build/sendrecv_perf\n" + header +
                             row_text(1048576, 90, 1, "none");
    std::vector<std::string> skipped;
    const auto curves = read(text, &skipped);
    ASSERT_EQ(curves.size(), 2u);
    EXPECT_EQ(curves[0].program, "all_reduce");
    EXPECT_EQ(curves[1].kind, CollectiveKind::all_to_all);
    EXPECT_EQ(curves[1].ranks, 8);
    ASSERT_EQ(skipped.size(), 1u);
    EXPECT_NE(skipped[0].find("sendrecv"), std::string::npos);
}

TEST(NcclTests, WithoutAProgramsNameTheColumnsTell) {
    EXPECT_EQ(read(header + row_text(1e9, 1e4, 0.9375)).at(0).kind, CollectiveKind::reduce_scatter);
    EXPECT_EQ(read(header + row_text(1e9, 1e4, 0.9375, "none")).at(0).kind, CollectiveKind::all_gather);
    EXPECT_EQ(read(header + row_text(1e9, 1e4, 1, "none", "0")).at(0).kind, CollectiveKind::broadcast);
    EXPECT_FALSE(read(header + row_text(1e9, 1e4, 0.9375)).at(0).assumed.empty());
    EXPECT_EQ(read(header + row_text(1e9, 1e4, 0.9375, "none"), nullptr, "alltoall.log").at(0).kind, CollectiveKind::all_to_all)
        << "by the file's name";
}

TEST(NcclTests, OlderColumnsAndOutOfPlaceOnly) {
    const auto one = read(header + "  1048576  262144  float  sum  100.0  10.49  19.66  2e-07  100.0  10.49  19.66  2e-07\n");
    EXPECT_DOUBLE_EQ(one.at(0).rows.at(0).us(), 100);
    const auto two = read(header + "  1048576  262144  float  sum  -1  100.0  10.49  19.66  0\n");
    EXPECT_DOUBLE_EQ(two.at(0).rows.at(0).us(), 100);
    const auto three = read(header + "  1048576  262144  float  sum  -1  100.0  10.49  19.66  N/A  120.0  8.74  16.38  N/A\n");
    EXPECT_DOUBLE_EQ(three.at(0).rows.at(0).us(), 110);
}

TEST(NcclTests, DamageIsToldByLine) {
    EXPECT_NE(error_of(header + "  1048576  262144  float  sum  -1  100.0  10.49\n").find("f.log:3: "), std::string::npos);
    EXPECT_NE(error_of(header + "  1048576  262144  float  sum  -1  100.0  99.00  19.66  0\n").find("f.log:3: size / time is 10.49 GB/s"),
              std::string::npos);
    EXPECT_NE(error_of("a web page\n").find("no table of nccl-tests"), std::string::npos);
}

TEST(NcclTests, RealLogsHoldTheirRows) {
    if (!fs::exists(real_logs / "../expected.json")) GTEST_SKIP() << "no real logs at hand";
    std::ifstream stream(real_logs / "../expected.json");
    const auto expected = nlohmann::json::parse(stream);
    int met = 0;
    for (const auto& [name, counts] : expected.items()) {
        if (!name.starts_with("nccl_tests/")) continue;
        std::ifstream log(real_logs / name.substr(11));
        std::stringstream text;
        text << log.rdbuf();
        const auto curves = read(text.str(), nullptr, name);
        ASSERT_EQ(curves.size(), 1u) << name;
        const int with_bytes = counts.at("rows").get<int>() - (name.find("excerpt") != std::string::npos ? 1 : 0); // its first has no bytes
        EXPECT_EQ(curves[0].rows.size(), static_cast<std::size_t>(with_bytes)) << name;
        EXPECT_DOUBLE_EQ(curves[0].rows.back().bytes, counts.at("last").at("bytes").get<double>());
        EXPECT_DOUBLE_EQ(curves[0].rows.back().out_of_place_us, counts.at("last").at("out_of_place_us").get<double>());
        ++met;
    }
    EXPECT_EQ(met, 4);
}

// The constants come back, and a collective that was not fitted is predicted.
TEST(FitFabric, FindsTheFabricThatTheOutputCameFrom) {
    FabricTable truth = fabric_table(site(2));
    truth.base *= 1.8, truth.large *= 0.5, truth.eta_tree_more *= 0.7, truth.eta_ring *= 0.6, truth.eta_ring_all_reduce *= 0.6;
    std::vector<PlacedCurve> curves;
    for (const auto& [kind, program, nodes, prefix] : {std::tuple{CollectiveKind::all_reduce, "all_reduce", 4, "0: "},
                                                       std::tuple{CollectiveKind::all_gather, "all_gather", 4, "[1,0]<stdout>:"},
                                                       std::tuple{CollectiveKind::reduce_scatter, "reduce_scatter", 8, ""}})
        for (const NcclCurve& c : read(output_of(truth, kind, program, nodes, prefix))) curves.push_back(place(c, site(1), 0));
    ASSERT_EQ(curves.size(), 3u);
    EXPECT_EQ(curves[0].cluster.nodes, 4) << "from the hosts of the rank lines";
    const FabricFit fit = fit_fabric(curves);
    EXPECT_LT(fit.large.mean, 0.02);
    EXPECT_LT(fit.small.mean, 0.03);
    EXPECT_LT(fit.large_out.mean, 0.15);
    const auto json = nlohmann::json::parse(fit.json);
    EXPECT_NEAR(json.at("eta").at("ring").get<double>(), truth.eta_ring, 0.03 * truth.eta_ring);
    EXPECT_NEAR(json.at("base_us").get<double>(), truth.base, 0.1 * truth.base);
    EXPECT_DOUBLE_EQ(json.at("eta").at("all_to_all").get<double>(), fabric_table(site(4)).eta_all_to_all) << "no curve depends on it";
}

// A transport whose all-reduces wait longer than its gathers, and whose all-to-all hardly does: each keeps its own latencies.
TEST(FitFabric, CollectivesHaveLatenciesOfTheirOwn) {
    FabricTable truth = fabric_table(site(2));
    truth.base *= 3, truth.large *= 6, truth.gather_base = 0.6, truth.gather_ramp = 0.1, truth.all_to_all_ramp = 0.2;
    std::vector<PlacedCurve> curves;
    for (const auto& [kind, program] : {std::pair{CollectiveKind::all_reduce, "all_reduce"},
                                        {CollectiveKind::all_gather, "all_gather"},
                                        {CollectiveKind::all_to_all, "alltoall"}})
        for (const NcclCurve& c : read(output_of(truth, kind, program, 2, ""))) curves.push_back(place(c, site(1), 0));
    ASSERT_EQ(curves.size(), 3u);
    const FabricFit fit = fit_fabric(curves);
    EXPECT_LT(fit.large.mean, 0.02);
    EXPECT_LT(fit.small.mean, 0.03);
    const auto of = nlohmann::json::parse(fit.json).at("of_all_reduce");
    EXPECT_NEAR(of.at("gather_base").get<double>(), 0.6, 0.1);
    EXPECT_NEAR(of.at("gather_ramp").get<double>(), 0.1, 0.05);
    EXPECT_NEAR(of.at("all_to_all_ramp").get<double>(), 0.2, 0.1);
}

// One node alone has no fabric to fit.
TEST(FitFabric, NeedsACurveBetweenNodes) {
    const auto curves = read(header + row_text(1048576, 100, 1.75) + row_text(4194304, 300, 1.75));
    const std::vector<PlacedCurve> placed{place(curves.at(0), site(1), 0)};
    EXPECT_EQ(placed[0].cluster.nodes, 1);
    EXPECT_THROW((void)fit_fabric(placed), std::runtime_error);
    EXPECT_EQ(compare_curve(placed[0]).size(), 2u) << "but it can be checked";
    EXPECT_THROW((void)place(curves.at(0), site(1), 3), std::runtime_error) << "8 ranks on 3 nodes";
}

// Last of this file: what is given stays in use.
TEST(FitFabric, TheFileIsTakenAsACalibration) {
    FabricTable truth = fabric_table(site(2));
    truth.base *= 3;
    std::vector<PlacedCurve> curves;
    for (const NcclCurve& c : read(output_of(truth, CollectiveKind::all_reduce, "all_reduce", 4, "")))
        curves.push_back(place(c, site(1), 0));
    const FabricFit fit = fit_fabric(curves);
    EXPECT_THROW(use_calibration(R"({"what": "fabric", "class": "x"})"), std::runtime_error);
    EXPECT_THROW(use_calibration(R"({"what": "fabric"})"), std::runtime_error);
    const double before = fabric_table(site(4)).base;
    use_calibration(fit.json);
    const FabricTable mine = fabric_table(site(4));
    EXPECT_EQ(mine.name, "site");
    EXPECT_GT(mine.base, 2 * before);
    for (const Compared& c : compare_curve(curves[0])) EXPECT_NEAR(c.predicted, c.measured, 0.05 * c.measured);
    Cluster slower = site(4);
    slower.inter.nic_bandwidth = BytesPerSecond::gigabits(100);
    EXPECT_NE(fabric_table(slower).name, "site") << "another rate is another fabric";
}
