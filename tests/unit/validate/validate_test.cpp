// Are errors, their summaries and failures counted as the datasets' contract says?
#include "sim/validate/statistics.hpp"
#include "sim/validate/validate.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <unistd.h>

namespace orrery {
namespace {

TEST(Statistics, MeanAndMedian) {
    EXPECT_DOUBLE_EQ(mean(std::vector<double>{1, 2, 6}), 3);
    EXPECT_DOUBLE_EQ(median({5, 1, 3}), 3);
    EXPECT_DOUBLE_EQ(median({4, 1, 3, 2}), 2.5);
    EXPECT_DOUBLE_EQ(median({}), 0);
}

TEST(Statistics, KendallsTau) {
    const std::vector<double> up{1, 2, 3, 4}, down{4, 3, 2, 1}, one_swap{1, 3, 2, 4};
    EXPECT_DOUBLE_EQ(kendall_tau(up, up), 1);
    EXPECT_DOUBLE_EQ(kendall_tau(up, down), -1);
    EXPECT_NEAR(kendall_tau(up, one_swap), 4.0 / 6, 1e-12);
    // Tau-b with a tie: 5 pairs apart in x of 6, all concordant: 5 / sqrt(6 x 5).
    EXPECT_NEAR(kendall_tau(std::vector<double>{1, 1, 2, 3}, up), 5 / std::sqrt(30.0), 1e-12);
    EXPECT_DOUBLE_EQ(kendall_tau(std::vector<double>{1}, std::vector<double>{1}), 0);
}

// For two readings apart by d with noise s each, a perfect predictor's order holds with Phi(d / (s sqrt 2)): by simulation of new readings.
TEST(Statistics, AttainableTauIsWhatAPerfectPredictorReaches) {
    const std::vector<double> truth{1.0, 1.02, 1.05, 1.051, 1.3}, noise(truth.size(), 0.02);
    std::mt19937_64 random(7);
    std::normal_distribution<double> normal;
    double sum = 0;
    constexpr int trials = 20000;
    for (int t = 0; t < trials; ++t) {
        std::vector<double> read;
        for (double x : truth) read.push_back(x * std::exp(0.02 * normal(random)));
        sum += kendall_tau(truth, read);
    }
    EXPECT_NEAR(attainable_tau(truth, noise), sum / trials, 0.01);
    EXPECT_DOUBLE_EQ(attainable_tau(truth, std::vector<double>(truth.size(), 0)), 1) << "without noise all of it";
    EXPECT_LT(attainable_tau(truth, std::vector<double>(truth.size(), 1)), 0.1) << "drowned in noise nothing";
}

TEST(Statistics, TauBeyondNoiseLeavesOutWhatIsTooNear) {
    // Noise of 1 % each: pairs within 2 x 1.41 % are left out, which here is the one that is predicted the wrong way round.
    const std::vector<double> measured{1.0, 1.02, 1.1}, predicted{1.03, 1.0, 1.2}, noise(3, 0.01);
    EXPECT_NEAR(kendall_tau(predicted, measured), 1.0 / 3, 1e-12);
    const TauBeyondNoise beyond = tau_beyond_noise(predicted, measured, noise);
    EXPECT_EQ(beyond.pairs, 2);
    EXPECT_DOUBLE_EQ(beyond.tau, 1);
    EXPECT_EQ(tau_beyond_noise(predicted, measured, std::vector<double>(3, 0.5)).pairs, 0);
}

TEST(Statistics, ScatterPoolsRepeatedReadings) {
    const Scatter s = scatter_of_repeats({{100, 104}, {50}, {7, 7, 7}, {10, 10.2, 10.4}});
    EXPECT_EQ(s.degrees, 3) << "one reading says nothing, and one printed three times is one";
    const double first = std::pow(std::log(1.04) / 2, 2) * 2;
    const double a = std::log(10), b = std::log(10.2), c = std::log(10.4), m = (a + b + c) / 3;
    EXPECT_NEAR(s.relative, std::sqrt((first + (a - m) * (a - m) + (b - m) * (b - m) + (c - m) * (c - m)) / 3), 1e-12);
    EXPECT_EQ(scatter_of_repeats({{1}, {2}}).degrees, 0);
}

ValidationRow row(const std::string& name, double predicted, double measured) {
    ValidationRow r;
    r.dataset = "d";
    r.name = name;
    r.predicted.step_time_s = predicted;
    r.measured.step_time_s = measured;
    return r;
}

TEST(Validate, ErrorsAreSignedFractions) {
    EXPECT_NEAR(row("a", 1.1, 1).step_time_error().value(), 0.1, 1e-12);
    EXPECT_NEAR(row("a", 0.9, 1).step_time_error().value(), -0.1, 1e-12);
    EXPECT_FALSE(row("a", 0.9, 1).memory_error().has_value());
}

TEST(Validate, AFailedRowCountsAsAllWrong) {
    ValidationRow failed = row("b", 0, 2);
    failed.predicted = {};
    failed.failure = "not modelled";
    failed.measured.fits = true;
    const Validation v = summarise({row("a", 1.1, 1), failed});
    EXPECT_EQ(v.overall.step_time.n, 2);
    EXPECT_NEAR(v.overall.step_time.mean_abs_error, 0.55, 1e-12);
    EXPECT_NEAR(v.overall.step_time.bias, -0.45, 1e-12);
    EXPECT_EQ(v.overall.step_time.worst, "b");
    EXPECT_EQ(v.overall.failed, 1);
    EXPECT_EQ(v.overall.fits.n, 1);
    EXPECT_EQ(v.overall.fits.accuracy, 0);
    const auto j = nlohmann::json::parse(to_json(v));
    EXPECT_EQ(j.at("failed").at(0).at("reason"), "not modelled");
    EXPECT_EQ(j.at("rows").at(1).at("error").at("step_time"), -1.0);
}

TEST(Validate, ARefusedRowIsCountedApart) {
    ValidationRow refused = row("b", 0, 2);
    refused.predicted = {};
    refused.failure = "strategy.offload is not built";
    refused.refused = true;
    refused.measured.fits = true;
    const Validation v = summarise({row("a", 1.1, 1), refused});
    EXPECT_EQ(v.overall.step_time.n, 1);
    EXPECT_NEAR(v.overall.step_time.mean_abs_error, 0.1, 1e-12);
    EXPECT_EQ(v.overall.failed, 0);
    EXPECT_EQ(v.overall.refused, 1);
    EXPECT_EQ(v.overall.fits.n, 0);
    const auto j = nlohmann::json::parse(to_json(v));
    EXPECT_EQ(j.at("refused").at(0).at("reason"), "strategy.offload is not built");
    EXPECT_TRUE(j.at("failed").empty());
    EXPECT_NE(to_text(v).find("1 refused"), std::string::npos);
}

TEST(Validate, TheFirstPageSaysForWhomPredictionsAreGood) {
    std::vector<ValidationRow> rows;
    for (const auto& [stack, error] : {std::pair{Stack::modules, 1.04}, {Stack::zero, 0.6}})
        for (int i = 0; i < 40; ++i) {
            ValidationRow r = row("r" + std::to_string(i), error, 1);
            r.dataset = std::string(name(stack)) + (i % 2 ? "x_a" : "y_a");
            r.held_out = true;
            r.configuration.stack = stack;
            r.configuration.device = "rtx-4090";
            rows.push_back(r);
        }
    const std::string page = for_whom(summarise(rows));
    const std::size_t good = page.find("**Good"), fair = page.find("**Fair"), poor = page.find("**Poor");
    ASSERT_NE(good, std::string::npos) << page;
    ASSERT_NE(poor, std::string::npos) << page;
    EXPECT_GT(page.find("DeepSpeed's ZeRO"), poor) << page;
    EXPECT_LT(page.find("Megatron, NeMo and Transformer Engine, dense"), std::min(fair, poor)) << page;
}

TEST(Validate, ARunThatWasTimedFitted) {
    ValidationRow ran = row("ran", 1, 1), planned_too_big = ran, did_not = row("did not", 1, 1), unknown = row("unknown", 1, 1);
    ran.predicted.fits = true, ran.planned_share = 0.97;
    planned_too_big.predicted.fits = false, planned_too_big.planned_share = 1.03;
    did_not.predicted.fits = false, did_not.planned_share = 1.3, did_not.measured = {}, did_not.measured.fits = false;
    unknown.measured = {}, unknown.measured.memory_gb = 3;
    const Validation v = summarise({ran, planned_too_big, did_not, unknown});
    EXPECT_EQ(v.overall.fits.n, 1);
    EXPECT_EQ(v.overall.fits.accuracy, 1);
    EXPECT_EQ(v.overall.fits.known, 3);
    EXPECT_NEAR(v.overall.fits.accuracy_of_known, 2.0 / 3, 1e-12);
    const std::string text = to_markdown(v);
    for (const char* line : {"3 rows say whether they fit: 66.7 % are planned rightly", "| 95 to 100 % | 1 | 0 |",
                             "| 100 to 105 % | 1 | 0 |", "| more than 120 % | 0 | 1 |"})
        EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

// A row that is off by this, and rests on products and on kernels that move bytes.
ValidationRow lesson(const std::string& name, const char* device, double error, double memory_share = 0.3) {
    ValidationRow r = row(name, 1 + error, 1);
    r.configuration.device = device;
    r.configuration.stack = Stack::eager;
    r.shares[CostGroup::memory] = memory_share, r.shares[CostGroup::products] = 1 - memory_share;
    return r;
}

// Rows of two devices teach nothing about each other, as `simrun learn` keeps them apart.
TEST(Learning, EachDeviceTeachesItsOwnRows) {
    std::vector<ValidationRow> rows;
    for (int i = 0; i < 6; ++i)
        for (const auto& [device, error] : {std::pair{"h100", 0.3}, {"mi300x", -0.3}})
            rows.push_back(lesson(device + std::to_string(i), device, error, 0.2 + 0.05 * i));
    const std::vector<LearnedFrom> kinds = learned_from(summarise(rows));
    ASSERT_EQ(kinds.size(), 2u);
    for (const LearnedFrom& k : kinds) {
        EXPECT_NEAR(k.none, 0.3, 1e-9) << k.device;
        EXPECT_LT(k.one.error, 0.7 * k.none) << k.device;
        EXPECT_LT(k.three.error, 0.25 * k.none) << k.device;
        EXPECT_LE(k.all.error, k.three.error) << k.device;
        EXPECT_LT(k.three.width, k.one.width) << k.device;
        EXPECT_GT(k.three.covered, 0.9) << k.device;
    }
    const std::string text = to_markdown(summarise(rows));
    EXPECT_NE(text.find("| d, h100, eager | step time | 6 | +30.0 | 30.0 | "), std::string::npos) << text;
    EXPECT_NE(text.find("| all (2) | step time | 12 |"), std::string::npos) << text;
}

TEST(Learning, RowsThatAreOffAtRandomTeachNothingHoweverManyTheyAre) {
    std::vector<ValidationRow> rows;
    for (int i = 0; i < 40; ++i) rows.push_back(lesson(std::to_string(i), "h100", i % 2 == 0 ? 0.1 : -0.09));
    const LearnedFrom k = learned_from(summarise(rows)).at(0);
    EXPECT_NEAR(k.all.error, k.none, 0.01);
    EXPECT_LT(k.three.error, 1.25 * k.none);
}

// Published runs of sources that were new: what a few rows of them teach about the others, with the errors that they had at first.
TEST(Learning, ThreeStepsHalveTheErrorOfNewSourcesThatAreFarOff) {
    std::vector<ValidationRow> rows;
    for (const Experience& e : validated_rows()) {
        if (!e.unseen || !e.step_time || e.configuration.shares == CostShares{}) continue;
        ValidationRow r = row(e.name, 1 + *e.step_time, 1);
        r.dataset = e.dataset, r.configuration = e.configuration, r.shares = e.configuration.shares, r.held_out = true;
        rows.push_back(r);
    }
    double none[2] = {}, one[2] = {}, three[2] = {}, covered = 0;
    const std::vector<LearnedFrom> kinds = learned_from(summarise(rows), Figure::step_time, true);
    for (const LearnedFrom& k : kinds) {
        const bool far = k.none > 0.1;
        none[far] += k.none, one[far] += k.one.error, three[far] += k.three.error, covered += k.three.covered;
    }
    EXPECT_GE(kinds.size(), 20u);
    EXPECT_LT(one[1], 0.6 * none[1]);
    EXPECT_LT(three[1], 0.5 * none[1]);
    EXPECT_LT(one[0], 1.1 * none[0]) << "those that are near lose little by one row";
    EXPECT_LT(three[0], none[0]);
    EXPECT_NEAR(covered / static_cast<double>(kinds.size()), 0.8, 0.08);
}

TEST(Validate, JsonIsTheContract) {
    ValidationRow r = row("a", 1.1, 1);
    r.predicted.memory_gb = 50, r.measured.memory_gb = 40, r.predicted.fits = true;
    const auto j = nlohmann::json::parse(to_json(summarise({r})));
    const auto& one = j.at("rows").at(0);
    EXPECT_EQ(one.at("dataset"), "d");
    EXPECT_EQ(one.at("predicted").at("memory_gb"), 50.0);
    EXPECT_EQ(one.at("predicted").at("fits"), true);
    EXPECT_EQ(one.at("measured").at("step_time_s"), 1.0);
    EXPECT_NEAR(one.at("error").at("memory").get<double>(), 0.25, 1e-12);
    for (const char* key : {"n", "mean_abs_error", "median_abs_error", "bias", "kendall_tau"}) {
        EXPECT_TRUE(j.at("summary").at("step_time").contains(key)) << key;
        EXPECT_TRUE(j.at("summary").at("memory").contains(key)) << key;
    }
    EXPECT_TRUE(j.at("summary").at("fits").contains("accuracy"));
}

TEST(Validate, TextNamesTheWorstRowAndTheErrors) {
    const std::string text = to_text(summarise({row("good", 1.01, 1), row("bad one", 1.5, 1), row("other", 2.1, 2)}));
    EXPECT_NE(text.find("+50.0 % bad one"), std::string::npos) << text;
    EXPECT_NE(text.find("mean error"), std::string::npos);
    EXPECT_NE(text.find("rank corr."), std::string::npos);
}

TEST(Validate, MarkdownIsReadBackToFindWhatGotWorse) {
    const Validation then = summarise({row("a", 1.02, 1), row("b", 0.98, 1)});
    const std::string committed = to_markdown(then);
    EXPECT_NE(committed.find("| d | step time | 2 | 2.0 |"), std::string::npos) << committed;
    EXPECT_TRUE(regressions(then, committed).empty());
    EXPECT_TRUE(regressions(summarise({row("a", 1.025, 1), row("b", 0.98, 1)}), committed).empty()) << "less than a point";
    const auto worse = regressions(summarise({row("a", 1.06, 1), row("b", 0.98, 1)}), committed);
    ASSERT_EQ(worse.size(), 1u);
    EXPECT_EQ(worse[0], "d, step time: mean error 4.0 %, was 2.0 %");
    EXPECT_TRUE(regressions(summarise({row("a", 1.5, 1)}), committed).empty()) << "other rows: not the same figure";
}

TEST(Validate, DoubtfulRowsAreSummedUpApart) {
    ValidationRow odd = row("b", 2, 1);
    odd.doubtful = true;
    const Validation v = summarise({row("a", 1.02, 1), odd});
    EXPECT_EQ(v.overall.step_time.n, 2);
    EXPECT_EQ(v.overall.step_time.sound, 1);
    EXPECT_NEAR(v.overall.step_time.sound_mean_abs_error, 0.02, 1e-12);
}

// Rows of one scenario and readings of a row are repeats; what a row states comes first; with too few of either nothing is said.
TEST(Validate, NoiseComesFromRepeatsOrIsStated) {
    std::vector<ValidationRow> rows{row("a", 1, 1), row("a again", 1, 1.04), row("b", 2, 2), row("c", 3, 3)};
    for (ValidationRow& r : rows) r.scenario_json = r.name.substr(0, 1);
    const auto noise = [&] { return noise_of({&rows[0], &rows[1], &rows[2], &rows[3]}); };
    EXPECT_FALSE(noise().has_value()) << "one degree of freedom";
    rows[2].step_time_readings_s = {1.98, 2.0, 2.02};
    ASSERT_TRUE(noise().has_value());
    const double pooled = noise()->at(0);
    EXPECT_NEAR(pooled, std::sqrt((std::pow(std::log(1.04), 2) / 2 + 2 * 1e-4) / 3), 1e-4);
    rows[3].step_time_noise = 0.1;
    EXPECT_EQ(noise()->at(3), 0.1);
    EXPECT_EQ(noise()->at(1), pooled);
}

TEST(Validate, TauIsGivenWithWhatTheNoiseLeavesOfIt) {
    std::vector<ValidationRow> rows{row("a", 1.02, 1), row("b", 1.01, 1.005), row("c", 2, 2), row("d", 9, 1.5)};
    for (ValidationRow& r : rows) r.step_time_noise = 0.02;
    rows[3].doubtful = true;
    const ErrorSummary s = summarise(rows).by_dataset.at(0).step_time;
    EXPECT_NEAR(s.kendall_tau, 1.0 / 3, 1e-12);
    EXPECT_NEAR(s.sound_kendall_tau, 1.0 / 3, 1e-12);
    ASSERT_TRUE(s.noisy.has_value());
    EXPECT_EQ(s.noisy->pairs_beyond_noise, 2) << "a and b lie within the noise, d is doubtful";
    EXPECT_EQ(s.noisy->tau_beyond_noise, 1);
    EXPECT_NEAR(s.noisy->attainable_tau, (2 + std::erf(std::log(1.005) / 0.04)) / 3, 1e-9);
    const std::string text = to_markdown(summarise(rows));
    EXPECT_NE(text.find("| 0.33 | 0.33 | 0.71 | 1.00 | +500.0 d |"), std::string::npos) << text;
    EXPECT_EQ(nlohmann::json::parse(to_json(summarise(rows)))
                  .at("datasets")
                  .at("d")
                  .at("step_time")
                  .at("without_doubtful")
                  .at("pairs_beyond_noise"),
              2);
    rows[0].step_time_noise.reset();
    EXPECT_FALSE(summarise(rows).by_dataset.at(0).step_time.noisy.has_value()) << "of one row nothing is known";
}

TEST(Validate, PageHoldsEveryRowAndNoScript) {
    ValidationRow r = row("tp8 <pp2> & more", 1.1, 1);
    r.breakdown_s[0] = 0.8, r.breakdown_s[Category::bubble] = 0.3;
    const std::string page = to_html(summarise({r, row("other", 3, 2)}));
    EXPECT_NE(page.find("tp8 &lt;pp2&gt; &amp; more"), std::string::npos);
    EXPECT_NE(page.find("compute 73 %, bubble 27 %"), std::string::npos);
    std::size_t circles = 0;
    for (std::size_t at = page.find("<circle"); at != std::string::npos; at = page.find("<circle", at + 1)) ++circles;
    EXPECT_EQ(circles, 2u);
    EXPECT_EQ(page.find("<script"), std::string::npos);
}

struct TemporaryFile {
    std::string path = std::filesystem::temp_directory_path() / ("orrery-validate-" + std::to_string(getpid()) + ".json");
    explicit TemporaryFile(const std::string& text) { std::ofstream(path) << text; }
    ~TemporaryFile() { std::remove(path.c_str()); }
};

constexpr const char* dataset = R"({"name": "d", "source": "s", "note": "peaks by nvidia-smi", "rows": [
  {"name": "runs", "scenario": {"model": {"layers": 2, "hidden_size": 512, "attention_heads": 8, "vocab_size": 1000}, "cluster": {"preset": "dgx-a100-80gb"},
     "training": {"global_batch_size": 16, "micro_batch_size": 1, "sequence_length": 256}}, "measured": {"step_time_s": 0.01, "memory_gb": 2, "fits": true, "step_time_noise": 0.03, "step_time_readings_s": [0.01, 0.011]}},
  {"name": "does not", "scenario": {"model": {"layers": 2, "hidden_size": 512, "attention_heads": 7, "vocab_size": 1000}, "cluster": {"preset": "no-such"},
     "training": {"global_batch_size": 16, "micro_batch_size": 1, "sequence_length": 256}}, "measured": {"step_time_s": 0.01}, "memory_measure": "reserved"},
  {"name": "no scenario"}], "step_time_noise": 0.05})";

