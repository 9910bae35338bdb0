// Time that passes, and what comes into it: steps, saves, evaluations, events. See job_run.hpp; recover.cpp has the longer ways back.
#include "sim/job/job_run.hpp"

#include <atomic>
#include <cmath>
#include <thread>

namespace orrery {

const char* name(LostTime t) {
    static constexpr const char* names[] = {
        "accelerator_initialization", "training_preparation", "program_startup",         "checkpoint_save",
        "checkpoint_restore",         "wasted_progress",      "infrastructure_recovery", "evaluation",
        "data_loading_sync",          "slower_steps"};
    return names[static_cast<std::size_t>(t)];
}
const char* in_words(LostTime t) {
    static constexpr const char* words[] = {"accelerator initialisation",
                                            "training preparation",
                                            "program start-up",
                                            "checkpoint save",
                                            "checkpoint restore",
                                            "wasted progress",
                                            "infrastructure recovery",
                                            "evaluation",
                                            "data loading",
                                            "slower steps"};
    return words[static_cast<std::size_t>(t)];
}

void JobRun::set_pace() {
    if (!timers_ && nodes_.missing() == 0 && sound_) return; // as nearly always
    sound_ = !timers_ && nodes_.missing() == 0;
    const int lost_replicas = static_cast<int>(std::ceil((nodes_.missing() + rejoining_) * job_.replicas_per_node - 1e-9));
    state_.replicas_lost = std::min(lost_replicas, job_.replicas - 1);
    bool* flags[] = {&state_.slow_node, &state_.slow_link, &state_.lost_nic};
    for (int i = 0; i < 3; ++i) *flags[i] = slow_until_[i] > now_;
    const Pace pace = state_ == MachineState{} || !job_.pace ? Pace{job_.step_s(), 1} : job_.pace(state_);
    if (step_s_ == pace.step_s && share_ == pace.share) return;
    const SaveCycle before = cycle_, after(job_, pace.step_s);
    if (share_ != pace.share) { // a cycle's work is counted at one share
        anchor_ += std::min(offset_s_, before.work_s) / before.work_s * before.steps * (share_ - pace.share);
        share_ = pace.share;
    }
    if (before.work_s != after.work_s) // as many steps into the cycle as before
        offset_s_ = offset_s_ <= before.work_s ? offset_s_ / before.work_s * after.work_s : after.work_s + (offset_s_ - before.work_s);
    offset_s_ = std::min(offset_s_, after.length_s);
    step_s_ = pace.step_s;
    cycle_ = after;
}

// From now to the moment at which the work done is `target`, evaluations left out.
inline double JobRun::time_to(double target, const SaveCycle& c) const {
    const double left = target - anchor_, a_cycle = c.steps * share_;
    double cycles = std::floor(left / a_cycle);
    double rest = left - cycles * a_cycle;
    if (cycles > 0 && rest <= 1e-9) cycles -= 1, rest = a_cycle; // it is reached as the cycle's work ends, before its save
    return cycles * c.length_s + rest / a_cycle * c.work_s - offset_s_;
}

inline void JobRun::train(double seconds, const SaveCycle& c) {
    const auto trained_at = [&](double at) { return std::min(at, c.work_s) * c.train_share; }; // of a cycle up to there
    const double from = offset_s_, total = from + seconds, full = total < c.length_s ? 0 : std::floor(total * c.per_length);
    offset_s_ = total - full * c.length_s;
    const double train0 = trained_at(from), train1 = trained_at(offset_s_);
    const double trained = full * c.train_s + train1 - train0;
    lost(LostTime::save) += full * (c.length_s - c.train_s) + (offset_s_ - train1) - (from - train0);
    trained_s_ += trained;
    if (full > 0) {
        const double a_cycle = c.steps * share_;
        const auto before = saves_;
        saves_ += static_cast<std::int64_t>(full);
        anchor_ += full * a_cycle;
        before_ = anchor_ - a_cycle;
        wait_s_ = c.durable_s;
        out_.saves += static_cast<std::int64_t>(full);
        nodes_.saved();
        const std::int64_t every = near_ ? run_.checkpoint.storage_every : 1;
        const std::int64_t last = every == 1 ? saves_ : saves_ / every * every;
        if (last > before) stored_ = anchor_ - static_cast<double>(saves_ - last) * a_cycle;
        out_.storage_saves += every == 1 ? saves_ - before : saves_ / every - before / every;
    }
    now_ += seconds;
}

// Events whose time is known; most have none.
inline double JobRun::next_timer() {
    if (!timers_ && nodes_.missing() == 0) return never;
    timers_ = slow_until_[0] + slow_until_[1] + slow_until_[2] != 0 || std::min(corrupt_due_, rejoin_at_) != never;
    double next = std::min(corrupt_due_, rejoin_at_);
    for (int i = 0; i < 3; ++i) {
        if (slow_until_[i] > now_) next = std::min(next, slow_until_[i]);
        next = std::min(next, exchange_at_[i]);
    }
    return nodes_.missing() > 0 ? std::min(next, std::max(now_, nodes_.next_arrival())) : next;
}

void JobRun::go_back(double to, const SaveCycle& c) {
    const double redone = std::max(0.0, work(c) - to);
    if (redone > 0) {
        const double seconds = std::min(share_ == 1 ? redone * step_s_ : redone / share_ * step_s_, trained_s_);
        lost(LostTime::wasted) += seconds;
        trained_s_ -= seconds;
    }
    if (corrupt_at_ >= to) corrupt_at_ = -1, corrupt_due_ = never;
    anchor_ = before_ = to;
    stored_ = std::min(stored_, to);
    evaluated_ = std::min(evaluated_, to);
    offset_s_ = wait_s_ = 0;
}

// The usual failure: a spare takes the node's place, and nothing else happens until training goes on. The same sums in the same order as
// take_in() and recover() make, without their questions. False: it is of another kind, and nothing has been done.
inline bool JobRun::recovers_usually(const MachineEvent& e) {
    const double detect = e.part == FailingPart::hang ? run_.detect.hang : run_.detect.crash;
    const double until = now_ + (detect + longest_start_s_) * (1 + 1e-9);
    if (!usual_ || timers_ || !sound_ || e.slots != 1 || !nodes_.have_spare() || met_ >= job_.most_failures ||
        stream_.peek().time_s < until || until >= horizon_)
        return false;
    ++met_, ++out_.failures, ++out_.by_part[e.part], ++out_.interruptions;
    nodes_.leave(e.slot, e.time_s, e.time_s + e.repair_s);
    const bool away = e.repair_s > 0, cold = !run_.spares.warm;
    go_back(std::min(durable(), work(cycle_)), cycle_);
    if (const double end = now_ + detect; end > now_) pass(end - now_, LostTime::recovery);
    pass((!away | cold) * run_.restart.schedule_s + (away & cold) * run_.spares.cold_s, LostTime::recovery);
    pass_start(job_.save.load_s);
    return true;
}

inline void JobRun::event() {
    const MachineEvent e = stream_.peek();
    stream_.pop();
    const SaveCycle& c = cycle_;
    if (e.kind == Kind::planned) {
        ++met_, ++out_.planned;
        return restart_planned("planned", run_.failures.planned_s);
    }
    if (e.kind == Kind::slow_node || e.kind == Kind::slow_link || e.kind == Kind::lost_nic) {
        const int i = static_cast<int>(e.kind) - static_cast<int>(Kind::slow_node);
        ++met_, ++out_.degraded;
        timers_ = true;
        slow_until_[i] = std::max(slow_until_[i], now_ + e.lasts_s);
        if (exchange_at_[i] == never) exchange_at_[i] = now_ + run_.detect.slow;
        return set_pace();
    }
    if (e.part == FailingPart::sdc && e.kind == Kind::failure) { // noticed later
        ++met_, ++out_.failures, ++out_.by_part[e.part];
        timers_ = true;
        if (corrupt_due_ == never) corrupt_at_ = durable(), corrupt_due_ = now_ + run_.detect.sdc;
        return;
    }
    if (recovers_usually(e)) return;
    const std::int64_t before = out_.failures;
    nodes_.arrive(now_);
    take_in(e);
    rejoining_ += run_.elastic == Elasticity::stepwise ? starting_ : 0;
    const bool rejoin = starting_ > 0;
    starting_ = 0;
    if (out_.failures == before) return detect_s_ = 0, void(); // a place that is empty, a node that stands by
    if (run_.elastic == Elasticity::stepwise && !far_ && enough_nodes()) {
        // Survivors lose the step that failed; the replica is away until its node has started.
        const double lost_step = std::min(std::fmod(work(c), 1.0) / share_ * step_s_, trained_s_);
        ++out_.interruptions;
        const double undone = lost_step / c.train_s * c.work_s;
        offset_s_ = std::max(0.0, offset_s_ - undone);
        lost(LostTime::wasted) += lost_step;
        trained_s_ -= lost_step;
        const double detect = detect_s_;
        detect_s_ = 0;
        // (A node under repair starts when it is back: the time of a start less is small against a repair.)
        const double start = (reschedule_ ? run_.restart.schedule_s : 0) + (cold_ ? run_.spares.cold_s : 0) + job_.init_s +
                             job_.save.near_load_s + run_.restart.compile_s;
        if (rejoin) timers_ = true, rejoin_at_ = now_ + detect + start;
        reschedule_ = cold_ = false;
        const double begin = now_;
        const bool whole = wait(detect, LostTime::recovery) && wait(run_.restart.regroup_s, LostTime::preparation);
        span(begin, now_, "restart", why_ + "; survivors go on");
        if (!whole) return recover();
        why_.clear();
        return set_pace();
    }
    recover();
}

// The parts that the machine lacked, and the saves that ended meanwhile.
void JobRun::training_span(double from, double offset_s) {
    if (now_ <= from || out_.timeline.size() >= most_spans) return;
    JobSpan s{from, now_, state_ == MachineState{} ? "training" : "training, slower", "", {}};
    const auto add = [&](const std::string& text) { s.detail += s.detail.empty() ? text : ", " + text; };
    if (state_.replicas_lost > 0) add(counted(state_.replicas_lost, "replica") + " less");
    if (state_.slow_node) add("a slow node");
    if (state_.slow_link) add("a slow link");
    if (state_.lost_nic) add("a NIC less");
    s.saves = {static_cast<std::int64_t>((offset_s + now_ - from) * cycle_.per_length), from - offset_s + cycle_.work_s, cycle_.length_s,
               cycle_.length_s - cycle_.work_s};
    out_.timeline.push_back(std::move(s));
}

inline void JobRun::advance() {
    if (step_s_ <= 0) set_pace();
    const SaveCycle& c = cycle_;
    const double timers = next_timer();
    double target = goal_;
    if (evaluates_) {
        const double every = static_cast<double>(run_.evaluate_every_steps);
        target = std::min(goal_, std::floor(evaluated_ / every + 1) * every);
    }
    const double reached = target < never ? now_ + std::max(0.0, time_to(target, c)) : never;
    const double until = std::min(std::min(stream_.peek().time_s, timers), std::min(reached, horizon_));
    const double from = now_, offset_s = offset_s_;
    if (until > now_) train(until - now_, c);
    now_ = std::max(now_, until);
    if (timeline_) training_span(from, offset_s);
    if (until == reached && target == goal_) {
        finished_ = out_.finished = true;
        out_.steps = goal_;
        if (offset_s_ > 0 && job_.save.block_s > 0 && run_.checkpoint.save_s != 0) pass(job_.save.block_s, LostTime::save), ++out_.saves;
    } else if (until == horizon_) {
        finished_ = out_.finished = true;
        out_.steps = work(c);
    } else if (until == reached) {
        evaluated_ = target;
        const double begin = now_;
        const bool whole = wait(run_.evaluation_s, LostTime::evaluation);
        span(begin, now_, "evaluation");
        if (!whole) recover();
    } else if (until == stream_.peek().time_s) {
        event();
    } else {
        timer();
    }
}

void JobRun::finish() {
    out_.wall_s = now_;
    if (!out_.finished) out_.steps = work(cycle_);
    out_.productive_s = out_.steps * job_.step_s();
    double others = 0;
    for (const double s : out_.lost_s) others += s;
    const double slower = now_ - out_.productive_s - others;
    // The rest is steps that took longer; less than the rounding of the sums is nothing.
    lost(LostTime::slower) = std::abs(slower) < 1e-9 * (now_ + 1) ? 0 : slower;
    out_.wall_s = out_.productive_s + others + lost(LostTime::slower);
    out_.node_down_s = nodes_.down_s(now_);
}

JobOutcome simulate_job(const TrainingJob& job, int number, bool timeline) { return JobRun(job, number, timeline).result(); }

std::vector<JobOutcome> simulate_seeds(const TrainingJob& job, int seeds, int jobs) {
    std::vector<JobOutcome> out(static_cast<std::size_t>(seeds));
    const int threads = std::clamp(jobs > 0 ? jobs : static_cast<int>(std::thread::hardware_concurrency()), 1, std::max(1, seeds));
    std::atomic<int> next{0};
    const auto work = [&] {
        for (int i = next++; i < seeds; i = next++) out[i] = simulate_job(job, i);
    };
    if (threads == 1) return work(), out;
    std::vector<std::jthread> pool;
    for (int t = 0; t < threads; ++t) pool.emplace_back(work);
    pool.clear();
    return out;
}

} // namespace orrery
