// The longest way through a step, chunk by chunk: each rank does its steps in the schedule's order, a forward step waits for the chunk
// before, a backward step for the one behind, and what passes between stages takes the time of a transfer alone on its links.
#include "sim/scenario/practice.hpp"
#include "sim/search/bounds.hpp"
#include "sim/search/parts.hpp"

#include <algorithm>

namespace orrery {

namespace {

constexpr double never = -1;

// Earliest times of all steps. A step's own time is the chunk's; what a backward step sends goes when its input gradient is there, and
// recomputation may begin before its gradient comes.
class LongestWay {
  public:
    LongestWay(const ScheduleInfo& info, const std::vector<ChunkCost>& chunks, int stages, std::int64_t microbatches)
        : info_(info), chunks_(chunks), stages_(stages), microbatches_(microbatches), release_(chunks.size()), hop_(chunks.size()),
          forward_(chunks.size() * static_cast<std::size_t>(microbatches), never), backward_(forward_) {}

    void release(int chunk, double seconds) { release_[at(chunk)] = seconds; } // no forward step of it begins before
    void hop(int chunk, double seconds) { hop_[at(chunk)] = seconds; }         // between it and the next chunk

    // False where the order cannot be run (our bug elsewhere: no bound then).
    bool run(const Schedule& order) {
        const std::size_t n = order.ranks.size();
        next_.assign(n, 0), free_.assign(n, 0), begins_.assign(chunks_.size(), 0);
        std::vector<int> ready;
        for (int r = static_cast<int>(n); r-- > 0;) ready.push_back(r);
        std::size_t left = n;
        while (!ready.empty()) {
            const int rank = ready.back();
            ready.pop_back();
            const auto& steps = order.ranks[at(rank)];
            std::size_t& i = next_[at(rank)];
            if (i == steps.size()) continue;
            for (; i < steps.size() && take(rank, steps[i]); ++i) wake(steps[i], order, ready);
            left -= i == steps.size();
        }
        return left == 0;
    }

    double ends(int rank) const { return free_[at(rank)]; }
    // When the step that completes a chunk's gradients begins.
    double completes(int chunk) const { return begins_[at(chunk)]; }

  private:
    std::size_t place(int chunk, std::int32_t microbatch) const {
        return at(chunk) * static_cast<std::size_t>(microbatches_) + static_cast<std::size_t>(microbatch);
    }
    int last() const { return static_cast<int>(chunks_.size()) - 1; }

    bool take(int rank, const ScheduleStep& step) {
        const ChunkCost& c = chunks_[at(step.chunk)];
        double& free = free_[at(rank)];
        if (step.kind == StepKind::weight) {
            begins_[at(step.chunk)] = free;
            free += c.weight;
            return true;
        }
        const bool forward = step.kind == StepKind::forward;
        double arrives = 0;
        if (forward && step.chunk > 0) {
            arrives = forward_[place(step.chunk - 1, step.microbatch)];
            if (arrives == never) return false;
            arrives += hop_[at(step.chunk - 1)];
        }
        if (!forward) {
            arrives =
                step.chunk < last() ? backward_[place(step.chunk + 1, step.microbatch)] : forward_[place(step.chunk, step.microbatch)];
            if (arrives == never) return false;
            if (step.chunk < last()) arrives += hop_[at(step.chunk)];
        }
        if (forward) {
            free = std::max({free, arrives, release_[at(step.chunk)]}) + c.forward;
            forward_[place(step.chunk, step.microbatch)] = free;
            return true;
        }
        const double begins = std::max(free, arrives - c.early),
                     input = std::max(0.0, c.backward - (step.kind == StepKind::backward && !info_.splits_backward ? c.late : c.weight));
        backward_[place(step.chunk, step.microbatch)] = begins + input;
        begins_[at(step.chunk)] = begins;
        free = begins + (step.kind == StepKind::backward ? c.backward : input);
        return true;
    }

    // The rank that may have waited for this step.
    void wake(const ScheduleStep& step, const Schedule& order, std::vector<int>& ready) const {
        if (step.kind == StepKind::weight) return;
        const int to = receiver_of(step.chunk, step.kind != StepKind::forward, static_cast<int>(chunks_.size()));
        if (to < 0) return;
        const int rank = info_.stage_of(to, stages_);
        const std::size_t i = next_[at(rank)];
        if (i >= order.ranks[at(rank)].size()) return;
        const ScheduleStep& waits = order.ranks[at(rank)][i];
        if (waits.chunk == to && waits.microbatch == step.microbatch) ready.push_back(rank);
    }