TEST(Validate, PredictsRowsAndKeepsTheReasonOfThoseThatFail) {
    const TemporaryFile file(dataset);
    const DatasetResult set = load_dataset(file.path);
    ASSERT_EQ(set.rows.size(), 2u);
    EXPECT_FALSE(set.other_table);
    ASSERT_EQ(set.problems.size(), 1u);
    EXPECT_NE(set.problems[0].find("rows[2] (no scenario)"), std::string::npos) << set.problems[0];
    EXPECT_EQ(set.rows[0].memory_measure, MemoryMeasure::device);
    EXPECT_EQ(set.rows[1].memory_measure, MemoryMeasure::reserved);
    EXPECT_EQ(set.rows[0].step_time_noise, 0.03);
    EXPECT_EQ(set.rows[0].step_time_readings_s, (std::vector<double>{0.01, 0.011}));
    EXPECT_EQ(set.rows[1].step_time_noise, 0.05) << "its dataset's";
    std::size_t last = 0;
    const Validation one = validate(set.rows, 1), two = validate(set.rows, 2, [&](std::size_t done, std::size_t) { last = done; });
    EXPECT_EQ(last, 2u);
    EXPECT_EQ(to_json(one), to_json(two)) << "the number of threads does not show";
    EXPECT_GT(one.rows[0].predicted.step_time_s.value(), 0);
    EXPECT_TRUE(one.rows[0].predicted.fits.value());
    EXPECT_TRUE(one.rows[0].failure.empty()) << one.rows[0].failure;
    EXPECT_NE(one.rows[1].failure.find("no-such"), std::string::npos) << one.rows[1].failure;
}

