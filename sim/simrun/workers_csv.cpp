#include "sim/simrun/workers_csv.hpp"

#include <fmt/format.h>

namespace orrery::simrun {
namespace {

const char* in_words(LooseDoing doing) {
    constexpr const char* words[] = {"step", "push", "update", "pull", "send", "mix", "wait"};
    return words[static_cast<int>(doing)];
}
const char* in_words(FederatedOutcome outcome) {
    constexpr const char* words[] = {"counted", "late", "given up", "under way"};
    return words[static_cast<int>(outcome)];
}
std::string or_empty(double value) { return value < 0 ? "" : fmt::format("{:g}", value); }
std::string or_empty(std::int64_t value) { return value < 0 ? "" : std::to_string(value); }

} // namespace

std::string to_csv(const LooseRecord& record) {
    std::string text = "worker,doing,begin_s,end_s,step,version,age,peer\n";
    for (const LooseSpan& s : record.spans)
        text += fmt::format("{},{},{:.9f},{:.9f},{},{},{},{}\n", s.worker < 0 ? "servers" : std::to_string(s.worker), in_words(s.doing),
                            s.begin_s, s.end_s, or_empty(s.step), or_empty(s.version), or_empty(s.age),
                            or_empty(static_cast<std::int64_t>(s.peer)));
    return text;
}

std::string to_csv(const FederatedExample& example) {
    std::string text = "round,client,begin_s,train_s,upload_s,end_s,outcome,staleness\n";
    for (const FederatedTaskSpan& t : example.tasks)
        text += fmt::format("{},{},{:.6f},{:.6f},{:.6f},{:.6f},{},{:g}\n", t.round, t.client, t.begin_s, t.train_s, t.upload_s, t.end_s,
                            in_words(t.outcome), t.staleness);
    return text;
}

} // namespace orrery::simrun
