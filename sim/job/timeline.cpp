// The timeline of one simulated run. Perfetto counts microseconds; a run of months stays within its 64 bits.
#include "sim/job/whole_run.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace orrery {

std::string timeline_perfetto(const WholeRunReport& report) {
    using Json = nlohmann::ordered_json;
    std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
    text += Json{{"ph", "M"}, {"pid", 1}, {"tid", 1}, {"name", "process_name"}, {"args", {{"name", report.name + ", seed 0"}}}}.dump();
    for (const JobSpan& s : report.example.timeline) {
        Json event{{"ph", "X"}, {"pid", 1}, {"tid", 1}, {"name", s.what}, {"ts", s.begin_s * 1e6}, {"dur", (s.end_s - s.begin_s) * 1e6}};
        if (!s.detail.empty()) event["args"] = {{"detail", s.detail}};
        text += ",\n" + event.dump();
    }
    return text + "\n]}\n";
}

std::string timeline_csv(const WholeRunReport& report) {
    std::string text = "begin_day,end_day,what,detail\n";
    for (const JobSpan& s : report.example.timeline)
        text += fmt::format("{:.6f},{:.6f},{},{}\n", s.begin_s / 86400, s.end_s / 86400, s.what, s.detail);
    return text;
}

} // namespace orrery