// Three strategies of one job and a row of another: two pairs ask who is faster, one is a tie within the noise of measurements.
TEST(Validate, RanksPairsOfOneJob) {
    const auto row = [](const char* name, const char* job, double measured, double predicted) {
        ValidationRow r;
        r.dataset = "d";
        r.name = name;
        r.job = job;
        r.measured.step_time_s = measured;
        r.predicted.step_time_s = predicted;
        return r;
    };
    const Validation v =
        summarise({row("a", "j", 1.00, 0.9), row("b", "j", 1.01, 0.8), row("c", "j", 1.20, 0.85), row("d", "k", 3.00, 1.0)});
    EXPECT_EQ(v.overall.pairs.n, 2);
    EXPECT_EQ(v.overall.pairs.right, 1); // b before c; a is predicted slower than c
    EXPECT_EQ(v.overall.pairs.ties, 1);
    EXPECT_NE(to_markdown(v).find("| d | 2 | 50.0 | 1 |"), std::string::npos);
}

TEST(Validate, TellsAFileThatIsNoDataset) {
    const TemporaryFile file("{\"rows\": 3}");
    EXPECT_FALSE(load_dataset(file.path).problems.empty());
    EXPECT_FALSE(load_dataset("/no/such/file.json").problems.empty());
    const TemporaryFile other("{\"rows\": [{\"layer\": 3}]}");
    EXPECT_TRUE(load_dataset(other.path).other_table);
    EXPECT_TRUE(load_dataset(other.path).problems.empty());
}

