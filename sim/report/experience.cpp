// The file of validated rows. Every run reads the one that is compiled in, more than a thousand rows, so what write_experience() makes is
// read as it stands there; any other JSON of the same meaning takes a parser, thirty times as long.
#include "sim/report/error_bar.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

namespace orrery {

namespace {

constexpr std::string_view head =
    "{\n \"what\": \"validated rows: errors are predicted / measured - 1; written by simrun validate --rows\",\n \"rows\": [";
constexpr std::string_view tail = "\n ]\n}\n";

// Reads exactly the text write_experience() makes, key by key in its order; at anything else it gives up.
class Scanner {
  public:
    explicit Scanner(std::string_view text) : left_(text) {}

    std::optional<std::vector<Experience>> rows() {
        std::vector<Experience> out;
        expect(head);
        while (ok_ && left_ != tail) {
            expect(out.empty() ? "\n  " : ",\n  ");
            out.push_back(row());
        }
        if (!ok_) return std::nullopt;
        return out;
    }

  private:
    bool next(std::string_view what) {
        if (!left_.starts_with(what)) return false;
        left_.remove_prefix(what.size());
        return true;
    }
    void expect(std::string_view what) { ok_ = ok_ && next(what); }

    std::string string(std::string_view key) {
        expect(key);
        expect("\"");
        const std::size_t end = left_.find_first_of("\"\\");
        ok_ = ok_ && end != std::string_view::npos && left_[end] == '"'; // an escape: the parser knows them
        if (!ok_) return {};
        std::string out(left_.substr(0, end));
        left_.remove_prefix(end + 1);
        return out;
    }
    template <class T> T number(std::string_view key) {
        expect(key);
        T out{};
        if (!ok_) return out;
        const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), out);
        ok_ = error == std::errc{};
        left_.remove_prefix(static_cast<std::size_t>(end - left_.data()));
        return out;
    }
    bool truth(std::string_view key) {
        expect(key);
        if (next("true")) return true;
        expect("false");
        return false;
    }

    Experience row() {
        Experience e;
        Configuration& c = e.configuration;
        e.dataset = string("{\"dataset\":");
        e.name = string(",\"name\":");
        c.device = string(",\"device\":");
        c.architecture = string(",\"architecture\":");
        const auto stack = named<Stack>(string(",\"stack\":"));
        ok_ = ok_ && stack;
        c.stack = stack.value_or(Stack::other);
        c.precision_bits = number<int>(",\"bits\":");
        c.experts = truth(",\"experts\":");
        c.devices = number<int>(",\"devices\":");
        c.tensor = number<int>(",\"tp pp cp ep zero\":[");
        for (int* degree : {&c.pipeline, &c.context, &c.expert, &c.zero}) *degree = number<int>(",");
        c.sequence = number<int>("],\"sequence\":");
        c.host_share = number<double>(",\"host\":");
        c.recompute = truth(",\"recompute\":");
        if (left_.starts_with(",\"step_time\":")) e.step_time = number<double>(",\"step_time\":");
        if (left_.starts_with(",\"memory\":")) e.memory = number<double>(",\"memory\":");
        if (left_.starts_with(",\"unseen\":")) {
            e.unseen = truth(",\"unseen\":");
            c.shares.front() = number<double>(",\"shares\":[");
            for (std::size_t g = 1; g < c.shares.size(); ++g) c.shares[g] = number<double>(",");
            c.left_open.front() = truth("],\"open\":[");
            for (std::size_t f = 1; f < c.left_open.size(); ++f) c.left_open[f] = truth(",");
            e.job = string("],\"job\":");
            e.predicted_s = number<double>(",\"predicted_s\":");
        }
        expect("}");
        return e;
    }

    std::string_view left_;
    bool ok_ = true;
};

} // namespace

std::vector<Experience> read_experience(std::string_view text) {
    if (auto ours = Scanner(text).rows()) return std::move(*ours);
    std::vector<Experience> rows;
    const nlohmann::json parsed = nlohmann::json::parse(text);
    for (const nlohmann::json& j : parsed.at("rows")) {
        Experience e;
        e.dataset = j.at("dataset").get<std::string>();
        e.name = j.at("name").get<std::string>();
        Configuration& c = e.configuration;
        c.device = j.at("device").get<std::string>();
        c.architecture = j.at("architecture").get<std::string>();
        c.stack = named<Stack>(j.at("stack").get<std::string>()).value();
        c.precision_bits = j.at("bits").get<int>();
        c.experts = j.at("experts").get<bool>();
        c.devices = j.at("devices").get<int>();
        const nlohmann::json& degrees = j.at("tp pp cp ep zero");
        c.tensor = degrees.at(0), c.pipeline = degrees.at(1), c.context = degrees.at(2), c.expert = degrees.at(3), c.zero = degrees.at(4);
        c.sequence = j.at("sequence").get<int>();
        c.host_share = j.at("host").get<double>();
        c.recompute = j.at("recompute").get<bool>();
        if (j.contains("step_time")) e.step_time = j.at("step_time").get<double>();
        if (j.contains("memory")) e.memory = j.at("memory").get<double>();
        e.unseen = j.value("unseen", false);
        if (j.contains("shares")) j.at("shares").get_to<std::array<double, cost_group_count>>(c.shares);
        if (j.contains("open")) c.left_open = j.at("open").get<OpenFields>();
        e.job = j.value("job", "");
        e.predicted_s = j.value("predicted_s", 0.0);
        rows.push_back(std::move(e));
    }
    return rows;
}

namespace {

// Whether merged() takes the row for unseen, by the error that it had at first: its shares are wanted too.
bool met(const Experience& e) {
    static const std::set<std::pair<std::string, std::string>> known = [] {
        std::set<std::pair<std::string, std::string>> names;
        for (const Experience& f : first_contacts()) names.emplace(f.dataset, f.name);
        return names;
    }();
    return known.contains({e.dataset, e.name});
}

} // namespace

std::string write_experience(std::span<const Experience> rows) {
    // Three decimals: a later digit of an error says nothing, and would change with every edit of a kernel's table.
    const auto rounded = [](double x) { return std::round(x * 1000) / 1000; };
    std::string text(head);
    const char* comma = "\n  ";
    for (const Experience& e : rows) {
        const Configuration& c = e.configuration;
        nlohmann::ordered_json j{{"dataset", e.dataset},
                                 {"name", e.name},
                                 {"device", c.device},
                                 {"architecture", c.architecture},
                                 {"stack", name(c.stack)},
                                 {"bits", c.precision_bits},
                                 {"experts", c.experts},
                                 {"devices", c.devices},
                                 {"tp pp cp ep zero", {c.tensor, c.pipeline, c.context, c.expert, c.zero}},
                                 {"sequence", c.sequence},
                                 {"host", rounded(c.host_share)},
                                 {"recompute", c.recompute}};
        if (e.step_time) j["step_time"] = rounded(*e.step_time);
        if (e.memory) j["memory"] = rounded(*e.memory);
        if (e.unseen || met(e)) {
            j["unseen"] = e.unseen;
            for (const double share : c.shares) j["shares"].push_back(rounded(share));
            j["open"] = c.left_open;
            j["job"] = e.job;
            j["predicted_s"] = std::stod(fmt::format("{:.3g}", e.predicted_s));
        }
        text += comma + j.dump();
        comma = ",\n  ";
    }
    return text + std::string(tail);
}

} // namespace orrery
