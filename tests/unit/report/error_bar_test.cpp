// Are the nearest validated rows found, and does their error become the bar?
#include "sim/cost/own_constants.hpp"
#include "sim/report/error_bar.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

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

std::vector<Experience> rows(const std::string& dataset, const Configuration& c, int n, double error, bool unseen = true) {
    std::vector<Experience> out;
    for (int i = 0; i < n; ++i)
        out.push_back({c, dataset, "row " + std::to_string(i), i % 2 == 0 ? error : -error, std::nullopt, unseen, {}, 0});
    return out;
}

void add(std::vector<Experience>& all, const std::vector<Experience>& more) { all.insert(all.end(), more.begin(), more.end()); }

TEST(ErrorBar, NearerDevicesAndDegreesComeFirst) {
    EXPECT_EQ(distance(on("h100", 8), on("h100", 8)), 0);
    EXPECT_LT(distance(on("h100", 8), on("h100", 4)), distance(on("h100", 8), on("h100", 2)));
    EXPECT_LT(distance(on("h100", 8), on("h200", 8)), distance(on("h100", 8), on("a100", 8)));
    EXPECT_EQ(distance(on("h100", 12), on("h100", 3)), distance(on("h100", 8), on("h100", 2))) << "powers of two are counted, not computed";
    EXPECT_EQ(distance(on("h100", 3), on("h100", 12)), distance(on("h100", 2), on("h100", 8)));
}

TEST(ErrorBar, IsTheErrorOfUnseenSourcesTheNearestFirst) {
    auto all = rows("one", on("h100", 8), 20, 0.05);
    add(all, rows("two", on("h100", 8), 20, 0.08));
    add(all, rows("far", on("a100", 1), 20, 0.4));
    const ErrorBar bar = error_bar(on("h100", 8), all);
    EXPECT_EQ(bar.rows, 60);
    EXPECT_EQ(bar.sources, 3);
    EXPECT_EQ(bar.same_device, 40);
    EXPECT_DOUBLE_EQ(bar.step_time, 0.08) << "four in five of the weight lie within: those far away weigh little";
    EXPECT_EQ(error_bar(on("a100", 1), all).step_time, 0.4) << "and near those it is theirs";
    EXPECT_EQ(bar.nearest, "one / row 0");
    EXPECT_EQ(bar.nearest_error, 0.05);
    EXPECT_EQ(bar.memory, 0) << "no row has it";
}

// What one's software costs beside its kernels tells little of another's: a stack of its own is further away in time than another device.
TEST(ErrorBar, ItsOwnStackComesFirstInTime) {
    Configuration zero = on("h100", 8), elsewhere = on("a100", 8);
    zero.stack = Stack::zero;
    EXPECT_GT(distance_in_time(on("h100", 8), zero), distance_in_time(on("h100", 8), elsewhere));
    auto all = rows("modules", on("h100", 8), 20, 0.05);
    for (const char* more : {"others", "further"}) add(all, rows(more, on("h100", 8), 20, 0.05));
    add(all, rows("zero", zero, 20, 0.4));
    EXPECT_DOUBLE_EQ(error_bar(on("h100", 8), all).step_time, 0.05);
    EXPECT_DOUBLE_EQ(error_bar(zero, all).step_time, 0.4);
}

// A constant that was fitted to a source says nothing about how well the next source is predicted.
TEST(ErrorBar, RowsThatConstantsWereFittedToMakeNoBar) {
    auto all = rows("fitted", on("h100", 8), 200, 0.01, false);
    EXPECT_EQ(error_bar(on("h100", 8), all).step_time, 0) << "there is nothing else";
    add(all, rows("new", on("h100", 4), 5, 0.15));
    EXPECT_DOUBLE_EQ(error_bar(on("h100", 8), all).step_time, 0.15);
    EXPECT_EQ(error_bar(on("h100", 8), all).nearest, "fitted / row 0") << "the nearest validated run may be one of them";
}

