// Is sharing max-min fair, exact, and blind to history?
#include "sim/engine/sharing.hpp"
#include "tests/unit/engine/fluid.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace orrery {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

struct Spec {
    std::vector<Sharing::Use> uses;
    double cap = unlimited;
};

// Fills all bundles together, in the plainest way: at each step the lowest level at which a link is full or a cap is met.
std::vector<double> water_fill(const std::vector<double>& capacities, const std::vector<Spec>& bundles) {
    std::vector<double> rates(bundles.size(), -1);
    for (std::size_t left = bundles.size(); left > 0;) {
        std::vector<long double> room(capacities.begin(), capacities.end()), rising(capacities.size(), 0);
        for (std::size_t b = 0; b < bundles.size(); ++b)
            for (const auto& use : bundles[b].uses) {
                const auto l = static_cast<std::size_t>(use.link);
                if (rates[b] >= 0)
                    room[l] -= static_cast<long double>(use.weight) * rates[b];
                else
                    rising[l] += use.weight;
            }
        const auto own_level = [&](std::size_t b) {
            long double level = bundles[b].cap;
            for (const auto& use : bundles[b].uses) {
                const auto l = static_cast<std::size_t>(use.link);
                level = std::min(level, std::max(0.0L, room[l]) / rising[l]);
            }
            return level;
        };
        long double lowest = unlimited;
        for (std::size_t b = 0; b < bundles.size(); ++b)
            if (rates[b] < 0) lowest = std::min(lowest, own_level(b));
        std::vector<std::size_t> stop;
        for (std::size_t b = 0; b < bundles.size(); ++b)
            if (rates[b] < 0 && own_level(b) <= lowest * (1 + 1e-13L)) stop.push_back(b);
        for (std::size_t b : stop) rates[b] = static_cast<double>(lowest);
        left -= stop.size();
    }
    return rates;
}

struct Mix {
    int links;
    int uses;
    bool weighted;
    bool capped;
    bool ties;
}; // of a random system

class Random {
  public:
    explicit Random(unsigned seed) : engine_(seed) {}
    int below(int n) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(n)); }
    double real() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

    std::vector<double> capacities(const Mix& mix) {
        std::vector<double> result;
        for (int i = 0; i < mix.links; ++i) result.push_back(mix.ties ? 1e9 * (1 + below(3)) : 1e9 * std::pow(100.0, real()));
        return result;
    }
    Spec bundle(const Mix& mix) {
        Spec spec;
        std::map<int, double> uses;
        const auto draw = [&] { return !mix.weighted ? 1 : mix.ties ? 1 + below(3) : std::pow(10.0, 4 * real() - 2); };
        for (int n = 1 + below(mix.uses); n > 0; --n) {
            const int link = below(mix.links);
            uses[link] = draw();
        }
        for (auto [link, weight] : uses) spec.uses.push_back({link, weight});
        if (mix.capped && below(2)) spec.cap = mix.ties ? 0.25e9 * (1 + below(8)) : 1e7 * std::pow(1000.0, real());
        return spec;
    }

  private:
    std::mt19937_64 engine_;
};

const Mix mixes[] = {{6, 3, false, false, true},  {6, 3, true, true, true},   {8, 4, true, true, false},  {30, 4, false, false, false},
                     {30, 4, false, true, true},  {40, 5, true, true, true},  {40, 6, true, true, false}, {3, 2, true, false, false},
                     {60, 3, false, true, false}, {200, 4, true, true, false}};

// A system that lives: bundles come, go and change, with the specification kept beside it.
struct Churn {
    std::vector<double> capacities;
    Sharing sharing;
    std::map<std::int32_t, Spec> present;

    explicit Churn(std::vector<double> c) : capacities(std::move(c)), sharing(capacities) {}

