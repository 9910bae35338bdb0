#include "exec/supervise/supervise.hpp"

#include "exec/supervise/beats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace orrery {

sigset_t stop_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int s : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&set, s);
    struct sigaction hangup {};
    if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP); // nohup ignores it
    return set;
}

namespace {

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

sigset_t watched_set() {
    sigset_t set = stop_signals();
    sigaddset(&set, SIGCHLD);
    return set;
}

pid_t launch(const std::vector<std::string>& command) {
    std::vector<char*> words;
    for (const std::string& w : command) words.push_back(const_cast<char*>(w.c_str()));
    words.push_back(nullptr);
    const pid_t parent = getpid(), child = fork();
    if (child < 0) throw std::runtime_error(fmt::format("no process can be started: {}", std::strerror(errno)));
    if (child > 0) return child;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM); // nobody trains on unseen: it saves and ends
    if (getppid() != parent) _exit(127);
    const sigset_t set = watched_set();
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
    execvp(words[0], words.data());
    _exit(127);
}

// A process of this machine that beat and is still the same one.
bool is_here(const Beat& b) { return b.host == host_name() && b.started >= 0 && process_started(b.process) == b.started; }

// Facts of one attempt so far.
struct Watch {
    struct Seen {
        Beat beat;
        double at = 0; // when its count last changed
    };
    std::map<int, Seen> ranks;
    double launched = now_s(), stepped = launched, longest = 0;
    std::int64_t steps = -1;

    void look(const std::filesystem::path& folder) {
        const double t = now_s();
        for (const auto& [rank, beat] : read_beats(folder)) {
            Seen& seen = ranks[rank];
            if (seen.beat.count != beat.count) seen.at = t;
            seen.beat = beat;
            if (beat.steps <= steps) continue;
            if (steps >= 0) longest = std::max(longest, (t - stepped) / static_cast<double>(beat.steps - steps));
            steps = beat.steps;
            stepped = t;
        }
    }

    std::optional<Ending> loss(const Patiences& p) const {
        const double t = now_s();
        for (const auto& [rank, seen] : ranks)
            if (t - seen.at > p.silence_s)
                return Ending{
                    Ended::silent, 6,
                    fmt::format("rank {} (process {} of {}) has given no sign of life for {:.3g} s: it is stopped, or its machine "
                                "is lost (--silence)",
                                rank, seen.beat.process, seen.beat.host, t - seen.at),
                    steps};
        const double most = steps < 0 ? p.start_s : std::max(p.progress_s, 10 * longest);
        if (t - stepped > most)
            return Ending{Ended::stuck, 6,
                          steps < 0 ? fmt::format("no rank has begun to train {:.3g} s after the launch", t - stepped)
                                    : fmt::format("no step has ended for {:.3g} s, and the longest before took {:.3g} s (--patience)",
                                                  t - stepped, longest),
                          steps};
        return std::nullopt;
    }

    void signal_ranks(int signal) const {
        for (const auto& [rank, seen] : ranks)
            if (is_here(seen.beat)) kill(static_cast<pid_t>(seen.beat.process), signal);
    }
};

Ending ending(int status, std::int64_t steps) {
    if (WIFSIGNALED(status))
        return {Ended::killed, 6, fmt::format("its process ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status))), steps};
    const int code = WEXITSTATUS(status);
    if (code == 0) return {Ended::finished, 0, "", steps};
    if (code == 5) return {Ended::stopped, 5, "it was stopped by a signal", steps};
    if (code == 8 || code == 9) return {Ended::lost, code, code == 8 ? "a GPU failed" : "communication between GPUs failed", steps};
    if (code == 6) return {Ended::lost, 6, "a rank was lost", steps};
    if (code > 128) // as mpirun reports it
        return {Ended::killed, 6, fmt::format("a rank ended by signal {} ({})", code - 128, strsignal(code - 128)), steps};
    if (code == 127) return {Ended::refused, 1, "its program could not be started", steps};
    // mpirun says 1 where a machine is lost; whoever has trained a step has no bad input.
    if (code == 1 && steps > 0) return {Ended::lost, 6, "its launcher gave up", steps};
    return {Ended::refused, code, fmt::format("it ended with exit code {}", code), steps};
}

// Waits for the child up to `seconds`; its status where it has ended.
std::optional<int> reap(pid_t child, double seconds) {
    for (const double until = now_s() + seconds;;) {
        int status = 0;
        if (waitpid(child, &status, WNOHANG) == child) return status;
        if (now_s() > until) return std::nullopt;
        usleep(2000);
    }
}

// The child and its ranks, whatever state they are in. mpirun has a moment to end what runs on other machines.
void end_all(pid_t child, bool ended, const Watch& watch) {
    watch.signal_ranks(SIGKILL);
    if (!ended) {
        kill(child, SIGCONT);
        kill(child, SIGTERM);
        if (!reap(child, 5)) {
            kill(-child, SIGKILL);
            reap(child, 5);
        }
    }
    kill(-child, SIGKILL);
}

} // namespace

const char* name(Ended e) {
    static constexpr const char* names[] = {"finished", "refused", "stopped", "killed", "lost", "silent", "stuck"};
    return names[static_cast<std::size_t>(e)];
}
bool is_loss(Ended e) { return e >= Ended::killed; }

WatchedSignals::WatchedSignals() {
    const sigset_t set = watched_set();
    sigprocmask(SIG_BLOCK, &set, nullptr);
}
WatchedSignals::~WatchedSignals() {
    const sigset_t set = watched_set();
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
}
bool WatchedSignals::asked_to_stop(double seconds) {
    const sigset_t set = watched_set();
    const timespec wait{static_cast<time_t>(seconds),
                        static_cast<long>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e9)};
    const int got = sigtimedwait(&set, nullptr, &wait);
    stop_ = stop_ || (got > 0 && got != SIGCHLD);
    return stop_;
}

Ending attempt(const std::vector<std::string>& command, const std::filesystem::path& beats, const Patiences& patience,
               WatchedSignals& signals) {
    Watch watch;
    const pid_t child = launch(command);
    double asked = 0;
    for (double looked = 0;;) {
        const bool stop = signals.asked_to_stop(asked > 0 ? 0.01 : 0.05);
        if (const auto status = reap(child, 0)) {
            watch.look(beats);
            end_all(child, true, watch);
            Ending e = ending(*status, watch.steps);
            if (asked > 0 && e.how != Ended::finished) e = {Ended::stopped, 5, "it was stopped by a signal", e.steps};
            return e;
        }
        if (now_s() - looked > 0.1) watch.look(beats), looked = now_s();
        if (stop && asked == 0) { // ranks stop behind their step, with a checkpoint
            asked = now_s();
            watch.signal_ranks(SIGTERM);
            if (watch.ranks.empty()) kill(child, SIGTERM);
        }
        std::optional<Ending> loss = watch.loss(patience);
        if (asked > 0 && now_s() - asked > std::max(patience.progress_s, 10 * watch.longest)) // who does not stop is stopped
            loss = Ending{Ended::stopped, 5, "it was asked to stop, and did not: it was killed", watch.steps};
        if (!loss) continue;
        end_all(child, false, watch);
        if (asked > 0) loss->how = Ended::stopped, loss->code = 5;
        return *loss;
    }
}

} // namespace orrery
