// `simrun fit TABLE.. -o FILE` and `simrun fit --check TABLE..`: calibration from tables of measurements.
#include "sim/fit/fit.hpp"

#include "sim/scenario/suggest.hpp"
#include "sim/simrun/command.hpp"

#include <exception>

namespace orrery::simrun {

int run_fit(const std::vector<std::string>& files, const Options& options, bool only_check) {
    std::vector<std::string> fitted; // a JSON object a table
    std::vector<Compared> points;
    std::vector<std::string> skipped;
    for (const std::string& file : files) {
        try {
            const MeasuredTable table = read_table(file);
            if (only_check) {
                Checked one = check(table);
                points.insert(points.end(), std::make_move_iterator(one.points.begin()), std::make_move_iterator(one.points.end()));
                skipped.insert(skipped.end(), one.skipped.begin(), one.skipped.end());
            } else {
                fitted.push_back(fit(table));
            }
        } catch (const std::runtime_error& e) {
            complain(e.what());
            return bad_input;
        }
    }
    if (!only_check) return deliver(fitted.size() == 1 ? fitted.front() : "[\n" + join(fitted, ",\n") + "]\n", options) ? done : bad_input;
    if (points.empty()) {
        complain("nothing in these tables can be checked\n  " + join(skipped, "\n  "));
        return bad_input;
    }
    const std::vector<Deviation> by_group = deviations(points);
    const bool json = options.json || options.output.ends_with(".json");
    return deliver(json ? to_json(by_group, skipped) : to_text(by_group, skipped), options) ? done : bad_input;
}

} // namespace orrery::simrun