    void step(Random& random, const Mix& mix, int most) {
        const int choice = random.below(8);
        if (present.empty() || (choice < 4 && static_cast<int>(present.size()) < most)) {
            const Spec spec = random.bundle(mix);
            const auto id = sharing.add(spec.uses, spec.cap);
            ASSERT_TRUE(present.emplace(id, spec).second) << "an id in use was given out again";
            return;
        }
        auto chosen = std::next(present.begin(), random.below(static_cast<int>(present.size())));
        if (choice == 7) {
            chosen->second.cap = random.below(3) ? 1e7 * (1 + random.below(1000)) : unlimited;
            sharing.set_cap(chosen->first, chosen->second.cap);
        } else {
            sharing.remove(chosen->first);
            present.erase(chosen);
        }
    }
    std::vector<Spec> specs() const {
        std::vector<Spec> result;
        for (const auto& [id, spec] : present) result.push_back(spec);
        return result;
    }
};

TEST(Sharing, ExampleOfTheHeader) {
    const double capacities[] = {1, 1};
    Sharing sharing(capacities);
    const Sharing::Use on_a[] = {{0, 1}}, on_both[] = {{0, 1}, {1, 1}}, on_b_twice[] = {{1, 2}};
    const auto x = sharing.add(on_a, unlimited), y = sharing.add(on_both, unlimited), z = sharing.add(on_b_twice, unlimited);
    sharing.update();
    EXPECT_DOUBLE_EQ(sharing.rate(x), 2.0 / 3);
    EXPECT_DOUBLE_EQ(sharing.rate(y), 1.0 / 3);
    EXPECT_DOUBLE_EQ(sharing.rate(z), 1.0 / 3);
    EXPECT_DOUBLE_EQ(sharing.load(0), 1);
}

TEST(Sharing, UpdateNamesExactlyTheBundlesWhoseRateChanged) {
    const double capacities[] = {12, 12, 12};
    Sharing sharing(capacities);
    const Sharing::Use a[] = {{0, 1}}, ab[] = {{0, 1}, {1, 1}}, bc[] = {{1, 1}, {2, 1}}, c[] = {{2, 1}};
    const auto p = sharing.add(a, unlimited), q = sharing.add(ab, unlimited), s = sharing.add(bc, unlimited), t = sharing.add(c, unlimited);
    const auto changed = [&] {
        const auto ids = sharing.update();
        return std::vector<std::int32_t>(ids.begin(), ids.end());
    };
    EXPECT_EQ(changed(), (std::vector<std::int32_t>{p, q, s, t}));
    EXPECT_EQ(changed(), std::vector<std::int32_t>{});
    sharing.remove(p); // q stays at 6, held by B
    EXPECT_EQ(changed(), std::vector<std::int32_t>{});
    EXPECT_EQ(sharing.rate(q), 6);
    sharing.remove(s);
    EXPECT_EQ(changed(), (std::vector<std::int32_t>{q, t}));
    EXPECT_EQ(sharing.rate(q), 12);
    EXPECT_EQ(sharing.rate(t), 12);
    const auto again = sharing.add(bc, unlimited);
    EXPECT_EQ(again, s) << "the id last given back is used first";
    EXPECT_EQ(changed(), (std::vector<std::int32_t>{q, s, t}));
}

TEST(Sharing, RemovedBeforeTheUpdateIsNeverReported) {
    const double capacities[] = {10};
    Sharing sharing(capacities);
    const Sharing::Use use[] = {{0, 1}};
    const auto stays = sharing.add(use, 8);
    sharing.update();
    const auto goes = sharing.add(use, 8);
    sharing.remove(goes);
    EXPECT_TRUE(sharing.update().empty());
    EXPECT_EQ(sharing.rate(stays), 8);
}

