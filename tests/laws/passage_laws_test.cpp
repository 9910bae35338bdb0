// Is a run that passes through actions in one piece, and skips periods, the run op by op? To the picosecond and the byte, for random jobs.
#include "sim/report/report.hpp"
#include "tests/laws/scenarios.hpp"
#include "tests/laws/simulations.hpp"

#include <random>

namespace orrery::laws {
namespace {

struct Pair {
    Simulation fast, full;
};

Pair both(const Scenario& s, bool fold) {
    const Plan plan = lower(s);
    const Fabric fabric(s.cluster);
    const CostModel cost(s, fabric);
    return {simulate(plan, s, fabric, cost, {.fold = fold}), simulate(plan, s, fabric, cost, {.fold = fold, .replay = false})};
}

template <class T> const T& one_of(std::mt19937& random, const std::vector<T>& list) { return list[random() % list.size()]; }

std::string random_job(std::mt19937& random) {
    Gpt g;
    g.layers = 8;
    g.hidden = one_of<int>(random, {256, 1024, 4096});
    g.tp = one_of<int>(random, {1, 2, 4});
    g.pp = one_of<int>(random, {1, 1, 2, 4});
    g.dp = one_of<int>(random, {1, 2, 4});
    g.vp = g.pp > 1 && random() % 3 == 0 ? 2 : 1;
    g.microbatches = g.pp * one_of<int>(random, {1, 2, 5});
    g.sp = g.tp > 1 && random() % 2;
    g.zero = one_of<int>(random, {0, 0, 1, 2, 3});
    g.flash = random() % 2;
    g.framework =
        one_of<std::string>(random, {"megatron", "megatron", "nemo", "deepspeed", "fsdp", "fsdp2", "ddp", "nanotron", "internlm"});
    g.recompute = one_of<std::string>(random, {"none", "full"});
    if (g.pp > 1) g.schedule = g.vp > 1 ? "interleaved-1f1b" : one_of<std::string>(random, {"1f1b", "gpipe", "zb-h1"});
    g.extra_strategy = one_of<std::string>(
        random, {"", R"(, "overlap": {"grad_reduce": true})", R"(, "overlap": {"pipeline": true})", R"(, "collective_algorithm": "ring")"});
    g.extra = one_of<std::string>(random, {"", "", R"(, "perturb": [{"slow": 1.5, "rank": 0}])"});
    return g.text();
}

TEST(PassageLaws, RunInOnePieceAsOpByOp) {
    std::mt19937 random(7);
    int tried = 0, fewer = 0;
    for (int i = 0; i < 600 && tried < 150; ++i) {
        const std::string text = random_job(random);
        ParseOptions options;
        const int launch = static_cast<int>(random() % 4);
        if (launch > 0) options.overrides.push_back("runtime.launch_us=" + std::to_string(launch * launch * launch));
        if (random() % 4 == 0) options.overrides.push_back("runtime.year=2021");
        const ParseResult parsed = parse_scenario(text, options);
        if (!parsed.scenario || !parsed.problems.empty()) continue;
        SCOPED_TRACE(text);
        ++tried;
        const Pair p = both(*parsed.scenario, random() % 4 != 0);
        expect_identical(p.fast, p.full);
        fewer += p.fast.stats.events * 2 < p.full.stats.events;
    }
    EXPECT_GE(tried, 150);
    EXPECT_GT(fewer, 20);
}

} // namespace
} // namespace orrery::laws
