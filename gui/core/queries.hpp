// Questions to a trace: what a slice is, what it hangs together with, where something is, what an area holds.
#pragma once

#include "gui/core/tracks.hpp"
#include "sim/plan/plan.hpp"
#include "sim/trace/critical_path.hpp"

#include <QString>

#include <atomic>
#include <optional>
#include <utility>
#include <vector>

namespace orrery {

struct RunData; // gui/core/run.hpp

struct SpanRef {
    std::int32_t lane = -1, span = -1;
    bool valid() const { return lane >= 0; }
    friend auto operator<=>(const SpanRef&, const SpanRef&) = default;
};
const Span& span_of(const Trace& trace, SpanRef ref);

QString title(const Trace& trace, const Span& span); // "l17.qkv.fwd", "waits for a receive"
// Name and value, translated; the first is the title.
using Facts = std::vector<std::pair<QString, QString>>;
Facts facts(const Trace& trace, SpanRef ref);
Facts facts(const RunData& run, SpanRef ref); // and which version of the weights it uses; the run must have a trace
// Facts that no slice of a step tells: how old weights are, how many versions are held, what leaves nodes. Empty: nothing of it.
Facts facts_of_run(const RunData& run);
QString duration_text(std::int64_t ps);                      // "3.214 ms", in the user's locale
QString time_text(std::int64_t ps, std::int64_t resolution); // enough digits to tell apart what is `resolution` apart

enum class ArrowKind : std::uint8_t { transfer, collective, dependency };
struct Arrow {
    SpanRef from, to;
    ArrowKind kind;
};
// The links of one slice: its transfers' other ends, the members of its collective, and, where the plan is known, what it depends on.
std::vector<Arrow> arrows_of(const TrackStore& store, const Plan* plan, SpanRef ref);

// The terms of a search: words that a name, a kind, a phase or a cause holds, or "mb:3" for a microbatch, all of them.
class Search {
  public:
    Search(const Trace& trace, const QString& text);
    bool empty() const { return empty_; }
    bool matches(const Span& s) const;
    // The next match in time after (or before) a place, of all tracks; nothing given: from the start (or the end).
    std::optional<SpanRef> next(const TrackStore& store, std::optional<SpanRef> from, bool forward) const;

  private:
    bool empty_ = true;
    std::int32_t microbatch_ = -1;
    std::vector<bool> ops_, causes_;
};

// An area of a timeline by what ran in it. Times are means over the lanes of the area, counted as often as they stand for ranks.
struct AreaRow {
    SliceKind kind = SliceKind::other;
    QString what; // the op's kind, or the wait's cause
    std::int64_t slices = 0;
    double sum = 0;      // ps: durations added up
    double covered = 0;  // ps: the union of their intervals in a rank
    double exposed = 0;  // ps: that part of it in which the rank computed nothing
    double critical = 0; // ps on the critical path, not a mean
};
// Stops early (empty) once `cancelled` is set. tracks: which of the store; path: may be empty.
std::vector<AreaRow> area(const TrackStore& store, const std::vector<std::int32_t>& tracks, std::int64_t begin, std::int64_t end,
                          const std::vector<PathStep>& path, const std::atomic<bool>* cancelled = nullptr);

} // namespace orrery
