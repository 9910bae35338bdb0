// Memory that is used again waits for its last users. An allocator that serves one queue hands a freed buffer on at once; where another
// queue (a collective, a transfer) still works on it, somebody must wait before the memory is written again. Frameworks limit how many
// such operations are in flight (FSDP's gathers and reductions, DeepSpeed's reductions, Megatron's sends, the events that PyTorch's
// allocator records); here the limit is the memory itself: an op that is the first to touch a new buffer waits for freed ones, oldest
// first, where without that its stage could hold more than the plan's peak at once, or have less than a quarter free of what is free when
// the program is walked in issue order. Tensors of a bucket that lie side by side are freed together: their room is one.
//
// That quarter is there for the packing of a stage's buffers (exec/queues/packing.cpp). Where what is freed may fill the memory up to
// the peak all the time, no two of those buffers may share bytes, in any part of the step, and what lies between them leaves gaps; with
// the quarter the memory is full at the peak alone. Queues seldom lag so far behind: most examples' predicted steps are as long with these
// waits as without, that of tiny-llama is 0.14 % longer.
//
// No wait can be for ever: each is for an op that is issued earlier on the same stage and, between actions, ends earlier in the one order
// in which all stages can run (possible()).
//
// After it: whatever the speeds of the queues, the buffers of a stage that may be in use at one time never come to more than the
// peak of the program walked in issue order; where the order of pipeline stages' transfers forbids such a wait, to little more.
#include "sim/plan/in_flight.hpp"

#include "sim/plan/hazards.hpp"
#include "sim/plan/one_order.hpp"
#include "sim/plan/queue_clocks.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>

namespace orrery {
namespace {

constexpr std::int64_t stays_free = 4; // one part in four of the memory that is free

// Memory freed while a queue might still use it: by its last user there. Sums of bytes from the oldest on.
class Pending {
  public:
    struct Entry {
        std::int32_t last; // issue
        std::int64_t bytes, until;
    }; // until: bytes of this and all older ones

    void add(std::int32_t last, std::int64_t bytes) {
        auto at = entries_.end();
        while (at != entries_.begin() && std::prev(at)->last > last) --at;
        const std::int64_t before = at == entries_.begin() ? 0 : std::prev(at)->until;
        at = entries_.insert(at, {last, bytes, before + bytes});
        for (++at; at != entries_.end(); ++at) at->until += bytes;
    }
    // The first whose last user may not have ended, where all up to `ended` have.
    std::size_t first_after(std::int32_t ended) const {
        if (entries_.empty() || entries_.back().last <= ended) return entries_.size();
        return static_cast<std::size_t>(std::ranges::upper_bound(entries_, ended, {}, &Entry::last) - entries_.begin());
    }
    std::int64_t bytes_from(std::size_t first) const {
        if (first >= entries_.size()) return 0;
        return entries_.back().until - (first > 0 ? entries_[first - 1].until : 0);
    }
    // The entry up to which, from `first` on, there are that many bytes; the last where there are fewer.
    std::size_t enough(std::size_t first, std::int64_t bytes) const {
        const std::int64_t wanted = bytes + (first > 0 ? entries_[first - 1].until : 0);
        const auto at = static_cast<std::size_t>(std::ranges::lower_bound(entries_, wanted, {}, &Entry::until) - entries_.begin());
        return std::min(at, entries_.size() - 1);
    }
    std::int32_t last(std::size_t i) const { return entries_[i].last; }
    std::size_t size() const { return entries_.size(); }

  private:
    std::vector<Entry> entries_;
};

// A storage between its Alloc and its Free, or those that lie side by side: their room is free when the last of them is.
struct Live {
    std::int64_t freed = 0; // bytes of those that have been
    int open = 0;           // that have not
    bool fresh = true;      // nobody has touched what came last
    std::optional<BucketRoom> together{};
};

struct Wait {
    std::int32_t issue, on;
};

class Flight {
  public:
    // order: of all stages together; null where there is one.
    Flight(const Plan& plan, const Program& program, const OneOrder* one)
        : plan_(plan), order_(issue_order(plan, program)), one_(one), clocks_(plan, order_), pending_(clocks_.width()) {
        find_slots(program.stage);
        find_peak();
    }

    std::vector<Wait> waits() {
        std::vector<std::int32_t> planned;
        for (std::size_t k = 0; k < order_.issues.size(); ++k) {
            const auto i = static_cast<std::int32_t>(k);
            const Work& work = order_.issues[k].op->work;
            if (const auto* a = std::get_if<Alloc>(&work)) {
                allocate(a->buffer, i);
            } else if (const auto* f = std::get_if<Free>(&work)) {
                release(f->buffer, order_.issues[k].microbatch);
            } else {
                clocks_.begin(i, planned);
                if (touches_new(i)) bound(i);
                clocks_.end(i);
            }
        }
        return std::move(waits_);
    }
    const IssueOrder& order() const { return order_; }

