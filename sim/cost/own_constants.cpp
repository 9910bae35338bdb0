#include "sim/cost/own_constants.hpp"

#include "sim/cost/calibration_files.hpp"
#include "sim/cost/calibration_ranges.hpp"
#include "sim/scenario/parse.hpp"
#include "sim/scenario/uncounted.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <deque>
#include <stdexcept>

namespace orrery {
namespace {

using calibration::Json;

struct KernelFile {
    explicit KernelFile(const Json& j) : json(j) {}
    const Json json;
    mutable std::atomic<bool> asked_for = false; // threads of a sweep read it side by side
};

struct LearnedFile {
    explicit LearnedFile(LearnedConstants l) : constants(std::move(l)) {}
    const LearnedConstants constants;
    mutable std::atomic<bool> asked_for = false;
};

// nlohmann's words without its "[json.exception.out_of_range.403] ".
std::string plain(const Json::exception& e) {
    const std::string what = e.what();
    const std::size_t end = what.find("] ");
    return end == std::string::npos ? what : what.substr(end + 2);
}

// Unlike a file of ours it may lack anything, which is found here and not in a prediction.
void check_fabric(const Json& j) {
    try {
        calibration::check_fabric(j);
    } catch (const std::exception& e) {
        throw std::runtime_error(std::string("a constant of the fabric is missing or is not what it must be: ") + e.what());
    }
}

void check_kernels(const Json& j) {
    if (!j.contains("device") || !j["device"].is_string()) throw std::runtime_error("it does not say for which \"device\" it is");
    if (!j.contains("gemm") && !j.contains("attention") && !j.contains("sustained") && !j.contains("memory"))
        throw std::runtime_error("it holds none of the groups of constants of a device: gemm, attention, sustained, memory");
    check_constants(j);
    try {
        KernelTables scratch;
        calibration::replace_groups(scratch, j);
    } catch (const Json::exception& e) { throw std::runtime_error("a constant is missing or is not what it must be: " + plain(e)); }
}

} // namespace

struct OwnConstants::Data {
    std::deque<KernelFile> kernels;
    std::vector<Json> fabrics;
    std::deque<LearnedFile> learned;
    std::string text;
    std::vector<Json> all; // as they came
    mutable std::atomic<bool> predicted = false;

    void add(const Json& j) {
        if (!j.is_object())
            throw std::runtime_error("it is no JSON object (simrun fit TABLE -o FILE and simrun learn ROWS -o FILE write such files)");
        if (j.contains("what") && j["what"] == "fabric") {
            check_fabric(j);
            fabrics.push_back(j);
        } else if (j.contains("what") && j["what"] == "learned") {
            learned.emplace_back(read_learned(j));
        } else {
            check_kernels(j);
            kernels.emplace_back(j);
        }
        text += j.dump();
        all.push_back(j);
    }
};

OwnConstants::OwnConstants() : data_(std::make_unique<Data>()) {}
OwnConstants::~OwnConstants() = default;

void OwnConstants::add(const std::string& json_text) {
    if (const std::vector<Problem> wrong = json_problems(json_text); !wrong.empty())
        throw std::runtime_error("it is no JSON object (simrun fit TABLE -o FILE writes such a file): " + problem_text(wrong.front()));
    const Json j = Json::parse(json_text, nullptr, true, true);
    if (!j.is_array()) return data_->add(j);
    for (const Json& one : j) data_->add(one);
}

void OwnConstants::copy_to(OwnConstants& other) const {
    for (const Json& j : data_->all) other.data_->add(j);
}

const std::string& OwnConstants::text() const { return data_->text; }

std::vector<std::string> OwnConstants::not_asked_for() const {
    std::vector<std::string> devices;
    if (!data_->predicted) return devices;
    for (const KernelFile& f : data_->kernels)
        if (!f.asked_for) devices.push_back(f.json["device"].get<std::string>());
    for (const LearnedFile& f : data_->learned)
        if (!f.asked_for) devices.push_back(f.constants.device + " and " + name(f.constants.stack));
    return devices;
}

void OwnConstants::replace_groups(KernelTables& tables, const std::string& device) const {
    data_->predicted = true;
    for (const KernelFile& f : data_->kernels)
        if (f.json["device"] == device) {
            f.asked_for = true;
            calibration::replace_groups(tables, f.json);
        }
}

const LearnedConstants* OwnConstants::learned_for(const Device& device, Stack stack) const {
    data_->predicted = true;
    const LearnedConstants* found = nullptr;
    for (const LearnedFile& f : data_->learned)
        if (f.constants.device == device.name && f.constants.stack == stack) f.asked_for = true, found = &f.constants;
    return found;
}

bool OwnConstants::holds_learned() const { return !data_->learned.empty(); }

const LearnedConstants* learned_for(const Scenario& s) {
    if (!s.constants || !s.constants->holds_learned()) return nullptr;
    return s.constants->learned_for(s.cluster.device, practice_of(s).stack);
}

const Uncounted& uncounted() {
    static const Uncounted read = [] {
        const Json& j = (*calibration::files_of("pointwise").front())["uncounted"];
        Uncounted u;
        u.memory = j["memory"].get<double>();
        u.source = calibration::source_of(j);
        for (const Json& stack : j["stacks"]) u.stacks.push_back(named<Stack>(stack.get<std::string>()).value());
        return u;
    }();
    return read;
}

CostFactors uncounted_of(const Scenario& s) {
    CostFactors factors = no_factors;
    const Device& device = s.cluster.device;
    if (s.world_size() < 2 || device.architecture == "cpu" || !device.kernels.empty() || !leaves_uncounted(s)) return factors;
    const Uncounted& u = uncounted();
    const bool has = std::find(u.stacks.begin(), u.stacks.end(), practice_of(s).stack) != u.stacks.end();
    if (has) factors[CostGroup::memory] = u.memory;
    return factors;
}

Time with_uncounted(Time duration, const Work& work, double memory) {
    const auto* step = std::get_if<OptimizerStep>(&work);
    if (memory == 1 || group_of(work) != CostGroup::memory || (step && step->on_host)) return duration;
    return Time{static_cast<std::int64_t>(static_cast<double>(duration.ps) * memory)};
}

std::optional<FabricTable> OwnConstants::fabric_of(const Cluster& cluster) const {
    for (auto j = data_->fabrics.rbegin(); j != data_->fabrics.rend(); ++j)
        if (calibration::serves(*j, cluster)) return calibration::own_fabric(*j);
    return std::nullopt;
}

} // namespace orrery
