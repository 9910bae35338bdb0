// simrun's voice: its name in messages, its options, its bar. The parts that other programs share are in sim/console.
#include "sim/memory/ready.hpp"
#include "sim/simrun/command.hpp"

#include <fmt/format.h>
#include <unistd.h>

namespace orrery::simrun {

TextStyle output_style(const Options& options) { return options.output.empty() ? console::style_of(STDOUT_FILENO) : TextStyle{}; }
TextStyle error_style() { return console::style_of(STDERR_FILENO); }
bool deliver(const std::string& text, const Options& options) { return console::deliver("simrun", text, options.output); }
void complain(const std::string& text) { console::complain("simrun", text); }
void complain(const std::string& file, const std::vector<Problem>& problems) { console::complain("simrun", file, problems); }
std::optional<std::string> read_input(const std::string& file) { return console::read_input("simrun", file); }

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
