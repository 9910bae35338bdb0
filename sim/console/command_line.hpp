// Texts about a command line: examples under each command's help, and errors in arguments.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
class Validator;
} // namespace CLI

namespace orrery::console {

// The lines of `examples` that show a command end its help, all of them that of the program; `exits` (and what else is to be said) both.
void add_examples(CLI::App& app, const std::string& examples, const std::string& exits);

// Prints the help or the version that was asked for; else an error that names the command, with what may have been meant. The exit code, 0
// or 1.
int refuse(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments);

// A number above 0, of any size that is one.
CLI::Validator above_zero();

// Those of these options that were given, as they are written: "--csv, --top".
std::string given_of(const CLI::App& app, const std::vector<std::string>& options);

// A file that an option names: "--csv", "all.csv". file is empty where the option was not given.
struct NamedFile {
    std::string option, file;
};

// Why these outputs would lose something: one would be written over an input, or two into one file. Empty: they would not.
std::string lost_file(const std::vector<std::string>& inputs, const std::vector<NamedFile>& outputs);

} // namespace orrery::console
