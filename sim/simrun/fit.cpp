// `simrun fit FILE.. -o FILE` and `simrun fit --check FILE..`: calibration from tables of measurements and from nccl-tests' output.
#include "sim/fit/fit.hpp"
#include "sim/fit/fabric.hpp"

#include "sim/scenario/input_file.hpp"
#include "sim/scenario/suggest.hpp"
#include "sim/simrun/command.hpp"
#include "topology/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <exception>

namespace orrery::simrun {

namespace {

using Json = nlohmann::ordered_json;

// The cluster of a preset's name or of a file, one node of it. Throws std::runtime_error in words.
Cluster cluster_named(const std::string& named) {
    if (named.empty())
        throw std::runtime_error(
            "nccl-tests do not say what joins the nodes: add --cluster NAME or FILE, the cluster they ran on (`simrun list clusters`; "
            "`simrun ingest` writes a file)");
    Json cluster = {{"preset", named}};
    if (named.ends_with(".json") || named.find('/') != std::string::npos) {
        std::string text;
        if (!read_file(named, text)) throw std::runtime_error(named + " cannot be read");
        if (const std::vector<Problem> wrong = json_problems(text); !wrong.empty())
            throw std::runtime_error("--cluster " + named + ": " + problem_text(wrong.front()));
        cluster = Json::parse(text, nullptr, false, true);
        if (!cluster.is_object()) throw std::runtime_error(named + " holds no cluster: it must be a JSON object");
        if (cluster.contains("graph"))
            throw std::runtime_error(named + " is a graph: fit takes the short form (simrun ingest without --graph)");
    }
    cluster["nodes"] = 1;
    // A batch that any node's devices divide: the cluster is all that is wanted of this scenario.
    const Json scenario{{"model", "gpt2-124m"},
                        {"cluster", cluster},
                        {"training", {{"global_batch_size", 720720}, {"micro_batch_size", 1}, {"sequence_length", 1024}}}};
    const ParseResult read = parse_scenario(scenario.dump());
    if (!read.scenario) throw std::runtime_error("--cluster " + named + ": " + read.problems.front().what);
    return read.scenario->cluster;
}

// The placed curves of the files that are nccl-tests' output.
struct Curves {
    std::vector<PlacedCurve> placed;
    std::vector<std::string> skipped;
};

void add_curves(const std::string& file, const std::string& text, const Options& options, const FitCommand& command, Curves& out) {
    const Cluster cluster = cluster_named(command.cluster);
    for (const NcclCurve& curve : parse_nccl_tests(file, text, out.skipped)) {
        out.placed.push_back(place(curve, cluster, command.nodes));
        out.placed.back().constants = options.constants;
        if (!curve.assumed.empty()) out.skipped.push_back(file + ": assumed: " + curve.assumed);
    }
}

// Size by size: "64.0 MB  601.5 us  590.2 us  -1.9 %".
std::string by_size(const PlacedCurve& p, const std::vector<Compared>& points) {
    std::string out = fmt::format("{}: {} on {} ranks, {}\n  {:>12}  {:>12}  {:>12}  {:>8}\n", p.curve.file, p.curve.program, p.curve.ranks,
                                  p.cluster.nodes == 1 ? "1 node" : fmt::format("{} nodes", p.cluster.nodes), "bytes", "measured us",
                                  "predicted us", "error");
    for (std::size_t i = 0; i < points.size(); ++i)
        out += fmt::format("  {:>12.0f}  {:>12.1f}  {:>12.1f}  {:>+7.1f} %\n", p.curve.rows[i].bytes, points[i].measured,
                           points[i].predicted, 100 * (points[i].predicted / points[i].measured - 1));
    return out + "\n";
}

int deliver_check(const std::vector<std::string>& files, const std::vector<Compared>& points, const std::string& sizes,
                  const std::vector<std::string>& skipped, const Options& options) {
    if (points.empty()) {
        complain("nothing in " + join(files) + " can be checked\n  " + join(skipped, "\n  "));
        return bad_input;
    }
    const std::vector<Deviation> by_group = deviations(points);
    const bool json = options.json || options.output.ends_with(".json");
    return deliver(json ? to_json(by_group, skipped) : sizes + to_text(by_group, skipped), options) ? done : bad_input;
}

// The text about a fitted file: constants that its tables do not determine, and how to use it.
std::string about(const std::string& text, const std::string& file) {
    std::string said;
    const Json all = Json::parse(text);
    for (const Json& one : all.is_array() ? all : Json::array({all}))
        for (const char* group : {"gemm", "prefill", "experts"}) {
            if (!one.contains(group)) continue;
            for (const auto& [kind, constants] : one.at(group).items())
                if (constants.contains("not_determined"))
                    said += fmt::format(
                        "{}: the table does not determine {}.{}: {}. They stand at a limit and do little; more shapes would say more\n",
                        one.value("fitted_to", file), group, kind, join(constants.at("not_determined").get<std::vector<std::string>>()));
        }
    try {
        OwnConstants().add(text);
        return said + "Use it: simrun job.json --calibration " + file + "\n";
    } catch (const std::runtime_error& e) { return said + "Not for --calibration: " + e.what() + "\n"; }
}

int deliver_fit(const std::string& text, const Options& options) {
    if (!deliver(text, options)) return bad_input;
    if (options.quiet) return done;
    const bool kept = !options.output.empty();
    const std::string said = (kept ? options.output + " is written\n" : "") + about(text, kept ? options.output : "FILE");
    std::fputs(printable(said).c_str(), kept ? stdout : stderr);
    return done;
}

} // namespace

int run_fit(const std::vector<std::string>& files, const Options& options, const FitCommand& command) {
    std::vector<std::string> fitted; // a JSON object a table
    std::vector<Compared> points;
    Curves curves;
    std::string sizes;
    try {
        for (const std::string& file : files) {
            std::string text;
            if (read_file(file, text) && looks_like_nccl_tests(text)) {
                add_curves(file, text, options, command, curves);
                continue;
            }
            MeasuredTable table = read_table(file);
            table.constants = options.constants;
            if (command.only_check) {
                Checked one = check(table);
                points.insert(points.end(), std::make_move_iterator(one.points.begin()), std::make_move_iterator(one.points.end()));
                curves.skipped.insert(curves.skipped.end(), one.skipped.begin(), one.skipped.end());
            } else {
                fitted.push_back(fit(table));
            }
        }
        if (command.only_check) {
            for (const PlacedCurve& p : curves.placed) {
                const auto one = compare_curve(p);
                sizes += by_size(p, one);
                points.insert(points.end(), one.begin(), one.end());
            }
            return deliver_check(files, points, sizes, curves.skipped, options);
        }
        if (!curves.placed.empty() || fitted.empty()) {
            const FabricFit fabric = fit_fabric(curves.placed);
            fitted.push_back(fabric.json);
            if (!options.quiet) std::fputs((join(fabric.said, "\n") + "\n").c_str(), stderr);
        }
    } catch (const std::runtime_error& e) {
        complain(e.what());
        return bad_input;
    }
    if (!options.quiet && !curves.skipped.empty()) std::fputs((join(curves.skipped, "\n") + "\n").c_str(), stderr);
    return deliver_fit(fitted.size() == 1 ? fitted.front() : "[\n" + join(fitted, ",\n") + "]\n", options);
}

} // namespace orrery::simrun
