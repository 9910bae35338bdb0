// One run, from event to event: between two events any number of cycles of steps and saves passes in closed form. Events come from
// FailureStream; the answer to one is recover(). Time is split as LostTime says, so that all parts add up to the wall time.
#include "sim/job/cycle.hpp"
#include "sim/job/machine.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
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

namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr std::size_t most_spans = 200'000;
using Kind = MachineEvent::Kind;

bool near(CheckpointKind k) { return k == CheckpointKind::peer || k == CheckpointKind::local || k == CheckpointKind::tiers; }

class JobRun {
  public:
    JobRun(const TrainingJob& job, int number, bool timeline)
        : job_(job), run_(job.run), stream_(job, number), nodes_(job, number),
          random_(job.seed + 77 + static_cast<std::uint64_t>(number) * 0x9e3779b97f4a7c15u), timeline_(timeline),
          near_(near(job.run.checkpoint.kind)), goal_(job.steps > 0 ? job.steps : never), horizon_(job.steps > 0 ? never : job.horizon_s),
          evaluates_(job.run.evaluate_every_steps > 0 && job.run.evaluation_s > 0),
          warm_s_(job.run.restart.warmup_steps * job.step_s() * (job.run.restart.warmup_factor - 1)),
          longest_start_s_(run_.restart.schedule_s + run_.spares.cold_s + job.init_s + job.save.load_s + run_.restart.compile_s +
                           job.first_batch_s + warm_s_),
          usual_(!timeline && !near_ && run_.elastic != Elasticity::stepwise && run_.restart.repeat <= 0) {}

    JobOutcome result() {
        while (!over()) advance();
        finish();
        return std::move(out_);
    }

  private:
    bool over() const { return finished_ || met_ > job_.most_failures; }
    double& lost(LostTime t) { return out_.lost_s[static_cast<std::size_t>(t)]; }
    void span(double begin, double end, const char* what, std::string detail = {}) {
        if (timeline_ && end > begin && out_.timeline.size() < most_spans) out_.timeline.push_back({begin, end, what, std::move(detail)});
    }

    // Work: steps whose results stand. anchor_ at the last save, offset_s_ into the cycle since.
    double work(const SaveCycle& c) const { return anchor_ + std::min(offset_s_, c.work_s) * c.steps_per_s * share_; }
    double durable() const { // what a failure now goes back to
        return saves_ > 0 && offset_s_ < wait_s_ ? std::min(before_, anchor_) : anchor_;
    }
    void pass(double seconds, LostTime why) {
        lost(why) += seconds;
        now_ += seconds;
    }
    void set_pace();
    double next_timer();
    void advance();
    void train(double seconds, const SaveCycle& c);
    double time_to(double target, const SaveCycle& c) const;
    void event();
    bool recovers_usually(const MachineEvent& e);
    void timer();
    void go_back(double to, const SaveCycle& c);
    void recover();
    bool wait(double seconds, LostTime why) { // false: a failure came between; it has been taken in
        const double end = now_ + seconds;
        if (stream_.peek().time_s < end || end >= horizon_) return wait_through(seconds, why);
        if (end > now_) pass(end - now_, why);
        return true;
    }
    bool wait_through(double seconds, LostTime why);
    void pass_start(double load) { // after the wait for nodes
        pass(job_.init_s, LostTime::initialisation);
        pass(load, LostTime::restore);
        pass(run_.restart.compile_s, LostTime::startup);
        if (job_.first_batch_s > 0) pass(job_.first_batch_s, LostTime::data);
        pass(warm_s_, LostTime::startup);
    }
    bool start(double schedule, bool far);
    void take_in(const MachineEvent& e);
    bool loses_copies(const MachineEvent& e, int slot);
    void restart_planned(const char* why);
    bool enough_nodes() const;
    void finish();

