// Workers as discrete events: timers, and transfers that share links.
#include "sim/loose/clock.hpp"
#include "sim/loose/record.hpp"

#include "topology/at.hpp"
#include "topology/mix.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace orrery {
namespace {

constexpr int nobody = LooseClock::nobody;

// Flows to servers that are under way at once, at the most.
double flows_at_once(const LooseWork& w) {
    if (!w.push || w.servers == 0) return 0;
    return static_cast<double>(w.step_s.size() * std::max<std::size_t>(1, w.push(0, 0).flows.size())) * w.servers;
}

// Where there are thousands, one comes at nearly every instant, and changes the rates of most others: those that are close come together,
// within a hundredth of what a message takes.
double grain_of(double flows) { return std::clamp((flows - 1024) * 1e-6, 0.0, 0.01); }

class LooseCourse {
  public:
    explicit LooseCourse(const LooseWork& work)
        : w_(work), workers_(static_cast<int>(work.step_s.size())), flows_(flows_at_once(work)),
          clock_(work.capacity, work.step_s.size(), work.slowdown, grain_of(flows_)), of_(work.step_s.size()) {
        int offset = 1;
        for (; offset < workers_; offset *= 2) offsets_.push_back(offset);
        if (w_.how.degree > static_cast<int>(offsets_.size())) { // more peers than powers of two: the next ones
            offsets_.resize(workers_ - 1);
            for (int i = 0; i + 1 < workers_; ++i) offsets_[at(i)] = i + 1;
        }
        for (Ways* ways : {&ways_, &pushes_, &pulls_}) ways->resize(at(workers_));
    }

    LooseReport run(StopFlag stop) {
        warm_up(stop);
        const double from = clock_.now();
        const std::int64_t before = steps_;
        until(static_cast<std::int64_t>(2 * rounds()) * workers_, stop);
        return report(clock_.now() - from, static_cast<double>(steps_ - before));
    }

    // Spans are cut off where the record begins and ends: those under way at its end are followed to their own.
    LooseRecord record(int steps, int most_workers, StopFlag stop) {
        recorded_.emplace();
        recorded_->workers = workers_;
        recorded_->shown = std::min(workers_, most_workers);
        warm_up(stop);
        const double from = clock_.now();
        until(static_cast<std::int64_t>(rounds() + steps) * workers_, stop);
        const double end = clock_.now();
        recorded_->length_s = end - from;
        while (!clock_.idle() && *std::min_element(ended_.begin(), ended_.end()) < end) {
            stop_if(stop);
            clock_.step();
        }
        std::vector<LooseSpan>& spans = recorded_->spans;
        for (LooseSpan& s : spans) s.begin_s = std::max(0.0, s.begin_s - from), s.end_s = std::min(end, s.end_s) - from;
        std::erase_if(spans, [&](const LooseSpan& s) { return s.begin_s >= s.end_s; });
        std::stable_sort(spans.begin(), spans.end(), [](const LooseSpan& a, const LooseSpan& b) { return a.begin_s < b.begin_s; });
        return std::move(*recorded_);
    }

  private:
    struct WorkerState {
        std::ptrdiff_t stepped = -1; // its last step in the record
        std::int64_t steps = 0, seen = 0, at_exchange = 0;
        double idle_since = 0; // when it had nothing more to do
        bool waits = false, exchanging = false;
        double locked = 0;                       // seconds that mixing adds to the step under way
        std::map<std::int64_t, int> come, going; // gossip: messages of a step that have come; its own that are on their way
    };

