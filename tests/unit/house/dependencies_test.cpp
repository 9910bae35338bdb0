// Who may know whom: topology <- sim <- exec, sim <- gui, and heavy headers only in .cpp files. Read from the #include lines.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::set<std::string>> may_include = {
    {"topology", {"topology"}},
    {"sim", {"topology", "sim"}},
    {"exec", {"topology", "sim", "exec"}},
    {"gui", {"topology", "sim", "gui"}},
};

// Parsing them costs more than parsing the rest of a header's users together.
const std::vector<std::string> heavy = {"nlohmann/json.hpp", "boost/", "Eigen/", "CLI/", "sqlite3.h"};

// The paths a source text includes.
std::vector<std::string> includes(std::istream& source) {
    std::vector<std::string> out;
    for (std::string line; std::getline(source, line);) {
        line.erase(0, line.find_first_not_of(" \t"));
        if (line.empty() || line[0] != '#') continue;
        line.erase(0, line.find_first_not_of("# \t"));
        if (line.rfind("include", 0) != 0) continue;
        const auto open = line.find_first_of("\"<"), close = line.find_last_of("\">");
        if (open != std::string::npos && close > open) out.push_back(line.substr(open + 1, close - open - 1));
    }
    return out;
}

// The faults of one file's includes, in words. `path` is relative to the root.
std::vector<std::string> faults(const fs::path& path, std::istream& source) {
    std::vector<std::string> out;
    const auto folder = may_include.find(path.begin()->string());
    if (folder == may_include.end()) return out;
    for (const std::string& include : includes(source)) {
        const std::string first = include.substr(0, include.find('/'));
        if (include.rfind("../", 0) == 0) out.push_back(path.string() + " includes " + include + ": name it from the root");
        if (may_include.count(first) && !folder->second.count(first))
            out.push_back(path.string() + " includes " + include + ": " + folder->first + " must not know " + first);
        if (path.extension() == ".hpp" &&
            std::any_of(heavy.begin(), heavy.end(), [&](const std::string& h) { return include.rfind(h, 0) == 0; }))
            out.push_back(path.string() + " includes " + include + ": heavy headers belong in .cpp files");
    }
    return out;
}

std::vector<std::string> faults_of(const char* path, const char* text) {
    std::istringstream source(text);
    return faults(path, source);
}

TEST(Dependencies, NothingPointsTheOtherWay) {
    const fs::path root = ORRERY_SOURCE_DIR;
    std::size_t files = 0;
    for (const auto& [folder, allowed] : may_include) {
        if (!fs::exists(root / folder)) continue;
        for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
            const std::string extension = entry.path().extension().string();
            if (extension != ".hpp" && extension != ".cpp" && extension != ".cu") continue;
            std::ifstream source(entry.path());
            ++files;
            for (const std::string& fault : faults(fs::relative(entry.path(), root), source)) ADD_FAILURE() << fault;
        }
    }
    EXPECT_GT(files, 20u) << "the scan found almost nothing: is ORRERY_SOURCE_DIR right?";
}

// A room is a folder of the second level ("sim/plan"), with what lies below it; topology is one room.
std::string room_of(const std::string& path) {
    const auto first = path.find('/'), second = path.find('/', first + 1);
    if (path.rfind("topology/", 0) == 0) return second == std::string::npos ? "topology" : path.substr(0, second);
    return second == std::string::npos ? "" : path.substr(0, second); // "": a file that lies in no room
}

using Rooms = std::map<std::string, std::set<std::string>>; // which rooms each includes

// Rooms that include each other, directly or by way of others, in order; empty: there is no circle.
std::vector<std::string> circle(const Rooms& rooms) {
    std::map<std::string, int> seen; // 1: on the path, 2: done
    std::vector<std::string> path;
    const std::function<bool(const std::string&)> visit = [&](const std::string& room) {
        if (seen[room] == 2) return false;
        path.push_back(room);
        if (seen[room] == 1) return true;
        seen[room] = 1;
        const auto included = rooms.find(room);
        if (included != rooms.end())
            for (const std::string& next : included->second)
                if (visit(next)) return true;
        seen[room] = 2;
        path.pop_back();
        return false;
    };
    for (const auto& [room, included] : rooms)
        if (visit(room)) return {std::find(path.begin(), path.end(), path.back()), path.end()};
    return {};
}

TEST(Dependencies, RoomsStandInNoCircle) {
    const fs::path root = ORRERY_SOURCE_DIR;
    Rooms rooms;
    for (const auto& [folder, allowed] : may_include) {
        for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
            const std::string extension = entry.path().extension().string(), path = fs::relative(entry.path(), root).string();
            if (extension != ".hpp" && extension != ".cpp" && extension != ".cu" && extension != ".cuh") continue;
            std::ifstream source(entry.path());
            for (const std::string& include : includes(source)) {
                const std::string from = room_of(path), to = room_of(include);
                if (may_include.count(include.substr(0, include.find('/'))) && !from.empty() && !to.empty() && from != to)
                    rooms[from].insert(to);
            }
        }
    }
    EXPECT_GT(rooms.size(), 20u) << "the scan found almost nothing";
    std::string text;
    for (const std::string& room : circle(rooms)) text += " -> " + room;
    EXPECT_EQ(text, "") << "rooms include each other in a circle";
}

TEST(Dependencies, ACircleIsSeen) {
    EXPECT_EQ(circle({{"a", {"b"}}, {"b", {"c", "d"}}, {"d", {"b"}}}), (std::vector<std::string>{"b", "d", "b"}));
    EXPECT_TRUE(circle({{"a", {"b", "c"}}, {"b", {"c"}}}).empty());
    EXPECT_EQ(room_of("sim/plan/passes/bind.cpp"), "sim/plan");
    EXPECT_EQ(room_of("topology/units.hpp"), "topology");
    EXPECT_EQ(room_of("topology/ingest/read.hpp"), "topology/ingest");
}

TEST(Dependencies, TheScanSeesFaults) {
    EXPECT_EQ(faults_of("topology/a.cpp", "#include \"sim/plan/plan.hpp\"\n").size(), 1u);
    EXPECT_EQ(faults_of("sim/plan/a.cpp", "  #  include \"exec/run.hpp\"  // why not\n").size(), 1u);
    EXPECT_EQ(faults_of("sim/plan/a.hpp", "#include \"gui/window.hpp\"\n#include <nlohmann/json.hpp>\n").size(), 2u);
    EXPECT_EQ(faults_of("gui/a.cpp", "#include \"exec/run.hpp\"\n").size(), 1u);
    EXPECT_EQ(faults_of("exec/a.cpp", "#include \"../sim/plan.hpp\"\n").size(), 1u);
}

TEST(Dependencies, TheScanAllowsWhatIsAllowed) {
    EXPECT_TRUE(faults_of("exec/a.cpp", "#include \"sim/plan.hpp\"\n#include \"topology/units.hpp\"\n#include <Eigen/Dense>\n").empty());
    EXPECT_TRUE(faults_of("sim/a.hpp", "#include <nlohmann/json_fwd.hpp>\n#include \"sim/b.hpp\"\n// #include \"exec/a.hpp\"\n").empty());
    EXPECT_TRUE(faults_of("tests/a.cpp", "#include \"exec/a.hpp\"\n").empty());
}

} // namespace