    const TrainingJob& job_;
    const WholeRun& run_;
    FailureStream stream_;
    JobNodes nodes_;
    JobRandom random_;
    bool timeline_, near_;  // near_: saves lie in memory or on the node's disk
    double goal_, horizon_; // steps, seconds; never: the other ends the run
    bool evaluates_;
    double warm_s_, longest_start_s_;
    bool usual_; // failures may be of the usual kind
    bool finished_ = false;
    std::int64_t met_ = 0; // failures, degradations and planned stops
    JobOutcome out_;
    double now_ = 0;
    double anchor_ = 0, before_ = 0, stored_ = 0, offset_s_ = 0; // work at the last save, the one before, the last on storage
    double wait_s_ = 0;                                          // into a cycle, until the last save can be gone back to
    std::int64_t saves_ = 0;
    MachineState state_;
    bool sound_ = false; // pace and cycle are those of a machine that lacks nothing
    double step_s_ = 0, share_ = 1;
    SaveCycle cycle_{job_, job_.step_s()}; // at that pace
    double slow_until_[3] = {0, 0, 0}, exchange_at_[3] = {never, never, never};
    bool timers_ = false;                          // one of these or the next is set
    double corrupt_at_ = -1, corrupt_due_ = never; // work that is still sound; when that is noticed
    double evaluated_ = 0;
    // The state that a failure leaves until the run goes on: the slowest detection, and how far it must go back.
    double detect_s_ = 0, back_to_ = 0;
    bool far_ = false, cold_ = false, reschedule_ = false;
    int rejoining_ = 0; // elastic stepwise: nodes that start while the others train
    double rejoin_at_ = never;
    double trained_s_ = 0; // steps, those included that are done again
};

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
double JobRun::time_to(double target, const SaveCycle& c) const {
    const double left = target - anchor_, a_cycle = c.steps * share_;
    double cycles = std::floor(left / a_cycle);
    double rest = left - cycles * a_cycle;
    if (cycles > 0 && rest <= 1e-9) cycles -= 1, rest = a_cycle; // it is reached as the cycle's work ends, before its save
    return cycles * c.length_s + rest / a_cycle * c.work_s - offset_s_;
}

