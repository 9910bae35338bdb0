// The habits of software are resolved in sim/scenario (practice.hpp) and nowhere else: behind it no source text may look at a framework's
// name or at a year. Read from the text; comments, where sources of a rule are named, may say what they like.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

// Rooms whose business is the text of scenarios: where names and years come from and go to.
const std::vector<std::string> rooms_of_texts = {"sim/scenario", "sim/ingest", "sim/launch"};

// Files that write scenarios as a user does, or list what may be written; their texts may name frameworks.
const std::set<std::string> writers = {"sim/fit/check_passes.cpp",  "sim/simrun/list.cpp",      "sim/simrun/main.cpp",
                                       "exec/calibrate/sample.cpp", "gui/app/main_actions.cpp", "gui/editor/presets.cpp"};

struct Text {
    std::string code;                  // literals emptied, comments gone
    std::vector<std::string> literals; // their contents
};

// The text apart into code and literals. R"x(..)x" as well; an apostrophe between digits is part of a number.
Text apart(const std::string& t) {
    Text out;
    const auto is_digit = [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; };
    for (std::size_t i = 0; i < t.size();) {
        if (t.compare(i, 2, "//") == 0) {
            i = std::min(t.find('\n', i), t.size());
        } else if (t.compare(i, 2, "/*") == 0) {
            i = std::min(t.find("*/", i + 2), t.size() - 2) + 2;
        } else if (t.compare(i, 2, "R\"") == 0) {
            const std::size_t open = t.find('(', i);
            const std::string end = ")" + t.substr(i + 2, open - i - 2) + "\"";
            const std::size_t close = std::min(t.find(end, open), t.size());
            out.literals.push_back(t.substr(open + 1, close - open - 1));
            out.code += "\"\"";
            i = std::min(close + end.size(), t.size());
        } else if (t[i] == '\'' && i > 0 && i + 1 < t.size() && is_digit(t[i - 1]) && is_digit(t[i + 1])) {
            ++i;
        } else if (t[i] == '"' || t[i] == '\'') {
            const char quote = t[i];
            std::string content;
            for (++i; i < t.size() && t[i] != quote; ++i) {
                if (t[i] == '\\') content += t[i++];
                if (i < t.size()) content += t[i];
            }
            ++i;
            out.literals.push_back(content);
            out.code += "\"\"";
        } else {
            out.code += t[i++];
        }
    }
    return out;
}

// The names that scenarios may give: the first text of each row of the table in sim/scenario/frameworks.cpp.
std::set<std::string> framework_names(const std::string& source) {
    const std::size_t begin = source.find("FrameworkInfo infos[]"), end = source.find("\n};", begin);
    std::set<std::string> names;
    if (begin == std::string::npos || end == std::string::npos) return names;
    const std::string table = source.substr(begin, end - begin);
    const std::regex row("\\n    \\{(?:Framework::[a-z0-9_]+, )?\"([a-z0-9]+)\"");
    for (auto i = std::sregex_iterator(table.begin(), table.end(), row); i != std::sregex_iterator(); ++i) names.insert((*i)[1]);
    return names;
}

// The faults of one file, in words.
std::vector<std::string> faults(const std::string& path, const std::string& source, const std::set<std::string>& names) {
    std::vector<std::string> out;
    const auto fault = [&](const std::string& what) {
        out.push_back(path + " " + what + ": give sim/scenario/practice.hpp a trait that says what is done");
    };
    const Text text = apart(source);
    const auto looks_at = [&](const char* pattern) { return std::regex_search(text.code, std::regex(pattern)); };
    if (looks_at("(\\.|->)\\s*framework\\b") || looks_at("\\bFramework\\b")) fault("looks at the framework");
    if (looks_at("(\\.|->)\\s*year\\b")) fault("looks at the year");
    if (writers.contains(path)) return out;
    if (source.find("#include \"sim/scenario/frameworks.hpp\"") != std::string::npos) fault("includes the table of frameworks");
    for (const std::string& literal : text.literals) {
        if (names.contains(literal)) fault("names \"" + literal + "\"");
        if (literal == "framework" || literal.find("\"framework\"") != std::string::npos || literal.find("/strategy/framework") == 0 ||
            literal.find("/runtime/year") == 0)
            fault("asks for the field of \"" + literal.substr(0, 40) + "\"");
    }
    return out;
}

