// The points that a search has found so far, for the strategies table. No widgets here.
#pragma once

#include "gui/core/figures.hpp"
#include "sim/search/search.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace orrery {

// A scenario's text whose strategy is free: its degrees, micro batch, schedule, ZeRO and recompute taken out. Throws nothing: a text that
// is no scenario comes back as it is, and the search says what is wrong with it. (Its own schedule: schedules_beside_own.)
std::string with_free_strategy(const std::string& text);

class FoundPoints {
  public:
    static constexpr int first_number = 1 << 20; // of their SweptPoint::number: above any sweep's
    void clear();
    void add(const std::vector<SweepRow>& rows); // more of them, or the same again
    void finish(const SearchResult& result);     // refined ones too; now scenarios are known, and whether the best is proven
    std::vector<SweptPoint> points() const;      // that fit: the one that leads (leader()), then fastest first, with notes; 200 at most
    std::string scenario(int number) const;      // its text; empty: not known yet, or none of these
    int fitting() const { return static_cast<int>(fits_.size()); }
    int tooBig() const { return too_big_; }
    bool proven() const { return proven_; }

  private:
    std::size_t leading() const; // of fits_
    QString note_of_first(std::size_t lead) const;

    std::map<std::string, int> number_; // by hash of the row
    std::map<int, std::string> json_;
    std::set<std::string> refined_; // hashes of rows that the search refined
    std::vector<SweepRow> fits_;    // fastest first
    int too_big_ = 0;
    bool over_ = false, proven_ = false;
};

// Why a row is behind the best: the number that decides, or, of a faster one, that its memory is not sure to be enough.
QString behind(const SweepRow& row, const SweepRow& best);

} // namespace orrery