TEST(Sharing, CapsAreMetToTheLastBit) {
    const double capacities[] = {25e9, 50e9};
    Sharing sharing(capacities);
    const Sharing::Use both[] = {{0, 1}, {1, 0.1}};
    const double cap = 12.3456789e9 / 7;
    const auto capped = sharing.add(both, cap), open = sharing.add(both, unlimited), nowhere = sharing.add({}, cap);
    const auto endless = sharing.add({}, unlimited);
    sharing.update();
    EXPECT_EQ(sharing.rate(capped), cap);
    EXPECT_EQ(sharing.rate(nowhere), cap);
    EXPECT_EQ(sharing.rate(endless), unlimited);
    EXPECT_NEAR(sharing.rate(open), 25e9 - cap, 1e-3);
    sharing.set_cap(open, 1e9);
    EXPECT_EQ(sharing.update().size(), 1u);
    EXPECT_EQ(sharing.rate(open), 1e9);
}

TEST(Sharing, FailedAndUnlimitedLinks) {
    const double capacities[] = {0, unlimited, 4};
    Sharing sharing(capacities);
    const Sharing::Use failed[] = {{0, 1}, {2, 1}}, free[] = {{1, 1}}, last[] = {{1, 1}, {2, 1}};
    const auto dead = sharing.add(failed, unlimited), endless = sharing.add(free, unlimited), alive = sharing.add(last, unlimited);
    sharing.update();
    EXPECT_EQ(sharing.rate(dead), 0);
    EXPECT_EQ(sharing.rate(endless), unlimited);
    EXPECT_EQ(sharing.rate(alive), 4);
}

TEST(Sharing, ALinkUsedTwiceCountsTwice) {
    const double capacities[] = {12};
    Sharing sharing(capacities);
    const Sharing::Use twice[] = {{0, 1}, {0, 2}}, once[] = {{0, 1}};
    const auto a = sharing.add(twice, 5);
    sharing.update();
    EXPECT_EQ(sharing.rate(a), 4); // at its cap each use would fit alone, together they do not
    const auto b = sharing.add(once, unlimited);
    sharing.update();
    EXPECT_EQ(sharing.rate(a), 3);
    EXPECT_EQ(sharing.rate(b), 3);
    sharing.remove(a);
    sharing.update();
    EXPECT_EQ(sharing.rate(b), 12);
}

TEST(Sharing, ScalesFarApart) {
    const double capacities[] = {1e13, 1e6, 25e9};
    Sharing sharing(capacities);
    const Sharing::Use wide[] = {{0, 131072}}, thin[] = {{0, 1}, {1, 3}}, spread[] = {{2, 1.0 / 1024}};
    const auto a = sharing.add(wide, unlimited), b = sharing.add(thin, unlimited), c = sharing.add(spread, unlimited);
    sharing.update();
    EXPECT_NEAR(sharing.rate(a) * 131072 / (1e13 - 1e6 / 3), 1, 1e-12);
    EXPECT_NEAR(sharing.rate(b) / (1e6 / 3), 1, 1e-12);
    EXPECT_NEAR(sharing.rate(c) / (25e9 * 1024), 1, 1e-10);
}

TEST(Sharing, AgreesWithPlainWaterFilling) {
    unsigned seed = 1;
    for (const Mix& mix : mixes) {
        for (int round = 0; round < 6; ++round) {
            Random random(seed++);
            Churn churn(random.capacities(mix));
            for (int step = 0; step < 120; ++step) {
                churn.step(random, mix, mix.links * 2);
                if (random.below(3)) continue;
                churn.sharing.update();
                const auto expected = water_fill(churn.capacities, churn.specs());
                std::size_t i = 0;
                for (const auto& [id, spec] : churn.present) {
                    if (std::isinf(expected[i]))
                        EXPECT_EQ(churn.sharing.rate(id), expected[i]);
                    else
                        EXPECT_NEAR(churn.sharing.rate(id), expected[i], 1e-9 * expected[i]) << "seed " << seed - 1 << " step " << step;
                    ++i;
                }
                if (testing::Test::HasFailure()) return;
            }
        }
    }
}

