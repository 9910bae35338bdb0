// Do units read and print as their contract says, and refuse everything else?
#include "topology/units.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace orrery {
namespace {

TEST(Units, SizesParse) {
    EXPECT_EQ(parse_bytes("80GB"), Bytes{80'000'000'000});
    EXPECT_EQ(parse_bytes("81559 MiB"), Bytes::mebibytes(81559));
    EXPECT_EQ(parse_bytes(" 1.5 TB "), Bytes{1'500'000'000'000});
    EXPECT_EQ(parse_bytes("512"), Bytes{512});
    EXPECT_EQ(parse_bytes("2e3 kB"), Bytes{2'000'000});
    EXPECT_EQ(parse_bytes("1GiB"), Bytes{1 << 30});
}

TEST(Units, RatesKeepBitsAndBytesApart) {
    EXPECT_EQ(parse_rate("400Gb/s"), BytesPerSecond::gigabytes(50));
    EXPECT_EQ(parse_rate("400 Gbit/s"), BytesPerSecond::gigabits(400));
    EXPECT_EQ(parse_rate("450 GB/s"), BytesPerSecond::gigabytes(450));
    EXPECT_EQ(parse_rate("3.35TB/s"), BytesPerSecond{3.35e12});
}

TEST(Units, TimesParseToPicoseconds) {
    EXPECT_EQ(parse_time("1.5us"), Time{1'500'000});
    EXPECT_EQ(parse_time("1.2 ms"), Time{1'200'000'000});
    EXPECT_EQ(parse_time("3s"), Time::seconds(3));
    EXPECT_EQ(parse_time("2h"), Time::seconds(7200));
}

TEST(Units, WhatIsNotAQuantityIsRefused) {
    for (const char* text :
         {"", " ", "GB", "-1GB", "+1GB", "1.5", "80 gb", "80GBs", "80 GB/s", "nan", "inf", "1e30 GB", "0x10", "1 0 GB", "80G"})
        EXPECT_FALSE(parse_bytes(text)) << text;
    for (const char* text : {"", "400", "400G", "400GB", "400 Gb", "-1 GB/s", "400gb/s", "1 s"}) EXPECT_FALSE(parse_rate(text)) << text;
    for (const char* text : {"", "5", "5 seconds", "-5us", "1e20 s", "5 US"}) EXPECT_FALSE(parse_time(text)) << text;
}

TEST(Units, ThreeDigitsArePrinted) {
    EXPECT_EQ(format(Time::seconds(12.6)), "12.6 s");
    EXPECT_EQ(format(Time::seconds(0.00321)), "3.21 ms");
    EXPECT_EQ(format(Time::microseconds(450)), "450 us");
    EXPECT_EQ(format(Time{0}), "0 s");
    EXPECT_EQ(format(Time{7}), "7.00 ps");
    EXPECT_EQ(format(Time::seconds(-0.00321)), "-3.21 ms");
    EXPECT_EQ(format(Time::seconds(86400)), "86400 s");
    EXPECT_EQ(format(Time::never()), "never");
    EXPECT_EQ(format(Bytes{68'700'000'000}), "68.7 GB");
    EXPECT_EQ(format(Bytes{0}), "0 B");
    EXPECT_EQ(format(Bytes{999}), "999 B");
    EXPECT_EQ(format_binary(Bytes{64LL << 30}), "64.0 GiB");
    EXPECT_EQ(format(BytesPerSecond::gigabytes(450)), "450 GB/s");
    EXPECT_EQ(format(BytesPerSecond::gigabits(400)), "50.0 GB/s");
    EXPECT_EQ(format(Flops{3.1e15}), "3.10 PFLOP");
}

TEST(Units, RoundingNeverPrintsAThousand) {
    EXPECT_EQ(format(Bytes{999'600'000}), "1.00 GB");
    EXPECT_EQ(format(Bytes{999'400'000}), "999 MB");
    EXPECT_EQ(format(Time{999'999}), "1.00 us");
    EXPECT_EQ(format(Bytes{9'996'000}), "10.0 MB");
    EXPECT_EQ(format(Bytes{99'960'000}), "100 MB");
}

TEST(Units, WhatIsPrintedParsesBack) {
    for (const double gb : {0.001, 0.5, 7.25, 80.0, 999.0, 4321.0}) {
        const auto back = parse_bytes(format(Bytes::gigabytes(gb)));
        ASSERT_TRUE(back);
        EXPECT_NEAR(back->gigabytes(), gb, gb * 0.005);
    }
}

// A time that wrapped round would be a short or negative one: what takes for ever would cost nothing.
TEST(Units, TimesSaturate) {
    constexpr Time end = Time::never();
    EXPECT_EQ(end + Time{1}, end);
    EXPECT_EQ(end + end, end);
    EXPECT_EQ(Time{-5} - end - end, Time{-INT64_MAX});
    EXPECT_EQ(Time::seconds(1e6) * 1'000'000, end);
    EXPECT_EQ(Time::seconds(-1e6) * 1'000'000, Time{-INT64_MAX});
    EXPECT_EQ(Time::seconds(1e300), end);
    EXPECT_EQ(Time::seconds(std::numeric_limits<double>::quiet_NaN()), end);
    EXPECT_EQ(Time::seconds(-1e300), Time{-INT64_MAX});
    EXPECT_EQ(Bytes{1} / BytesPerSecond{1e-300}, end);
    Time sum;
    for (int i = 0; i < 10; ++i) sum += Time::seconds(5e6);
    EXPECT_EQ(sum, end);
    EXPECT_EQ(Time{3} + Time{4} - Time{2}, Time{5});
}

} // namespace
} // namespace orrery
