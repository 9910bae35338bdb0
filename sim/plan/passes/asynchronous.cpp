// Asynchronous pipelines: the steps of a run between two drains are one program, and each stage updates its weights as soon as a step's
// last microbatch has come back to it, while others that began with older weights are under way.
//
// PipeDream (arXiv:1806.03377) stashes: a microbatch goes forward with its stage's newest weights, and back with the same. 2BW
// (arXiv:2006.09503): all microbatches of a step read the weights of one update before the last, on every stage, and two versions are
// enough. An update steps on from the newest weights, whatever its gradients were made with, and writes a version that nobody reads any
// more.
//
// After it: blocks of passes stand once for each version they read (Block::version), a program has an update a step, and the last update of
// a program writes version 0, with which the next begins.
#include "sim/plan/passes/bucket_blocks.hpp"
#include "sim/plan/passes/passes.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <map>

namespace orrery {
namespace {

class StageFlow {
  public:
    StageFlow(Lowering& l, int stage) : l_(l), stage_(stage), draft_(l.drafts[stage]), steps_(l.plan.steps) {
        of_a_step_ = l.plan.microbatches / steps_;
        for (const Parameter& p : l.parameters[stage])
            if (p.trained()) weights_.push_back(p.weight);
        versions_.push_back(weights_);
        readers_.push_back(0);
        version_of_.assign(l.plan.microbatches, -1);
    }

    void run() {
        take_apart();
        begin_step();
        // A step's gradients are complete. The update goes behind what sends its last microbatch back, which nothing keeps waiting.
        bool complete = false;
        for (DraftAction& action : body_) {
            const bool computes = !action.parts.empty();
            if (complete && !only_sends(action)) complete = false, end_step();
            const std::int32_t microbatch = action.run.microbatch[0];
            const bool forward = computes && action.parts[0].step.kind == StepKind::forward;
            if (computes) read(action, forward ? begin_reading(microbatch) : version_of_[microbatch]);
            draft_.actions.push_back(std::move(action));
            if (!computes || forward) continue;
            --readers_[version_of_[microbatch]];
            complete = (microbatch + 1) % of_a_step_ == 0;
        }
        if (complete) end_step();
    }

  private:
    static bool only_sends(const DraftAction& action) {
        return action.parts.empty() && std::ranges::all_of(action.transfers, &TransferStep::send);
    }
    bool two() const { return l_.scenario.strategy.weight_versions == WeightVersions::two; }
    Block& block(std::int32_t id) { return l_.plan.blocks[id]; }

    // The begin and end of a step, and between them its compute steps and transfers.
    void take_apart() {
        std::vector<DraftAction> all = std::move(draft_.actions);
        draft_.actions.clear();
        const auto of_body = [](const DraftAction& a) { return !a.parts.empty() || !a.transfers.empty(); };
        const auto first = std::find_if(all.begin(), all.end(), of_body);
        const auto last = std::find_if(all.rbegin(), all.rend(), of_body).base();
        std::move(all.begin(), first, std::back_inserter(begin_));
        std::move(first, last, std::back_inserter(body_));
        std::move(last, all.end(), std::back_inserter(end_));
    }

    DraftAction again(const DraftAction& action, std::int32_t block_id) {
        DraftAction copy = run_of(l_.plan, draft_, block_id);
        copy.waits = action.waits;
        return copy;
    }
    void begin_step() {
        for (const DraftAction& a : begin_) draft_.actions.push_back(again(a, a.run.block));
    }

    // Under 2BW all microbatches of a step read the weights of one update before the last; in the first step there is one alone.
    std::int64_t updates_wanted(std::int64_t microbatch) const { return std::max<std::int64_t>(0, microbatch / of_a_step_ - 1); }

    std::int32_t begin_reading(std::int32_t microbatch) {
        const std::int32_t version = two() ? written_[updates_wanted(microbatch)] : newest_;
        ++readers_[version];
        next_ = microbatch + 1;
        return version_of_[microbatch] = version;
    }

    void read(DraftAction& action, std::int32_t version) {
        if (version > 0) action.run.block = of_version(action.run.block, version);
    }

    void end_step() {
        const bool last = ++step_ == steps_;
        const std::int32_t to = last ? 0 : free_version();
        for (const DraftAction& a : end_)
            draft_.actions.push_back(again(a, block(a.run.block).kind == BlockKind::optimizer ? update(a.run.block, to) : a.run.block));
        newest_ = to;
        written_.push_back(to);
        if (last) return;
        const std::int32_t begins = draft_.ids;
        begin_step();
        draft_.step_begins.push_back(begins);
    }

