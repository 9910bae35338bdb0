#include "sim/console/command_line.hpp"

#include "sim/console/console.hpp"
#include "sim/scenario/suggest.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

namespace orrery::console {

namespace {

std::string lines_with(const std::string& text, const std::string& what) {
    std::istringstream in(text);
    std::string found;
    for (std::string line; std::getline(in, line);) {
        if ((line + " ").find(what) != std::string::npos) found += line + "\n";
    }
    return found;
}

// The command that was reached, and how a user calls it: "simrun compare".
std::pair<const CLI::App*, std::string> reached(const CLI::App& app) {
    std::pair<const CLI::App*, std::string> at{&app, app.get_name()};
    for (const CLI::App* sub : app.get_subcommands()) at = {sub, app.get_name() + " " + sub->get_name()};
    return at;
}

// An option that begins with -- and is not known is near one that is.
std::string meant_instead(const CLI::App& command, const std::vector<std::string>& arguments) {
    std::vector<std::string> known;
    for (const CLI::Option* option : command.get_options()) {
        for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
    for (const std::string& argument : arguments) {
        const std::string name = argument.substr(0, argument.find('='));
        if (!name.starts_with("--") || std::find(known.begin(), known.end(), name) != known.end()) continue;
        if (const auto near = nearest(name, known)) return " (did you mean " + *near + "?)";
    }
    return {};
}

// A device or a pipe takes what several write.
bool one_file(const std::string& a, const std::string& b) {
    namespace fs = std::filesystem;
    std::error_code failed;
    for (const std::string& file : {a, b})
        if (fs::exists(file, failed) && !fs::is_regular_file(file, failed)) return false;
    return fs::equivalent(a, b, failed) || fs::weakly_canonical(fs::absolute(a), failed) == fs::weakly_canonical(fs::absolute(b), failed);
}

} // namespace

std::string lost_file(const std::vector<std::string>& inputs, const std::vector<NamedFile>& outputs) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const auto& [option, file] = outputs[i];
        if (file.empty()) continue;
        for (const std::string& input : inputs)
            if (std::error_code failed; std::filesystem::exists(input, failed) && one_file(input, file))
                return input + " is an input and an output: give the output another name (" + option + ")";
        for (std::size_t k = 0; k < i; ++k)
            if (!outputs[k].file.empty() && one_file(outputs[k].file, file))
                return file + " is named by " + outputs[k].option + " and by " + option +
                       ", and one of them would be lost: give each a file of its own";
    }
    return "";
}

void add_examples(CLI::App& app, const std::string& examples, const std::string& exits) {
    app.footer("Examples:\n" + examples + "\n" + exits);
    for (CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
        const std::string own = lines_with(examples, app.get_name() + " " + sub->get_name() + " ");
        std::string said = sub->get_footer(); // a command's own words, with more examples or without
        if (!said.empty()) said += "\n\n";
        if (said.find("Examples:") == std::string::npos && !own.empty()) said += "Examples:\n" + own + "\n";
        sub->footer(said + exits);
    }
}

int refuse(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments) {
    if (error.get_exit_code() == 0) return app.exit(error);
    const auto [command, name] = reached(app);
    std::error_code no_path; // a text that is none is no file
    if (command == &app && !arguments.empty() && !arguments[0].starts_with('-') && !std::filesystem::exists(arguments[0], no_path)) {
        std::vector<std::string> known;
        for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) known.push_back(sub->get_name());
        const auto near = nearest(arguments[0], known);
        complain(name.c_str(), arguments[0] + " is no command" + (near ? " (did you mean " + *near + "?)" : ": there are " + join(known)) +
                                   "; see `" + name + " --help`");
        return 1;
    }
    const bool unexpected = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
    complain(name.c_str(),
             std::string(error.what()) + (unexpected ? meant_instead(*command, arguments) : "") + "; see `" + name + " --help`");
    return 1;
}

CLI::Validator above_zero() {
    return {[](const std::string& given) -> std::string {
                double number = 0;
                if (!CLI::detail::lexical_cast(given, number)) return given + " is no number";
                return number > 0 && std::isfinite(number) ? "" : "must be above 0, and it is " + given;
            },
            ""};
}

std::string given_of(const CLI::App& app, const std::vector<std::string>& options) {
    std::vector<std::string> given;
    for (const std::string& option : options) {
        if (app.count(option) > 0) given.push_back(option);
    }
    return join(given);
}

} // namespace orrery::console