    // Fewer rounds where there are many servers: each round has more flows to average.
    int rounds() const {
        if (served()) return static_cast<int>(std::clamp(65536 / flows_, 8.0, 1024.0));
        return std::max({32, 4 * static_cast<int>(offsets_.size()), std::min(1024, 32768 / workers_)});
    }
    void warm_up(StopFlag stop) {
        for (int w = 0; w < workers_; ++w) // not all at once: in a steady state they are spread over a step
            clock_.after(in_step() ? 0 : w_.step_s[at(w)] * w / workers_, [this, w] { begin(w); });
        until(static_cast<std::int64_t>(rounds()) * workers_, stop);
        measure();
    }
    // A span that ends now. Returns its place in the record; -1: it is not recorded.
    std::ptrdiff_t span(LooseSpan s) {
        if (!recorded_ || !measuring_) return -1;
        if (s.doing == LooseDoing::step) ended_[at(s.worker)] = clock_.now();
        if (s.worker >= recorded_->shown) return -1;
        if (s.end_s <= 0) s.end_s = clock_.now();
        recorded_->spans.push_back(s);
        return static_cast<std::ptrdiff_t>(recorded_->spans.size()) - 1;
    }
    // How old what a recorded span used, or sent, had become when it was used.
    void aged(std::ptrdiff_t place, double age) {
        if (recorded_ && place >= 0) recorded_->spans[static_cast<std::size_t>(place)].age = age;
    }
    bool in_step() const { return w_.how.kind == Synchronization::Kind::gossip; }
    void until(std::int64_t steps, StopFlag stop) {
        while (steps_ < steps && !clock_.idle()) {
            stop_if(stop);
            clock_.step();
        }
    }
    void measure() {
        measuring_ = true;
        for (const WorkerState& s : of_) before_.push_back(s.steps);
        clock_.forget();
    }
    void note(double staleness) {
        if (!measuring_) return;
        stale_ += staleness;
        worst_ = std::max(worst_, staleness);
        ++noted_;
    }
    void busy(double seconds) { busy_ += measuring_ ? seconds : 0; }
    void took_step(int w) {
        ++of_[at(w)].steps;
        ++steps_;
    }

    void begin(int w) {
        if (w_.how.kind == Synchronization::Kind::async_average && !of_[at(w)].exchanging) exchange(w);
        const double began = clock_.now();
        clock_.compute(w, w_.step_s[at(w)] * unlike(w), [this, w, began] {
            busy(clock_.now() - began);
            WorkerState& s = of_[at(w)];
            s.stepped =
                span({.worker = w, .doing = LooseDoing::step, .begin_s = began, .step = s.steps, .version = served() ? s.seen : -1});
            end(w);
        });
    }
    // Parameters to a peer. They move beside computation unless steps wait for those just sent.
    void send(int from, int to, std::function<void()> then) {
        const bool beside = !in_step() || w_.how.overlap_steps > 0;
        clock_.send({&way(ways_, w_.send, from, to)}, beside ? from : nobody, beside ? to : nobody, std::move(then));
    }
    // A worker's message to its servers, or from them.
    void meet(int w, bool push, std::function<void()> then) {
        std::vector<const LooseWay*> ways;
        for (int server = 0; server < w_.servers; ++server)
            ways.push_back(&way(push ? pushes_ : pulls_, push ? w_.push : w_.pull, w, server));
        clock_.send(ways, nobody, nobody, std::move(then));
    }
    // Steps of real workers are never all alike. Without that alike workers of a server would for ever meet in the same places, and how
    // they happen to would decide their pace: by a tenth either way, the same draws for a worker's k-th step whatever else is asked.
    double unlike(int w) const {
        if (w_.how.kind != Synchronization::Kind::parameter_server || w_.how.staleness_bound == 0) return 1;
        const std::uint64_t draw = mix(w_.seed + 0x9e3779b97f4a7c15 * static_cast<std::uint64_t>(of_[at(w)].steps * workers_ + w));
        return 0.9 + 0.2 * (static_cast<double>(draw >> 11) * 0x1p-53);
    }
    void end(int w) {
        if (w_.how.kind == Synchronization::Kind::parameter_server)
            return meet(w, true, [this, w, began = clock_.now()] {
                span({.worker = w, .doing = LooseDoing::push, .begin_s = began, .step = of_[at(w)].steps});
                of_[at(w)].idle_since = clock_.now();
                pushed(w);
            });
        if (in_step()) return tell(w);
        if (const double locked = of_[at(w)].locked; locked > 0) { // the averaging held the parameters so long
            of_[at(w)].locked = 0;
            busy(locked);
            return clock_.after(locked, [this, w, began = clock_.now()] {
                span({.worker = w, .doing = LooseDoing::mix, .begin_s = began, .step = of_[at(w)].steps});
                end(w);
            });
        }
        took_step(w);
        begin(w);
    }

