// The way back to training: after failures, planned stops, and for nodes that are back. See job_run.hpp.
#include "sim/job/job_run.hpp"

#include <cmath>
#include <string_view>

namespace orrery {

// The parts that a failure breaks; a run that stands still already takes it in the same way.
void JobRun::take_in(const MachineEvent& e) {
    const bool trace = run_.failures.distribution == FailureLaw::trace && e.kind == Kind::failure;
    for (int i = 0; i < e.slots; ++i) {
        const int slot = nodes_.struck(e, e.slot + i);
        if (slot < 0) {
            if (trace) nodes_.outage(e.slot, e.time_s, e.time_s + e.repair_s);
            continue;
        }
        if (i == 0) ++met_, ++out_.failures, ++out_.by_part[e.part];
        if (i == 0 && timeline_) why_ = why_.empty() ? name(e.part) : why_ + ", " + name(e.part);
        const bool away = e.repair_s > 0, cold = !run_.spares.warm;
        const bool filled = nodes_.leave(slot, e.time_s, e.time_s + e.repair_s);
        reschedule_ |= !away | cold; // no branches: they would be a coin's toss
        cold_ |= away & filled & cold;
        starting_ += filled;
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

// Elastic stepwise: nodes that start again beside the run are as good as missing.
bool JobRun::enough_nodes() const {
    const int absent = nodes_.missing() + rejoining_;
    if (absent == 0) return true;
    if (run_.elastic == Elasticity::none) return false;
    if (run_.elastic == Elasticity::replan) return absent * 2 <= job_.nodes;
    return std::ceil(absent * job_.replicas_per_node - 1e-9) < job_.replicas;
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
        out_.steps = work(cycle_); // an evaluation or a planned stop may be what the end comes into
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
    rejoining_ = starting_ = 0, rejoin_at_ = never; // all start
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
    starting_ = 0;
    if (timeline_) span(begin, now_, "restart", why_ + (nodes_.missing() > 0 ? "; " + counted(nodes_.missing(), "node") + " missing" : ""));
    why_.clear();
    set_pace();
}

// Before a stop that is known: a save, until it can be gone back to.
void JobRun::save_ahead() {
    const double at = work(cycle_);
    pass(job_.save.block_s + job_.save.write_s, LostTime::save);
    anchor_ = before_ = at;
    offset_s_ = wait_s_ = 0;
    ++out_.saves;
    if (near_) return nodes_.saved();
    stored_ = at;
    ++out_.storage_saves;
}

// A stop that is known before: nothing is lost but the time of a save, a pause and a start. Survivors that regroup do not even save.
void JobRun::restart_planned(const char* why, double pause) {
    double begin = now_;
    const bool regroups = run_.elastic == Elasticity::stepwise && std::string_view(why) == "a node is back";
    if (!regroups) save_ahead();
    if (pause > 0) {
        const bool whole = wait(pause, LostTime::recovery);
        span(begin, now_, "planned interruption");
        if (!whole) return recover();
        begin = now_;
    }
    const bool whole = regroups ? wait(run_.restart.regroup_s, LostTime::preparation)
                                : wait(job_.init_s, LostTime::initialisation) && wait(job_.save.near_load_s, LostTime::restore) &&
                                      wait(run_.restart.compile_s, LostTime::startup) && wait(job_.first_batch_s, LostTime::data);
    span(begin, now_, "restart", why);
    if (!whole) return recover();
    set_pace();
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
        if (timeline_) why_ = name(FailingPart::sdc);
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

} // namespace orrery