  private:
    static bool counts(const Buffer& b) { return b.space == Space::device; }

    void find_slots(int stage) {
        slot_of_.assign(plan_.buffers.size(), -1);
        std::int32_t slots = 0;
        for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
            const Buffer& x = plan_.buffers[b];
            if (x.stage != stage || x.storage >= 0 || !counts(x)) continue;
            slot_of_[b] = slots;
            slots += per_microbatch(x) ? static_cast<std::int32_t>(plan_.microbatches) : 1;
        }
        live_of_.assign(slots, -1);
    }
    // Against what there is when the program begins.
    void find_peak() {
        std::int64_t level = 0;
        for (const Issue& i : order_.issues) {
            if (const auto* a = std::get_if<Alloc>(&i.op->work); a && counts(buffer(a->buffer)))
                peak_ = std::max(peak_, level += buffer(a->buffer).bytes.count);
            if (const auto* f = std::get_if<Free>(&i.op->work); f && counts(buffer(f->buffer))) level -= buffer(f->buffer).bytes.count;
        }
    }
    const Buffer& buffer(BufferId b) const { return plan_.buffers[b]; }
    std::int32_t* slot(BufferId b, std::int32_t microbatch) {
        const auto root = static_cast<std::size_t>(storage(plan_, b));
        if (slot_of_[root] < 0) return nullptr;
        const std::int32_t instance = per_microbatch(plan_.buffers[root]) && microbatch >= 0 ? microbatch : 0;
        return &live_of_[slot_of_[root] + instance];
    }
    std::span<std::int32_t> users(std::int32_t live) { // by queue: the last issue that touches it
        return {users_.data() + static_cast<std::size_t>(live) * clocks_.width(), clocks_.width()};
    }

    std::int32_t new_live() {
        if (spare_.empty()) {
            spare_.push_back(static_cast<std::int32_t>(lives_.size()));
            lives_.emplace_back();
            users_.resize(users_.size() + clocks_.width());
        }
        const std::int32_t live = spare_.back();
        spare_.pop_back();
        lives_[live] = {};
        std::ranges::fill(users(live), -1);
        return live;
    }
    void allocate(BufferId b, std::int32_t issue) {
        std::int32_t* const at = slot(b, order_.issues[issue].microbatch);
        if (!at) return;
        const std::optional<BucketRoom> together = bucket_room(plan_, order_, issue, b);
        if (const auto with = together ? together_.find(*together) : together_.end(); with != together_.end()) {
            *at = with->second;
        } else {
            *at = new_live();
            lives_[*at].together = together;
            if (together) together_.emplace(*together, *at);
        }
        lives_[*at].fresh = true;
        ++lives_[*at].open;
        level_ += buffer(b).bytes.count;
    }
    void release(BufferId b, std::int32_t microbatch) {
        std::int32_t* const at = slot(b, microbatch);
        if (!at) return;
        level_ -= buffer(b).bytes.count;
        if (*at < 0) return; // it was there when the program began
        const std::int32_t live = std::exchange(*at, -1);
        Live& x = lives_[live];
        x.freed += buffer(b).bytes.count;
        closing_ += buffer(b).bytes.count;
        if (--x.open > 0) return;
        closing_ -= x.freed;
        const auto last = users(live);
        for (std::size_t q = 0; q < last.size(); ++q)
            if (last[q] >= 0 && !implied(last, q)) pending_[q].add(last[q], x.freed);
        if (x.together) together_.erase(*x.together);
        spare_.push_back(live);
    }
    // Whether another of its last users begins only when this one has ended.
    bool implied(std::span<const std::int32_t> last, std::size_t q) const {
        for (std::size_t p = 0; p < last.size(); ++p)
            if (p != q && last[p] > last[q] && clocks_.ended_before(last[p])[q] >= last[q]) return true;
        return false;
    }
    bool touches_new(std::int32_t i) {
        const Issue& issue = order_.issues[i];
        bool fresh = false;
        const auto touch = [&](BufferId b, std::int32_t microbatch) {
            each_storage(plan_, b, [&](BufferId root) {
                const std::int32_t* const at = slot(root, microbatch);
                if (!at || *at < 0) return;
                fresh = std::exchange(lives_[*at].fresh, false) || fresh;
                if (clocks_.home(i) >= 0) users(*at)[clocks_.home(i)] = i;
            });
        };
        if (const auto* x = std::get_if<Exchange>(&issue.op->work)) {
            for (std::size_t k = 0; k < x->transfers.size(); ++k)
                touch(x->transfers[k].buffer, order_.microbatches[static_cast<std::size_t>(issue.transfers_begin) + k]);
            return fresh;
        }
        for (const auto* list : {&issue.op->in, &issue.op->out})
            for (BufferId b : *list) touch(b, issue.microbatch);
        return fresh;
    }

