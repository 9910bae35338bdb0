#include "exec/simexec/others.hpp"

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/queues/talk.hpp"
#include "exec/simexec/command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace orrery::simexec {
namespace {

using Numbers = Others::Numbers;

// All ranks have heard of it, and one has said it.
bool said_by_all(const std::exception& e) {
    return dynamic_cast<const SaidElsewhere*>(&e) || dynamic_cast<const RefusedElsewhere*>(&e) ||
           dynamic_cast<const UnwrittenElsewhere*>(&e) || dynamic_cast<const NotFiniteElsewhere*>(&e) || dynamic_cast<const PeerGone*>(&e);
}

} // namespace

bool Others::any(bool mine) const { return sum({mine})[0] > 0; }

int Others::first(bool mine) const {
    const std::vector<Numbers> all = gather({mine});
    const auto it = std::ranges::find_if(all, [](const Numbers& n) { return n[0] != 0; });
    return it == all.end() ? -1 : static_cast<int>(it - all.begin());
}

Numbers Others::sum(const Numbers& mine) const {
    Numbers sums(mine.size(), 0);
    for (const Numbers& of_rank : gather(mine))
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += of_rank[i];
    return sums;
}

std::unique_ptr<Heartbeats> heartbeats_of(const OrreryTransport& transport, double patience) {
    constexpr double silence_s = 6;
    const auto silent = [](int rank, double seconds) {
        give_up(fmt::format("rank {} gives no sign of life for {:.0f} s: its process is stopped, or its machine or network is gone", rank,
                            seconds));
    };
    return std::make_unique<Heartbeats>(transport, patience, silence_s, silent);
}

Others over(const OrreryTransport& t, double patience) {
    return {t.rank,
            t.size,
            [&t, patience](const Numbers& mine) { return gather_over_ranks(t, mine, patience); },
            [&t, patience](const std::string& mine) { return collect_at_first(t, mine, patience); },
            [&t] { t.barrier(); },
            [&t](const std::exception& e) { // abort_all tells them
                const auto* nan = dynamic_cast<const NotFinite*>(&e);
                if (!said_by_all(e) && !(nan && nan->all_know)) let_lower_ranks_speak(t);
                return true;
            }};
}

Others over(const Fleet& fleet, const LaunchedRank& at, double patience) {
    const auto talk = std::make_shared<Talk>(fleet.store, at.rank, at.size, patience);
    const auto store = fleet.store;
    const auto fail = [store, at](const std::exception& e) {
        if (dynamic_cast<const StoreLost*>(&e)) return true;
        const bool heard = dynamic_cast<const SaidElsewhere*>(&e) || dynamic_cast<const RefusedElsewhere*>(&e);
        bool says = true;
        try {
            const bool first = heard || first_failure(*store, e.what()) || store->get(failed_key) == e.what();
            const bool follows = dynamic_cast<const LostPeer*>(&e) || dynamic_cast<const StoreTimeout*>(&e); // from another's failure
            const auto* nan = dynamic_cast<const NotFinite*>(&e);
            says =
                said_by_all(e) || (nan && nan->all_know) || ((first || !follows) && store->add(fmt::format("says {}", e.what()), 1) == 1);
        } catch (const StoreLost&) { // then all know
        }
        if (at.rank == 0) std::this_thread::sleep_for(std::chrono::seconds(1)); // the store goes with this process: all hear it first
        return says;
    };
    return {at.rank,
            at.size,
            [=](const Numbers& mine) { return talk->gather(mine); },
            [=](const std::string& mine) { return talk->collect(mine); },
            [=] { talk->meet(); },
            fail,
            fleet.keeps};
}

std::int64_t term(const std::string& text) { return static_cast<std::int64_t>(std::hash<std::string>{}(text)); }

void say_once(const Others& others, bool speaks, const std::string& what) {
    if (speaks) complain(what);
    try {
        others.meet();
    } catch (const StoreLost&) {     // whoever keeps it has said it, and gone
    } catch (const SaidElsewhere&) { // whoever was there before has gone on to end the job
    }
}

void end_all(const OrreryTransport& transport, const Others& others, const std::exception& e) {
    const int code = exit_code(e);
    if (others.fail(e)) report(e);
    std::fflush(nullptr);
    transport.abort_all(code);
    std::_Exit(code);
}

void agree_on_terms(const Others& others, const Terms& terms) {
    Numbers mine;
    for (const auto& t : terms) mine.push_back(t.second);
    std::string found;
    const std::vector<Numbers> all = others.gather(mine);
    for (std::size_t i = 0; i < terms.size() && found.empty(); ++i)
        for (std::size_t r = 1; r < all.size() && found.empty(); ++r)
            if (all[r][i] != all[0][i])
                found = fmt::format("rank {} has another {} than rank 0: start all ranks with the same program, scenario and options", r,
                                    terms[i].first);
    if (found.empty()) return;
    say_once(others, others.rank == 0, found);
    throw SaidElsewhere(found);
}

} // namespace orrery::simexec
