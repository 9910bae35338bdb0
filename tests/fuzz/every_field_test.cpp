// Does any combination of fields crash, stand still or break a rule of verify? Small scenarios over every field of the schema; fields that
// are refused are taken away. ORRERY_FUZZ=n draws n of them from a seed of ORRERY_FUZZ_SEED.
#include "tests/fuzz/legal.hpp"

#include "sim/report/report.hpp"
#include "sim/search/space.hpp"

#include <csignal>
#include <unistd.h>

namespace orrery::fuzz {
namespace {

// A broken invariant aborts, and worse ends the program too: the scenario is told first.
std::string under_test;
extern "C" void tell_scenario(int signal) {
    const auto written = ::write(STDERR_FILENO, under_test.data(), under_test.size());
    static_cast<void>(written);
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

class TellsScenario {
  public:
    TellsScenario() : abort_(std::signal(SIGABRT, tell_scenario)), fault_(std::signal(SIGSEGV, tell_scenario)) {}
    ~TellsScenario() {
        std::signal(SIGABRT, abort_);
        std::signal(SIGSEGV, fault_);
    }

  private:
    void (*abort_)(int);
    void (*fault_)(int);
};

// The step of slower products, by the machine retimed and by one compiled of slower costs.
void check_slower(const Scenario& s, const Simulation& base) {
    if (base.slower[CostGroup::products].ps == 0 || !s.perturb.empty()) return;
    PredictOptions slower;
    for (const CostGroup g : {CostGroup::products, CostGroup::host, CostGroup::links_inside}) {
        slower.simulate.factors = no_factors;
        slower.simulate.factors[g] = slower_by;
        const Time step = predict(s, slower).simulation.step_time, retimed = base.slower[g].ps > 0 ? base.slower[g] : base.step_time;
        EXPECT_NEAR(retimed.seconds() / step.seconds(), 1, 1e-4) << name(g);
    }
}

// By `simrun`: the whole pipeline and every text it makes of it. `thorough`: memory over time too.
void check_report(const Scenario& s, bool thorough) {
    PredictOptions options;
    options.cache = CacheOf::all;
    options.shares_up_to = interval_shares;
    options.simulate.trace = thorough;
    const Prediction p = predict(s, options);
    const Report& r = p.report;
    if (thorough) check_slower(s, p.simulation);
    EXPECT_TRUE(std::isfinite(r.step_time_s) && r.step_time_s > 0) << r.step_time_s;
    double sum = 0;
    for (const double part : r.breakdown_s) sum += part;
    EXPECT_NEAR(sum, r.step_time_s, 1e-6 * r.step_time_s);
    EXPECT_FALSE(to_json(r).empty());
    EXPECT_FALSE(to_text(r, s).empty());
}

// A search fixes what the scenario states, so that the scenario itself is one of its points.
void check_space(const std::string& text) {
    const StrategySpace space = make_space(text, {});
    EXPECT_TRUE(space.problems.empty()) << to_text(space.problems);
    EXPECT_GT(space.legal(), 0);
}

// A host that waits for each exchange it posts may stand still, which simrun says (exit 3).
std::vector<Problem> refused(const Scenario& s) {
    if (s.runtime.launch_blocking && s.strategy.overlap.pipeline) return {{"/runtime/launch_blocking", "may stand still"}};
    return {};
}

TEST(Fuzz, EveryFieldOfTheSchema) {
    const LegalScenarios scenarios({{{"preset", "dgx-h100"}}, {{"preset", "dgx-a100-80gb"}}, {{"preset", "local-cpu"}}}, refused);
    EXPECT_GT(scenarios.fields(), 140u);
    const int count = setting("ORRERY_FUZZ", 1500);
    const auto base = static_cast<std::uint64_t>(setting("ORRERY_FUZZ_SEED", 1)) * 1000151;
    const TellsScenario tells;
    int accepted = 0;
    for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
        Random r{base + static_cast<std::uint64_t>(i)};
        Json text;
        const std::optional<Scenario> s = scenarios.draw(r, text);
        if (!s) continue;
        ++accepted;
        under_test = text.dump() + "\n";
        SCOPED_TRACE(under_test);
        try {
            check_report(*s, i % 4 == 0);
            check(*s, i % 4 == 0);
            if (i % 8 == 0) check_space(under_test);
        } catch (const std::exception& e) { ADD_FAILURE() << e.what(); }
    }
    fmt::print("{} scenarios over {} fields: {} accepted\n", count, scenarios.fields(), accepted);
    EXPECT_GE(accepted, count * 3 / 4) << "most must be scenarios, not mistakes";
}

} // namespace
} // namespace orrery::fuzz