    // Whether all stages can still run when `issue` waits for the end of `on`: in one action they have the same partners, for ranks of
    // a stage run one program; elsewhere that end must come first in the order of all.
    bool possible(std::int32_t issue, std::int32_t on) const {
        const auto stage = static_cast<std::size_t>(order_.stage);
        const auto action = [&](std::int32_t i) { return static_cast<std::size_t>(order_.issues[static_cast<std::size_t>(i)].action); };
        return !one_ || action(issue) == action(on) || one_->ends[stage][action(on)] < one_->begins[stage][action(issue)];
    }
    // Waits for what was freed first, until all that may be in use fits, or as much as all stages can bear.
    void bound(std::int32_t i) {
        const std::int64_t taken = level_ + closing_,
                           most = taken + std::max<std::int64_t>(0, peak_ - taken) / stays_free * (stays_free - 1);
        std::vector<std::int32_t> ended(clocks_.ended_before(i).begin(), clocks_.ended_before(i).end()); // or is not to be waited for
        for (;;) {
            std::int64_t held = 0;
            std::size_t oldest = pending_.size(), entry = 0;
            for (std::size_t q = 0; q < pending_.size(); ++q) {
                held += pending_[q].bytes_from(pending_[q].first_after(clocks_.ended_before(i)[q]));
                const std::size_t first = pending_[q].first_after(std::max(ended[q], clocks_.ended_before(i)[q]));
                if (first == pending_[q].size()) continue;
                if (oldest == pending_.size() || pending_[q].last(first) < pending_[oldest].last(entry)) oldest = q, entry = first;
            }
            const std::int64_t excess = taken + held - most;
            if (excess <= 0 || oldest == pending_.size()) return;
            std::size_t wanted = pending_[oldest].enough(entry, excess);
            while (wanted > entry && !possible(i, pending_[oldest].last(wanted))) --wanted;
            const std::int32_t on = pending_[oldest].last(wanted);
            if (possible(i, on) && clocks_.wait(i, on))
                waits_.push_back({i, on});
            else
                ended[oldest] = std::numeric_limits<std::int32_t>::max();
        }
    }

    const Plan& plan_;
    const IssueOrder order_;
    const OneOrder* const one_;
    QueueClocks clocks_;
    std::vector<Pending> pending_; // by queue, as the clocks have them
    std::vector<std::int32_t> slot_of_, live_of_, users_, spare_;
    std::vector<Live> lives_;
    std::vector<Wait> waits_;
    std::map<BucketRoom, std::int32_t> together_; // the lives of those of which some are allocated
    std::int64_t level_ = 0, peak_ = 0;           // bytes, against the program's beginning
    std::int64_t closing_ = 0;                    // freed bytes of those beside which others are not
};

void add_sorted(std::vector<std::int32_t>& deps, std::int32_t d) {
    const auto at = std::ranges::lower_bound(deps, d);
    if (at == deps.end() || *at != d) deps.insert(at, d);
}

// Inside an action an op waits whenever its block runs; between actions the program says so.
void add(Plan& plan, Program& program, const IssueOrder& order, const std::vector<Wait>& waits) {
    std::vector<std::vector<ActionDep>> more(program.actions.size());
    for (const Wait& w : waits) {
        const Issue &x = order.issues[w.issue], &on = order.issues[w.on];
        if (x.action == on.action)
            add_sorted(plan.blocks[x.block].ops[x.index].deps, on.index);
        else
            more[x.action].push_back({x.index, on.action, on.index});
    }
    std::vector<ActionDep> deps;
    for (std::size_t a = 0; a < program.actions.size(); ++a) {
        Action& action = program.actions[a];
        const auto begin = static_cast<std::ptrdiff_t>(deps.size());
        deps.insert(deps.end(), program.deps.begin() + action.deps_begin, program.deps.begin() + action.deps_end);
        deps.insert(deps.end(), more[a].begin(), more[a].end());
        std::stable_sort(deps.begin() + begin, deps.end(), [](const ActionDep& x, const ActionDep& y) { return x.op < y.op; });
        action.deps_begin = static_cast<std::int32_t>(begin);
        action.deps_end = static_cast<std::int32_t>(deps.size());
    }
    program.deps = std::move(deps);
}

void bound(Plan& plan, std::vector<Program>& programs) {
    OneOrder one;
    if (programs.size() > 1) one = one_order(plan, programs);
    for (Program& p : programs) {
        Flight flight(plan, p, programs.size() > 1 ? &one : nullptr);
        if (const std::vector<Wait> waits = flight.waits(); !waits.empty()) add(plan, p, flight.order(), waits);
    }
}

} // namespace

Plan bound_flight(Plan plan) {
    bound(plan, plan.programs);
    for (PlanPhase& phase : plan.further) bound(plan, phase.programs);
    return plan;
}

} // namespace orrery