void JobRun::train(double seconds, const SaveCycle& c) {
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
double JobRun::next_timer() {
    if (!timers_ && nodes_.missing() == 0) return never;
    timers_ = slow_until_[0] + slow_until_[1] + slow_until_[2] != 0 || std::min(corrupt_due_, rejoin_at_) != never;
    double next = std::min(corrupt_due_, rejoin_at_);
    for (int i = 0; i < 3; ++i) {
        if (slow_until_[i] > now_) next = std::min(next, slow_until_[i]);
        next = std::min(next, exchange_at_[i]);
    }
    return nodes_.missing() > 0 ? std::min(next, std::max(now_, nodes_.next_arrival())) : next;
}

void JobRun::advance() {
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
    const double from = now_;
    if (until > now_) train(until - now_, c);
    now_ = std::max(now_, until);
    if (timeline_)
        span(from, now_, state_ == MachineState{} ? "training" : "training, slower",
             state_.replicas_lost > 0 ? std::to_string(state_.replicas_lost) + " replicas less" : "");
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

// The parts that a failure breaks; a run that stands still already takes it in the same way.
void JobRun::take_in(const MachineEvent& e) {
    const bool trace = run_.failures.distribution == FailureLaw::trace && e.kind == Kind::failure;
    for (int i = 0; i < e.slots; ++i) {
        const int slot = nodes_.struck(e, e.slot + i);
        if (slot < 0) {
            if (trace) nodes_.outage(e.slot, e.time_s, e.time_s + e.repair_s);
            continue;
        }
        if (i == 0) ++met_, ++out_.failures, ++out_.by_part[static_cast<std::size_t>(e.part)];
        const bool away = e.repair_s > 0, cold = !run_.spares.warm;
        const bool filled = nodes_.leave(slot, e.time_s, e.time_s + e.repair_s);
        reschedule_ |= !away | cold; // no branches: they would be a coin's toss
        cold_ |= away & filled & cold;
        if (near_) far_ = loses_copies(e, slot) || far_;
        detect_s_ = std::max(detect_s_, e.part == FailingPart::hang ? run_.detect.hang : run_.detect.crash);
    }
}

// Whether no copy of the newest near save is left of what lay in this place.
bool JobRun::loses_copies(const MachineEvent& e, int slot) {
    const bool soft = e.part == FailingPart::software || e.part == FailingPart::hang, away = e.repair_s > 0;
    if (run_.checkpoint.kind == CheckpointKind::local) return away;
    if (soft) return false;
    const bool gone = nodes_.lose_memory(slot);
    return gone && (away || run_.checkpoint.kind == CheckpointKind::peer);
}

bool JobRun::enough_nodes() const {
    if (nodes_.missing() == 0) return true;
    if (run_.elastic == Elasticity::none) return false;
    if (run_.elastic == Elasticity::replan) return nodes_.missing() * 2 <= job_.nodes;
    return std::ceil(nodes_.missing() * job_.replicas_per_node - 1e-9) < job_.replicas;
}

bool JobRun::wait_through(double seconds, LostTime why) {
    const double end = std::min(now_ + seconds, horizon_);
    while (stream_.peek().time_s < end) {
        const MachineEvent e = stream_.peek();
        stream_.pop();
        if (e.kind != Kind::failure && e.kind != Kind::group) continue; // nobody trains: a slow node or a plan does not matter
        const std::int64_t before = out_.failures;
        pass(std::max(0.0, e.time_s - now_), why);
        nodes_.arrive(now_);
        take_in(e);
        if (out_.failures != before) return false; // else the place is empty
    }
    if (end > now_) pass(end - now_, why);
    if (now_ >= horizon_) {
        finished_ = out_.finished = true;
        out_.steps = anchor_;
    }
    return true;
}

// Processes, ranks, the checkpoint, kernels, warm steps. False: a failure came between.
bool JobRun::start(double schedule, bool far) {
    const double load = far ? job_.save.load_s : job_.save.near_load_s;
    const double end = now_ + (schedule + job_.init_s + load + run_.restart.compile_s + job_.first_batch_s + warm_s_) * (1 + 1e-12);
    if (stream_.peek().time_s > end && end < horizon_) { // nothing comes between, as nearly always
        pass(schedule, LostTime::recovery);
        pass_start(load);
        return true;
    }
    return wait(schedule, LostTime::recovery) && wait(job_.init_s, LostTime::initialisation) && wait(load, LostTime::restore) &&
           wait(run_.restart.compile_s, LostTime::startup) && wait(job_.first_batch_s, LostTime::data) && wait(warm_s_, LostTime::startup);
}

// From a failure, already taken in, to the next step. A failure on the way begins it again.
void JobRun::recover() {
    const double begin = now_;
    ++out_.interruptions;
    back_to_ = durable();
    const SaveCycle& before = cycle_;
    if (corrupt_due_ <= now_) { // all saves since the corruption hold it; a run that keeps too few has none that is older
        const double since = (anchor_ - corrupt_at_) / before.steps;
        back_to_ = run_.checkpoint.keep > 0 && since >= run_.checkpoint.keep ? 0 : std::min(back_to_, corrupt_at_);
    }
    while (!over()) {
        if (far_) ++out_.fallbacks, back_to_ = std::min(back_to_, stored_);
        go_back(std::min(back_to_, work(before)), before);
        const bool was_far = far_ || !near_;
        far_ = false;
        const double detect = detect_s_;
        detect_s_ = 0;
        if (!wait(detect, LostTime::recovery)) continue;
        nodes_.arrive(now_);
        bool struck = false;
        while (!enough_nodes() && !over() && !struck) {
            const double from = now_;
            struck = !wait(std::max(0.0, nodes_.next_arrival() - now_), LostTime::recovery);
            out_.missing_node_s += nodes_.missing() * (now_ - from);
            nodes_.arrive(now_);
            if (nodes_.next_arrival() == never && !enough_nodes()) return void(finished_ = true); // no node ever comes back
        }
        if (struck) continue;
        const double schedule = reschedule_ * run_.restart.schedule_s + cold_ * run_.spares.cold_s; // no branch: it would be a coin's toss
        if (!start(schedule, was_far)) continue;
        if (run_.restart.repeat > 0 && random_.share() < run_.restart.repeat) continue;
        break;
    }
    reschedule_ = cold_ = false;
    rejoining_ = 0, rejoin_at_ = never;
    if (timeline_) span(begin, now_, "restart", std::to_string(nodes_.missing()) + " nodes missing");
    set_pace();
}

// The usual failure: a spare takes the node's place, and nothing else happens until training goes on. The same sums in the same order as
// take_in() and recover() make, without their questions. False: it is of another kind, and nothing has been done.
bool JobRun::recovers_usually(const MachineEvent& e) {
    const double detect = e.part == FailingPart::hang ? run_.detect.hang : run_.detect.crash;
    const double until = now_ + (detect + longest_start_s_) * (1 + 1e-9);
    if (!usual_ || timers_ || !sound_ || e.slots != 1 || !nodes_.have_spare() || met_ >= job_.most_failures ||
        stream_.peek().time_s < until || until >= horizon_)
        return false;
    ++met_, ++out_.failures, ++out_.by_part[static_cast<std::size_t>(e.part)], ++out_.interruptions;
    nodes_.leave(e.slot, e.time_s, e.time_s + e.repair_s);
    const bool away = e.repair_s > 0, cold = !run_.spares.warm;
    go_back(std::min(durable(), work(cycle_)), cycle_);
    if (const double end = now_ + detect; end > now_) pass(end - now_, LostTime::recovery);
    pass((!away | cold) * run_.restart.schedule_s + (away & cold) * run_.spares.cold_s, LostTime::recovery);
    pass_start(job_.save.load_s);
    return true;
}

// A stop that is known before: nothing is lost but the time of a save and a start.
void JobRun::restart_planned(const char* why) {
    const SaveCycle& c = cycle_;
    const double begin = now_;
    const double at = work(c);
    pass(run_.elastic == Elasticity::stepwise ? 0 : job_.save.block_s, LostTime::save);
    anchor_ = before_ = at;
    offset_s_ = wait_s_ = 0;
    const bool regroups = run_.elastic == Elasticity::stepwise && std::string_view(why) == "a node is back";
    const bool whole = regroups ? wait(run_.restart.regroup_s, LostTime::preparation)
                                : wait(job_.init_s, LostTime::initialisation) && wait(job_.save.near_load_s, LostTime::restore) &&
                                      wait(run_.restart.compile_s, LostTime::startup) && wait(job_.first_batch_s, LostTime::data);
    span(begin, now_, "restart", why);
    if (!whole) return recover();
    set_pace();
}

void JobRun::event() {
    const MachineEvent e = stream_.peek();
    stream_.pop();
    const SaveCycle& c = cycle_;
    if (e.kind == Kind::planned) {
        ++met_, ++out_.planned;
        const double begin = now_;
        const bool whole = wait(run_.failures.planned_s, LostTime::recovery);
        span(begin, now_, "planned interruption");
        if (!whole) return recover();
        return restart_planned("planned");
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
        ++met_, ++out_.failures, ++out_.by_part[static_cast<std::size_t>(e.part)];
        timers_ = true;
        if (corrupt_due_ == never) corrupt_at_ = durable(), corrupt_due_ = now_ + run_.detect.sdc;
        return;
    }
    if (recovers_usually(e)) return;
    const std::int64_t before = out_.failures;
    nodes_.arrive(now_);
    take_in(e);
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
        if (nodes_.missing() == 0) timers_ = true, ++rejoining_, rejoin_at_ = now_ + detect + start;
        reschedule_ = cold_ = false;
        const double begin = now_;
        const bool whole = wait(detect, LostTime::recovery) && wait(run_.restart.regroup_s, LostTime::preparation);
        span(begin, now_, "restart", "survivors go on");
        if (!whole) return recover();
        return set_pace();
    }
    recover();
}

void JobRun::timer() {
    bool exchange = false;
    for (int i = 0; i < 3; ++i) {
        if (slow_until_[i] <= now_) {
            exchange_at_[i] = never;
            slow_until_[i] = 0;
        } else if (exchange_at_[i] <= now_) {
            exchange_at_[i] = never;
            slow_until_[i] = 0;
            exchange = true;
        }
    }
    if (corrupt_due_ <= now_) {
        reschedule_ = true;
        recover();
        corrupt_at_ = -1, corrupt_due_ = never;
        return;
    }
    if (nodes_.missing() > 0 && nodes_.next_arrival() <= now_ && nodes_.arrive(now_) > 0) return restart_planned("a node is back");
    if (rejoin_at_ <= now_) {
        rejoining_ = 0, rejoin_at_ = never;
        return restart_planned("a node is back");
    }
    if (exchange) return restart_planned("a slow node is exchanged");
    set_pace();
}

void JobRun::finish() {
    out_.wall_s = now_;
    if (!out_.finished) out_.steps = anchor_;
    out_.productive_s = out_.steps * job_.step_s();
    double others = 0;
    for (const double s : out_.lost_s) others += s;
    const double slower = now_ - out_.productive_s - others;
    // The rest is steps that took longer; less than the rounding of the sums is nothing.
    lost(LostTime::slower) = std::abs(slower) < 1e-9 * (now_ + 1) ? 0 : slower;
    out_.wall_s = out_.productive_s + others + lost(LostTime::slower);
    out_.node_down_s = nodes_.down_s(now_);
}

} // namespace

JobOutcome simulate_job(const TrainingJob& job, int number, bool timeline) { return JobRun(job, number, timeline).result(); }

std::vector<JobOutcome> simulate_seeds(const TrainingJob& job, int seeds, int jobs) {
    std::vector<JobOutcome> out(static_cast<std::size_t>(seeds));
    const int threads = std::clamp(jobs > 0 ? jobs : static_cast<int>(std::thread::hardware_concurrency()), 1, std::max(1, seeds));
    std::atomic<int> next{0};
    const auto work = [&] {
        for (int i = next++; i < seeds; i = next++) out[static_cast<std::size_t>(i)] = simulate_job(job, i);
    };
    if (threads == 1) return work(), out;
    std::vector<std::jthread> pool;
    for (int t = 0; t < threads; ++t) pool.emplace_back(work);
    pool.clear();
    return out;
}

} // namespace orrery
