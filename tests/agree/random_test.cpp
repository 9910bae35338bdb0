// Do strategies nobody thought of train like one rank? Scenarios drawn at random from models, degrees, schedules and what goes with them;
// those that are refused are drawn again.
#include "draw.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace orrery::agree {
namespace {

TEST(AgreeAtRandom, LikeOneRank) {
    const char* const asked = std::getenv("ORRERY_DRAWS"); // more of them, now and then
    const int wanted = asked ? std::atoi(asked) : 60;
    int found = 0;
    for (std::uint64_t seed = 0; found < wanted && seed < 100 * static_cast<std::uint64_t>(wanted); ++seed) {
        Fields fields;
        const std::optional<Scenario> scenario = draw(seed, fields);
        if (!scenario || scenario->world_size() == 1) continue;
        ++found;
        std::string line = "seed " + std::to_string(seed) + ":";
        for (const std::string& f : fields) line += " " + f;
        SCOPED_TRACE(line);
        const TrainOptions options{.steps = 2, .forced_routing = false};
        const Trained many = train(*scenario, options), one = train(on_one_rank(*scenario), options);
        const Difference gradients = difference(one.first_gradients, many.first_gradients),
                         parameters = difference(one.parameters, many.parameters);
        EXPECT_LE(gradients.relative, 1e-11) << gradients.worst;
        EXPECT_LE(parameters.relative, 1e-9) << parameters.worst;
        EXPECT_NEAR(many.losses.back(), one.losses.back(), 1e-11);
        EXPECT_EQ(many.disagreement, 0);
        if (!scenario->model.moe) continue; // rows in numbers that routers know: every executor moves the same
        TrainOptions other = options;
        other.executor = found % 2 == 0 ? "queues" : "threads";
        EXPECT_EQ(train(*scenario, other).parameters, many.parameters) << other.executor;
    }
    EXPECT_EQ(found, wanted);
}

} // namespace
} // namespace orrery::agree
