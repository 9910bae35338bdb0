// Are the nearest validated rows found, and does their error become the bar?
#include "sim/report/error_bar.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <tuple>

namespace orrery {
namespace {

Configuration on(const std::string& device, int tensor) {
    Configuration c;
    c.device = device;
    c.architecture = device == "h100" || device == "h200" ? "hopper" : "ampere";
    c.stack = Stack::modules;
    c.tensor = tensor;
    return c;
}

std::vector<Experience> rows(const std::string& dataset, const Configuration& c, int n, double error) {
    std::vector<Experience> out;
    for (int i = 0; i < n; ++i) out.push_back({c, dataset, "row " + std::to_string(i), i % 2 == 0 ? error : -error, std::nullopt});
    return out;
}

TEST(ErrorBar, NearerDevicesAndDegreesComeFirst) {
    EXPECT_EQ(distance(on("h100", 8), on("h100", 8)), 0);
    EXPECT_LT(distance(on("h100", 8), on("h100", 4)), distance(on("h100", 8), on("h100", 2)));
    EXPECT_LT(distance(on("h100", 8), on("h200", 8)), distance(on("h100", 8), on("a100", 8)));
}

TEST(ErrorBar, IsTheErrorOfTheNearestRowsNotOfAll) {
    auto all = rows("near one", on("h100", 8), 20, 0.05);
    const auto other = rows("near two", on("h100", 8), 20, 0.08), far = rows("far", on("a100", 1), 50, 0.4);
    all.insert(all.end(), other.begin(), other.end());
    all.insert(all.end(), far.begin(), far.end());
    const ErrorBar bar = error_bar(on("h100", 8), all);
    EXPECT_EQ(bar.rows, 40) << "those far away weigh next to nothing";
    EXPECT_EQ(bar.same_device, 40);
    EXPECT_GT(bar.step_time, 0.08) << "four in five lie within, widened by what the far ones weigh";
    EXPECT_LT(bar.step_time, 0.09);
    EXPECT_EQ(bar.nearest, "near one / row 0");
    EXPECT_EQ(bar.nearest_error, 0.05);
    EXPECT_EQ(bar.memory, 0) << "no row has it";
}

// A source of many rows shares its systematic error among them: it has at most half the say.
TEST(ErrorBar, NoDatasetOutweighsTheOthers) {
    auto all = rows("many", on("h100", 8), 90, 0.02);
    const auto few = rows("few", on("h100", 8), 2, 0.2);
    all.insert(all.end(), few.begin(), few.end());
    EXPECT_NEAR(error_bar(on("h100", 8), all).step_time, 0.02, 1e-9) << "a tenth of its weight is left at the least";
    const auto more = rows("few", on("h100", 8), 10, 0.2);
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_NEAR(error_bar(on("h100", 8), all).step_time, 0.2, 1e-9);
}

TEST(ErrorBar, ALongSequenceIsNotAsSureAsTheShortOnesAreWell) {
    Configuration brief = on("h100", 8), lengthy = brief;
    brief.sequence = 4096, lengthy.sequence = 131072;
    std::vector<Experience> all;
    for (const auto& [dataset, of, error] :
         {std::tuple{"short a", brief, 0.03}, {"short b", brief, 0.03}, {"long a", lengthy, 0.2}, {"long b", lengthy, 0.2}}) {
        const auto some = rows(dataset, of, 20, error);
        all.insert(all.end(), some.begin(), some.end());
    }
    EXPECT_LT(error_bar(brief, all).step_time, 0.04);
    EXPECT_GT(error_bar(lengthy, all).step_time, 0.19);
}

// A step that waits for its host is not as sure as those that do not are.
TEST(ErrorBar, KnowsWhatWaitsForItsHost) {
    Configuration busy = on("h100", 8), waiting = busy;
    waiting.host_share = 0.5;
    EXPECT_GT(distance_in_time(busy, waiting), 2);
    EXPECT_EQ(distance(busy, waiting), 0) << "its memory does not mind";
}

TEST(ErrorBar, NeverPromisesMoreThanMeasurementsRepeat) {
    EXPECT_DOUBLE_EQ(error_bar(on("h100", 8), rows("d", on("h100", 8), 5, 0.001)).step_time, 0.02);
}

TEST(ErrorBar, ADeviceNobodyValidatedIsNotAsSureAsItsNeighbours) {
    const auto all = rows("d", on("h100", 8), 5, 0.03);
    const ErrorBar known = error_bar(on("h100", 8), all), sibling = error_bar(on("h200", 8), all), stranger = error_bar(on("a100", 8), all);
    EXPECT_EQ(known.transferred, 0);
    EXPECT_GT(sibling.step_time, 0.1) << "the same architecture";
    EXPECT_GT(stranger.step_time, 0.2) << "another one";
    EXPECT_NE(to_text(stranger).find("nothing was ever validated on this device"), std::string::npos);
    Configuration calibrated = on("mine", 8);
    calibrated.measured = true;
    EXPECT_EQ(error_bar(calibrated, all).transferred, 0) << "its kernels were measured";
}

TEST(ErrorBar, NothingToCompareWithIsSaid) {
    EXPECT_EQ(error_bar(on("h100", 8), {}).rows, 0);
    EXPECT_EQ(to_text(ErrorBar{}), "no validated row to compare with");
}

TEST(ErrorBar, RowsComeBackAsTheyWereWritten) {
    const auto some = rows("d", on("h100", 8), 3, 0.0512);
    const auto back = read_experience(write_experience(some));
    ASSERT_EQ(back.size(), 3u);
    EXPECT_EQ(back[1].name, "row 1");
    EXPECT_DOUBLE_EQ(*back[1].step_time, -0.051);
    EXPECT_EQ(distance(back[0].configuration, some[0].configuration), 0);
}

// Our own layout is read without a JSON parser; any other one means the same.
TEST(ErrorBar, RowsAreTheSameHoweverTheirFileIsLaidOut) {
    std::vector<Experience> all = validated_rows();
    for (const bool escapes : {false, true}) {
        if (escapes) all[0].name = "a \"quoted\" name, a \\ and an \xc3\xa9";
        std::string text = write_experience(all);
        const auto quick = read_experience(text);
        const auto parsed = read_experience(text.insert(1, " "));
        ASSERT_EQ(quick.size(), all.size());
        ASSERT_EQ(parsed.size(), all.size());
        for (std::size_t i = 0; i < all.size(); ++i) {
            EXPECT_EQ(quick[i].step_time, parsed[i].step_time);
            EXPECT_EQ(quick[i].memory, parsed[i].memory);
            EXPECT_EQ(quick[i].configuration.host_share, parsed[i].configuration.host_share);
        }
        EXPECT_EQ(write_experience(quick), write_experience(all));
        EXPECT_EQ(write_experience(parsed), write_experience(all));
    }
}

// The family of a dataset: one source's rows are in several files.
std::string source_of(const std::string& dataset) {
    std::string name = dataset.starts_with("b_") ? dataset.substr(2) : dataset;
    return name.substr(0, std::min(name.find('_'), name.find(' ')));
}

// The share of rows within the bar that all other sources' rows draw for them.
double held_out_coverage(std::optional<double> Experience::*error) {
    std::map<std::string, std::vector<Experience>> others;
    double within = 0, count = 0;
    for (const Experience& row : validated_rows()) others[source_of(row.dataset)];
    for (auto& [source, rest] : others)
        for (const Experience& row : validated_rows())
            if (source_of(row.dataset) != source) rest.push_back(row);
    for (const Experience& row : validated_rows()) {
        if (!(row.*error)) continue;
        const ErrorBar bar = error_bar(row.configuration, others.at(source_of(row.dataset)));
        within += std::abs(*(row.*error)) <= (error == &Experience::step_time ? bar.step_time : bar.memory);
        ++count;
    }
    return within / count;
}

TEST(ErrorBar, HoldsForFourInFiveRowsOfSourcesItHasNotSeen) {
    EXPECT_NEAR(held_out_coverage(&Experience::step_time), 0.8, 0.06);
    EXPECT_GE(held_out_coverage(&Experience::memory), 0.75);
}

TEST(ErrorBar, TheCommittedRowsAreRead) { EXPECT_GE(validated_rows().size(), 400u); }

} // namespace
} // namespace orrery
