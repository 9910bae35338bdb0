// One attempt of a run in processes of its own: started, watched, and ended whole. Linux: signals, process groups, /proc.
#pragma once

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace orrery {

struct Patiences {
    double silence_s = 10;  // without a beat a rank is lost: stopped, or its machine is
    double progress_s = 60; // a step may take this long, and ten times as long as the longest before it
    double start_s = 600;   // from the launch to the first step's begin
};

// finished: exit 0. refused: it would end the same way again (bad input, no memory, no number, a full disk, a bug). stopped: it was
// asked to (exit 5), or the supervisor was. Losses: killed (by a signal), lost (a rank missed another), silent, stuck.
enum class Ended { finished, refused, stopped, killed, lost, silent, stuck };
const char* name(Ended e);
bool is_loss(Ended e);

struct Ending {
    Ended how = Ended::finished;
    int code = 0;            // what simexec documents
    std::string what;        // a sentence for the user; empty where it finished
    std::int64_t steps = -1; // the most that a process of it has done; -1: none began to train
};

// Signals that ask for an end: SIGTERM, SIGINT, Slurm's --signal=USR1, and SIGHUP of a terminal that is closed, unless nohup said to ignore
// that.
sigset_t stop_signals();

// Signals that the supervisor waits for while it watches: those, and SIGCHLD. They are blocked as long as it lives.
class WatchedSignals {
  public:
    WatchedSignals();
    ~WatchedSignals();
    WatchedSignals(const WatchedSignals&) = delete;
    WatchedSignals& operator=(const WatchedSignals&) = delete;
    bool asked_to_stop(double seconds); // waits so long, or until something happens; stays true once it was

  private:
    bool stop_ = false;
};

// Runs the command until it ends, is lost, or the supervisor is asked to stop; then nothing of it is left on this machine. `beats`: the
// folder that its ranks beat into; it must be empty. Throws std::runtime_error where no process can be made.
Ending attempt(const std::vector<std::string>& command, const std::filesystem::path& beats, const Patiences& patience,
               WatchedSignals& signals);

} // namespace orrery
