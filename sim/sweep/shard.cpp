#include "sim/sweep/shard.hpp"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>

namespace orrery {
namespace {

std::optional<std::int64_t> whole_number(std::string_view text) {
    std::int64_t n = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return n;
}

Shard of_slurm(const std::function<const char*(const char*)>& variable) {
    const auto number = [&](const char* name, std::optional<std::int64_t> otherwise) {
        const char* text = variable(name);
        const auto n = text ? whole_number(text) : otherwise;
        if (!n)
            throw std::runtime_error(
                fmt::format("--shard slurm reads {}, which is {}: start it with sbatch --array=1-8, or write --shard 3/8", name,
                            text ? text : "not set"));
        return *n;
    };
    const std::int64_t task = number("SLURM_ARRAY_TASK_ID", {}), count = number("SLURM_ARRAY_TASK_COUNT", {});
    const std::int64_t first = number("SLURM_ARRAY_TASK_MIN", 1), step = number("SLURM_ARRAY_TASK_STEP", 1);
    const std::int64_t at = step > 0 ? task - first : -1;
    if (at < 0 || at % step != 0 || at / step >= count)
        throw std::runtime_error(fmt::format("--shard slurm: task {} is none of {} tasks from {} in steps of {}: give the array even steps "
                                             "(--array=1-8), or write --shard 3/8",
                                             task, count, first, step));
    return {at / step + 1, count};
}

} // namespace

bool Shard::has(std::string_view hash) const {
    if (whole()) return true;
    std::uint64_t h = 0;
    std::from_chars(hash.data(), hash.data() + hash.size(), h, 16);
    h ^= h >> 32; // FNV's low bits alone see little of a text's end
    return static_cast<std::int64_t>(h % static_cast<std::uint64_t>(count)) == index - 1;
}

Shard parse_shard(const std::string& text, const std::function<const char*(const char*)>& variable) {
    if (text == "slurm") return of_slurm(variable);
    const std::size_t slash = text.find('/');
    const auto index = whole_number(std::string_view(text).substr(0, slash));
    const auto count = slash == std::string::npos ? std::nullopt : whole_number(std::string_view(text).substr(slash + 1));
    if (!index || !count || *index < 1 || *count < 1 || *index > *count || *count > 1000000)
        throw std::runtime_error("--shard " + text + " is no part of a whole: write 1/8 to 8/8, or slurm in a Slurm array");
    return {*index, *count};
}

} // namespace orrery
