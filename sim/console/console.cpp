#include "sim/console/console.hpp"

#include "sim/scenario/input_file.hpp"
#include "sim/scenario/suggest.hpp"
#include "topology/input_error.hpp"
#include "topology/output_file.hpp"
#include "topology/text.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace orrery::console {

namespace {

namespace fs = std::filesystem;

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
    return near[at];
}

} // namespace

TextStyle style_of(int descriptor) {
    TextStyle style;
    // mpirun of Open MPI puts a terminal of its own between a rank and the file that it writes to.
    if (isatty(descriptor) == 0 || std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) return style;
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

void complain(const char* program, const std::string& text) {
    const TextStyle style = style_of(STDERR_FILENO);
    const std::string line =
        paint(std::string(program) + ": error: ", Ink::red, style) + printable(text) + (text.ends_with('\n') ? "" : "\n");
    std::fwrite(line.data(), 1, line.size(), stderr);
}

void complain(const char* program, const std::string& file, const std::vector<Problem>& problems) {
    complain(program, fmt::format("{}: {} problem{}\n{}", file, problems.size(), problems.size() == 1 ? "" : "s", to_text(problems)));
}

bool deliver(const char* program, const std::string& text, const std::string& path) {
    if (path.empty()) {
        const std::string shown = printable(text, style_of(STDOUT_FILENO).colour);
        const bool written = std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size() && std::fflush(stdout) == 0;
        if (!written) complain(program, std::string("standard output cannot be written: ") + std::strerror(errno));
        return written;
    }
    try {
        OutputFile file = open_output(path);
        const bool written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
        close_output(std::move(file), written, path);
        return true;
    } catch (const InputError& e) {
        complain(program, e.what());
        return false;
    }
}

std::optional<std::string> read_input(const char* program, const std::string& file) {
    if (std::error_code ignored; !fs::exists(file, ignored)) {
        const std::string meant = meant_instead(file);
        complain(program, fmt::format("no file {}{}", file,
                                      meant.empty() ? fmt::format("; see `{} --help`", program) : ": did you mean " + meant + "?"));
        return std::nullopt;
    }
    if (const std::string why = unreadable(file); !why.empty()) {
        complain(program, file + " " + why);
        return std::nullopt;
    }
    std::string text;
    if (read_file(file, text)) return text;
    complain(program, file + " cannot be read");
    return std::nullopt;
}

StatusLine::StatusLine(bool wanted) : visible_(wanted && isatty(STDERR_FILENO) != 0), began_(now()), last_(began_) {}

StatusLine::~StatusLine() {
    if (drawn_) std::fputs("\r\x1b[K", stderr);
}

bool StatusLine::due() const { return visible_ && now() - last_ >= 0.1; }
double StatusLine::seconds() const { return now() - began_; }

void StatusLine::show(const std::string& text) {
    if (!due()) return;
    last_ = now();
    drawn_ = true;
    std::fputs(("\r" + text + "\x1b[K").c_str(), stderr);
    std::fflush(stderr);
}

} // namespace orrery::console
