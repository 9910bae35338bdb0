// Which of the simulated points to name first, and which beside it.
#pragma once

#include "sim/search/search.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace orrery {

// The figures that decide the choice of a leader.
struct Candidate {
    double score = 0;         // to be made small
    double time_interval = 0; // half width of its interval, as a fraction
    bool surely = true;       // fits_surely()
    double to_spare = 0;      // share of the memory that is left
    double step_s = 0;
};

double margin_of(const SweepRow& row); // memory_margin() (sim/report/memory_margin.hpp); a tenth where the interval is not known
bool fits_surely(const SweepRow& row); // leaves that
double to_spare(const SweepRow& row);  // share of the memory

// The place of the one that leads: the best, or, where it does not fit surely, the best of those within its interval of time that do. Of
// scores and steps that are the same to a thousandth, the one with most memory to spare. Candidates fit; best score first, not empty.
//
// Ties within 2 % are not broken by memory: on the measured searches of scenarios/validation that made the mean regret 1.1 % instead of
// 0.7.
std::size_t leader(std::span<const Candidate> best_first);
std::size_t leader(const std::vector<SearchPoint>& points);
// The answer's first: the best refinement where there is any, as each of them is better than the leader; else the leader. Points fit.
const SearchPoint& named(const SearchResult& result);
// The answer's rows: named(), the leader that it may be a refinement of, and the best of each other kind; at most `most`, at least the
// first.
std::vector<const SearchPoint*> rows_of(const SearchResult& result, std::size_t most);
// The leader and the best of each other kind (its degrees), best first: at most `most` of them.
std::vector<std::size_t> different(const std::vector<SearchPoint>& points, std::size_t leader, std::size_t most);
// Points that no other beats in time, peak memory, devices and cost at once, fastest first.
std::vector<std::size_t> frontier(const std::vector<SearchPoint>& points);

} // namespace orrery