// Rows of a source are off together: ten times as many of them count about three times as much.
TEST(ErrorBar, NoSourceOutweighsTheOthersByItsNumberOfRows) {
    auto all = rows("many", on("h100", 8), 90, 0.02);
    add(all, rows("few", on("h100", 8), 2, 0.2));
    EXPECT_DOUBLE_EQ(error_bar(on("h100", 8), all).step_time, 0.02) << "sqrt 90 to sqrt 2";
    add(all, rows("few", on("h100", 8), 5, 0.2));
    EXPECT_DOUBLE_EQ(error_bar(on("h100", 8), all).step_time, 0.2) << "sqrt 90 to sqrt 7 is less than four to one";
}

TEST(ErrorBar, ALongSequenceIsNotAsSureAsTheShortOnesAreWell) {
    Configuration brief = on("h100", 8), lengthy = brief;
    brief.sequence = 4096, lengthy.sequence = 1 << 22;
    auto all = rows("short", brief, 20, 0.03); // far more rows than of the long ones
    add(all, rows("long", lengthy, 3, 0.2));
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

// Rows of a step that rests on `shares`, each off by as much.
std::vector<Experience> resting_on(CostGroup group, double share, const std::string& dataset, int n, double error, OpenFields open = {}) {
    Configuration c = on("h100", 8);
    c.shares[group] = share;
    c.shares[CostGroup::products] += 1 - share;
    c.left_open = open;
    return rows(dataset, c, n, error);
}

TEST(ErrorBar, IsNarrowerWhereAStepRestsOnSurerConstants) {
    const auto all = resting_on(CostGroup::memory, 0.3, "d", 20, 0.1);
    Configuration sure = all.front().configuration, unsure = sure;
    EXPECT_DOUBLE_EQ(error_bar(sure, all, judged_spreads).step_time, 0.1) << "a step like the rows is as far off as they are";
    sure.shares = {}, sure.shares[CostGroup::products] = 1;
    unsure.shares = {}, unsure.shares[CostGroup::memory] = 1;
    EXPECT_LT(error_bar(sure, all, judged_spreads).step_time, 0.09);
    EXPECT_GT(error_bar(unsure, all, judged_spreads).step_time, 0.12);
    unsure.shares = {};
    EXPECT_DOUBLE_EQ(error_bar(unsure, all, judged_spreads).step_time, 0.1) << "not known: errors as they are";
}

// Software of one stack may be further off than what it rests on says: its rows have a longer unit.
TEST(ErrorBar, IsWiderForAStackWhoseRowsAreFurtherOff) {
    std::vector<Experience> all;
    for (int source = 0; source < 20; ++source)
        for (const Stack stack : {Stack::modules, Stack::zero}) {
            auto more = resting_on(CostGroup::memory, 0.3, "s" + std::to_string(source), 4, stack == Stack::zero ? 0.2 : 0.05);
            for (Experience& e : more) e.configuration.stack = stack;
            add(all, more);
        }
    Configuration modules = all.front().configuration, zero = modules, eager = modules;
    zero.stack = Stack::zero, eager.stack = Stack::eager;
    const double narrow = error_bar(modules, all).step_time, wide = error_bar(zero, all).step_time,
                 unknown = error_bar(eager, all).step_time;
    EXPECT_GT(wide, 1.5 * narrow);
    EXPECT_GT(unknown, narrow) << "a stack without rows is as far off as all are";
    EXPECT_LT(unknown, wide);
}

TEST(ErrorBar, StatingAFieldNarrowsIt) {
    const auto all = resting_on(CostGroup::attention, 0.5, "d", 20, 0.1, {true, true});
    Configuration c = all.front().configuration;
    const ErrorBar open = error_bar(c, all, judged_spreads);
    EXPECT_DOUBLE_EQ(open.step_time, 0.1);
    EXPECT_GT(open.all_stated, 0);
    c.left_open = {false, true};
    const ErrorBar kernel_stated = error_bar(c, all, judged_spreads);
    EXPECT_LT(kernel_stated.step_time, open.step_time);
    c.left_open = {};
    const ErrorBar stated = error_bar(c, all, judged_spreads);
    EXPECT_LT(stated.step_time, kernel_stated.step_time);
    EXPECT_NEAR(stated.step_time, open.all_stated, 1e-12) << "what the report with open fields says";
    EXPECT_EQ(stated.all_stated, 0);
    EXPECT_LT(stated.interval.faster + stated.interval.slower, open.interval.faster + open.interval.slower);
}

TEST(ErrorBar, SidesAreApart) {
    auto all = rows("d", on("h100", 8), 20, 0.1); // predicted / measured - 1: half of them -0.1, which took 1 / 0.9 of what was predicted
    for (Experience& e : all)
        if (*e.step_time > 0) e.step_time = 0.04;
    const ErrorBar bar = error_bar(on("h100", 8), all);
    EXPECT_NEAR(bar.interval.slower, 1 / 0.9 - 1, 1e-12);
    EXPECT_NEAR(bar.interval.faster, 1 - 1 / 1.04, 1e-12);
    EXPECT_NE(to_text(bar).find("from 4 % less to 11 % more"), std::string::npos) << to_text(bar);
}

TEST(ErrorBar, NeverPromisesMoreThanMeasurementsRepeat) {
    EXPECT_DOUBLE_EQ(error_bar(on("h100", 8), rows("d", on("h100", 8), 5, 0.001)).step_time, 0.02);
}

// What was mended after a source was seen helps other sources too, but not as much as its own.
TEST(ErrorBar, HalfOfAMendedErrorStillCounts) {
    const auto first = rows("new", on("h100", 8), 2, 0.4);
    std::vector<Experience> now = rows("new", on("h100", 8), 1, 0.0, false);
    const std::vector<Experience> both = merged(now, first);
    ASSERT_EQ(both.size(), 2u);
    EXPECT_TRUE(both[0].unseen);
    EXPECT_NEAR(*both[0].step_time, 0.4 / std::sqrt(2.0), 1e-12);
    EXPECT_EQ(*both[1].step_time, -0.4) << "a row that is not predicted any more keeps its first error";
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

// A row that constants were fitted to since counts by the error that it had at first, and so by its shares: without them no interval that
// is drawn by shares would know of it.
TEST(ErrorBar, RowsWithAFirstErrorKeepTheirShares) {
    ASSERT_FALSE(first_contacts().empty());
    Experience e = first_contacts().front();
    e.unseen = false;
    e.configuration.shares = {};
    e.configuration.shares[static_cast<std::size_t>(CostGroup::host)] = 0.75;
    Experience other = e;
    other.name = "a row that nobody met";
    const std::string text = write_experience(std::vector{e, other});
    for (const auto& back : {read_experience(text), read_experience(std::string(text).insert(1, " "))}) {
        ASSERT_EQ(back.size(), 2u);
        EXPECT_FALSE(back[0].unseen);
        EXPECT_EQ(back[0].configuration.shares, e.configuration.shares);
        EXPECT_EQ(back[1].configuration.shares, CostShares{});
        EXPECT_TRUE(merged(back, first_contacts())[0].unseen);
    }
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
            EXPECT_EQ(quick[i].configuration.shares, parsed[i].configuration.shares);
            EXPECT_EQ(quick[i].configuration.left_open, parsed[i].configuration.left_open);
        }
        EXPECT_EQ(write_experience(quick), write_experience(all));
        EXPECT_EQ(write_experience(parsed), write_experience(all));
    }
}

