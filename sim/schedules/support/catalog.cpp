// Looking a schedule up by name, and its text form. The table of the folder's files is generated.
#include "sim/schedules/schedule.hpp"

#include <span>
#include <stdexcept>

namespace orrery {

std::span<const ScheduleInfo> schedules_of_folder(); // generated

// A deque: what is registered later moves none of those that others point at.
static std::deque<ScheduleInfo>& catalog() {
    static std::deque<ScheduleInfo> all(schedules_of_folder().begin(), schedules_of_folder().end());
    return all;
}

const std::deque<ScheduleInfo>& schedules() { return catalog(); }

void register_schedule(const ScheduleInfo& info) {
    if (find_schedule(info.name)) throw std::invalid_argument(std::string("a schedule called ") + info.name + " is there already");
    catalog().push_back(info);
}

std::vector<std::string> schedule_names() {
    std::vector<std::string> names;
    for (const ScheduleInfo& info : schedules()) names.emplace_back(info.name);
    return names;
}

const ScheduleInfo* find_schedule(std::string_view name) {
    for (const ScheduleInfo& info : schedules())
        if (name == info.name) return &info;
    return nullptr;
}

static bool one_chunk(const std::vector<ScheduleStep>& steps) {
    for (const ScheduleStep& step : steps)
        if (step.chunk != steps.front().chunk) return false;
    return true;
}

std::string to_text(const Schedule& schedule) {
    static constexpr char letters[] = {'F', 'B', 'I', 'W'};
    bool plain = true;
    for (const auto& steps : schedule.ranks) plain = plain && one_chunk(steps);
    std::string text;
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
        text += std::to_string(rank) + ":";
        bool inside = false; // of joined steps
        for (const ScheduleStep& step : schedule.ranks[rank]) {
            text += inside ? ";" : step.joined ? " (" : " ";
            text += letters[static_cast<int>(step.kind)];
            if (!plain) text += std::to_string(step.chunk) + ".";
            text += std::to_string(step.microbatch);
            if (inside) text += ')';
            inside = step.joined;
        }
        text += '\n';
    }
    return text;
}

} // namespace orrery
