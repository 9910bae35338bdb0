// A run that was stopped: does it go on to the bit, and on another strategy as that one would have?
#include "agree.hpp"

#include "exec/runtime/resume.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace orrery::agree {
namespace {

std::filesystem::path fresh_folder(const char* name) {
    const auto folder = std::filesystem::path(testing::TempDir()) / name;
    std::filesystem::remove_all(folder);
    return folder;
}

Tensors go_on(const Scenario& scenario, const std::filesystem::path& folder, int until) {
    const CheckpointFiles checkpoint(checkpoints_in(folder).at(0));
    const auto world = make_world(scenario, DType::fp64);
    restore(*world, checkpoint);
    const auto executor = serial_executor(*world);
    for (std::int64_t step = checkpoint.state().step; step < until; ++step) {
        load_batch(*world, {"", scenario.model.vocab_size, scenario.training.seed}, step);
        executor->step(nullptr);
    }
    return gather(*world, Quantity::parameters).tensors;
}

TEST(Resume, GoesOnToTheBitAndOnOtherStrategies) {
    const Scenario scenario = tiny({"strategy.data_parallel=2", "strategy.zero_stage=1"});
    const auto folder = fresh_folder("resume");
    const Trained half = train(scenario, {.steps = 3});
    save_checkpoint(folder, {3, scenario.training.seed, {}}, pieces_of(*half.world));
    const Trained whole = train(scenario, {.steps = 5});
    EXPECT_EQ(difference(whole.parameters, go_on(scenario, folder, 5)).relative, 0);
    for (const std::vector<std::string>& other :
         {std::vector<std::string>{},
          {"strategy.data_parallel=4", "strategy.framework=fsdp"},
          {"strategy.tensor_parallel=2", "strategy.pipeline_parallel=2", "strategy.schedule=1f1b"}}) {
        const Difference d = difference(whole.parameters, go_on(tiny(other), folder, 5));
        EXPECT_LE(d.relative, 1e-10) << d.worst;
    }
}

TEST(Resume, SaysWhatIsOfAnotherModel) {
    const Scenario scenario = tiny();
    const auto folder = fresh_folder("another");
    save_checkpoint(folder, {1, 0, {}}, pieces_of(*train(scenario, {.steps = 1}).world));
    const auto other = make_world(tiny({"model.layers=3"}), DType::fp64);
    try {
        restore(*other, CheckpointFiles(checkpoints_in(folder).at(0)));
        ADD_FAILURE() << "it went on";
    } catch (const std::runtime_error& e) { EXPECT_NE(std::string(e.what()).find("parameters/l2."), std::string::npos) << e.what(); }
}

} // namespace
} // namespace orrery::agree
