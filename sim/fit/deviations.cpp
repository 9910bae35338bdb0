// Deviations of a calibration from measurements, summed up.
#include "sim/fit/fit.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace orrery {

std::vector<Deviation> deviations(std::span<const Compared> points) {
    using Key = std::tuple<std::string, std::string, std::string, std::string>;
    std::map<Key, std::vector<double>> groups;
    for (const Compared& p : points) {
        const double error = p.predicted / p.measured - 1;
        groups[{p.device, p.op, p.dtype, ""}].push_back(error);
        groups[{p.device, p.op, p.dtype, p.size_class}].push_back(error);
    }
    std::vector<Deviation> out;
    for (auto& [key, errors] : groups) {
        Deviation d{std::get<0>(key), std::get<1>(key), std::get<2>(key), std::get<3>(key), errors.size()};
        for (double& e : errors) d.bias += e / double(d.n), e = std::abs(e), d.mean_abs += e / double(d.n);
        std::sort(errors.begin(), errors.end());
        d.median_abs = (errors[(d.n - 1) / 2] + errors[d.n / 2]) / 2;
        out.push_back(std::move(d));
    }
    return out;
}

std::string to_json(std::span<const Deviation> list, std::span<const std::string> skipped) {
    nlohmann::ordered_json j;
    j["groups"] = nlohmann::ordered_json::array();
    for (const Deviation& d : list)
        j["groups"].push_back({{"device", d.device},
                               {"op", d.op},
                               {"dtype", d.dtype},
                               {"size_class", d.size_class.empty() ? "all" : d.size_class},
                               {"n", d.n},
                               {"median_abs_error", d.median_abs},
                               {"mean_abs_error", d.mean_abs},
                               {"bias", d.bias}});
    j["notes"] = skipped;
    return j.dump(1) + "\n";
}

std::string to_text(std::span<const Deviation> list, std::span<const std::string> skipped) {
    std::string text = fmt::format("{:<18} {:<20} {:<10} {:<22} {:>7} {:>8} {:>8} {:>8}\n", "device", "op", "dtype", "size", "n", "median",
                                   "mean", "bias");
    for (const Deviation& d : list)
        text += fmt::format("{:<18} {:<20} {:<10} {:<22} {:>7} {:>7.1f}% {:>7.1f}% {:>+7.1f}%\n", d.device, d.op, d.dtype,
                            d.size_class.empty() ? "all" : d.size_class, d.n, d.median_abs * 100, d.mean_abs * 100, d.bias * 100);
    for (const std::string& s : skipped) text += "  " + s + "\n";
    return text;
}

} // namespace orrery
