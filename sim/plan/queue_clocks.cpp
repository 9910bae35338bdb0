#include "sim/plan/queue_clocks.hpp"

#include <algorithm>
#include <functional>

namespace orrery {
namespace {

template <class To, class By> void raise(To&& to, const By& by) {
    for (std::size_t q = 0; q < to.size(); ++q) to[q] = std::max(to[q], by[q]);
}

template <class F> void each_queue(const Op& op, F&& f) { // one may come twice
    f(op.queue);
    if (const auto* x = std::get_if<Exchange>(&op.work))
        for (const Transfer& t : x->transfers) f(queue_of(t.comm));
}

} // namespace

bool is_host_only(const Op& op) { return is_memory_op(op.work) || std::holds_alternative<HostSync>(op.work); }

QueueClocks::QueueClocks(const Plan& plan, const IssueOrder& order)
    : order_(order), places_(static_cast<std::size_t>(first_comm_queue) + plan.communicators.size(), -1) {
    homes_.reserve(order.issues.size());
    for (const Issue& issue : order.issues) {
        if (!is_host_only(*issue.op))
            each_queue(*issue.op, [&](QueueId q) {
                if (place(q) < 0) places_[q] = static_cast<std::int32_t>(width_++);
            });
        homes_.push_back(is_host_only(*issue.op) ? -1 : place(issue.op->queue));
    }
    clocks_.resize(order.issues.size() * width_, -1);
    tails_.resize(width_ * width_, -1);
    host_.resize(width_, -1);
}

bool QueueClocks::wait(std::int32_t issue, std::int32_t on) {
    const auto mine = clock(issue);
    if (mine[home(on)] >= on) return false;
    raise(mine, ended_before(on));
    each_queue(*order_.issues[on].op, [&](QueueId q) { mine[place(q)] = std::max(mine[place(q)], on); });
    return true;
}

void QueueClocks::begin(std::int32_t issue, std::vector<std::int32_t>& waits) {
    const Issue& x = order_.issues[issue];
    const auto mine = clock(issue);
    std::ranges::copy(host_, mine.begin());
    if (!is_host_only(*x.op))
        each_queue(*x.op, [&](QueueId q) { raise(mine, std::span(tails_).subspan(static_cast<std::size_t>(place(q)) * width_, width_)); });
    deps_.clear();
    for (std::int32_t d : order_.deps_of(x))
        if (home(d) >= 0) deps_.push_back(d);
    std::ranges::sort(deps_, std::greater{}); // the latest first: it may stand for the others
    waits.clear();
    for (std::int32_t d : deps_)
        if (wait(issue, d)) waits.push_back(d);
}

void QueueClocks::end(std::int32_t issue) {
    const Op& op = *order_.issues[issue].op;
    const auto mine = clock(issue);
    if (std::holds_alternative<HostSync>(op.work)) std::ranges::copy(mine, host_.begin());
    if (is_host_only(op)) return;
    each_queue(op, [&](QueueId q) {
        const auto tail = std::span(tails_).subspan(static_cast<std::size_t>(place(q)) * width_, width_);
        std::ranges::copy(mine, tail.begin());
        each_queue(op, [&](QueueId own) { tail[place(own)] = issue; });
    });
}

} // namespace orrery
