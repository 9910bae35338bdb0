// Shared by the command-line programs: output, errors, files named by a user, a progress line.
#pragma once

#include "sim/report/terminal.hpp"
#include "sim/scenario/parse.hpp"

#include <optional>
#include <string>
#include <vector>

namespace orrery::console {

// Colour and blocks where the descriptor is a terminal that wants them (NO_COLOR, TERM=dumb), plain text in a pipe or a file.
TextStyle style_of(int descriptor);

// "simrun: error: .." on standard error.
void complain(const char* program, const std::string& text);
void complain(const char* program, const std::string& file, const std::vector<Problem>& problems);

// Text to this file, or to standard output where it has no name. False, with a message, where it cannot be written.
bool deliver(const char* program, const std::string& text, const std::string& file);

// The text of a file that must be there; else a message that names a file that may have been meant.
std::optional<std::string> read_input(const char* program, const std::string& file);

// A line on standard error that is written over, ten times a second at most, and gone in the end; nothing where that is no terminal.
class StatusLine {
  public:
    explicit StatusLine(bool wanted);
    ~StatusLine();
    StatusLine(const StatusLine&) = delete;
    StatusLine& operator=(const StatusLine&) = delete;
    bool due() const; // whether show() would draw now: text is made for nothing else
    void show(const std::string& text);
    double seconds() const; // since it was made

  private:
    bool visible_, drawn_ = false;
    double began_, last_;
};

} // namespace orrery::console
