// Is every constant of a calibration of one's own held to its limits, and does each compiled-in file keep them?
#include "sim/cost/calibration.hpp"
#include "sim/cost/calibration_ranges.hpp"
#include "sim/cost/own_constants.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <stdexcept>

namespace orrery {
namespace {

using Json = nlohmann::json;

Json file_of(const std::string& name) {
    for (const EmbeddedFile& f : calibration_files())
        if (f.name == name) return Json::parse(f.text);
    return {};
}

std::string refusal(const Json& file) {
    try {
        check_constants(file);
    } catch (const std::runtime_error& e) { return e.what(); }
    return {};
}

TEST(CalibrationRanges, HoldOfEveryCompiledInFile) {
    int files = 0;
    for (const EmbeddedFile& f : calibration_files()) {
        if (!f.name.starts_with("kernels_")) continue;
        EXPECT_EQ(refusal(Json::parse(f.text)), "") << f.name;
        ++files;
    }
    EXPECT_GT(files, 15);
}

// Without the power of other kernels a mix would say that they draw nothing.
TEST(CalibrationRanges, AMixNeedsThePowerOfOtherKernels) {
    Json file{{"sustained", {{"bf16", 0.9}, {"fp8", 0.8}, {"other", 0.95}, {"matrix_share", 1}}}};
    EXPECT_NE(refusal(file).find("sustained.memory_power"), std::string::npos) << refusal(file);
    file["sustained"]["memory_power"] = 0.4;
    EXPECT_EQ(refusal(file), "");
}

// A constant below its limit made predictions faster, or negative.
TEST(CalibrationRanges, RefuseWhatIsBeyondThem) {
    const Json h100 = file_of("kernels_h100-sxm-80gb");
    ASSERT_TRUE(h100.is_object());
    for (const ConstantRange& r : constant_ranges()) {
        for (const Json& bad : {Json(r.least - 1e-3 - r.least * 0.01), Json(r.most * 1.01), Json("x"), Json(nullptr), Json::array({1})}) {
            Json file = h100;
            const std::string group = r.group, key = r.key;
            if (group == "gemm" || group == "experts")
                file[group]["bf16"][key] = bad;
            else if (group == "prefill")
                file["prefill"]["full"][key] = key == "efficiency" ? Json{{"128", bad}} : bad;
            else if (group == "attention" && (key == "rate" || key == "s0"))
                file["attention"]["flash-2"]["forward"]["causal"]["128"][key == "rate" ? 0 : 1] = bad;
            else if (group == "attention")
                file["attention"][key == "sustained" ? "flash-2" : "waves"][key] = bad;
            else
                file[group][key] = bad;
            const std::string why = refusal(file);
            EXPECT_NE(why.find("must be a number from"), std::string::npos) << group << " " << key << " = " << bad << ": " << why;
            EXPECT_NE(why.find(group), std::string::npos) << why;
        }
    }
}

TEST(CalibrationRanges, NamesOfKernelsAreChecked) {
    Json file = file_of("kernels_h100-sxm-80gb");
    const Json series = file["attention"]["flash-2"];
    for (const char* name : {"flash-2@zz", "flash-9", "cudnn@", "@2025", ""}) {
        file["attention"] = {{name, series}};
        EXPECT_NE(refusal(file).find("is no attention kernel"), std::string::npos) << name;
        EXPECT_THROW(OwnConstants().add(file.dump()), std::runtime_error) << name;
    }
    file["attention"] = {{"flash-2", series}};
    EXPECT_EQ(refusal(file), "");
    file["attention"]["flash-2"]["forward"]["causal"]["wide"] = {100, 100};
    EXPECT_NE(refusal(file).find("is no head dimension"), std::string::npos);
}

} // namespace
} // namespace orrery
