// A program under way, for tests that start simexec or mpirun as users do.
#pragma once

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
    // Its exit code; -1 where it had to be killed after `seconds`.
    int wait(double seconds) const {
        const auto began = std::chrono::steady_clock::now();
        int status = 0;
        while (waitpid(id, &status, WNOHANG) == 0) {
            if (std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() > seconds) {
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