    const ScheduleInfo& info_;
    const std::vector<ChunkCost>& chunks_;
    int stages_;
    std::int64_t microbatches_;
    std::vector<double> release_, hop_, forward_, backward_; // forward_, backward_: when a step's result is there
    std::vector<std::size_t> next_;
    std::vector<double> free_, begins_;
};

// The first stage's reductions, in a queue, each from when the step that completes its gradients begins.
double behind_reductions(const LongestWay& way, const std::vector<int>& mine, const std::vector<Elements>& elements, double all,
                         double reduce, bool overlapped) {
    if (!overlapped) return way.ends(0) + reduce;
    std::vector<std::pair<double, double>> queue;
    for (const int c : mine) queue.emplace_back(way.completes(c), all > 0 ? elements[at(c)].dense / all * reduce : 0);
    std::sort(queue.begin(), queue.end());
    double end = 0;
    for (const auto& [from, takes] : queue) end = std::max(end, from) + takes;
    return std::max(way.ends(0), end);
}

void slow(ChunkCost& c, double slowdown) {
    c.forward = c.forward_slow, c.backward = c.backward_slow;
    for (double* part : {&c.weight, &c.late, &c.early}) *part *= 1 + slowdown;
}

} // namespace

// A step is as long as from the first stage's first kernel to its next step's: its own steps, what these wait for, and its reductions. Of
// other stages nothing is said, as their steps may lie otherwise.
double path_bound(const Scenario& s, const Profile& profile, InFlight& in_flight, SharedWire& sharing) {
    const ScheduleInfo* info = find_schedule(s.strategy.schedule);
    const int stages = s.strategy.pipeline_parallel;
    if (!info || stages < 2 || info->directions > 1 || info->asynchronous || uncertain(s) || joins(s, *info)) return 0;
    if (in_flight.of(s).front().of_chunk.empty()) return 0; // the order depends on times
    const std::shared_ptr<const Schedule> order = in_flight.order_of(s);
    if (!order) return 0;
    std::vector<ChunkCost> chunks = chunk_costs(s, profile, false);
    const int length = static_cast<int>(chunks.size());
    LongestWay way(*info, chunks, stages, s.microbatches());
    const std::vector<Elements> elements = chunk_elements(s);
    std::vector<int> mine; // of the first stage
    double all = 0, kernels = 0, most_moving = 0;
    for (int c = 0; c < length; ++c)
        if (info->stage_of(c, stages) == 0) {
            mine.push_back(c), all += elements[at(c)].dense;
            kernels += chunks[at(c)].kernels, most_moving += chunks[at(c)].moving;
        }
    const SharingTime time = sharing.of(s, {all}); // (a stage gathers its tables as often as its layers)
    const double bytes = transfer_bytes(s);
    double sent = 0; // by the first stage, as its kernels count it
    const auto beside = [&](const SharedWire::Hop& hop) {
        return profile.slowdown > 0 ? hop.moving * lost(hop.slows) / lost(profile.slowdown) : 0;
    };
    for (int c = 0; c + 1 < length; ++c) {
        const int from = info->stage_of(c, stages), to = info->stage_of(c + 1, stages);
        if (from == to) continue;
        const SharedWire::Hop there = sharing.hop(s, from, to, bytes);
        way.hop(c, there.alone);
        if (from == 0) sent += beside(there);
        if (to == 0) sent += beside(sharing.hop(s, to, from, bytes));
    }
    for (const int c : mine)
        if (sharing_practice(s).zero > 0) way.release(c, all > 0 ? elements[at(c)].dense / all * time.gather : 0);
    const auto takes = [&] {
        if (!way.run(*order)) return 0.0;
        return info->splits_backward ? way.ends(0)
                                     : behind_reductions(way, mine, elements, all, time.reduce, s.strategy.overlap.grad_reduce);
    };
    double least = takes();
    const auto m = static_cast<double>(s.microbatches());
    const double passing = m * transfers_beside(s, *info, 0, sharing, time, profile.slowdown);
    const double shared = sharing_moves(s, in_flight.of(s).front(), time.beside(profile.slowdown), passing);
    const double moving = std::max({m * most_moving, m * sent, shared});
    if (moving > least - m * kernels) { // its kernels may be slowed down: it idles at least as long as when all of them are
        for (const int c : mine) slow(chunks[at(c)], profile.slowdown);
        least =
            std::max(least, slowed(m * kernels, std::max(0.0, takes() - (1 + profile.slowdown) * m * kernels), moving, profile.slowdown));
    }
    return least * least_factor(s);
}

} // namespace orrery