    // Servers take updates one after another; where no worker may be ahead they add up all gradients of a round first.
    void pushed(int w) {
        const bool together = w_.how.staleness_bound == 0;
        if (together && ++gradients_ < workers_) return;
        gradients_ = 0;
        const double begins = std::max(clock_.now(), servers_free_);
        servers_free_ = begins + w_.update_s;
        server_busy_ += measuring_ ? w_.update_s : 0;
        clock_.after(servers_free_ - clock_.now(), [this, w, together, begins] {
            span({.doing = LooseDoing::update, .begin_s = begins, .step = version_ + 1, .peer = together ? -1 : w});
            if (!together) {
                note(static_cast<double>(version_ - of_[at(w)].seen));
                aged(of_[at(w)].stepped, static_cast<double>(version_ - of_[at(w)].seen));
                ++version_;
                return updated(w);
            }
            for (int i = 0; i < workers_; ++i) note(0), aged(of_[at(i)].stepped, 0);
            ++version_;
            for (int i = 0; i < workers_; ++i) took_step(i);
            for (int i = 0; i < workers_; ++i) pull(i);
        });
    }
    void updated(int w) {
        took_step(w);
        of_[at(w)].waits = true;
        std::int64_t least = of_[0].steps;
        for (const WorkerState& s : of_) least = std::min(least, s.steps);
        for (int i = 0; i < workers_; ++i) {
            WorkerState& s = of_[at(i)];
            if (!s.waits || (w_.how.staleness_bound >= 0 && s.steps - least > w_.how.staleness_bound)) continue;
            s.waits = false;
            pull(i);
        }
    }
    void pull(int w) {
        span({.worker = w, .doing = LooseDoing::wait, .begin_s = of_[at(w)].idle_since, .step = of_[at(w)].steps});
        of_[at(w)].seen = version_;
        if (measuring_ && w_.how.staleness_bound != 0) {
            std::vector<std::int64_t> held{version_};
            for (const WorkerState& s : of_) held.push_back(s.seen);
            std::sort(held.begin(), held.end());
            versions_ = std::max(versions_, static_cast<int>(std::unique(held.begin(), held.end()) - held.begin()));
        }
        meet(w, false, [this, w, began = clock_.now()] {
            span({.worker = w, .doing = LooseDoing::pull, .begin_s = began, .step = of_[at(w)].steps, .version = of_[at(w)].seen});
            begin(w);
        });
    }

    // Gossip: this step's parameters to its peers, and on once those of overlap_steps before have come from its own.
    void tell(int w) {
        WorkerState& s = of_[at(w)];
        const std::int64_t k = s.steps;
        s.going[k] = w_.how.degree;
        for (int j = 0; j < w_.how.degree; ++j) {
            const int to = (w + offsets_[(k * w_.how.degree + j) % static_cast<std::int64_t>(offsets_.size())]) % workers_;
            send(w, to, [this, w, to, k, began = clock_.now()] {
                span({.worker = w,
                      .doing = LooseDoing::send,
                      .begin_s = began,
                      .step = k,
                      .age = static_cast<double>(w_.how.overlap_steps),
                      .peer = to});
                --of_[at(w)].going[k];
                ++of_[at(to)].come[k];
                go_on(w);
                if (to != w) go_on(to);
            });
        }
        s.waits = true;
        s.idle_since = clock_.now();
        go_on(w);
    }
    void go_on(int w) {
        WorkerState& s = of_[at(w)];
        const std::int64_t k = s.steps - w_.how.overlap_steps;
        if (!s.waits || (k >= 0 && (s.going[k] > 0 || s.come[k] < w_.how.degree))) return;
        s.waits = false;
        s.going.erase(k);
        s.come.erase(k);
        const double mixing = k >= 0 ? w_.mix_s * w_.how.degree : 0;
        busy(mixing);
        span({.worker = w, .doing = LooseDoing::wait, .begin_s = s.idle_since, .step = s.steps});
        clock_.after(mixing, [this, w, began = clock_.now()] {
            span({.worker = w, .doing = LooseDoing::mix, .begin_s = began, .step = of_[at(w)].steps});
            note(static_cast<double>(w_.how.overlap_steps));
            averages_ += measuring_;
            took_step(w);
            begin(w);
        });
    }

