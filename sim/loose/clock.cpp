#include "sim/loose/clock.hpp"

#include "topology/at.hpp"
#include "topology/input_error.hpp"

#include <algorithm>
#include <limits>

namespace orrery {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

double earliest(const std::vector<double>& times) { return times.empty() ? never : *std::min_element(times.begin(), times.end()); }

} // namespace

LooseClock::LooseClock(const std::vector<double>& capacity, std::size_t workers, double slowdown, double grain)
    : sharing_(capacity), sent_(capacity.size(), 0), moving_(workers, 0), computation_(workers, none), slowdown_(slowdown), grain_(grain) {}

void LooseClock::after(double seconds, std::function<void()> then) {
    begin({.left = std::max(0.0, seconds), .rate = 1, .then = std::move(then)});
}

void LooseClock::compute(int worker, double seconds, std::function<void()> then) {
    computation_[at(worker)] = begin({.left = seconds, .rate = pace(worker), .computes = worker, .then = std::move(then)});
}

void LooseClock::send(const std::vector<const LooseWay*>& ways, int from, int to, std::function<void()> then) {
    double latency = 0;
    std::vector<const LooseFlow*> flows;
    for (const LooseWay* way : ways) {
        latency = std::max(latency, way->latency_s);
        for (const LooseFlow& flow : way->flows) flows.push_back(&flow);
    }
    if (flows.empty()) return after(latency, std::move(then));
    auto whole = std::make_shared<LooseMessage>(flows.size(), from, to, now_, std::move(then));
    after(latency, [this, flows = std::move(flows), whole = std::move(whole)] {
        count_moving(whole->from, 1);
        count_moving(whole->to, 1);
        for (const LooseFlow* flow : flows) enter(*flow, whole);
    });
}

std::int32_t LooseClock::lane_of(const LooseFlow& flow) {
    std::vector<std::pair<std::int32_t, double>> key;
    for (const Sharing::Use& u : flow.uses) key.emplace_back(u.link, u.weight);
    for (const double load : flow.loads) key.emplace_back(-2, load);
    key.emplace_back(-1, flow.cap);
    const auto [found, fresh] = lane_at_.try_emplace(std::move(key), static_cast<std::int32_t>(lanes_.size()));
    if (fresh) {
        lanes_.push_back({.uses = flow.uses, .loads = flow.loads, .cap = flow.cap});
        arrivals_.push_back(never);
    }
    return found->second;
}

void LooseClock::step() {
    share();
    const double next = std::min(earliest(ends_), earliest(arrivals_));
    if (next == never) throw InputError("/strategy/synchronization: a message between replicas never arrives: a link on its way is down");
    now_ = next;
    const double until = now_ + 1e-12 + 1e-12 * now_; // what ends together does so whatever its sums were rounded to
    LooseEnded ended;
    for (std::size_t i = 0; i < ends_.size(); ++i)
        if (ends_[i] <= until) finish(i, ended);
    const double come = until + (messages_ > 0 ? grain_ * moving_s_ / messages_ : 0);
    for (std::size_t i = 0; i < arrivals_.size(); ++i)
        if (arrivals_[i] <= come) arrive(static_cast<std::int32_t>(i), come, ended);
    std::sort(ended.begin(), ended.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [order, then] : ended) then();
}

void LooseClock::forget() {
    bytes_ = 0;
    std::fill(sent_.begin(), sent_.end(), 0.0);
}

std::size_t LooseClock::begin(LooseTask task) {
    std::size_t place = tasks_.size();
    if (vacant_.empty()) {
        tasks_.emplace_back();
        ends_.push_back(never);
    } else {
        place = vacant_.back();
        vacant_.pop_back();
    }
    ++under_way_;
    task.last = now_;
    task.order = begun_++;
    tasks_[place] = std::move(task);
    set_rate(place, tasks_[place].rate);
    return place;
}

void LooseClock::set_rate(std::size_t place, double rate) {
    LooseTask& t = tasks_[place];
    t.left = std::max(0.0, t.left - t.rate * (now_ - t.last));
    t.last = now_;
    t.rate = rate;
    ends_[place] = now_ + t.left / rate;
}