std::string read(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Practice, NobodyBehindItSeesAFrameworkOrAYear) {
    const fs::path root = ORRERY_SOURCE_DIR;
    const std::set<std::string> names = framework_names(read(root / "sim/scenario/frameworks.cpp"));
    EXPECT_GT(names.size(), 10u) << "the table of frameworks was not found";
    std::size_t files = 0;
    for (const char* folder : {"topology", "sim", "exec", "gui"})
        for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
            const std::string extension = entry.path().extension().string(), path = fs::relative(entry.path(), root).string();
            if (extension != ".hpp" && extension != ".cpp" && extension != ".cu" && extension != ".cuh") continue;
            if (std::any_of(rooms_of_texts.begin(), rooms_of_texts.end(),
                            [&](const std::string& room) { return path.starts_with(room + "/"); }))
                continue;
            ++files;
            for (const std::string& what : faults(path, read(entry.path()), names)) ADD_FAILURE() << what;
        }
    EXPECT_GT(files, 200u) << "the scan found almost nothing: is ORRERY_SOURCE_DIR right?";
}

// Constants of kernels and memory belong to kernels, not to lists of who calls them.
TEST(Practice, CalibrationHasNoListsOfFrameworks) {
    const fs::path root = ORRERY_SOURCE_DIR;
    const std::set<std::string> names = framework_names(read(root / "sim/scenario/frameworks.cpp"));
    const std::regex key("\"[a-z_]*(framework|year)s?\"\\s*:"), name("\"([a-z0-9]+)\"");
    std::size_t files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(root / "scenarios" / "calibration")) {
        if (entry.path().extension() != ".json") continue;
        ++files;
        const std::string text = read(entry.path());
        std::smatch found;
        EXPECT_FALSE(std::regex_search(text, found, key)) << entry.path() << " has the key " << found.str();
        if (entry.path().filename() == "rows.json") continue; // names of datasets and rows are what they are
        for (auto i = std::sregex_iterator(text.begin(), text.end(), name); i != std::sregex_iterator(); ++i)
            EXPECT_FALSE(names.contains((*i)[1])) << entry.path() << " names " << i->str();
    }
    EXPECT_GT(files, 20u);
}

TEST(Practice, TheScanSeesFaults) {
    const std::set<std::string> names{"fsdp", "megatron"};
    const auto of = [&](const char* text) { return faults("sim/plan/a.cpp", text, names).size(); };
    EXPECT_EQ(of("bool b = s.strategy.framework == other;"), 1u);
    EXPECT_EQ(of("bool b = st->framework.empty();"), 1u);
    EXPECT_EQ(of("if (l.scenario.runtime.year < then) return;"), 1u);
    EXPECT_EQ(of("auto x = f == \"fsdp\" || f == R\"(megatron)\";"), 2u);
    EXPECT_EQ(of("return Framework::jax;"), 1u);
    EXPECT_EQ(of("#include \"sim/scenario/frameworks.hpp\"\n"), 1u);
    EXPECT_EQ(of("j.at(\"framework\"); defaults.contains(\"/runtime/year\");"), 2u);
    EXPECT_EQ(of("const int n = 1'000'000; char c = '\"'; f(\"fsdp\");"), 1u);
    EXPECT_EQ(faults("exec/calibrate/sample.cpp", "s.strategy.framework = x;", names).size(), 1u) << "writers may not look either";
}

TEST(Practice, TheScanLeavesOutCommentsAndOtherWords) {
    const std::set<std::string> names{"fsdp", "megatron"};
    const auto of = [&](const char* path, const char* text) { return faults(path, text, names).size(); };
    EXPECT_EQ(of("sim/plan/a.cpp", "// as \"fsdp\" does, whatever s.strategy.framework\n/* runtime.year */ int x;"), 0u);
    EXPECT_EQ(of("sim/plan/a.cpp", "f(\"framework buffers\", \"eager fsdp\"); int years = frameworks.size();"), 0u);
    EXPECT_EQ(of("gui/editor/presets.cpp", "R\"({\"framework\": \"fsdp\"})\";"), 0u);
}

} // namespace