TEST(ErrorBar, HoldsForFourInFiveRowsOfSourcesItHasNotSeen) {
    for (const Figure figure : {Figure::step_time, Figure::memory}) {
        const std::vector<Coverage> by = left_out_coverage(validated_rows(), figure);
        ASSERT_FALSE(by.empty());
        EXPECT_EQ(by.front().by, "all");
        EXPECT_GE(by.front().covered, 0.75);
        EXPECT_LE(by.front().covered, 0.9) << "wider than they promise";
        EXPECT_GE(by.front().sources, figure == Figure::step_time ? 20 : 5);
    }
}

// The bounds are wide, as sources are few: 23 of the eager rows are of three sources whose rows were all off alike.
TEST(ErrorBar, HoldsForEveryStack) {
    int stacks = 0;
    for (const Coverage& c : left_out_coverage(validated_rows(), Figure::step_time)) {
        if (!named<Stack>(c.by) || c.rows < 20) continue;
        ++stacks;
        EXPECT_GE(c.covered, 0.72) << c.by;
        EXPECT_LE(c.covered, 0.9) << c.by;
    }
    EXPECT_EQ(stacks, 4);
}

Experience moving_bytes(const std::string& dataset, double share, double error, Stack stack = Stack::eager) {
    Experience e;
    e.configuration.stack = stack;
    e.configuration.devices = 8;
    e.configuration.shares[CostGroup::memory] = share;
    e.configuration.shares[CostGroup::products] = 1 - share;
    e.dataset = dataset;
    e.step_time = error;
    return e;
}

