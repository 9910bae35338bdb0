// The nodes of a job: which stand where, which are under repair, which stand by; and what of the newest save their memory still holds.
// Private to this room.
#pragma once

#include "sim/job/failures.hpp"

#include <span>
#include <utility>
#include <vector>

namespace orrery {

class JobNodes {
  public:
    JobNodes(const TrainingJob& job, int number);

    // Which place a failure of `slot` strikes (of a trace: where that node stands), -1: none that is in use. Lemons are struck more often.
    int struck(const MachineEvent& event, int slot) { return !named_ && empty_.empty() ? slot : struck_of_some(event, slot); }
    // The node of a place breaks at `now` and is back at `back`; a spare takes its place where there is one. A node back at once stays.
    // Returns whether the place is filled.
    bool leave(int slot, double now, double back) {
        const bool away = back > now;
        if (ordered_ || (anonymous_spares_ == 0 && away)) return (!named_ && !away) || leaves(slot, now, back);
        // A spare takes the place, as nearly always. Whether the node goes is a coin's toss: no branch.
        put({back, -1}, away);
        down_s_ += back - now;
        anonymous_spares_ -= away;
        return true;
    }
    // Nodes that are alike, all places taken, and one that stands by.
    bool have_spare() const { return !ordered_ && anonymous_spares_ > 0; }
    // Nodes whose repair has ended by `now` fill empty places, then stand by. Returns how many places they filled.
    // (In no order: no place waits, and settle() sees to them when spares run out.)
    int arrive(double now) { return ordered_ ? arrives(now) : 0; }
    double next_arrival() const;
    int missing() const { return static_cast<int>(empty_.size()); }
    double down_s(double now) const;                // node-seconds away up to now
    void outage(int node, double now, double back); // of a trace, for a node that stands by or is away

    // Copies of saves in other nodes' memory: true where the loss of this place's memory leaves a shard without a copy.
    bool lose_memory(int slot);
    void saved() { lost_memory_.clear(); } // a whole save lies in memory again

  private:
    int struck_of_some(const MachineEvent& event, int slot);
    bool leaves(int slot, double now, double back);
    int arrives(double now);
    double weight(int node) const;

    const TrainingJob& job_;
    JobRandom random_;
    bool named_; // lemons or a trace: it matters which node is which
    std::vector<int> node_in_, slot_of_, spares_, empty_, failures_;
    std::vector<char> lemon_, away_;
    std::vector<double> back_;
    double weights_ = 0, all_weights_ = 0;
    using Back = std::pair<double, int>;
    void put(Back back, bool counts) {
        if (away_nodes_ == repairs_.size()) repairs_.resize(2 * repairs_.size() + 16);
        repairs_[away_nodes_] = back;
        away_nodes_ += counts;
    }
    std::span<Back> repairs() { return {repairs_.data(), away_nodes_}; }
    std::span<const Back> repairs() const { return {repairs_.data(), away_nodes_}; }
    void add_repair(Back back);
    void settle(double now);
    void order();
    std::vector<Back> repairs_; // when who is back; a heap, the next first, while its order matters. The first away_nodes_ of it
    std::size_t away_nodes_ = 0;
    bool ordered_ = false; // named nodes, or a place that waits; else spares are enough, and the times of return are not needed
    int anonymous_spares_ = 0;
    double down_s_ = 0;
    std::vector<int> lost_memory_;
};

} // namespace orrery