// Every bundle is at its cap, or crosses a full link on which no bundle has a higher rate; no link is overfull.
TEST(Sharing, MaxMinConditionsHold) {
    unsigned seed = 100;
    for (const Mix& mix : mixes) {
        Random random(seed++);
        Churn churn(random.capacities(mix));
        for (int step = 0; step < 400; ++step) {
            churn.step(random, mix, mix.links * 4);
            if (step % 20 != 19) continue;
            churn.sharing.update();
            std::vector<double> load(churn.capacities.size(), 0), highest(load);
            for (const auto& [id, spec] : churn.present)
                for (const auto& use : spec.uses) {
                    const auto l = static_cast<std::size_t>(use.link);
                    load[l] += use.weight * churn.sharing.rate(id);
                    highest[l] = std::max(highest[l], churn.sharing.rate(id));
                }
            for (std::size_t l = 0; l < load.size(); ++l) {
                ASSERT_LE(load[l], churn.capacities[l] * (1 + 1e-12));
                ASSERT_NEAR(churn.sharing.load(static_cast<std::int32_t>(l)), load[l], 1e-11 * churn.capacities[l]);
            }
            for (const auto& [id, spec] : churn.present) {
                const double rate = churn.sharing.rate(id);
                bool held = rate == spec.cap;
                ASSERT_LE(rate, spec.cap);
                for (const auto& use : spec.uses) {
                    const auto l = static_cast<std::size_t>(use.link);
                    held = held || (load[l] >= churn.capacities[l] * (1 - 1e-12) && highest[l] <= rate * (1 + 1e-12));
                }
                ASSERT_TRUE(held) << "bundle " << id << " at " << rate << " is held by nothing; seed " << seed - 1;
            }
        }
    }
}

// The rates of a system with a past are, bit for bit, those of one built at once in another order.
TEST(Sharing, HistoryCannotBeSeen) {
    unsigned seed = 1000;
    int compared = 0;
    for (const Mix& mix : mixes) {
        for (int round = 0; round < 4; ++round) {
            Random random(seed++);
            Churn churn(random.capacities(mix));
            for (int step = 0; step < 600; ++step) {
                churn.step(random, mix, mix.links * 3);
                if (random.below(4) == 0) churn.sharing.update();
                if (step % 40 != 39) continue;
                churn.sharing.update();
                std::vector<std::pair<std::int32_t, Spec>> order(churn.present.begin(), churn.present.end());
                for (int i = static_cast<int>(order.size()); i > 1; --i)
                    std::swap(order[static_cast<std::size_t>(i) - 1], order[random.below(i)]);
                Sharing fresh(churn.capacities);
                std::vector<std::int32_t> ids;
                for (auto& [id, spec] : order) {
                    std::reverse(spec.uses.begin(), spec.uses.end());
                    ids.push_back(fresh.add(spec.uses, spec.cap));
                }
                fresh.update();
                for (std::size_t i = 0; i < order.size(); ++i) {
                    ASSERT_EQ(fresh.rate(ids[i]), churn.sharing.rate(order[i].first)) << "seed " << seed - 1 << " step " << step;
                    ++compared;
                }
            }
        }
    }
    EXPECT_GT(compared, 10000);
}

class Recorded : public testing::TestWithParam<const char*> {};

TEST_P(Recorded, CompletionsMatchTheOutsideJudge) {
    const auto recorded = fluid::load_recorded(std::string(ORRERY_SOURCE_DIR "/tests/unit/engine/data/") + GetParam() + ".txt");
    ASSERT_GE(recorded.flows.size(), 1000u);
    const auto ends = fluid::completions(recorded.capacities, recorded.flows);
    double worst = 0;
    for (std::size_t i = 0; i < ends.size(); ++i) worst = std::max(worst, std::abs(ends[i] / recorded.ends[i] - 1));
    EXPECT_LT(worst, 1e-6);
}
INSTANTIATE_TEST_SUITE_P(FatTree, Recorded, testing::Values("burst_1k", "burst_10k", "poisson_1k", "poisson_10k"),
                         [](const auto& instance) { return std::string(instance.param); });

} // namespace
} // namespace orrery