// Half of a step moves bytes: 10 % too fast, it wants that half 2/9 longer than it is with the factor in place.
TEST(Uncounted, IsWhatTheRowsOfOtherSourcesWant) {
    const double now = uncounted().memory;
    std::vector<Experience> all(9, moving_bytes("one", 0.5, -0.1));
    all.push_back(moving_bytes("two", 0.5, 0));
    for (int i = 0; i < 100; ++i) all.push_back(moving_bytes("modules", 0.5, 0.5, Stack::modules)); // they have no such factor
    EXPECT_NEAR(uncounted_by(all), now * 11 / 9, 0.006);
    EXPECT_NEAR(uncounted_by(all, "one"), now, 0.006);
    EXPECT_EQ(uncounted_by(std::vector{all.back()}), now) << "nothing tells of it";
    const std::vector<Experience> left_out = with_uncounted_left_out(all);
    EXPECT_NEAR(*left_out[0].step_time, -0.1, 0.003) << "the other source wants what it has";
    EXPECT_NEAR(*left_out[9].step_time, 0.5 * (11.0 / 9 - 1), 0.003);
    EXPECT_EQ(left_out.back().step_time, all.back().step_time);
}

// The factor in place is no source's own: without any one of them the others want nearly the same, and with theirs the rows of the one left
// out are less far off than without any factor.
TEST(Uncounted, HelpsSourcesThatItWasNotFittedTo) {
    std::vector<Experience> rows;
    for (const Experience& e : validated_rows()) // as they are predicted now: not those whose first errors count as well
        if (e.unseen && e.step_time &&
            std::none_of(first_contacts().begin(), first_contacts().end(), [&](const Experience& f) { return f.dataset == e.dataset; }))
            rows.push_back(e);
    ASSERT_GT(rows.size(), 150u);
    const double now = uncounted().memory;
    const std::vector<Experience> left_out = with_uncounted_left_out(rows);
    double with = 0, without = 0, bias_with = 0, bias_without = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        EXPECT_NEAR(uncounted_by(rows, source_of(rows[i].dataset)), now, 0.12) << rows[i].dataset;
        const Configuration& c = rows[i].configuration;
        const bool has = c.devices > 1 && (c.stack == Stack::eager || c.stack == Stack::other);
        const double share = has ? c.shares[CostGroup::memory] : 0;
        const double bare = (1 + *rows[i].step_time) * (1 + share * (1 / now - 1)) - 1;
        with += std::abs(*left_out[i].step_time), without += std::abs(bare);
        bias_with += *left_out[i].step_time, bias_without += bare;
    }
    EXPECT_LT(with, 0.995 * without);
    EXPECT_LT(std::abs(bias_with), 0.8 * std::abs(bias_without));
}

TEST(ErrorBar, TheCommittedRowsAreRead) { EXPECT_GE(validated_rows().size(), 400u); }

} // namespace
} // namespace orrery
