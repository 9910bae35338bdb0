#include "exec/simexec/merged.hpp"

#include "exec/local/timeline.hpp"
#include "exec/local/waits.hpp"

#include <cstring>
#include <type_traits>

namespace orrery::simexec {

std::optional<Trace> merged_trace(const World& world, std::span<const OpTime> record, const std::string& source, const Others& others) {
    static_assert(std::is_trivially_copyable_v<OpTime>); // and all ranks have the same program: they have agreed on it
    const std::vector<std::string> parts = others.collect({reinterpret_cast<const char*>(record.data()), record.size_bytes()});
    if (others.rank != 0) return std::nullopt;
    std::vector<OpTime> times;
    for (const std::string& part : parts) {
        const std::size_t before = times.size();
        times.resize(before + part.size() / sizeof(OpTime));
        std::memcpy(times.data() + before, part.data(), part.size());
    }
    const auto all = make_world(world.scenario, world.plan, DType::fp32); // every rank's order; of its memory no page is touched
    find_begins(*all, times);
    return trace_of(*all, times, source);
}

} // namespace orrery::simexec
