#include "sim/advise/smallest_cluster.hpp"

#include "sim/advise/changes.hpp"

#include <algorithm>
#include <map>

namespace orrery {
namespace {

class Nodes {
  public:
    Nodes(const Scenario& job, const Look& look) : job_(job), look_(look) {}

    // The fewest nodes above those of the job, and below `end`.
    std::optional<Trial> fewest(bool on_hosts, int end) {
        constexpr int most_doublings = 9;
        int low = job_.cluster.nodes, high = low;
        std::optional<Trial> best;
        for (int k = 0; k < most_doublings && !best && high < end - 1; ++k) {
            low = high;
            high = static_cast<int>(std::min<std::int64_t>(std::int64_t{high} * 2, end - 1));
            best = fitting_on(high, on_hosts);
        }
        while (best && high - low > 1) {
            const int middle = low + (high - low) / 2;
            if (std::optional<Trial> fewer = fitting_on(middle, on_hosts))
                best = std::move(fewer), high = middle;
            else
                low = middle;
        }
        return best;
    }

  private:
    // The first that fits. What lacks memory on some nodes lacks it on fewer: the same strategy shares less there, and is not tried.
    std::optional<Trial> fitting_on(int nodes, bool on_hosts) {
        std::vector<StrategyChange> changes;
        std::vector<std::string> words;
        const StrategyChange more = set_nodes(nodes);
        for (const StrategyChange& c : strategies(job_, nodes, on_hosts)) {
            if (const auto known = lacked_.find(c.words); known != lacked_.end() && known->second >= nodes) continue;
            changes.push_back(both(more, c));
            words.push_back(c.words);
        }
        std::vector<Trial> trials = look_(changes);
        for (std::size_t i = 0; i < trials.size(); ++i)
            if (trials[i].report && !trials[i].fits()) lacked_[words[i]] = std::max(lacked_[words[i]], nodes);
        const auto first = std::ranges::find_if(trials, &Trial::fits);
        return first == trials.end() ? std::optional<Trial>() : std::move(*first);
    }

    static std::vector<StrategyChange> strategies(const Scenario& job, int nodes, bool on_hosts) {
        std::vector<StrategyChange> all = least_memory(job, nodes, on_hosts);
        if (!on_hosts) all.insert(all.begin(), StrategyChange{}); // the job's own
        return all;
    }

    const Scenario& job_;
    const Look& look_;
    std::map<std::string, int> lacked_; // by a strategy's words: the most nodes on which it lacked memory
};

} // namespace

SmallestCluster smallest_cluster(const Scenario& job, const Look& look) {
    constexpr int end = 50001; // nodes
    SmallestCluster found;
    if (job.cluster.graph) return found;
    Nodes nodes(job, look);
    found.on_devices = nodes.fewest(false, end);
    const int on_devices = found.on_devices ? found.on_devices->scenario->cluster.nodes : end;
    if (on_devices > job.cluster.nodes + 1) found.on_hosts = nodes.fewest(true, on_devices);
    return found;
}

} // namespace orrery
