// A turn is one step, or a pair of the steady phase; every turn lasts one beat of a common clock, and what it makes is exchanged when it
// ends. Example (p = 2, v = 2): rank 0 runs F F F F+B F+B .., rank 1 runs F F F+B F+B .. one beat later; at each beat both exchange.
#include "sim/plan/passes/exchange_lockstep.hpp"

#include <algorithm>
#include <map>

namespace orrery {
namespace {

struct Turn {
    std::size_t first, last;
    std::int64_t beat = -1;
}; // steps [first, last] of its rank

std::vector<Turn> turns_of(const std::vector<ScheduleStep>& steps) {
    const auto is = [&](std::size_t i, StepKind kind) { return i < steps.size() && steps[i].kind == kind; };
    std::size_t ahead = 0, forwards = 0; // forward steps before the first backward step, and all
    while (is(ahead, StepKind::forward)) ++ahead;
    for (const ScheduleStep& s : steps) forwards += s.kind == StepKind::forward;
    std::vector<Turn> turns;
    for (std::size_t i = 0; i < steps.size();) {
        const bool steady =
            steps[i].joined || (i + 1 >= ahead && ahead < forwards && is(i, StepKind::forward) && is(i + 1, StepKind::backward));
        turns.push_back({i, i + (steady ? 1 : 0)});
        i = turns.back().last + 1;
    }
    return turns;
}

struct Beats {
    const Schedule& schedule;
    int (*stage_of)(int, int);
    int stages, chunks;
    std::vector<std::vector<Turn>> turns = {};
    std::vector<std::int64_t> made[2] = {}; // beat at which a forward or backward step ends, by (microbatch, chunk)
    std::vector<std::size_t> next = {};     // of each rank: its first turn without a beat

    std::int64_t& end(bool gradient, int chunk, int microbatch) {
        return made[gradient][std::size_t(microbatch) * std::size_t(chunks) + std::size_t(chunk)];
    }

    // Earliest beat a step can run in; -1: not yet known. What the same rank made in an earlier turn, or in the turn itself, is there.
    std::int64_t ready(const ScheduleStep& s, int rank) {
        const bool gradient = s.kind != StepKind::forward;
        const int from = gradient ? s.chunk + 1 : s.chunk - 1;
        if (from < 0 || from >= chunks || stage_of(from, stages) == rank) return 0;
        return end(gradient, from, s.microbatch);
    }

    bool advance(int rank) {
        const auto& steps = schedule.ranks[std::size_t(rank)];
        auto& mine = turns[std::size_t(rank)];
        std::size_t& at = next[std::size_t(rank)];
        const std::size_t before = at;
        for (; at < mine.size(); ++at) {
            std::int64_t beat = at == 0 ? 0 : mine[at - 1].beat + 1;
            for (std::size_t i = mine[at].first; i <= mine[at].last; ++i) {
                const std::int64_t since = ready(steps[i], rank);
                if (since < 0) return at > before;
                beat = std::max(beat, since);
            }
            mine[at].beat = beat;
            for (std::size_t i = mine[at].first; i <= mine[at].last; ++i)
                end(steps[i].kind != StepKind::forward, steps[i].chunk, steps[i].microbatch) = beat + 1;
        }
        return at > before;
    }

    bool run(std::int64_t microbatches) {
        for (auto& m : made) m.assign(std::size_t(microbatches * chunks), -1);
        for (const auto& steps : schedule.ranks) turns.push_back(turns_of(steps));
        next.assign(schedule.ranks.size(), 0);
        for (bool moved = true; moved;) {
            moved = false;
            for (std::size_t rank = 0; rank < turns.size(); ++rank) moved = advance(static_cast<int>(rank)) || moved;
        }
        return std::all_of(turns.begin(), turns.end(), [](const auto& t) { return t.empty() || t.back().beat >= 0; });
    }
};

using ByBeat = std::map<std::int64_t, std::vector<TransferStep>>; // of a rank: what it exchanges before the turn of that beat

bool fits(const std::vector<TransferStep>& together) {
    if (together.size() > 4) return false; // the ports of an action
    for (std::size_t i = 0; i < together.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
            if (together[i].from_stage == together[j].from_stage && together[i].to_stage == together[j].to_stage &&
                together[i].gradient == together[j].gradient)
                return false;
    return true;
}

bool collect(Beats& beats, std::vector<ByBeat>& exchanges) {
    const Schedule& schedule = beats.schedule;
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
        for (const Turn& turn : beats.turns[rank])
            for (std::size_t i = turn.first; i <= turn.last; ++i) {
                const ScheduleStep& s = schedule.ranks[rank][i];
                const bool gradient = s.kind != StepKind::forward;
                const int to = gradient ? s.chunk - 1 : s.chunk + 1;
                if (to < 0 || to >= beats.chunks) continue;
                const int to_stage = beats.stage_of(to, beats.stages);
                if (to_stage == static_cast<int>(rank)) continue;
                const TransferStep sent{std::int16_t(rank), std::int16_t(to_stage), gradient, s.chunk, s.microbatch, true};
                TransferStep received = sent;
                received.send = false;
                exchanges[rank][turn.beat + 1].push_back(sent);
                exchanges[std::size_t(to_stage)][turn.beat + 1].push_back(received);
            }
    for (ByBeat& all : exchanges)
        for (auto& [beat, together] : all) {
            std::stable_sort(together.begin(), together.end(),
                             [](const TransferStep& a, const TransferStep& b) { return a.send > b.send; });
            if (!fits(together)) return false;
        }
    return true;
}

} // namespace

std::optional<PipelineProgram> lockstep_exchanges(const Schedule& schedule, int (*stage_of)(int, int), int stages, int chunks) {
    std::int64_t microbatches = 0;
    for (const auto& steps : schedule.ranks)
        for (const ScheduleStep& s : steps) {
            if (s.kind != StepKind::forward && s.kind != StepKind::backward) return std::nullopt;
            microbatches = std::max<std::int64_t>(microbatches, s.microbatch + 1);
        }
    Beats beats{schedule, stage_of, stages, chunks};
    std::vector<ByBeat> exchanges(schedule.ranks.size());
    if (!beats.run(microbatches) || !collect(beats, exchanges)) return std::nullopt;
    PipelineProgram program(schedule.ranks.size());
    for (std::size_t rank = 0; rank < program.size(); ++rank) {
        auto due = exchanges[rank].begin();
        const auto exchange_until = [&](std::int64_t beat) {
            for (; due != exchanges[rank].end() && due->first <= beat; ++due) program[rank].push_back({true, {}, std::move(due->second)});
        };
        for (const Turn& turn : beats.turns[rank]) {
            exchange_until(turn.beat);
            for (std::size_t i = turn.first; i <= turn.last; ++i) program[rank].push_back({false, schedule.ranks[rank][i], {}});
        }
        exchange_until(INT64_MAX);
    }
    return program;
}

} // namespace orrery
