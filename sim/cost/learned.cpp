#include "sim/cost/learned.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <stdexcept>

namespace orrery {

namespace {

using Json = nlohmann::json;

constexpr double most = 20; // a factor beyond it is no constant that was off a little: something else is wrong
constexpr const char* memory_names[] = {"within_step", "whole"};

double number(const Json& j, const std::string& key, double least, double limit) {
    if (!j.contains(key) || !j.at(key).is_number()) throw std::runtime_error("\"" + key + "\" is missing or no number");
    const double x = j.at(key).get<double>();
    if (!std::isfinite(x) || x < least || x > limit)
        throw std::runtime_error("\"" + key + "\" must be from " + std::to_string(least) + " to " + std::to_string(limit));
    return x;
}

// As far as single pairs show it; written numbers are rounded.
template <std::size_t N> void check_covariance(const Normal<N>& b) {
    constexpr double rounding = 1e-5;
    const auto& c = b.covariance;
    for (std::size_t i = 0; i < N; ++i)
        for (std::size_t k = 0; k < N; ++k) {
            if (c[i][i] < 0) throw std::runtime_error("\"covariance\" has a variance below 0 on its diagonal");
            if (std::abs(c[i][k] - c[k][i]) > rounding || c[i][k] * c[i][k] > (c[i][i] + rounding) * (c[k][k] + rounding))
                throw std::runtime_error("\"covariance\" is not one: it must be symmetric, and no number larger than its variances allow");
        }
}

template <std::size_t N, class Name> Normal<N> read_normal(const Json& j, Name name) {
    Normal<N> b;
    if (!j.contains("factors") || !j.at("factors").is_object()) throw std::runtime_error("it holds no \"factors\"");
    for (std::size_t i = 0; i < N; ++i) b.mean[i] = std::log(number(j.at("factors"), name(i), 1 / most, most));
    const Json& rows = j.contains("covariance") ? j.at("covariance") : Json();
    if (!rows.is_array() || rows.size() != N) throw std::runtime_error("\"covariance\" must have " + std::to_string(N) + " rows");
    for (std::size_t i = 0; i < N; ++i) {
        if (!rows[i].is_array() || rows[i].size() != N) throw std::runtime_error("\"covariance\" must be square");
        for (std::size_t k = 0; k < N; ++k) {
            if (!rows[i][k].is_number()) throw std::runtime_error("\"covariance\" holds what is no number");
            b.covariance[i][k] = rows[i][k].get<double>();
            if (!std::isfinite(b.covariance[i][k]) || std::abs(b.covariance[i][k]) > 100)
                throw std::runtime_error("\"covariance\" holds a number beyond 100");
        }
    }
    check_covariance(b);
    return b;
}

template <std::size_t N, class Name> void write_normal(nlohmann::ordered_json& j, const Normal<N>& b, Name name) {
    for (std::size_t i = 0; i < N; ++i) j["factors"][name(i)] = std::round(std::exp(b.mean[i]) * 1e6) / 1e6;
    for (const auto& row : b.covariance) {
        nlohmann::ordered_json line = nlohmann::ordered_json::array();
        for (double v : row) line.push_back(std::round(v * 1e9) / 1e9);
        j["covariance"].push_back(line);
    }
}

} // namespace

const char* belief_name(std::size_t i) { return i == cost_group_count ? "rest" : name(static_cast<CostGroup>(i)); }

CostFactors LearnedConstants::factors() const {
    CostFactors f{};
    for (std::size_t i = 0; i < f.size(); ++i) f[i] = std::exp(time.mean[i] + time.mean[cost_group_count]);
    return f;
}

double LearnedConstants::memory_factor(std::size_t i) const { return memory ? std::exp(memory->beliefs.mean[i]) : 1; }

LearnedConstants read_learned(const Json& j) {
    LearnedConstants l;
    if (const double law = j.contains("law") ? number(j, "law", 1, 1e6) : 1; law != learned_law)
        throw std::runtime_error("it was learned by law " + std::to_string(static_cast<int>(law)) + ", and this program reads law " +
                                 std::to_string(learned_law) +
                                 ", by which the noise of steps is another: learn again, simrun learn ROWS.json -o FILE");
    if (!j.contains("device") || !j["device"].is_string()) throw std::runtime_error("it does not say for which \"device\" it is");
    l.device = j["device"].get<std::string>();
    const auto stack = j.contains("stack") && j["stack"].is_string() ? named<Stack>(j["stack"].get<std::string>()) : std::nullopt;
    if (!stack) throw std::runtime_error("\"stack\" must be one of modules, zero, eager, other");
    l.stack = *stack;
    l.rows = static_cast<int>(number(j, "rows", 1, 1e6));
    l.time = read_normal<belief_count>(j, belief_name);
    l.noise = number(j, "noise", 0, 10);
    if (!j.contains("memory")) return l;
    const Json& m = j["memory"];
    l.memory = LearnedConstants::Memory{static_cast<int>(number(m, "rows", 1, 1e6)),
                                        read_normal<2>(m, [](std::size_t i) { return memory_names[i]; }), number(m, "noise", 0, 10)};
    return l;
}

std::string write_learned(std::span<const LearnedConstants> all) {
    auto list = nlohmann::ordered_json::array();
    for (const LearnedConstants& l : all) {
        nlohmann::ordered_json j{
            {"what", "learned"}, {"law", learned_law}, {"device", l.device}, {"stack", name(l.stack)}, {"rows", l.rows}};
        write_normal(j, l.time, belief_name);
        j["noise"] = l.noise;
        if (l.memory) {
            j["memory"]["rows"] = l.memory->rows;
            write_normal(j["memory"], l.memory->beliefs, [](std::size_t i) { return memory_names[i]; });
            j["memory"]["noise"] = l.memory->noise;
        }
        list.push_back(j);
    }
    return list.dump(1) + "\n";
}

} // namespace orrery
