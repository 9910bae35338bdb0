// Rooms are linked into one program: two types of one name in different files are one type to the linker, whichever it takes, and nothing
// says so. Read from the text, so that every file is seen whatever is built; types of an anonymous namespace are their file's own.
//
// The scan cannot see types that macros make, functions (inline ones clash the same way), one file's types in different branches of
// #if.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Tokens = std::vector<std::string>;

bool of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The place after a literal that begins at `at`.
std::size_t behind_literal(const std::string& text, std::size_t at) {
    if (at > 0 && text[at] == '"' && text[at - 1] == 'R') {
        const std::size_t open = text.find('(', at);
        const std::string end = ")" + text.substr(at + 1, open - at - 1) + "\"";
        const std::size_t close = text.find(end, open);
        return close == std::string::npos ? text.size() : close + end.size();
    }
    for (std::size_t i = at + 1; i < text.size(); ++i) {
        if (text[i] == '\\')
            ++i;
        else if (text[i] == text[at])
            return i + 1;
    }
    return text.size();
}

// Words, "::" and single characters: no comments, literals or directives.
Tokens tokens_of(const std::string& text) {
    Tokens out;
    bool line_begins = true;
    for (std::size_t i = 0; i < text.size();) {
        const char c = text[i];
        if (c == '\n') line_begins = true;
        if (std::isspace(static_cast<unsigned char>(c))) {
            ++i;
        } else if (c == '#' && line_begins) {
            while (i < text.size() && !(text[i] == '\n' && text[i - 1] != '\\')) ++i;
        } else if (text.compare(i, 2, "//") == 0) {
            i = std::min(text.find('\n', i), text.size());
        } else if (text.compare(i, 2, "/*") == 0) {
            i = std::min(text.find("*/", i + 2), text.size() - 2) + 2;
        } else if (c == '"' || c == '\'') {
            i = behind_literal(text, i);
            out.push_back("\"");
        } else if (of_word(c)) {
            const std::size_t begin = i;
            while (i < text.size() && (of_word(text[i]) || (text[i] == '\'' && std::isdigit(static_cast<unsigned char>(c))))) ++i;
            out.push_back(text.substr(begin, i - begin));
        } else {
            const std::size_t n = text.compare(i, 2, "::") == 0 ? 2 : 1;
            out.push_back(text.substr(i, n));
            i += n;
        }
        if (!std::isspace(static_cast<unsigned char>(c))) line_begins = false;
    }
    return out;
}

// The name of the type that the class, struct, union or enum at `at` defines, "" where it defines none; at: then at its "{".
std::string defined(const Tokens& t, std::size_t& at) {
    std::string name;
    std::size_t i = at + 1;
    for (; i < t.size() && t[i] != ":" && t[i] != "{"; ++i) {
        if (t[i] == "class" || t[i] == "struct" || t[i] == "final") continue;
        if (t[i] == "[") { // an attribute
            while (i + 1 < t.size() && t[i + 1] == "]") ++i;
            while (i < t.size() && t[i] != "]") ++i;
            while (i + 1 < t.size() && t[i + 1] == "]") ++i;
            continue;
        }
        if (!of_word(t[i][0]))
            return {}; // a parameter of a template, an argument, a declaration, a specialisation, a member defined outside
        name = t[i];   // the last word: before it may stand a macro
    }
    while (i < t.size() && t[i] != "{" && t[i] != ";") ++i; // bases
    if (i >= t.size() || t[i] == ";") return {};
    at = i;
    return name;
}

