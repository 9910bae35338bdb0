// Do bars, numbers and tables line up?
#include "sim/report/terminal.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

TEST(Terminal, BarsAreAsWideAsAskedInEveryStyle) {
    for (const TextStyle& style : {TextStyle{}, TextStyle{false, 100, true}, TextStyle{true, 100, true}}) {
        for (double share : {0.0, 0.01, 0.33, 0.5, 0.999, 1.0, 1.7, -1.0})
            EXPECT_EQ(columns(bar(share, 24, Ink::green, style)), 24) << share;
    }
}

TEST(Terminal, BarsFillInProportion) {
    EXPECT_EQ(bar(0.5, 10, Ink::green, {}), "#####     ");
    EXPECT_EQ(bar(1, 4, Ink::green, {}), "####");
    EXPECT_EQ(bar(0.5, 3, Ink::green, {false, 100, true}), "\u2588\u258c ");
}

TEST(Terminal, ColumnsIgnoreColourAndCountLetters) {
    EXPECT_EQ(columns(paint("abc", Ink::red, {true, 100, true})), 3);
    EXPECT_EQ(columns("\u2588\u258c"), 2);
    EXPECT_EQ(paint("abc", Ink::red, {}), "abc");
}

TEST(Terminal, NumbersHaveTheirThousandsAndPrefixes) {
    EXPECT_EQ(grouped(0), "0");
    EXPECT_EQ(grouped(999), "999");
    EXPECT_EQ(grouped(16384), "16,384");
    EXPECT_EQ(grouped(-1234567), "-1,234,567");
    EXPECT_EQ(metric(2467000, 3), "2.47 M");
    EXPECT_EQ(metric(4.405e19, 4, "FLOP"), "44.05 EFLOP");
    EXPECT_EQ(metric(384000, 3), "384 k");
    EXPECT_EQ(metric(16, 3), "16");
    EXPECT_EQ(metric(150.6, 4), "150.6");
}

TEST(Terminal, TimesHaveAUnitThatSuits) {
    EXPECT_EQ(seconds_text(12.564), "12.56 s");
    EXPECT_EQ(seconds_text(0.0032), "3.20 ms");
    EXPECT_EQ(seconds_text(0.0000032), "3.2 us");
    EXPECT_EQ(seconds_text(0), "0 s");
    EXPECT_EQ(span_text(119), "119.0 s");
    EXPECT_EQ(span_text(1236), "20.6 min");
    EXPECT_EQ(span_text(27'000), "7.5 h");
    EXPECT_EQ(span_text(276'480), "3.2 days");
    EXPECT_EQ(span_text(9.0 * 365.25 * 86'400), "9 years");
}

TEST(Terminal, TablesLineUp) {
    const Table t{{"name", "n"}, {false, true}, {{"a", "1"}, {"longer", "1,000"}}};
    EXPECT_EQ(to_text(t, {}), "name        n\na           1\nlonger  1,000\n");
}

TEST(Terminal, ClippingSaysThatItClipped) {
    EXPECT_EQ(clip("abcdefgh", 5), "abc..");
    EXPECT_EQ(clip("abc", 5), "abc");
    EXPECT_EQ(columns(clip("\u2588\u2588\u2588\u2588\u2588\u2588", 4)), 4);
}

} // namespace
} // namespace orrery
