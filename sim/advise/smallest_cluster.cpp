#include "sim/advise/smallest_cluster.hpp"

#include "sim/advise/changes.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace orrery {
namespace {

class Nodes {
  public:
    Nodes(const Scenario& job, const Look& look) : job_(job), look_(look) {}

    // The fewest nodes above those of the job, and below `end`: first numbers that double until one fits, then those below it, upwards.
    // What fits is legal on some numbers alone, so that none says that another need not be tried.
    std::optional<Trial> fewest(bool on_hosts, int end) {
        std::optional<Trial> best;
        std::set<int> tried;
        for (const int n : doubled(end)) {
            tried.insert(n);
            if (best = fitting_on(n, on_hosts); best || cut_short) break;
        }
        const int below = best ? best->scenario->cluster.nodes : end;
        for (const int n : between(below)) {
            if (cut_short) break;
            if (tried.contains(n)) continue;
            if (std::optional<Trial> fewer = fitting_on(n, on_hosts)) return fewer;
        }
        return best;
    }

    bool cut_short = false; // fewer strategies were tried than were asked for

  private:
    std::vector<int> doubled(int end) const {
        constexpr int most_doublings = 9;
        std::set<int> numbers;
        std::int64_t own = job_.cluster.nodes, power = 1;
        while (power <= own) power *= 2;
        for (int k = 0; k < most_doublings; ++k, power *= 2)
            for (const std::int64_t n : {own *= 2, power})
                if (n < end) numbers.insert(static_cast<int>(n));
        return {numbers.begin(), numbers.end()};
    }

    // All between the job's nodes and these; of many those with small factors, which layers, experts and batches share.
    std::vector<int> between(int below) const {
        constexpr int few = 64;
        const int own = job_.cluster.nodes;
        std::vector<int> numbers;
        for (std::int64_t n = own + 1; n < std::min<std::int64_t>(below, 4096); ++n) {
            std::int64_t odd = n;
            while (odd % 2 == 0) odd /= 2;
            if (below - own <= few || odd <= 15 || (n % own == 0 && n / own <= 8)) numbers.push_back(static_cast<int>(n));
        }
        return numbers;
    }

    // The first that fits. What lacks memory on some nodes lacks it on fewer: the same strategy shares less there, and is not tried.
    std::optional<Trial> fitting_on(int nodes, bool on_hosts) {
        std::vector<StrategyChange> changes;
        std::vector<std::string> words;
        const StrategyChange more = set_nodes(nodes);
        for (const StrategyChange& c : strategies(nodes, on_hosts)) {
            if (const auto known = lacked_.find(c.words); known != lacked_.end() && known->second >= nodes) continue;
            changes.push_back(both(more, c));
            words.push_back(c.words);
        }
        std::vector<Trial> trials = look_(changes);
        cut_short = cut_short || trials.size() < changes.size();
        for (std::size_t i = 0; i < trials.size(); ++i)
            if (trials[i].report && !trials[i].fits()) lacked_[words[i]] = std::max(lacked_[words[i]], nodes);
        const auto first = std::ranges::find_if(trials, &Trial::fits);
        return first == trials.end() ? std::optional<Trial>() : std::move(*first);
    }

    std::vector<StrategyChange> strategies(int nodes, bool on_hosts) const {
        std::vector<StrategyChange> all = least_memory(job_, nodes, on_hosts);
        if (!on_hosts) all.insert(all.begin(), StrategyChange{}); // the job's own
        return all;
    }

    const Scenario& job_;
    const Look& look_;
    std::map<std::string, int> lacked_; // by a strategy's words: the most nodes on which it lacked memory
};

} // namespace

SmallestCluster smallest_cluster(const Scenario& job, const Look& look, bool hosts) {
    constexpr int end = 50001; // nodes
    SmallestCluster found;
    if (job.cluster.graph) return found;
    Nodes nodes(job, look);
    found.on_devices = nodes.fewest(false, end);
    const int on_devices = found.on_devices ? found.on_devices->scenario->cluster.nodes : end;
    if (hosts && on_devices > job.cluster.nodes + 1) found.on_hosts = nodes.fewest(true, on_devices);
    found.cut_short = nodes.cut_short;
    return found;
}

} // namespace orrery
