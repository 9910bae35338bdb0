// The command line: what to open and how, so that a picture or a place in a trace can be named in one line and sent to somebody.
#pragma once

#include <QSize>
#include <QString>
#include <QStringList>

#include <cstdint>
#include <optional>

namespace orrery {

struct Options {
    QStringList files;                                         // scenarios, traces, sweeps
    bool compare = false;                                      // the files above each other, the first as the baseline
    std::optional<std::pair<std::int64_t, std::int64_t>> view; // picoseconds
    QString select;                                            // "RANK:OP@MICROBATCH#N", the last two optional; a wait by its cause
    QString dock;                                              // the view to bring to the front
    QString screenshot;                                        // write it and quit
    QSize size{1600, 1000};
    QString theme;      // light, dark or system; empty: as last time
    QString language;   // empty: the desktop's
    bool fresh = false; // nothing of the last session
};

// The program prints this and exits with this code instead of starting.
struct Answer {
    QString text;
    int code = 0;
};
struct ParsedOptions {
    Options options;
    std::optional<Answer> answer;
};

// arguments as main() has them, the program first. docks: the names --dock takes.
ParsedOptions parse_options(const QStringList& arguments, const QStringList& docks);

// The line that shows this again; files and names quoted where they need it.
QString command_line(const Options& options);

} // namespace orrery