TEST(Validate, SaysWhatOfARowItCannotCompare) {
    const auto problem_of = [](const std::string& row) {
        const TemporaryFile file("{\"rows\": [{\"name\": \"sound\", \"scenario\": {}}, " + row + "]}");
        const DatasetResult set = load_dataset(file.path);
        return set.problems.size() == 1 ? set.problems[0] : std::string("none or many");
    };
    EXPECT_NE(problem_of(R"({"name": "mine", "scenario": {}, "measured": {"tokens_per_s": 3}})").find("\"tokens_per_s\" is no figure"),
              std::string::npos);
    EXPECT_NE(problem_of(R"({"name": "mine", "scenario": "m70.json"})").find("rows[1] (mine): its \"scenario\" must be the object itself"),
              std::string::npos);
}

TEST(Validate, ReadingsAloneGiveTheirMedian) {
    const TemporaryFile file(R"({"rows": [{"name": "r", "scenario": {}, "measured": {"step_time_readings_s": [3.0, 1.0, 2.0]}}]})");
    const DatasetResult set = load_dataset(file.path);
    ASSERT_EQ(set.rows.size(), 1u);
    EXPECT_EQ(set.rows[0].measured.step_time_s, 2.0);
}

// Rows that no constant was fitted to are summed up apart, and a run whose memory a scenario cannot say answers nothing about fitting.
TEST(Validate, SumsUpWhatNothingWasFittedTo) {
    const TemporaryFile file(
        R"({"name": "new", "held_out": true, "rows": [{"name": "r", "scenario": {}, "measured": {"step_time_s": 2}, "not_comparable": ["fits"]}]})");
    std::vector<ValidationRow> rows = load_dataset(file.path).rows;
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_FALSE(rows[0].fitted().has_value());
    rows[0].predicted.step_time_s = 2.2;
    ValidationRow other;
    other.dataset = "old";
    other.measured.step_time_s = 1;
    other.predicted.step_time_s = 1.5;
    rows.push_back(other);
    const Validation v = summarise(rows);
    EXPECT_NEAR(v.held_out.step_time.mean_abs_error, 0.1, 1e-9);
    EXPECT_NEAR(v.fitted.step_time.mean_abs_error, 0.5, 1e-9);
    EXPECT_NE(to_markdown(v).find("| datasets fitted to nothing | step time | 1 | 10.0 |"), std::string::npos) << to_markdown(v);
}

TEST(Validate, EveryDatasetOfTheProjectIsReadWhole) {
    int rows = 0, sets = 0;
    for (const auto& entry : std::filesystem::directory_iterator(std::string(ORRERY_SOURCE_DIR) + "/scenarios/validation")) {
        if (entry.path().extension() != ".json" || entry.path().stem() == "layer_times") continue;
        const DatasetResult set = load_dataset(entry.path().string());
        EXPECT_TRUE(set.problems.empty()) << entry.path() << ": " << (set.problems.empty() ? "" : set.problems.front());
        for (const ValidationRow& r : set.rows) EXPECT_FALSE(r.name.empty() || r.source.empty()) << entry.path();
        rows += static_cast<int>(set.rows.size());
        ++sets;
    }
    EXPECT_GE(sets, 28);
    EXPECT_GE(rows, 602);
}

} // namespace
} // namespace orrery
