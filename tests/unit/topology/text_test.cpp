// Can no text from a file steer a terminal, or become a formula of a spreadsheet?
#include "topology/text.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

TEST(Text, ControlCharactersAreShownAsEscapes) {
    EXPECT_EQ(printable("plain, tabs\tand\nlines"), "plain, tabs\tand\nlines");
    EXPECT_EQ(printable("\x1b]0;owned\x07"), "\\x1b]0;owned\\x07");
    EXPECT_EQ(printable(std::string_view("a\0b\r\x7f", 5)), "a\\x00b\\x0d\\x7f");
    EXPECT_EQ(printable("caf\xc3\xa9 \xe2\x86\x92 \xf0\x9f\x9a\x80"), "caf\xc3\xa9 \xe2\x86\x92 \xf0\x9f\x9a\x80");
    EXPECT_EQ(printable("\xc2\x9b"
                        "31m"),
              "\\xc2\\x9b31m")
        << "a control character of two bytes";
    for (const char* broken : {"\xff", "\xc3", "\xe2\x86", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80"}) {
        EXPECT_FALSE(is_printable(broken));
        EXPECT_TRUE(is_printable(printable(broken)));
    }
}

TEST(Text, InkPassesOnlyWhereThereIsColour) {
    EXPECT_EQ(printable("\x1b[31mred\x1b[0m", true), "\x1b[31mred\x1b[0m");
    EXPECT_EQ(printable("\x1b[31mred"), "\\x1b[31mred");
    EXPECT_EQ(printable("\x1b[2J\x1b[1;5H", true), "\\x1b[2J\\x1b[1;5H") << "neither clears nor moves";
    EXPECT_EQ(printable("\x1b[31", true), "\\x1b[31");
}

TEST(Text, CellsAreNoFormulas) {
    EXPECT_EQ(csv_cell("=HYPERLINK(1)"), "'=HYPERLINK(1)");
    EXPECT_EQ(csv_cell("@SUM(A1)"), "'@SUM(A1)");
    EXPECT_EQ(csv_cell("+1+1"), "'+1+1");
    EXPECT_EQ(csv_cell("-2.5e-3"), "-2.5e-3") << "a number";
    EXPECT_EQ(csv_cell("-x, \"y\""), "\"'-x, \"\"y\"\"\"");
    EXPECT_EQ(csv_cell("a=b"), "a=b");
    EXPECT_EQ(csv_cell(""), "");
}

} // namespace
} // namespace orrery
