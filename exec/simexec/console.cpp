// simexec's voice: its name in messages, its options, its line of progress. The parts that other programs share are in sim/console.
#include "exec/simexec/command.hpp"

#include "exec/cuda/plugin.hpp"
#include "exec/queues/launch.hpp"
#include "exec/runtime/clients.hpp"
#include "exec/runtime/world.hpp"
#include "sim/memory/ready.hpp"
#include "sim/trace/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

namespace orrery::simexec {

TextStyle output_style(const Options& options) { return options.output.empty() ? console::style_of(STDOUT_FILENO) : TextStyle{}; }
TextStyle error_style() { return console::style_of(STDERR_FILENO); }
int deliver(const std::string& text, const Options& options) {
    if (options.quiet && !options.json && options.output.empty()) return done;
    return console::deliver("simexec", text, options.output) ? done : unwritten;
}
void complain(const std::string& text) { console::complain("simexec", text); }
void give_up(const std::string& who) {
    complain(who);
    std::fflush(nullptr);
    std::_Exit(lost);
}

std::string counted(std::int64_t n, const std::string& thing) {
    return fmt::format("{} {}{}", n, thing, n == 1 ? "" : thing.ends_with('s') ? "es" : "s");
}

namespace {

// A name on this machine that is gone when its process is: whoever binds it first has it. -1: another has it.
int claim(const std::string& name) {
    const int s = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    const std::size_t length = std::min(name.size(), sizeof at.sun_path - 1); // after a zero byte: a name without a file
    std::memcpy(at.sun_path + 1, name.data(), length);
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
    if (s < 0 || ::bind(s, reinterpret_cast<sockaddr*>(&at), bytes) == 0 || errno != EADDRINUSE) return s; // without sockets all speak
    ::close(s);
    return -1;
}

// The processes of one job have this in common; those of another job beside it have something else.
std::string job_name(const LaunchedRank& at) {
    std::string name = fmt::format("{} {} {}", at.by, at.size, at.job);
    for (const char* variable : {"MASTER_ADDR", "MASTER_PORT", "ORRERY_PORT"})
        if (const char* value = std::getenv(variable)) name += fmt::format(" {}", value);
    return name;
}

} // namespace

void once_here(const std::string& what, const std::function<void()>& say) {
    const std::optional<LaunchedRank> launched = launched_if_clear(); // where it is not clear, each says so
    if (!launched || launched->size == 1) return say();
    const int claimed =
        claim(fmt::format("orrery {} {:016x} {:016x}", getuid(), trace_file::checksum(job_name(*launched)), trace_file::checksum(what)));
    if (claimed >= 0) say();
    std::fflush(nullptr);
    std::this_thread::sleep_for(std::chrono::seconds(1));
    if (claimed >= 0) ::close(claimed);
}

std::string several_started(const std::string& does) {
    const auto launched = launched_rank();
    if (!launched || launched->size == 1) return {};
    return fmt::format("{} started {} processes, and each would {} all ranks of the scenario: start them by mpirun or srun with --executor "
                       "mpi, or start one process",
                       launched->by, launched->size, does);
}

int refuse(const std::string& text) {
    once_here(text, [&] { complain(text); });
    return bad_input;
}

std::optional<std::string> read_text(const std::string& file) {
    std::optional<std::string> text;
    if (std::error_code e; std::filesystem::exists(file, e))
        text = console::read_input("simexec", file);
    else
        once_here("no " + file, [&] { text = console::read_input("simexec", file); });
    return text;
}

namespace {

// Every client a replica.
ParseResult with_clients(const std::string& file, const Options& options, const Scenario& client) {
    ParseResult all;
    const ClientsOnRanks clients = clients_on_ranks(client);
    if (!clients.problems.empty()) {
        all.problems = clients.problems;
        return all;
    }
    std::vector<std::string> overrides = options.overrides;
    overrides.insert(overrides.end(), clients.overrides.begin(), clients.overrides.end());
    all = load_scenario(file, overrides);
    if (all.scenario) all.scenario->federated.reset();
    return all;
}

} // namespace

std::optional<Scenario> load(const std::string& file, const Options& options, bool forced_routing) {
    if (!read_text(file)) return std::nullopt;
    ParseResult parsed = load_scenario(file, options.overrides);
    if (parsed.scenario && parsed.problems.empty() && parsed.scenario->federated) parsed = with_clients(file, options, *parsed.scenario);
    make_ready(parsed);
    if (parsed.scenario && parsed.problems.empty()) parsed.problems = not_executable(*parsed.scenario, forced_routing);
    if (parsed.scenario && parsed.problems.empty()) return std::move(parsed.scenario);
    once_here(file + to_text(parsed.problems), [&] { console::complain("simexec", file, parsed.problems); });
    return std::nullopt;
}

Backend machine_of(const std::string& device) {
    if (device == "cpu") return cpu_machine();
    std::string why_not;
    auto first = open_cuda(0, why_not);
    if (!first) throw std::runtime_error("--device cuda: " + why_not + "\nsimexec doctor says what this machine has.");
    return cuda_machine(std::move(first));
}

Progress::Progress(const Options& options) : line_(!options.quiet), plain_(!options.quiet && !isatty(STDERR_FILENO)) {}

void Progress::show(int done_steps, int total, const std::string& beside) {
    if (plain_ && line_.seconds() >= next_) { // a pipe or a file: a line now and then, without escape codes
        next_ = line_.seconds() + 10;
        std::fputs(fmt::format("{}/{}  {}\n", done_steps, total, beside).c_str(), stderr);
    }
    if (!line_.due()) return;
    line_.show(fmt::format("{} {}/{}  {}", bar(static_cast<double>(done_steps) / total, 30, Ink::green, error_style()), done_steps, total,
                           beside));
}

} // namespace orrery::simexec
