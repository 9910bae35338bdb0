// Which rows a timeline has: tracks under their rank, ranks under their groups, in the order and with those folded away that the user
// wants. Plain data in, plain data out.
#pragma once

#include "gui/core/tracks.hpp"
#include "sim/plan/plan.hpp"

#include <QString>

#include <map>
#include <set>
#include <vector>

namespace orrery {

enum class GroupBy : std::uint8_t { stage, data, tensor, context, expert };
QString label(GroupBy g); // "pipeline stage", translated

enum class RowKind : std::uint8_t { group, lane, track };

// A folded group shows its ranks' computations added up; a lane its computation; a track itself.
struct Row {
    RowKind kind = RowKind::track;
    int depth = 0;
    QString label;
    QString key;                      // stays the same whatever is folded, moved or filtered: "stage 1/rank 8/tp"
    std::vector<std::int32_t> tracks; // what it paints, added up
    std::int32_t lane = -1;           // of lanes and tracks
    bool expandable = false, expanded = false;
    bool pinned = false;
};

struct RowOptions {
    std::vector<GroupBy> groups{GroupBy::stage}; // outermost first
    std::set<QString> folded;                    // keys
    std::vector<QString> pinned;                 // keys; shown first, once more, whatever is folded
    std::map<QString, int> order;                // among siblings; those without a place keep theirs behind
    QString filter;                              // only rows with it in the label of a track or of its rank
    std::vector<std::int32_t> ranks;             // only lanes that show one of these; empty: all
    std::vector<std::int32_t> lane_of_rank;      // the lane that stands for a rank; empty: any of its stage that stands for several may
    std::vector<QString> names;                  // by lane, instead of "rank 5"; empty: those of the trace
    friend bool operator==(const RowOptions&, const RowOptions&) = default;
};

// "rank 5" and "5": of one rank, also where another one's lane stands for it. -1: something else.
std::int32_t rank_in_filter(const QString& filter);

// plan: null where only a trace is known; then ranks are grouped by stage alone.
std::vector<Row> rows_of(const TrackStore& store, const Plan* plan, const RowOptions& options);

// Where a rank stands along the group's axis.
int coordinate(const Plan& plan, GroupBy group, int rank);

// Moves row `index` before (delta < 0) or behind its sibling; false: it has none there.
bool move_row(RowOptions& options, const std::vector<Row>& rows, std::size_t index, int delta);

} // namespace orrery
