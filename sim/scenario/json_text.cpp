// See json_text.hpp.
#include "sim/scenario/json_text.hpp"
#include "topology/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <sstream>

namespace orrery {
namespace {

std::string line_and_column(std::string_view text, std::size_t byte) {
    const std::size_t at = std::min(byte > 0 ? byte - 1 : 0, text.size());
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    const std::size_t start = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
    const std::size_t column = start == std::string_view::npos ? at + 1 : at - start;
    return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

// nlohmann's "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while .. - reason": the reason alone.
std::string reason_of(const std::string& what) {
    std::string reason = what;
    if (const std::size_t dash = reason.find(" - "); dash != std::string::npos)
        reason = reason.substr(dash + 3);
    else if (const std::size_t colon = reason.find(": "); colon != std::string::npos)
        reason = reason.substr(colon + 2);
    for (const char* close : {"expected '}'", "expected ']'"})
        if (const std::size_t at = reason.find(close); at != std::string::npos) reason.insert(at + 9, "',' or ");
    return reason;
}

// Deeper than any file of ours; far below the depth at which recursive readers of the document would run out of stack.
constexpr int deepest = 64;
struct TooDeep {};

// Keeps the path while parsing, so that a key given twice can be named. The parser itself would keep the last value in silence.
struct DuplicateWatch {
    struct Level {
        std::set<std::string> keys;
        std::string at;
    }; // at: the key whose value is being read
    std::vector<Level> open;
    std::vector<std::string> twice; // as pointers; lists on the way are left out

    bool operator()(int depth, Json::parse_event_t event, Json& value) {
        if (depth > deepest) throw TooDeep{};
        if (event == Json::parse_event_t::object_start) open.emplace_back();
        if (event == Json::parse_event_t::object_end) open.pop_back();
        if (event == Json::parse_event_t::key && !open.empty()) {
            open.back().at = value.get<std::string>();
            if (open.back().keys.insert(open.back().at).second) return true;
            std::string pointer;
            for (const Level& level : open) pointer += pointer_step(level.at);
            twice.push_back(pointer);
        }
        return true;
    }
};

} // namespace

std::vector<std::string> override_path(const std::string& text) {
    const std::string path = text.substr(0, text.find('='));
    std::vector<std::string> steps;
    const bool pointer = path.starts_with('/');
    std::stringstream stream(pointer ? path.substr(1) : path);
    for (std::string step; std::getline(stream, step, pointer ? '/' : '.');) steps.push_back(pointer ? plain_step(step) : step);
    return steps;
}

Json read_json(std::string_view text, std::vector<Problem>& problems) {
    DuplicateWatch watch;
    if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
        problems.push_back({"", "not JSON at " + line_and_column(text, nul + 1) + ": a NUL byte; the text after it would not be read"});
        return nullptr;
    }
    try {
        Json document = Json::parse(text, std::ref(watch), true, true);
        for (const std::string& pointer : watch.twice)
            problems.push_back({pointer, "this key is given twice in one object: keep one of them"});
        return document;
    } catch (const Json::parse_error& error) {
        problems.push_back({"", "not JSON at " + line_and_column(text, error.byte) + ": " + reason_of(error.what())});
    } catch (const Json::out_of_range& error) {
        const std::string what = error.what(); // ".. parsing '1e400'"
        const std::size_t quote = what.find('\'');
        problems.push_back({"", "a number is too large for 64 bits: " + (quote == std::string::npos ? what : what.substr(quote))});
    } catch (const TooDeep&) {
        problems.push_back({"", "lists and objects are nested more than " + std::to_string(deepest) + " deep: ten are enough"});
    }
    return nullptr;
}

std::vector<Problem> json_problems(std::string_view text) {
    std::vector<Problem> problems;
    read_json(text, problems);
    return problems;
}

std::string problem_text(const Problem& problem) { return problem.where.empty() ? problem.what : problem.where + ": " + problem.what; }

void apply_override(Json& document, const std::string& text, std::vector<Problem>& problems) {
    const std::size_t equals = text.find('=');
    const std::vector<std::string> steps = override_path(text);
    if (equals == std::string::npos || steps.empty() || std::any_of(steps.begin(), steps.end(), [](const auto& s) { return s.empty(); })) {
        problems.push_back({"", "--set " + text + ": write FIELD=VALUE, as in strategy.tensor_parallel=8"});
        return;
    }
    if (!is_printable(text)) {
        problems.push_back({"", "--set " + printable(text) + ": holds a control character or a byte that is not UTF-8: leave it out"});
        return;
    }
    const std::string value_text = text.substr(equals + 1);
    Json value = value_text;
    if (Json::accept(value_text)) {
        std::vector<Problem> wrong;
        value = read_json(value_text, wrong);
        if (!wrong.empty()) {
            problems.push_back({"", "--set " + text.substr(0, equals) + ": " + problem_text(wrong.front())});
            return;
        }
    }
    Json* at = &document;
    for (const std::string& step : steps) {
        if (at->is_string()) *at = Json{{"preset", *at}};
        if (at->is_array()) {
            const bool digits =
                !step.empty() && std::all_of(step.begin(), step.end(), [](unsigned char c) { return c >= '0' && c <= '9'; });
            if (!digits || step.size() > 6 || std::stoul(step) >= at->size()) {
                problems.push_back({"", "--set " + text + ": there is no item " + step + " in that list"});
                return;
            }
            at = &(*at)[std::stoul(step)];
            continue;
        }
        if (!at->is_object()) *at = Json::object();
        at = &(*at)[step];
    }
    *at = std::move(value);
}

std::string plain_step(std::string_view step) {
    std::string key;
    for (std::size_t i = 0; i < step.size(); ++i) {
        if (step[i] == '~' && i + 1 < step.size())
            key += step[++i] == '1' ? '/' : '~';
        else
            key += step[i];
    }
    return key;
}

std::string pointer_step(std::string_view key) {
    std::string text = "/";
    for (const char c : key) {
        if (c == '~')
            text += "~0";
        else if (c == '/')
            text += "~1";
        else
            text += c;
    }
    return text;
}

std::string type_name(const Json& value) {
    switch (value.type()) {
    case Json::value_t::null:
        return "null";
    case Json::value_t::boolean:
        return "a boolean";
    case Json::value_t::string:
        return "a text";
    case Json::value_t::array:
        return "a list";
    case Json::value_t::object:
        return "an object";
    default:
        return "a number";
    }
}

std::string short_text(const Json& value) {
    std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() > 40) text = text.substr(0, 37) + "...";
    return text;
}

} // namespace orrery
