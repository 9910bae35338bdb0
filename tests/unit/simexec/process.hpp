// A program under way, for tests that start simexec or mpirun as users do.
#pragma once

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace orrery::test {

using Words = std::vector<std::string>;

inline bool has_mpi() {
    return std::filesystem::exists(ORRERY_BINARY_DIR "/bin/exec_mpi.so") && std::system("command -v mpirun > /dev/null 2>&1") == 0;
}

// What keeps a test from hanging. Its seconds are those of a machine that has a core for every thread that wants one: where more of them
// want one, a second counts as much as the part of a core that each gets.
class Patience {
  public:
    explicit Patience(double seconds) : left_(seconds) {}
    bool over() {
        const auto now = Clock::now();
        left_ -= std::chrono::duration<double>(now - last_).count() * share();
        last_ = now;
        return left_ < 0;
    }

  private:
    using Clock = std::chrono::steady_clock;
    static double share() {
        std::ifstream in("/proc/loadavg"); // three means, then how many threads run or would
        double mean = 0, running = 0;
        in >> mean >> mean >> mean >> running;
        const double cores = std::max(1u, std::thread::hardware_concurrency());
        return in && running > cores ? std::max(0.1, cores / running) : 1;
    }

    double left_;
    Clock::time_point last_ = Clock::now();
};

// Waits for an event; false where it does not come.
template <class F> bool comes(F&& holds, double seconds = 60) {
    for (Patience patience(seconds); !holds(); std::this_thread::sleep_for(std::chrono::milliseconds(5)))
        if (patience.over()) return holds();
    return true;
}

// Its output is in a file.
struct Process {
    pid_t id = 0;
    std::filesystem::path output;

    std::string text() const {
        std::ifstream in(output);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    bool alive() const { // its end is still to be waited for
        siginfo_t info{};
        return waitid(P_PID, static_cast<id_t>(id), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
    }
    bool says(const std::string& what) const { return text().find(what) != std::string::npos; }
    // Whether it keeps a signal until it has time for it, as who trains does: before that the signal would end it.
    bool keeps(int signal) const {
        std::ifstream in("/proc/" + std::to_string(id) + "/status");
        for (std::string line; std::getline(in, line);)
            if (line.starts_with("SigBlk:")) return std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1;
        return false;
    }
    // Its exit code; -1 where it had to be killed after `seconds` (of Patience).
    int wait(double seconds) const {
        Patience patience(seconds);
        return wait(patience);
    }
    int wait(Patience& patience) const {
        int status = 0;
        while (waitpid(id, &status, WNOHANG) == 0) {
            if (patience.over()) {
                kill(id, SIGKILL);
                waitpid(id, &status, 0);
                return -1;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
};

// Stops a process and waits until each of its threads stands still, five seconds at most: the signal alone returns before.
inline bool stop(pid_t id) {
    if (kill(id, SIGSTOP) != 0) return false;
    const auto stands = [](const std::filesystem::path& task) { // "pid (name) T ..", and a name may have blanks
        std::ifstream in(task / "stat");
        const std::string line{std::istreambuf_iterator<char>(in), {}};
        const auto end = line.rfind(')');
        return end != std::string::npos && end + 2 < line.size() && line[end + 2] == 'T';
    };
    for (int tries = 0; tries < 5000; ++tries) {
        bool all = true;
        std::error_code failed;
        for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(id) + "/task", failed))
            all = all && stands(task.path());
        if (all && !failed) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
}

// mpirun may run as root here, with more ranks than cores.
inline Process start_process(const Words& words, const std::filesystem::path& output) {
    for (const auto& [variable, value] : {std::pair{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                          {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                          {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                          {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                                          {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"},
                                          {"PMIX_MCA_gds", "hash"}})
        setenv(variable, value, 1);
    Process p{fork(), output};
    if (p.id == 0) {
        if (std::freopen(p.output.c_str(), "w", stdout) == nullptr) _exit(126);
        dup2(STDOUT_FILENO, STDERR_FILENO);
        std::vector<char*> arguments;
        for (const std::string& w : words) arguments.push_back(const_cast<char*>(w.c_str()));
        arguments.push_back(nullptr);
        execvp(arguments[0], arguments.data());
        _exit(127);
    }
    return p;
}

} // namespace orrery::test