    // One that nobody reads any more.
    std::int32_t free_version() {
        const auto free = [&](std::int32_t v) {
            // Microbatches to come read the newest, or of 2BW those from some update on.
            const auto from = written_.begin() + (two() && next_ < l_.plan.microbatches ? updates_wanted(next_) : step_);
            return readers_[v] == 0 && std::find(std::min(from, written_.end()), written_.end(), v) == written_.end();
        };
        if (free(newest_)) return newest_;
        for (std::int32_t v = 0; v < static_cast<std::int32_t>(versions_.size()); ++v)
            if (free(v)) return v;
        return add_version();
    }

    std::int32_t add_version() {
        const auto version = static_cast<std::int16_t>(versions_.size());
        std::vector<BufferId>& list = versions_.emplace_back();
        readers_.push_back(0);
        for (BufferId w : weights_) {
            Buffer copy = l_.buffer(w);
            copy.name += fmt::format(".v{}", version);
            copy.version = version;
            copy.bucket = -1;
            list.push_back(l_.add(std::move(copy)));
        }
        return version;
    }

    void rename(std::vector<BufferId>& list, std::int32_t version) const {
        for (BufferId& b : list)
            if (const auto at = std::find(weights_.begin(), weights_.end(), b); at != weights_.end())
                b = versions_[version][at - weights_.begin()];
    }

    // The block of a pass, reading that version.
    std::int32_t of_version(std::int32_t id, std::int32_t version) {
        auto [it, fresh] = copies_.try_emplace({id, version, version}, -1);
        if (!fresh) return it->second;
        Block copy = block(id);
        copy.name += fmt::format(".v{}", version);
        copy.version = static_cast<std::int16_t>(version);
        for (Op& op : copy.ops) {
            rename(op.in, version);
            rename(op.out, version);
        }
        return it->second = l_.add(std::move(copy));
    }

    // The optimizer's block, from the newest version to another. Where no wider copy is kept the newest is copied first.
    std::int32_t update(std::int32_t id, std::int32_t to) {
        if (to == newest_ && to == 0) return id;
        auto [it, fresh] = copies_.try_emplace({id, newest_, to}, -1);
        if (!fresh) return it->second;
        Block copy = block(id);
        copy.name += fmt::format(".v{}", to);
        copy.version = static_cast<std::int16_t>(to);
        const auto step = std::find_if(copy.ops.begin(), copy.ops.end(), [](const Op& op) {
            const auto* s = std::get_if<OptimizerStep>(&op.work);
            return s && s->part != OptimizerStep::Part::apply;
        });
        const bool mastered = step != copy.ops.end() &&
                              std::any_of(step->in.begin(), step->in.end(), [&](BufferId b) { return l_.buffer(b).role == Role::master; });
        for (Op& op : copy.ops) {
            rename(op.in, to);
            rename(op.out, to);
        }
        if (to != newest_ && !mastered && step != copy.ops.end()) {
            std::int64_t elements = 0;
            for (const Parameter& p : l_.parameters[stage_]) elements += p.trained() ? p.elements : 0;
            std::vector<BufferId> from = weights_, into = weights_;
            rename(from, newest_);
            rename(into, to);
            copy.ops.insert(step, pointwise_op("next_version", PointwiseKind::copy, elements, Phase::optimizer, from, into));
        }
        return it->second = l_.add(std::move(copy));
    }

    Lowering& l_;
    const int stage_;
    Draft& draft_;
    const std::int64_t steps_;
    std::int64_t of_a_step_ = 1, step_ = 0;
    std::vector<DraftAction> begin_, body_, end_;
    std::vector<BufferId> weights_;                              // trained, version 0
    std::vector<std::vector<BufferId>> versions_;                // of each, in the order of weights_
    std::vector<int> readers_;                                   // microbatches under way, by version
    std::vector<std::int32_t> version_of_;                       // by microbatch
    std::vector<std::int32_t> written_{0};                       // version, by updates it has seen
    std::int32_t newest_ = 0;                                    // version
    std::int64_t next_ = 0;                                      // microbatch to go forward
    std::map<std::array<std::int32_t, 3>, std::int32_t> copies_; // by block, from, to
};

} // namespace

void asynchronous(Lowering& l) {
    if (!l.schedule->asynchronous) return;
    for (int stage = 0; stage < l.plan.stages; ++stage) StageFlow(l, stage).run();
}

} // namespace orrery
