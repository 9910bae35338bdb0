// `simexec run --weights`, `--export-weights` and `--eval-every`, as a user meets them.
#include "started.hpp"

#include "process.hpp"
#include "tests/unit/simexec/lines.hpp"

#include <cmath>
#include <optional>

using namespace orrery::test;

namespace {

namespace fs = std::filesystem;

const std::string text = " --text " ORRERY_SOURCE_DIR "/LICENSE";
const std::string held = text + " --eval-every 2 --eval-fraction 0.2";
const std::string strategies[] = {
    "",
    " --set cluster.devices_per_node=2 --set strategy.tensor_parallel=2 --executor threads",
    " --set cluster.devices_per_node=2 --set model.layers=2 --set strategy.pipeline_parallel=2 --set strategy.schedule=1f1b --executor "
    "queues",
    " --set cluster.devices_per_node=4 --set strategy.framework=fsdp --executor queues",
};

// The loss of text that training does not see: the same whatever strategy and executor, and evaluation changes nothing of the run.
TEST(HeldText, LossIsThatOfOneRankAndTrainingGoesOnAsWithout) {
    const std::string two_layers = small_job + " --set model.layers=2 --steps 5";
    std::optional<double> first;
    for (const std::string& strategy : strategies)
        for (const char* more : {"", " --set training.precision=bf16 --set model.dropout=0.1 --fp64"}) {
            if (*more && !strategy.empty() && strategy.find("tensor") == std::string::npos) continue; // one of a kind is enough
            const fs::path log = scratch("held.csv");
            const nlohmann::json with = report_of("run" + two_layers + strategy + more + held + " --log " + log.string());
            EXPECT_EQ(lines_of(log)[0], "step,loss,gradient_norm,learning_rate,seconds,tokens_per_s,mfu,memory_bytes,eval_loss");
            for (std::size_t row : {1u, 2u, 5u}) {
                const std::string line = lines_of(log).at(row), last = line.substr(line.rfind(',') + 1);
                EXPECT_EQ(last.empty(), row == 1) << line; // of steps 2, 4 and the last
                if (row == 5) { EXPECT_NEAR(std::stod(last), with["eval_loss"], 1e-7); }
            }
            if (!*more) {
                if (!first) first = with["eval_loss"].get<double>();
                EXPECT_NEAR(with["eval_loss"], *first, 2e-6 * *first) << strategy;
            }
            // The text that is trained on is the same file without its end.
            const fs::path begin = scratch("begin.txt");
            std::ifstream in(ORRERY_SOURCE_DIR "/LICENSE");
            std::string all{std::istreambuf_iterator<char>(in), {}};
            std::ofstream(begin) << all.substr(0,
                                               all.size() - static_cast<std::size_t>(std::llround(static_cast<double>(all.size()) * 0.2)));
            const nlohmann::json without = report_of("run" + two_layers + strategy + more + " --text " + begin.string());
            EXPECT_EQ(with["last_loss"], without["last_loss"]) << strategy;
            EXPECT_FALSE(without.contains("eval_loss"));
        }
}

TEST(HeldText, IsShownAndRefusesWhatHasNoMeaning) {
    const ProgramOutcome shown = run_simexec("run" + small_job + held + " --steps 2 -v");
    EXPECT_NE(shown.err.find(", of held text "), std::string::npos) << shown.err;
    EXPECT_NE(shown.out.find("of held text"), std::string::npos) << shown.out;
    const fs::path log = scratch("held.jsonl");
    EXPECT_EQ(run_simexec("run" + small_job + held + " --steps 2 -q --log " + log.string()).code, 0);
    EXPECT_TRUE(nlohmann::json::parse(lines_of(log)[1]).contains("eval_loss"));
    EXPECT_FALSE(nlohmann::json::parse(lines_of(log)[0]).contains("eval_loss"));
    const ProgramOutcome little = run_simexec("run" + small_job + text + " --steps 2 --eval-every 1 --eval-fraction 0.0001");
    EXPECT_EQ(little.code, 1);
    EXPECT_NE(little.err.find("choose another share"), std::string::npos) << little.err;
    const ProgramOutcome workers =
        run_simexec("run" + small_job + held +
                    " --set cluster.devices_per_node=2 --set strategy.data_parallel=2 --set "
                    "strategy.synchronization.kind=local_sgd --set strategy.synchronization.inner_steps=2 --steps 2");
    EXPECT_EQ(workers.code, 1);
    EXPECT_NE(workers.err.find("workers have weights of their own"), std::string::npos) << workers.err;
}

// Rounds of workers end where they end: checkpoints too, and a resumed run is the undisturbed one.
TEST(Workers, GoOnFromCheckpoints) {
    const std::string two = small_job + " --set cluster.devices_per_node=2 --set strategy.data_parallel=2 --set training.learning_rate=";
    const std::string workers = "0.01 --set strategy.synchronization.inner_steps=4 --set strategy.synchronization.kind=";
    const std::string signs = R"(0.001 --set 'strategy.gradient_compression={"kind": "zero-one-adam", "local_steps": 4, "start_step": 4}')";
    for (const std::string& job :
         {two + workers + "diloco", two + workers + "streaming_diloco --set strategy.synchronization.fragments=2 --set model.layers=2",
          two + signs}) {
        const nlohmann::json whole = report_of("run" + job + " --steps 16");
        for (const std::string executor : {"serial", "threads"}) {
            const fs::path folder = scratch("workers");
            fs::remove_all(folder);
            const std::string kept = " --executor " + executor + " --checkpoint " + folder.string();
            report_of("run" + job + " --steps 8 --every 3" + kept);
            EXPECT_TRUE(fs::exists(folder / "step-00000004")) << "of step 3, behind its round";
            EXPECT_TRUE(fs::exists(folder / "step-00000008"));
            const nlohmann::json rest = report_of("run" + job + " --steps 16 --resume " + folder.string() + kept);
            EXPECT_EQ(rest["first_step"], 8);
            EXPECT_EQ(rest["last_loss"], whole["last_loss"]) << executor << job;
        }
    }
}

// Written under one strategy and read under others: the same loss of the same text; in processes of their own, too.
TEST(ExportedWeights, GoOnUnderAnyStrategy) {
    const std::string job = small_job + " --set model.layers=2 --set training.learning_rate=1e-9"; // what is evaluated is what was read
    const fs::path folder = scratch("exported"), runs = scratch("runs");
    const nlohmann::json trained = report_of("run" + small_job + " --set model.layers=2 --set training.learning_rate=0.01 --steps 12" +
                                             held + " --export-weights " + folder.string() + " --checkpoint " + runs.string());
    EXPECT_TRUE(fs::exists(folder / "config.json"));
    for (const std::string& strategy : strategies) {
        const nlohmann::json r = report_of("run" + job + strategy + held + " --steps 1 --weights " + folder.string());
        EXPECT_NEAR(r["eval_loss"], trained["eval_loss"].get<double>(), 1e-5) << strategy;
    }
    // A checkpoint becomes such files without another step.
    const fs::path converted = scratch("converted");
    const ProgramOutcome o = run_simexec("run" + small_job + " --set model.layers=2 --steps 12 --resume " + runs.string() +
                                         " --export-weights " + converted.string());
    EXPECT_EQ(o.code, 0) << o.err;
    const auto bytes = [](const fs::path& file) {
        std::ifstream in(file, std::ios::binary);
        return std::string{std::istreambuf_iterator<char>(in), {}};
    };
    EXPECT_EQ(bytes(converted / "model.safetensors"), bytes(folder / "model.safetensors"));
    if (!has_mpi()) GTEST_SKIP() << "no MPI";
    const fs::path by_two = scratch("by_two");
    Words words{"mpirun", "-n", "2", simexec_program, "run", ORRERY_SOURCE_DIR "/scenarios/tiny-gpt.json"};
    for (const char* field : {"model.layers=2", "model.hidden_size=16", "training.sequence_length=16", "training.global_batch_size=4",
                              "training.micro_batch_size=1", "cluster.devices_per_node=2", "strategy.framework=fsdp"})
        words.insert(words.end(), {"--set", field});
    words.insert(words.end(), {"--steps", "12", "--resume", runs.string(), "--export-weights", by_two.string(), "--executor", "mpi"});
    const Process p = start_process(words, scratch("mpi_out"));
    EXPECT_EQ(p.wait(60), 0) << p.text();
    EXPECT_EQ(bytes(by_two / "model.safetensors"), bytes(folder / "model.safetensors"));
}

// Adapters beside a base of 4 bits go out as a model without them, which has their loss but for its rounding to fp32.
TEST(ExportedWeights, OfAdaptersBesideFourBitsAreOneModel) {
    const std::string job = small_job + " --set model.layers=2";
    for (const std::string& strategy : strategies) {
        const fs::path folder = scratch("merged");
        const nlohmann::json trained = report_of("run" + job + strategy +
                                                 " --set training.learning_rate=0.05 --set model.trainable.lora.rank=2 "
                                                 "--set model.trainable.base_dtype=nf4 --steps 6" +
                                                 held + " --export-weights " + folder.string());
        const nlohmann::json merged =
            report_of("run" + job + " --set training.learning_rate=1e-9 --steps 1" + held + " --weights " + folder.string());
        EXPECT_NEAR(merged["eval_loss"], trained["eval_loss"].get<double>(), 1e-5) << strategy;
    }
    const ProgramOutcome read = run_simexec(
        "run" + job + " --set model.trainable.lora.rank=2 --set model.trainable.base_dtype=nf4 --weights " + scratch("merged").string());
    EXPECT_EQ(read.code, 1);
    EXPECT_NE(read.err.find("base_dtype = nf4"), std::string::npos) << read.err;
}

TEST(ExportedWeights, SayWhatDoesNotFit) {
    const fs::path folder = scratch("misfit");
    ASSERT_EQ(run_simexec("run" + small_job + " --steps 1 -q --export-weights " + folder.string()).code, 0);
    const ProgramOutcome other =
        run_simexec("run" + small_job + " --set model.layers=3 --set model.vocab_size=300 --weights " + folder.string());
    EXPECT_EQ(other.code, 1);
    for (const char* line :
         {"config.json: model.layers is 1 there and 3 in the scenario: set it to 1", "model.vocab_size is 256 there and 300"})
        EXPECT_NE(other.err.find(line), std::string::npos) << other.err;
    fs::remove(folder / "config.json");
    const ProgramOutcome bare =
        run_simexec("run" + small_job + " --set model.layers=3 --weights " + (folder / "model.safetensors").string());
    EXPECT_EQ(bare.code, 1);
    EXPECT_NE(bare.err.find("the weights have no transformer.h.1."), std::string::npos) << bare.err;
    fs::resize_file(folder / "model.safetensors", 5000);
    const ProgramOutcome cut = run_simexec("run" + small_job + " --weights " + folder.string());
    EXPECT_EQ(cut.code, 1);
    EXPECT_NE(cut.err.find("is cut off"), std::string::npos) << cut.err;
    const ProgramOutcome alien = run_simexec("run" + small_job + " --set model.position=alibi --weights " + folder.string());
    EXPECT_EQ(alien.code, 1);
    EXPECT_NE(alien.err.find("no model like this one"), std::string::npos) << alien.err;
    const fs::path nowhere = scratch("a_file");
    std::ofstream(nowhere) << "x";
    EXPECT_EQ(run_simexec("run" + small_job + " --steps 1 -q --export-weights " + (nowhere / "in").string()).code, 1);
}

} // namespace