void LooseClock::finish(std::size_t place, LooseEnded& ended) {
    LooseTask& t = tasks_[place];
    if (t.computes != nobody) computation_[at(t.computes)] = none;
    ended.emplace_back(t.order, std::move(t.then));
    ends_[place] = never;
    vacant_.push_back(place);
    --under_way_;
}

void LooseClock::enter(const LooseFlow& flow, const std::shared_ptr<LooseMessage>& whole) {
    LooseLane& lane = lanes_[at(flow.lane)];
    move(lane);
    lane.flows.push({lane.moved + flow.bytes, begun_++, flow.bytes, whole});
    ++under_way_;
    change(flow.lane);
}

void LooseClock::arrive(std::int32_t id, double until, LooseEnded& ended) {
    LooseLane& lane = lanes_[at(id)];
    move(lane);
    while (!lane.flows.empty() && now_ + (lane.flows.top().at - lane.moved) / lane.rate <= until) {
        const LooseArrival& flow = lane.flows.top();
        LooseMessage& whole = *flow.whole;
        bytes_ += flow.bytes;
        for (std::size_t i = 0; i < lane.uses.size(); ++i) sent_[at(lane.uses[i].link)] += lane.loads[i] * flow.bytes;
        --under_way_;
        if (--whole.open == 0) {
            ++messages_;
            moving_s_ += now_ - whole.began;
            count_moving(whole.from, -1);
            count_moving(whole.to, -1);
            ended.emplace_back(flow.order, std::move(whole.then));
        }
        lane.flows.pop();
    }
    if (lane.flows.empty()) lane.moved = 0;
    change(id);
}

void LooseClock::move(LooseLane& lane) const {
    if (now_ > lane.last && !lane.flows.empty()) lane.moved += lane.rate * (now_ - lane.last);
    lane.last = now_;
}

void LooseClock::change(std::int32_t id) {
    expect(id);
    if (std::exchange(lanes_[at(id)].changed, true)) return;
    changed_.push_back(id);
}

void LooseClock::expect(std::int32_t id) {
    const LooseLane& lane = lanes_[at(id)];
    const bool moves = !lane.flows.empty() && lane.rate > 0;
    arrivals_[at(id)] = moves ? now_ + std::max(0.0, lane.flows.top().at - lane.moved) / lane.rate : never;
}

double LooseClock::pace(int worker) const { return moving_[at(worker)] > 0 ? 1 / (1 + slowdown_) : 1; }

void LooseClock::count_moving(int worker, int more) {
    if (worker == nobody) return;
    const bool before = moving_[at(worker)] > 0;
    moving_[at(worker)] += more;
    const std::size_t task = computation_[at(worker)];
    if (before != (moving_[at(worker)] > 0) && task != none) set_rate(task, pace(worker));
}

void LooseClock::share() {
    if (changed_.empty()) return;
    for (const std::int32_t id : changed_) {
        LooseLane& lane = lanes_[at(id)];
        lane.changed = false;
        if (lane.bundle >= 0) sharing_.remove(lane.bundle);
        lane.bundle = -1;
    }
    for (const std::int32_t id : changed_) {
        LooseLane& lane = lanes_[at(id)];
        if (lane.flows.empty()) continue;
        std::vector<Sharing::Use> uses = lane.uses;
        for (Sharing::Use& u : uses) u.weight *= static_cast<double>(lane.flows.size());
        lane.bundle = sharing_.add(uses, lane.cap);
        of_bundle_.resize(std::max(of_bundle_.size(), at(lane.bundle) + 1), -1);
        of_bundle_[at(lane.bundle)] = id;
    }
    changed_.clear();
    for (const std::int32_t bundle : sharing_.update()) {
        const std::int32_t id = of_bundle_[at(bundle)];
        LooseLane& lane = lanes_[at(id)];
        move(lane);
        lane.rate = sharing_.rate(bundle);
        expect(id);
    }
}

} // namespace orrery
