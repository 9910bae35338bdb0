// What supervised runs take on this machine: starts, saves, loads and the notice of a loss, each by a run in processes of its own, of two
// models that differ in nothing but their bytes.
#include "exec/simexec/measure_runs.hpp"

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/simexec/supervised.hpp"
#include "exec/supervise/drill.hpp"
#include "exec/supervise/supervise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <fstream>
#include <stdexcept>

namespace orrery::simexec {
namespace {

namespace fs = std::filesystem;

constexpr int repeats = 5;
constexpr int wide = 512; // hidden size of the larger model: some 100 MB of parameters and moments in fp32

double middle(std::vector<double> v) {
    std::ranges::sort(v);
    return v.at(v.size() / 2);
}

// The folder of one calibration, named by its process: gone with this, and with it those of calibrations that were killed.
class Scratch {
  public:
    explicit Scratch(fs::path folder) : folder_(std::move(folder)) {
        std::error_code ignored;
        const std::string here = folder_.filename().string(), names = here.substr(0, here.rfind('-') + 1);
        std::vector<fs::path> left;
        for (const auto& entry : fs::directory_iterator(folder_.has_parent_path() ? folder_.parent_path() : ".", ignored))
            if (const std::string name = entry.path().filename().string(); name.starts_with(names) && ended(name.substr(names.size())))
                left.push_back(entry.path());
        for (const fs::path& p : left) fs::remove_all(p, ignored);
        fs::create_directories(folder_);
    }
    ~Scratch() {
        std::error_code ignored;
        fs::remove_all(folder_, ignored);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

  private:
    static bool ended(const std::string& process) {
        int id = 0;
        const auto [end, error] = std::from_chars(process.data(), process.data() + process.size(), id);
        return error == std::errc{} && end == process.data() + process.size() && id > 0 && kill(id, 0) != 0 && errno == ESRCH;
    }
    fs::path folder_;
};

class Bench {
  public:
    Bench(fs::path folder, const CalibrateOptions& how) : folder_(std::move(folder)), how_(how) {}

    std::string model(const char* name, int hidden) const {
        const fs::path file = folder_ / (std::string(name) + ".json");
        std::ofstream(file) << fmt::format(
            R"({{"name": "{}", "model": {{"layers": 2, "hidden_size": {}, "attention_heads": 1, "vocab_size": {}}},
            "cluster": {{"preset": "local-cpu", "nodes": 1, "devices_per_node": {}}},
            "training": {{"global_batch_size": {}, "micro_batch_size": 1, "sequence_length": 8, "precision": "fp32"}}, "strategy": {{}}}})",
            name, hidden, hidden, how_.ranks, how_.ranks);
        return file.string();
    }

    std::vector<RunEvent> run(const std::string& file, const std::vector<std::string>& more, bool killed = false) {
        fs::remove_all(folder_ / watch_name);
        fs::remove(folder_ / record_name);
        std::vector<std::string> words;
        if (how_.executor == "mpi") words = {"mpirun", "-n", std::to_string(how_.ranks)};
        words.insert(words.end(), {fs::read_symlink("/proc/self/exe").string(), "run", file, "-q", "--executor", how_.executor});
        words.insert(words.end(), more.begin(), more.end());
        words.insert(words.end(), {"--watch", folder_.string(), "--attempt", "0"});
        const RunRecord record(folder_ / record_name, 0);
        record.add("launch", 0);
        const Ending e = attempt(words, folder_ / watch_name, {}, signals_);
        record.add("end", 0, 0, name(e.how));
        if (killed ? !is_loss(e.how) : e.how != Ended::finished)
            throw std::runtime_error("starts and saves of runs cannot be measured here: " + e.what);
        return read_record(folder_ / record_name);
    }

    // From the first step's end until the next may begin: the save of its states.
    double block_s(const std::string& file) {
        std::vector<double> took;
        for (int i = 0; i < repeats; ++i) {
            fs::remove_all(saved());
            const auto events = run(file, {"--steps", "2", "--every", "1", "--checkpoint", saved().string()});
            double step = 0;
            for (const RunEvent& e : events) {
                if (e.what == "step") step = e.time_s;
                if (e.what != "saved") continue;
                took.push_back(e.time_s - step);
                break;
            }
        }
        return middle(took);
    }

    // From the launch to the first step of a run that goes on from what block_s() has left.
    double start_s(const std::string& file) {
        std::vector<double> took;
        for (int i = 0; i < repeats; ++i) {
            const auto events = run(file, {"--steps", "3", "--resume", saved().string()});
            for (const RunEvent& e : events)
                if (e.what == "begin") took.push_back(e.time_s - events.front().time_s);
        }
        return middle(took);
    }

    double bytes() const { // of the newest checkpoint
        std::uintmax_t sum = 0;
        for (const auto& entry : fs::directory_iterator(checkpoints_in(saved()).at(0)))
            if (entry.is_regular_file()) sum += entry.file_size();
        return static_cast<double>(sum);
    }

    // From the death of a rank to the end of the attempt.
    double detect_s(const std::string& file) {
        std::vector<double> took;
        for (int i = 0; i < repeats; ++i) {
            fs::remove(folder_ / record_name);
            const Drill drill(folder_ / record_name, folder_ / watch_name, {0.02}, 1);
            const auto events = run(file, {"--steps", "1000000"}, true);
            took.push_back(events.back().time_s - drill.last_s());
        }
        return std::max(0.0, middle(took));
    }

  private:
    fs::path saved() const { return folder_ / "saved"; }
    fs::path folder_;
    const CalibrateOptions& how_;
    WatchedSignals signals_;
};

} // namespace

RunFacts measure_runs(const fs::path& folder, const CalibrateOptions& how) {
    RunFacts f;
    f.of = fmt::format("{}, {} rank{}", how.executor, how.ranks, how.ranks == 1 ? "" : "s");
    f.waits = how.executor == "mpi"; // processes write a part each, and meet
    const Scratch scratch(folder);
    f.write_gb_per_s = measure_saves(folder / "written").write_gb_per_s;
    Bench bench(folder, how);
    const std::string small = bench.model("small", 16), large = bench.model("large", wide);
    f.detect_s = bench.detect_s(small);
    f.block_s = bench.block_s(small);
    f.start_s = bench.start_s(small);
    const double few = bench.bytes(), block = bench.block_s(large), start = bench.start_s(large);
    const double more = (bench.bytes() - few) * 1e-9;
    if (start > f.start_s) f.read_gb_per_s = more / (start - f.start_s);
    if (block > f.block_s && f.waits) f.write_gb_per_s = more / (block - f.block_s);
    if (block > f.block_s && !f.waits) f.copy_gb_per_s = more / how.ranks / (block - f.block_s);
    return f;
}

} // namespace orrery::simexec
