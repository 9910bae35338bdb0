#include "sim/plan/repeats.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace orrery {
namespace {

constexpr std::int32_t least_periods = 4, longest_period = 4096;

class Comparison {
  public:
    Comparison(const Program& program, const std::vector<ExplicitDep>& explicit_deps)
        : actions_(program.actions), deps_(explicit_deps), last_(last_uses(program)), deps_begin_(program.actions.size() + 1, 0) {
        for (const ExplicitDep& d : deps_) ++deps_begin_[static_cast<std::size_t>(d.action) + 1];
        for (std::size_t i = 1; i < deps_begin_.size(); ++i) deps_begin_[i] += deps_begin_[i - 1];
    }

    // By how much the microbatches of action i are further than those of the same action before; nothing: it is another one, or has none.
    std::optional<std::int32_t> further(std::int32_t i, std::int32_t before) const {
        for (std::size_t port = 0; port < max_ports; ++port)
            if (actions_[i].microbatch[port] >= 0) return actions_[i].microbatch[port] - actions_[before].microbatch[port];
        return {};
    }

    bool same(std::int32_t i, std::int32_t before, std::int32_t microbatches) const {
        const Action &a = actions_[i], &b = actions_[before];
        if (a.block != b.block || a.first != b.first || a.last != b.last) return false;
        for (std::size_t port = 0; port < max_ports; ++port) {
            const std::int32_t x = a.microbatch[port], y = b.microbatch[port];
            if ((x < 0) != (y < 0)) return false;
            if (x >= 0 && (x - y != microbatches || ends(x, i) != ends(y, before))) return false;
        }
        return same_deps(i, before);
    }

  private:
    bool ends(std::int32_t microbatch, std::int32_t action) const { return last_[microbatch] == action; }

    bool same_deps(std::int32_t i, std::int32_t before) const {
        const std::size_t a = deps_begin_[i], b = deps_begin_[before];
        const std::size_t n = deps_begin_[static_cast<std::size_t>(i) + 1] - a;
        if (deps_begin_[static_cast<std::size_t>(before) + 1] - b != n) return false;
        for (std::size_t k = 0; k < n; ++k) {
            const ActionDep &x = deps_[a + k].dep, &y = deps_[b + k].dep;
            if (x.op != y.op || x.on_op != y.on_op || x.on_action - i != y.on_action - before) return false;
        }
        return true;
    }

    const Indexed<std::int32_t, Action>& actions_;
    const std::vector<ExplicitDep>& deps_;
    std::vector<std::int32_t> last_;
    std::vector<std::size_t> deps_begin_; // by action, and their number
};

// Whether the period that ends with the middle action repeats the one before it; microbatches: by how much further it is.
bool repeats(const Comparison& compare, std::int32_t middle, std::int32_t period, std::int32_t& microbatches) {
    std::optional<std::int32_t> further;
    for (std::int32_t i = middle; i > middle - period && !further; --i) further = compare.further(i, i - period);
    microbatches = further.value_or(0);
    for (std::int32_t i = middle; i > middle - period; --i)
        if (!compare.same(i, i - period, microbatches)) return false;
    return true;
}

// The run around an action of the program.
RepeatedActions repeated_around(const Program& program, const Comparison& compare, std::int32_t around) {
    const auto count = static_cast<std::int32_t>(program.actions.size());
    const std::int32_t most = std::min({longest_period, count / least_periods, (around + 1) / 2});
    for (std::int32_t period = 1; period <= most; ++period) {
        std::int32_t microbatches = 0;
        if (program.actions[around].block != program.actions[around - period].block || !repeats(compare, around, period, microbatches))
            continue;
        RepeatedActions run{around - 2 * period + 1, around + 1, period, microbatches};
        while (run.begin > 0 && compare.same(run.begin + period - 1, run.begin - 1, microbatches)) --run.begin;
        while (run.end < count && compare.same(run.end, run.end - period, microbatches)) ++run.end;
        if (run.end - run.begin >= least_periods * period) return run;
    }
    return {};
}

} // namespace

std::vector<std::int32_t> last_uses(const Program& program) {
    std::vector<std::int32_t> last;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.actions.size()); ++i)
        for (const std::int32_t mb : program.actions[i].microbatch) {
            if (mb < 0) continue;
            if (static_cast<std::size_t>(mb) >= last.size()) last.resize(static_cast<std::size_t>(mb) + 1, -1);
            last[mb] = i;
        }
    return last;
}

RepeatedActions repeated_actions(const Program& program, const std::vector<ExplicitDep>& explicit_deps) {
    const auto count = static_cast<std::int32_t>(program.actions.size());
    if (count < least_periods) return {};
    const Comparison compare(program, explicit_deps);
    RepeatedActions longest;
    for (const std::int32_t eighths :
         {4, 2, 6, 1, 3, 5, 7}) { // the last pass may be cut into many actions, beside which the others are few
        const std::int32_t around = static_cast<std::int32_t>(std::int64_t{count} * eighths / 8);
        if (around >= longest.begin && around < longest.end) continue;
        const RepeatedActions run = repeated_around(program, compare, around);
        if (run.end - run.begin > longest.end - longest.begin) longest = run;
        if (longest.end - longest.begin > count / 2) break;
    }
    return longest;
}

} // namespace orrery
