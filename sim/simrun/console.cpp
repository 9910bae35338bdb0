// simrun's voice: its name in messages, its options, its bar. The parts that other programs share are in sim/console.
#include "sim/memory/ready.hpp"
#include "sim/simrun/command.hpp"

#include <fmt/format.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>

namespace orrery::simrun {

namespace {

std::time_t started_at = 0;

// In a signal handler: nothing that allocates.
void say_still(int) {
    std::array<char, 64> text{};
    std::size_t n = 0;
    const auto put = [&](const char* words) {
        while (*words != '\0' && n < text.size()) text[n++] = *words++;
    };
    put("simrun: still computing after ");
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    std::array<char, 20> digits{};
    std::size_t d = digits.size() - 1;
    for (std::time_t left = now.tv_sec - started_at; d > 0 && (left > 0 || d == digits.size() - 1); left /= 10)
        digits[--d] = static_cast<char>('0' + left % 10);
    put(&digits[d]);
    put(" s; Ctrl-C stops it\n");
    if (::write(STDERR_FILENO, text.data(), n) < 0) return; // nobody listens
}

} // namespace

void say_while_it_lasts() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    started_at = now.tv_sec;
    struct sigaction action {};
    action.sa_handler = say_still;
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGALRM, &action, nullptr);
    const itimerval every{{60, 0}, {30, 0}};
    ::setitimer(ITIMER_REAL, &every, nullptr);
}

TextStyle output_style(const Options& options) { return options.output.empty() ? console::style_of(STDOUT_FILENO) : TextStyle{}; }
TextStyle error_style() { return console::style_of(STDERR_FILENO); }
bool deliver(const std::string& text, const Options& options) {
    const bool asked = !options.quiet || options.json || !options.output.empty();
    return !asked || console::deliver("simrun", text, options.output);
}
void complain(const std::string& text) { console::complain("simrun", text); }
void complain(const std::string& file, const std::vector<Problem>& problems) { console::complain("simrun", file, problems); }
std::optional<std::string> read_input(const std::string& file) { return console::read_input("simrun", file); }

namespace {

constexpr const char* written_name = ".written-by-simrun"; // names, a line each

bool of_a_ranking(const std::string& name) {
    const std::size_t digits = name.find_first_not_of("0123456789");
    return name == "refined.json" || (digits > 0 && digits < name.size() && name.substr(digits) == ".json");
}

std::set<std::string> written_before(const std::filesystem::path& folder) {
    std::set<std::string> names;
    std::ifstream in(folder / written_name);
    for (std::string line; std::getline(in, line);)
        if (of_a_ranking(line)) names.insert(line);
    return names;
}

} // namespace

std::string why_not_written(const std::string& folder) {
    const std::set<std::string> own = written_before(folder);
    std::error_code none;
    if (!folder.empty())
        for (const auto& entry : std::filesystem::directory_iterator(folder, none))
            if (const std::string name = entry.path().filename().string(); of_a_ranking(name) && !own.contains(name))
                return entry.path().string() + " was written by no `--write` before: name another folder, or take that file away";
    return "";
}

bool write_scenarios(const std::string& folder, const std::vector<std::pair<std::string, std::string>>& files, const Options& options) {
    const std::filesystem::path into(folder);
    std::error_code failed;
    std::filesystem::create_directories(into, failed);
    for (const std::string& name : written_before(into)) std::filesystem::remove(into / name, failed);
    std::string names;
    for (const auto& [name, text] : files) names += name + "\n";
    Options to = options;
    const auto write = [&](const std::string& name, const std::string& text) {
        to.output = (into / name).string();
        return deliver(text, to);
    };
    return write(written_name, names) && std::ranges::all_of(files, [&](const auto& one) { return write(one.first, one.second); });
}

std::optional<Scenario> load(const std::string& file, const Options& options) {
    if (!read_input(file)) return std::nullopt;
    ParseResult parsed = load_scenario(file, options.overrides, options.constants);
    make_ready(parsed);
    if (!parsed.problems.empty() || !parsed.scenario) {
        complain(file, parsed.problems);
        return std::nullopt;
    }
    return std::move(parsed.scenario);
}

void ProgressBar::show(std::size_t done, std::size_t total) {
    const double t = line_.seconds();
    if (t < 1 || total == 0 || !line_.due()) return;
    const double share = static_cast<double>(done) / static_cast<double>(total);
    const double left = done > 0 ? t * (1 - share) / share : 0;
    line_.show(fmt::format("{} {} {}/{} {:3.0f} %  {} left", what_, bar(share, 30, Ink::green, error_style()), done, total, share * 100,
                           left < 90 ? fmt::format("{:.0f} s", left) : fmt::format("{:.0f} min", left / 60)));
}

} // namespace orrery::simrun
