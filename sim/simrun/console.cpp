// Standard output and error, files, progress.
#include "sim/simrun/command.hpp"

#include "sim/scenario/suggest.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace orrery::simrun {

namespace {

namespace fs = std::filesystem;

TextStyle style_of(int descriptor) {
    TextStyle style;
    if (isatty(descriptor) == 0) return style;
    const char* term = std::getenv("TERM");
    const char* no_colour = std::getenv("NO_COLOR");
    const bool dumb = term == nullptr || std::string(term) == "dumb";
    style.colour = !dumb && (no_colour == nullptr || *no_colour == '\0');
    std::string locale;
    for (const char* variable : {"LANG", "LC_CTYPE", "LC_ALL"}) {
        if (const char* value = std::getenv(variable); value != nullptr && *value != '\0') locale = value;
    }
    std::transform(locale.begin(), locale.end(), locale.begin(), [](unsigned char c) { return std::tolower(c); });
    style.unicode = !dumb && (locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos);
    winsize size{};
    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.width = std::clamp<int>(size.ws_col, 72, 140);
    return style;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Files near the one asked for: of its own folder and of ./scenarios.
std::string meant_instead(const std::string& file) {
    std::vector<std::string> near;
    const fs::path asked(file);
    for (const fs::path& folder : {asked.has_parent_path() ? asked.parent_path() : fs::path("."), fs::path("scenarios")}) {
        std::error_code ignored;
        for (const auto& entry : fs::directory_iterator(folder, ignored)) {
            if (entry.path().extension() == ".json") near.push_back(entry.path().lexically_normal().string());
        }
    }
    std::vector<std::string> stems;
    for (const std::string& n : near) stems.push_back(fs::path(n).stem().string());
    const auto best = nearest(asked.stem().string(), stems);
    if (!best) return {};
    const auto at = std::find(stems.begin(), stems.end(), *best) - stems.begin();
    return near[static_cast<std::size_t>(at)];
}

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
    const std::string line = paint("simrun: error: ", Ink::red, error_style()) + text + (text.ends_with('\n') ? "" : "\n");
    std::fwrite(line.data(), 1, line.size(), stderr);
}

void complain(const std::string& file, const std::vector<Problem>& problems) {
    complain(fmt::format("{}: {} problem{}\n{}", file, problems.size(), problems.size() == 1 ? "" : "s", to_text(problems)));
}

std::optional<std::string> read_input(const std::string& file) {
    std::error_code ignored;
    if (fs::is_directory(file, ignored)) {
        complain(file + " is a folder; name a scenario file in it");
        return std::nullopt;
    }
    std::ifstream in(file, std::ios::binary);
    if (!in) {
        const std::string meant = meant_instead(file);
        complain(fmt::format("no file {}{}", file, meant.empty() ? "; see `simrun --help`" : ": did you mean " + meant + "?"));
        return std::nullopt;
    }
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

std::optional<Scenario> load(const std::string& file, const Options& options) {
    if (!read_input(file)) return std::nullopt;
    ParseResult parsed = load_scenario(file, options.overrides);
    if (parsed.scenario && parsed.problems.empty()) parsed.problems = unsupported(*parsed.scenario);
    if (!parsed.problems.empty() || !parsed.scenario) {
        complain(file, parsed.problems);
        return std::nullopt;
    }
    return std::move(parsed.scenario);
}

ProgressBar::ProgressBar(std::string what, const Options& options)
    : what_(std::move(what)), visible_(!options.quiet && isatty(STDERR_FILENO) != 0), began_(now()), last_(now()) {}

ProgressBar::~ProgressBar() {
    if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::show(std::size_t done, std::size_t total) {
    const double t = now();
    if (!visible_ || t - began_ < 1 || t - last_ < 0.1 || total == 0) return;
    last_ = t;
    drawn_ = true;
    const double share = static_cast<double>(done) / static_cast<double>(total);
    const double left = done > 0 ? (t - began_) * (1 - share) / share : 0;
    const std::string line = fmt::format("\r{} {} {}/{} {:3.0f} %  {} left\x1b[K", what_, bar(share, 30, Ink::green, error_style()), done, total,
                                         share * 100, left < 90 ? fmt::format("{:.0f} s", left) : fmt::format("{:.0f} min", left / 60));
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
}

} // namespace orrery::simrun
