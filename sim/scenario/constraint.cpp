// Recursive descent over the grammar of constraint.hpp. A '/' begins a pointer where a factor is due and divides elsewhere.
#include "sim/scenario/constraint.hpp"

#include <cctype>
#include <charconv>
#include <cmath>

namespace orrery {
namespace {

struct Reader {
    std::string_view text;
    const Lookup& lookup;
    std::size_t at = 0;
    int depth = 0;
    std::string error{};
    bool syntax = false;

    void skip() {
        while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at]))) ++at;
    }
    bool take(std::string_view token) {
        skip();
        if (!text.substr(at).starts_with(token)) return false;
        at += token.size();
        return true;
    }
    double fail(const std::string& what) {
        if (error.empty()) error = what, syntax = true;
        return 0;
    }
    std::string here() const { return at >= text.size() ? "its end" : "\"" + std::string(text.substr(at, 20)) + "\""; }

    double pointer() {
        const std::size_t start = at;
        while (at < text.size() &&
               (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_' || text[at] == '/' || text[at] == '~'))
            ++at;
        const std::string name(text.substr(start, at - start));
        if (name.size() < 2 || name.ends_with('/'))
            return fail("a JSON pointer such as /strategy/tensor_parallel is due at \"" + name + "\"");
        const auto value = lookup(name);
        if (!value && error.empty()) error = name + " has no number here";
        return value.value_or(0);
    }
    double factor() {
        skip();
        if (++depth > 100) return fail("too many parentheses");
        double value = 0;
        if (take("-"))
            value = -factor();
        else if (take("(")) {
            value = sum();
            if (!take(")")) value = fail("a ')' is due at " + here());
        } else if (at < text.size() && text[at] == '/')
            value = pointer();
        else {
            const auto [end, code] = std::from_chars(text.data() + at, text.data() + text.size(), value);
            if (code != std::errc{})
                value = fail("a number or a JSON pointer such as /strategy/tensor_parallel is due at " + here());
            else
                at = static_cast<std::size_t>(end - text.data());
        }
        --depth;
        return value;
    }
    double divisor() {
        const double value = factor();
        if (value == 0 && error.empty()) error = "it divides by 0";
        return value;
    }
    double product() {
        double value = factor();
        while (error.empty()) {
            if (take("*"))
                value *= factor();
            else if (take("/"))
                value /= divisor();
            else if (take("%"))
                value = std::fmod(value, divisor());
            else
                break;
        }
        return value;
    }
    double sum() {
        double value = product();
        while (error.empty()) {
            if (take("+"))
                value += product();
            else if (take("-"))
                value -= product();
            else
                break;
        }
        return value;
    }
};

} // namespace

ConstraintAnswer evaluate_constraint(std::string_view text, const Lookup& lookup) {
    Reader reader{text, lookup};
    const double left = reader.sum();
    enum { le, lt, ge, gt, eq, ne, none } op = none;
    if (reader.error.empty()) {
        op = reader.take("<=")   ? le
             : reader.take(">=") ? ge
             : reader.take("==") ? eq
             : reader.take("!=") ? ne
             : reader.take("<")  ? lt
             : reader.take(">")  ? gt
                                 : none;
        if (op == none) reader.fail("one of <=, <, >=, >, ==, != is due at " + reader.here());
    }
    const double right = reader.error.empty() ? reader.sum() : 0;
    reader.skip();
    if (reader.error.empty() && reader.at < reader.text.size()) reader.fail("nothing more is due at " + reader.here());
    if (!reader.error.empty()) return {false, reader.error, reader.syntax};
    const bool holds = op == le   ? left <= right
                       : op == lt ? left < right
                       : op == ge ? left >= right
                       : op == gt ? left > right
                       : op == eq ? left == right
                                  : left != right;
    return {holds, "", false};
}

} // namespace orrery
