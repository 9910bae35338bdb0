// One run, from event to event: between two events any number of cycles of steps and saves passes in closed form. Events come from
// FailureStream; the answer to one is recover(). Time is split as LostTime says, so that all parts add up to the wall time.
// simulate.cpp: time that passes, and events; recover.cpp: the way back to training. Private to this room.
#pragma once

#include "sim/job/cycle.hpp"
#include "sim/job/machine.hpp"

#include <algorithm>
#include <limits>

namespace orrery {

inline std::string counted(std::int64_t n, const std::string& what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

class JobRun {
  public:
    static constexpr double never = std::numeric_limits<double>::infinity();

    JobRun(const TrainingJob& job, int number, bool timeline)
        : job_(job), run_(job.run), stream_(job, number), nodes_(job, number),
          random_(job.seed + 77 + static_cast<std::uint64_t>(number) * 0x9e3779b97f4a7c15u), timeline_(timeline),
          near_(job.run.checkpoint.kind >= CheckpointKind::peer), goal_(job.steps > 0 ? job.steps : never),
          horizon_(job.steps > 0 ? never : job.horizon_s), evaluates_(job.run.evaluate_every_steps > 0 && job.run.evaluation_s > 0),
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
    using Kind = MachineEvent::Kind;
    static constexpr std::size_t most_spans = 200'000;
    bool over() const { return finished_ || met_ > job_.most_failures; }
    double& lost(LostTime t) { return out_.lost_s[t]; }
    void span(double begin, double end, const char* what, std::string detail = {}) {
        if (timeline_ && end > begin && out_.timeline.size() < most_spans)
            out_.timeline.push_back({begin, end, what, std::move(detail), {}});
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
    void training_span(double from, double offset_s);
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
    void restart_planned(const char* why, double pause = 0);
    bool enough_nodes() const;
    void save_ahead();
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
    std::string why_;                  // for the timeline: what broke
    int starting_ = 0, rejoining_ = 0; // elastic stepwise: nodes that a failure makes start, those that do while the others train
    double rejoin_at_ = never;
    double trained_s_ = 0; // steps, those included that are done again
};

} // namespace orrery
