// Standard output and error, files, progress.
#include "exec/simexec/command.hpp"

#include "exec/runtime/world.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace orrery::simexec {
namespace {

TextStyle style_of(int descriptor) {
    TextStyle style;
    if (isatty(descriptor) == 0) return style;
    const char *term = std::getenv("TERM"), *no_colour = std::getenv("NO_COLOR"), *language = std::getenv("LANG");
    const bool dumb = !term || std::strcmp(term, "dumb") == 0;
    style.colour = !dumb && (!no_colour || *no_colour == '\0');
    style.unicode = !dumb && language && (std::strstr(language, "UTF-8") || std::strstr(language, "utf8"));
    winsize size{};
    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.width = std::clamp<int>(size.ws_col, 72, 140);
    return style;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

} // namespace

TextStyle output_style(const Options& options) { return options.output.empty() ? style_of(STDOUT_FILENO) : TextStyle{}; }
TextStyle error_style() { return style_of(STDERR_FILENO); }

bool deliver(const std::string& text, const Options& options) {
    if (options.output.empty()) {
        std::fwrite(text.data(), 1, text.size(), stdout);
        return std::fflush(stdout) == 0;
    }
    std::ofstream file(options.output, std::ios::binary);
    file << text;
    file.flush();
    if (!file) complain(options.output + ": cannot be written");
    return static_cast<bool>(file);
}

void complain(const std::string& text) {
    const std::string line = paint("simexec: error: ", Ink::red, error_style()) + text + (text.ends_with('\n') ? "" : "\n");
    std::fwrite(line.data(), 1, line.size(), stderr);
}

std::optional<std::string> read_text(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    if (!in || !text) {
        complain(file + ": cannot be read");
        return std::nullopt;
    }
    return text.str();
}

std::optional<Scenario> load(const std::string& file, const Options& options, bool forced_routing) {
    ParseResult parsed = load_scenario(file, options.overrides);
    if (parsed.scenario && parsed.problems.empty()) parsed.problems = unsupported(*parsed.scenario);
    if (parsed.scenario && parsed.problems.empty()) parsed.problems = not_executable(*parsed.scenario, forced_routing);
    if (parsed.scenario && parsed.problems.empty()) return std::move(parsed.scenario);
    complain(fmt::format("{}: {} problem{}\n{}", file, parsed.problems.size(), parsed.problems.size() == 1 ? "" : "s", to_text(parsed.problems)));
    return std::nullopt;
}

Progress::Progress(const Options& options) : visible_(!options.quiet && isatty(STDERR_FILENO) != 0), last_(now()) {}

Progress::~Progress() {
    if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void Progress::show(int done_steps, int total, const std::string& beside) {
    const double t = now();
    if (!visible_ || t - last_ < 0.1) return;
    last_ = t;
    drawn_ = true;
    const std::string line = fmt::format("\r{} {}/{}  {}\x1b[K", bar(static_cast<double>(done_steps) / total, 30, Ink::green, error_style()), done_steps, total, beside);
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
}

} // namespace orrery::simexec
