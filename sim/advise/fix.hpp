// The cheapest way to make a job fit that does not, and the smallest cluster that works.
#pragma once

#include "sim/advise/trial.hpp"

namespace orrery {

struct Fix {
    std::optional<Trial> change;         // of the strategy; nothing: none was found
    double costs = 0;                    // of the step, against the step as it is if it did fit; 0: not simulated
    std::optional<Trial> cluster;        // with more nodes, where no change of the strategy fits
    std::optional<Trial> with_hosts;     // on fewer nodes than that, with optimizer states in the hosts' memory
    int looked_at = 0;                   // plans whose memory was walked
    bool out_of_time = false;            // FixOptions::seconds ended before all of them were
    bool cut_short = false;              // clusters smaller than these were left untried
    std::vector<StrategyChange> further; // that fit too, where the costs were not simulated
    bool found() const { return change || cluster || with_hosts; }
};

struct FixOptions {
    TryOptions trying;
    int most = 60;               // plans to look at for a change
    int most_for_clusters = 800; // and for the smallest cluster
    std::string cluster_of;      // the text whose smallest cluster is wanted, where it is not json: a search's, of which json is one point
    bool hosts = true;           // name clusters with optimizer states on hosts, where the text itself says nothing of /strategy/offload
    bool precise = true;         // look for the least recompute by stage too
    bool costs = true;           // simulate the job itself as if it fitted, and what fits
    double seconds = 0;          // stop looking after that; 0: look at all
};
// json: the scenario's text, which is legal and does not fit.
Fix cheapest_fix(const std::string& json, const FixOptions& options);
// One sentence for whoever was told that it does not fit; empty: nothing was found within the bound.
std::string to_text(const Fix& fix);

} // namespace orrery
