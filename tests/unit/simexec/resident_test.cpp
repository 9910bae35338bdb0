// Is the memory that a run reports what its process takes? Of every executor, by the system's count of resident pages.
#include "process.hpp"
#include "started.hpp"

#include <sys/resource.h>

using namespace orrery::test;

namespace {

struct Taken {
    double resident = 0, allocated = 0, predicted = 0; // bytes; of all ranks
};

Taken taken(const std::string& executor) {
    const auto report = scratch("resident.json");
    Words words{simexec_program, "run", ORRERY_SOURCE_DIR "/scenarios/tiny-gpt.json", "--steps", "1", "--executor", executor, "-o",
                report.string()};
    for (const char* field : {"model.layers=8", "model.hidden_size=384", "training.sequence_length=128", "training.global_batch_size=4",
                              "training.micro_batch_size=1", "cluster.devices_per_node=4", "strategy.framework=torchtitan"})
        words.insert(words.end(), {"--set", field});
    const Process p = start_process(words, scratch("resident.out"));
    int status = 0;
    rusage use{};
    EXPECT_EQ(wait4(p.id, &status, 0, &use), p.id);
    EXPECT_EQ(status, 0) << p.text();
    std::ifstream in(report);
    const nlohmann::json j = nlohmann::json::parse(in, nullptr, false);
    Taken t{1024.0 * static_cast<double>(use.ru_maxrss)};
    for (const auto& rank : j["memory"]) {
        t.allocated += rank["allocated_bytes"].get<double>();
        t.predicted += rank["predicted_bytes"].get<double>();
    }
    return t;
}

// The program itself, its libraries and its threads' stacks take some 40 MB beside the ranks' memory; tensors that are there for a moment
// when weights are made, some more.
TEST(Resident, IsWhatIsPredicted) {
    for (const char* executor : {"serial", "threads", "queues"}) {
        const Taken t = taken(executor);
        EXPECT_GT(t.predicted, 2e8);
        // Serial and threads place buffers as they come, first fit: gaps stay.
        EXPECT_LE(t.allocated, (std::string(executor) == "queues" ? 1.02 : 1.1) * t.predicted) << executor;
        EXPECT_GE(t.allocated, t.predicted) << executor;
        EXPECT_LT(t.resident, 1.02 * t.allocated + 80e6) << executor;
        EXPECT_GT(t.resident, 0.8 * t.predicted) << executor;
    }
}

} // namespace
