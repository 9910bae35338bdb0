// A function of more than 60 lines does a second thing. Read from the text: a body is the outermost pair of braces that is no namespace's,
// no type's and no initialiser's. A table inside a function (an initialiser list, a switch with little more than a line a case) is data and
// does not count.
#include <gtest/gtest.h>

#include <algorithm>
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

constexpr int most_lines = 60;

// Comments, literals and directives become blanks; line ends stay.
std::string code_of(const std::string& text) {
    std::string out = text;
    const auto blank = [&](std::size_t from, std::size_t to) {
        for (std::size_t i = from; i < std::min(to, out.size()); ++i)
            if (out[i] != '\n') out[i] = ' ';
    };
    for (std::size_t i = 0; i < text.size();) {
        std::size_t end = i + 1;
        if (text.compare(i, 2, "//") == 0) {
            end = std::min(text.find('\n', i), text.size());
        } else if (text.compare(i, 2, "/*") == 0) {
            end = std::min(text.find("*/", i + 2), text.size() - 2) + 2;
        } else if (text.compare(i, 2, "R\"") == 0) {
            const std::size_t open = text.find('(', i);
            const std::string close = ")" + text.substr(i + 2, open - i - 2) + "\"";
            end = std::min(text.find(close, open), text.size() - close.size()) + close.size();
        } else if (text[i] == '"' || (text[i] == '\'' && (i == 0 || !std::isalnum(static_cast<unsigned char>(text[i - 1]))))) {
            while (end < text.size() && text[end] != text[i]) end += text[end] == '\\' ? 2 : 1;
            ++end;
        } else if (text[i] == '#' && (i == 0 || text[i - 1] == '\n')) {
            while (end < text.size() && !(text[end] == '\n' && text[end - 1] != '\\')) ++end;
        } else {
            ++i;
            continue;
        }
        blank(i, end);
        i = end;
    }
    return out;
}

struct Body {
    std::string head; // what stands before its brace
    int lines;        // without tables
};

enum class Braces { space, function, table, other };

Braces kind_of(std::string head, bool outermost) {
    while (!head.empty() && std::isspace(static_cast<unsigned char>(head.back()))) head.pop_back();
    static const std::regex space(R"(^\s*(inline\s+)?namespace\b|^\s*extern\b)"), type(R"(\b(struct|class|union|enum)\b[^()]*$)"),
        chosen(R"(\bswitch \([^{}]*\)$)"), value(R"((=|\breturn|[,{(])$)");
    if (outermost && (std::regex_search(head, space) || std::regex_search(head, type))) return Braces::space;
    if (std::regex_search(head, value)) return Braces::table;
    if (outermost && head.find('(') != std::string::npos) return Braces::function;
    return std::regex_search(head, chosen) ? Braces::table : Braces::other;
}

std::vector<Body> bodies_of(const std::string& text) {
    const std::string code = code_of(text);
    struct Open {
        Braces kind;
        std::string head;
        int line, taken = 0; // taken: lines of tables in it
        std::size_t at;
    };
    std::vector<Open> open;
    std::vector<Body> out;
    std::string head;
    int line = 1;
    for (std::size_t i = 0; i < code.size(); ++i) {
        const char c = code[i];
        if (c == '\n') ++line;
        if (c == '{') {
            const bool outermost = std::all_of(open.begin(), open.end(), [](const Open& o) { return o.kind == Braces::space; });
            open.push_back({kind_of(head, outermost), head, line, 0, i});
            head.clear();
        } else if (c == '}' && !open.empty()) {
            Open closed = std::move(open.back());
            open.pop_back();
            int lines = line - closed.line + 1;
            if (closed.kind == Braces::function) out.push_back({closed.head, lines - closed.taken});
            if (closed.kind == Braces::table && closed.head.find("switch") != std::string::npos) {
                int cases = 0;
                for (std::size_t k = closed.at; (k = code.find("case ", k + 1)) < i;) ++cases;
                if (lines > 3 * cases + 3) lines = 0; // its cases are code
            }
            if (!open.empty()) open.back().taken += closed.kind == Braces::table ? lines : closed.taken;
            head.clear();
        } else if (c == ';') {
            head.clear();
        } else {
            head += c;
        }
    }
    return out;
}

std::string name_of(const Body& body) {
    std::smatch found;
    return std::regex_search(body.head, found, std::regex(R"(([A-Za-z_:~]+)\s*\()")) ? found[1].str() : body.head;
}

} // namespace

TEST(FunctionLength, AtMostSixtyLines) {
    // Longer still; a name goes from here when its function is cut.
    const std::set<std::string> known = {"CostModel::Data::time", "CostModel::CostModel", "note_without_effect",
                                         "StrategiesView::StrategiesView"};
    std::size_t functions = 0;
    for (const char* room : {"topology", "sim", "exec", "gui"})
        for (const auto& file : fs::recursive_directory_iterator(std::string(ORRERY_SOURCE_DIR) + "/" + room)) {
            const std::string kind = file.path().extension().string();
            if (kind != ".cpp" && kind != ".hpp" && kind != ".cu" && kind != ".cuh") continue;
            std::ifstream stream(file.path());
            for (const Body& body : bodies_of({std::istreambuf_iterator<char>(stream), {}})) {
                ++functions;
                if (body.lines <= most_lines || known.contains(name_of(body))) continue;
                ADD_FAILURE() << file.path().string() << ": " << name_of(body) << " has " << body.lines
                              << " lines: take out the second thing it does";
            }
        }
    EXPECT_GT(functions, 3000u);
}

TEST(FunctionLength, TheScanSeesBodies) {
    std::string lines(70, '\n');
    EXPECT_EQ(bodies_of("namespace a {\nint f() {" + lines + "}\n}").at(0).lines, 71);
    EXPECT_EQ(name_of(bodies_of("struct S {\n    int g(int x) const {\n}\n};").at(0)), "g");
    EXPECT_EQ(bodies_of("const int table[] = {" + lines + "};").size(), 0u);
    EXPECT_EQ(bodies_of("int f() {\nstatic const int t[] = {" + lines + "};\n}").at(0).lines, 2) << "a table is data";
    EXPECT_EQ(bodies_of("int f() { // }\nchar c = '}';\nreturn 1;\n}").at(0).lines, 4);
    EXPECT_GT(bodies_of("int f(int x) {\nswitch (x) {\ncase 1:" + lines + "}\n}").at(0).lines, 70) << "its cases are code";
}