    // Both send what they have, and average when both have it, wherever their steps are by then.
    void exchange(int w) {
        int other = static_cast<int>(random() % static_cast<std::uint64_t>(workers_ - 1));
        other += other >= w;
        WorkerState& s = of_[at(w)];
        s.exchanging = true;
        s.at_exchange = s.steps;
        const std::int64_t others = of_[at(other)].steps;
        auto open = std::make_shared<int>(2);
        auto sent = std::make_shared<std::array<std::ptrdiff_t, 2>>(); // in the record
        const auto came = [this, w, other, others, open, sent] {
            if (--*open > 0) return;
            WorkerState& own = of_[at(w)];
            aged((*sent)[0], static_cast<double>(of_[at(other)].steps - others));
            aged((*sent)[1], static_cast<double>(own.steps - own.at_exchange));
            note(static_cast<double>(own.steps - own.at_exchange));
            note(static_cast<double>(of_[at(other)].steps - others));
            own.exchanging = false;
            own.locked += w_.mix_s;
            of_[at(other)].locked += w_.mix_s;
            averages_ += measuring_ ? 2 : 0;
        };
        const auto noted = [this, came, sent, began = clock_.now()](int from, int to, std::int64_t step, std::size_t which) {
            return [this, came, sent, began, from, to, step, which] {
                (*sent)[which] = span({.worker = from, .doing = LooseDoing::send, .begin_s = began, .step = step, .peer = to});
                came();
            };
        };
        send(w, other, noted(w, other, s.at_exchange, 0));
        send(other, w, noted(other, w, others, 1));
    }
    using Ways = std::vector<std::map<int, LooseWay>>; // by sender and receiver, or worker and server, once they have met
    const LooseWay& way(Ways& known, const std::function<LooseWay(int, int)>& make, int from, int to) {
        const auto [found, fresh] = known[at(from)].try_emplace(to);
        if (!fresh) return found->second;
        found->second = make(from, to);
        for (LooseFlow& flow : found->second.flows) flow.lane = clock_.lane_of(flow);
        return found->second;
    }
    std::uint64_t random() { return mix(std::exchange(state_, state_ + 0x9e3779b97f4a7c15)); }

    LooseReport report(double seconds, double steps) const {
        LooseReport r;
        if (steps <= 0) return r;
        r.step_s = seconds * workers_ / steps;
        r.wait_s = std::max(0.0, r.step_s - busy_ / steps);
        r.staleness = noted_ > 0 ? stale_ / static_cast<double>(noted_) : 0;
        r.worst_staleness = worst_;
        r.versions = versions_;
        for (std::size_t w = 0; w < of_.size(); ++w)
            r.fastest = std::max(r.fastest, static_cast<double>(of_[w].steps - before_[w]) * workers_ / steps);
        r.bytes_per_step = clock_.bytes() / steps * workers_;
        r.link_bytes = clock_.sent();
        for (double& bytes : r.link_bytes) bytes *= workers_ / steps;
        r.server_share = std::min(1.0, server_busy_ / seconds);
        r.steps_between_averages = averages_ > 0 ? steps / static_cast<double>(averages_) : 0;
        for (std::size_t l = 0; l < clock_.sent().size(); ++l) {
            const double share = w_.capacity[l] > 0 ? clock_.sent()[l] / (w_.capacity[l] * seconds) : 0;
            if (share > r.busiest.share) r.busiest = {static_cast<LinkId>(l), share};
        }
        r.busiest.share = std::min(1.0, r.busiest.share);
        return r;
    }

    bool served() const { return w_.how.kind == Synchronization::Kind::parameter_server; }

    const LooseWork& w_;
    int workers_;
    double flows_; // at once
    LooseClock clock_;
    std::vector<WorkerState> of_;
    std::vector<std::int64_t> before_; // by worker: steps when measuring began
    std::vector<int> offsets_;
    Ways ways_, pushes_, pulls_;
    std::int64_t steps_ = 0, version_ = 0, noted_ = 0, averages_ = 0;
    int gradients_ = 0, versions_ = 1;
    bool measuring_ = false;
    double servers_free_ = 0, server_busy_ = 0, busy_ = 0, stale_ = 0, worst_ = 0;
    std::uint64_t state_ = w_.seed;
    std::optional<LooseRecord> recorded_;                              // where it was asked for
    std::vector<double> ended_ = std::vector<double>(at(workers_), 0); // by worker: when its last step did
};

} // namespace

LooseReport follow(const LooseWork& work, StopFlag stop) { return LooseCourse(work).run(stop); }

LooseRecord record(const LooseWork& work, int steps, int most_workers, StopFlag stop) {
    return LooseCourse(work).record(steps, most_workers, stop);
}

} // namespace orrery