// Qualified names of the types a source text defines in namespaces that have names.
std::set<std::string> types_of(const std::string& text) {
    const Tokens t = tokens_of(text);
    struct Scope {
        std::string name;
        bool space;
    }; // of namespaces: what they add; of all other braces: nothing is looked at inside
    std::vector<Scope> scopes;
    std::set<std::string> out;
    std::size_t inside = 0; // braces that are no named namespace's
    for (std::size_t i = 0; i < t.size(); ++i) {
        if (t[i] == "namespace" && i + 1 < t.size()) {
            std::string name;
            std::size_t k = i + 1;
            while (k < t.size() && (of_word(t[k][0]) || t[k] == "::")) name += t[k++];
            if (k >= t.size() || t[k] != "{") continue; // an alias, or "using namespace"
            scopes.push_back({name, !name.empty()});
            inside += name.empty();
            i = k;
        } else if (t[i] == "{") {
            scopes.push_back({"", false});
            ++inside;
        } else if (t[i] == "}") {
            if (scopes.empty()) continue;
            inside -= !scopes.back().space;
            scopes.pop_back();
        } else if (inside == 0 && (t[i] == "class" || t[i] == "struct" || t[i] == "union" || t[i] == "enum")) {
            std::size_t at = i;
            const std::string name = defined(t, at);
            if (name.empty()) continue;
            std::string whole;
            for (const Scope& s : scopes) whole += s.name + "::";
            out.insert(whole + name);
            i = at - 1;
        }
    }
    return out;
}

// Whether two files may come into one program. The desktop application knows nothing of exec (dependencies_test.cpp); a folder of tests is
// a program of its own.
bool meet(const fs::path& a, const fs::path& b) {
    const std::string first = a.begin()->string(), second = b.begin()->string();
    if (first == "tests" && second == "tests") return a.parent_path() == b.parent_path();
    return std::set<std::string>{first, second} != std::set<std::string>{"exec", "gui"};
}

TEST(OneDefinition, OfEveryTypeOfAProgram) {
    const fs::path root = ORRERY_SOURCE_DIR;
    std::map<std::string, std::vector<fs::path>> where;
    for (const char* folder : {"topology", "sim", "exec", "gui", "tests"})
        for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
            const std::string extension = entry.path().extension().string();
            if (extension != ".hpp" && extension != ".cpp" && extension != ".cu" && extension != ".cuh" && extension != ".h") continue;
            std::ifstream in(entry.path());
            const std::string text{std::istreambuf_iterator<char>(in), {}};
            for (const std::string& type : types_of(text)) where[type].push_back(fs::relative(entry.path(), root));
        }
    EXPECT_GT(where.size(), 300u) << "the scan found almost nothing";
    for (const auto& [type, files] : where)
        for (std::size_t i = 0; i < files.size(); ++i)
            for (std::size_t k = i + 1; k < files.size(); ++k)
                if (meet(files[i], files[k]))
                    ADD_FAILURE() << type << " is defined in " << files[i] << " and in " << files[k]
                                  << ": give one another name, or an anonymous namespace";
}

TEST(OneDefinition, TheScanSeesTypes) {
    const auto seen = [](const char* text) { return types_of(text); };
    using Names = std::set<std::string>;
    EXPECT_EQ(
        seen("namespace orrery { struct A { struct Inner {}; }; class B final : public A, C<int> {}; enum class E : std::uint8_t { x }; }"),
        (Names{"orrery::A", "orrery::B", "orrery::E"}));
    EXPECT_EQ(seen("namespace orrery::test { union U {}; }\nnamespace orrery { template <class T, class V = int> class P {}; class "
                   "[[nodiscard]] N {}; }"),
              (Names{"orrery::test::U", "orrery::P", "orrery::N"}));
    EXPECT_EQ(seen("#define OPEN {\nnamespace orrery { /* { */ const char* text = R\"x({)x\"; char c = '{'; int n = 1'000; struct S {}; }"),
              (Names{"orrery::S"}));
    EXPECT_EQ(seen("namespace orrery { class EXPORTED_HERE M : public Base { int x = 0; }; }"), (Names{"orrery::M"}));
}

TEST(OneDefinition, TheScanLeavesOutWhatClashesWithNothing) {
    EXPECT_TRUE(
        types_of("namespace orrery { namespace { struct A {}; } struct B; enum class E : int; void f(struct C* c) { struct D {}; } }")
            .empty());
    EXPECT_TRUE(types_of("namespace orrery { template <class T> void f(T t) {} struct Outer::Inner {}; template <> struct hash<A> {}; "
                         "namespace fs = std::filesystem; auto g = [] { struct L {}; }; }")
                    .empty());
}

} // namespace
