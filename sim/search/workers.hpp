// Each thread of a search keeps: a scenario to vary, a fabric and prices for each machine, the last plan. Private to this room.
#pragma once

#include "sim/report/reuse.hpp"
#include "sim/search/sharing.hpp"
#include "sim/search/space.hpp"
#include "sim/search/threads.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

namespace orrery {

struct Worker {
    std::vector<std::unique_ptr<Variation>> variations; // by machine
    std::vector<std::unique_ptr<Fabric>> fabrics;
    std::vector<std::unique_ptr<SharedWire>> sharings;
    ReadyPlans plans{1, false}; // points that differ in rank order alone have one plan

    // Valid until the worker's next call; nullptr where a rule refuses it.
    const Scenario* resolved(const StrategySpace& space, const PointId& id) {
        return variations[space.forms[id.form].machine]->with(settings_of(space, id));
    }
};

class Workers {
  public:
    Workers(const StrategySpace& space, int jobs) : jobs_(threads_for(jobs)) {
        for (int t = 0; t < jobs_; ++t) {
            workers_.push_back(std::make_unique<Worker>());
            Worker& w = *workers_.back();
            for (const SpaceMachine& machine : space.machines) {
                w.variations.push_back(std::make_unique<Variation>(machine.variations));
                w.fabrics.push_back(std::make_unique<Fabric>(machine.variations.base().cluster));
                w.sharings.push_back(std::make_unique<SharedWire>(*w.fabrics.back()));
            }
        }
    }

    Worker& first() { return *workers_.front(); }

    // `work(worker, i)` for each i below n, side by side; it must not throw.
    template <typename Work> void each(std::size_t n, Work work) {
        if (n == 0) return; // no threads would be all of them
        std::atomic<std::size_t> next{0}, worker{0};
        in_threads(static_cast<int>(std::min<std::size_t>(n, static_cast<std::size_t>(jobs_))), [&] {
            Worker& mine = *workers_[worker++];
            for (std::size_t i = next++; i < n; i = next++) work(mine, i);
        });
    }

  private:
    int jobs_;
    std::vector<std::unique_ptr<Worker>> workers_;
};

} // namespace orrery
