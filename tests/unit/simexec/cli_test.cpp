// The program as a user meets it: exit codes, reports, stopping and going on.
#include "process.hpp"
#include "started.hpp"
#include "tests/unit/simexec/lines.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sched.h>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

namespace fs = std::filesystem;

using namespace orrery::test;
const std::string& program = simexec_program;
const std::string& small = small_job;

ProgramOutcome run(const std::string& arguments) { return run_simexec(arguments); }
nlohmann::json report(const std::string& arguments) { return report_of(arguments); }

TEST(Simexec, TrainsOnText) {
    const nlohmann::json r = report("run" + small + " --steps 12 --set training.learning_rate=0.01 --text " ORRERY_SOURCE_DIR "/LICENSE");
    EXPECT_EQ(r["steps"], 12);
    EXPECT_LT(r["last_loss"], r["first_loss"].get<double>() - 0.3);
    EXPECT_EQ(r["memory"][0]["peak_bytes"], r["memory"][0]["predicted_bytes"]);
}

// A share of the peak of all ranks' devices: of two, half of what it would be of one.
TEST(Simexec, SaysWhatTheShareOfThePeakIsOf) {
    EXPECT_TRUE(std::regex_search(run("run" + small + " --steps 2").out, std::regex("MFU +[0-9.]+ % of one cpu\n")));
    const ProgramOutcome two = run("run" + small + " --steps 2 --set strategy.tensor_parallel=2 --set cluster.devices_per_node=2");
    EXPECT_TRUE(std::regex_search(two.out, std::regex("MFU +[0-9.]+ % of 2 x cpu\n"))) << two.out;
}

TEST(Simexec, AgreesUnderAnotherStrategy) {
    for (const std::string executor : {"serial", "queues"}) {
        const ProgramOutcome o =
            run("agree" + small + " --set strategy.tensor_parallel=2 --set cluster.devices_per_node=2 --steps 2 --executor " + executor);
        EXPECT_EQ(o.code, 0) << o.out << o.err;
        EXPECT_NE(o.out.find("as predicted, to the byte"), std::string::npos) << o.out;
    }
}

TEST(Simexec, SaysWhatIsWrong) {
    const ProgramOutcome none = run("run no-such-file.json");
    EXPECT_EQ(none.code, 1);
    EXPECT_NE(none.err.find("no-such-file.json"), std::string::npos);
    const ProgramOutcome precise = run("run" + small + " --set strategy.optimizer_sync=post-validation --set strategy.schedule=zb-h1");
    EXPECT_EQ(precise.code, 1) << precise.out;
    const fs::path brief = scratch("brief.txt");
    std::ofstream(brief) << "too short";
    const ProgramOutcome text = run("run" + small + " --text " + brief.string());
    EXPECT_EQ(text.code, 1);
    EXPECT_NE(text.err.find("shorter than a sequence"), std::string::npos) << text.err;
}

TEST(Simexec, SaysWhichCommandMissesWhat) {
    const ProgramOutcome misspelt = run("run" + small + " --step 3");
    EXPECT_EQ(misspelt.code, 1);
    EXPECT_NE(misspelt.err.find("simexec run: error:"), std::string::npos) << misspelt.err;
    EXPECT_NE(misspelt.err.find("did you mean --steps?"), std::string::npos) << misspelt.err;
    const ProgramOutcome help = run("replay --help");
    EXPECT_EQ(help.code, 0);
    EXPECT_NE(help.out.find("simexec replay large.json"), std::string::npos) << help.out;
    EXPECT_EQ(help.out.find("simexec calibrate"), std::string::npos) << "examples of another command";
}

// What can be read: no name of a type or number of an enumeration of the program's own.
TEST(Simexec, HelpIsPlainText) {
    for (const char* command : {"", "run ", "agree ", "check ", "replay ", "calibrate ", "doctor "}) {
        const ProgramOutcome help = run(std::string(command) + "--help");
        ASSERT_EQ(help.code, 0) << command;
        for (const char* no : {"->", "{,", "ENUM", "FLOAT:", "INT:"}) EXPECT_EQ(help.out.find(no), std::string::npos) << command << no;
        for (const unsigned char c : help.out) ASSERT_TRUE(c == '\n' || (c >= ' ' && c < 127)) << command << int{c};
    }
}

// Each way to fail has its exit code and its words, whatever executor.
TEST(Simexec, FailsWithACode) {
    const std::string two = small + " --set cluster.devices_per_node=2 --set strategy.data_parallel=2 --steps 100000";
    for (const std::string executor : {" --executor serial", " --executor threads", " --executor queues"}) {
        const ProgramOutcome nan = run("run" + two + executor + " --set training.learning_rate=1e30");
        EXPECT_EQ(nan.code, 4) << nan.err;
        EXPECT_NE(nan.err.find("is no number"), std::string::npos) << nan.err;
        EXPECT_NE(nan.err.find(": rank "), std::string::npos) << nan.err; // by its op
        const ProgramOutcome memory = run("run" + two + executor + " --memory 0.0002");
        EXPECT_EQ(memory.code, 2) << memory.err;
        EXPECT_NE(memory.err.find("are in use; alive are"), std::string::npos) << memory.err;
        const fs::path folder = scratch("full");
        const int status = std::system(("trap '' XFSZ; ulimit -f 16; timeout 20 " + program + " run" + two + executor +
                                        " -q --every 2 --checkpoint " + folder.string() + " 2> " + scratch("err").string())
                                           .c_str());
        EXPECT_EQ(WEXITSTATUS(status), 7);
        EXPECT_TRUE(fs::is_empty(folder));
    }
}

// The record of a step that fails is written.
TEST(Simexec, FailureLeavesATrace) {
    const fs::path trace = scratch("failed.trace");
    fs::remove(trace);
    EXPECT_EQ(run("run" + small + " --steps 100000 --set training.learning_rate=1e30 --trace " + trace.string()).code, 4);
    EXPECT_GT(fs::file_size(trace), 1000u);
}

TEST(Simexec, CheckSetsMemoryEqual) {
    const ProgramOutcome o = run("check" + small + " --steps 1 --json");
    EXPECT_EQ(o.code, 0) << o.err;
    const nlohmann::json c = nlohmann::json::parse(o.out, nullptr, false);
    ASSERT_FALSE(c.is_discarded());
    EXPECT_NE(o.out.find("peak"), std::string::npos);
}

TEST(Simexec, ChecksSeveralInATable) {
    const std::string two = " " ORRERY_SOURCE_DIR "/scenarios/tiny-gpt.json";
    const ProgramOutcome o = run("check" + small + two + " --steps 1 --json");
    ASSERT_EQ(o.code, 0) << o.err;
    const nlohmann::json c = nlohmann::json::parse(o.out, nullptr, false);
    ASSERT_EQ(c["scenarios"].size(), 2u);
    for (const auto& s : c["scenarios"]) {
        EXPECT_TRUE(s["memory_as_predicted"].get<bool>()) << s;
        EXPECT_GT(s["compute_measured_s"], 0.0);
    }
    EXPECT_GE(c["median_compute_error"], 0.0);
}

// Each executor runs the same ops, and takes the plan's memory; those that run ranks beside each other say so.
TEST(Simexec, ChecksOnEachExecutor) {
    const std::string two = small + " --set cluster.devices_per_node=2 --set strategy.data_parallel=2 --steps 2 --worst 100000";
    std::size_t ops = 0;
    for (const std::string executor : {"serial", "threads", "queues"}) {
        const ProgramOutcome o = run("check" + two + " --json --executor " + executor);
        ASSERT_EQ(o.code, 0) << o.err;
        const nlohmann::json c = nlohmann::json::parse(o.out, nullptr, false);
        ASSERT_FALSE(c.is_discarded());
        const std::string source = c["b"]["source"];
        EXPECT_EQ(source.find("serially") != std::string::npos, executor == "serial") << source;
        EXPECT_EQ(source.find(executor + " executor, ranks beside each other") != std::string::npos, executor != "serial") << source;
        EXPECT_EQ(c["b"]["ranks"], 2);
        EXPECT_GT(c["b"]["step_time_s"], 0.0);
        ASSERT_GT(c["memory"].size(), 0u) << c;
        for (const auto& m : c["memory"]) EXPECT_EQ(m["a_bytes"], m["b_bytes"]) << executor << m;
        EXPECT_GT(c["op_ratio"]["ops"], 10);
        if (ops == 0) ops = c["op_ratio"]["ops"];
        EXPECT_EQ(c["op_ratio"]["ops"], ops);
    }
    const ProgramOutcome gpus = run("check" + two + " --device cuda --executor threads");
    EXPECT_EQ(gpus.code, 1);
    EXPECT_NE(gpus.err.find("--device cuda checks with --executor queues"), std::string::npos) << gpus.err;
}

// Ranks beside each other on fewer cores wait for one: the prediction has a core for each, and the comparison says so.
TEST(Simexec, ChecksSayWhoSharesCores) {
    cpu_set_t before, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int c = 0; c < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++c)
        if (CPU_ISSET(c, &before)) CPU_SET(c, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    const std::string two = small + " --set cluster.devices_per_node=2 --set strategy.data_parallel=2 --steps 1 --executor ";
    for (const std::string executor : {"serial", "threads", "queues"}) {
        const ProgramOutcome o = run("check" + two + executor);
        EXPECT_EQ(o.code, 0) << o.err;
        EXPECT_EQ(o.out.find("2 ranks share 1 core") != std::string::npos, executor != "serial") << o.out;
    }
    sched_setaffinity(0, sizeof before, &before);
}

TEST(Simexec, ReplaysARank) {
    const std::string many = small + " --set cluster.devices_per_node=8 --set strategy.pipeline_parallel=2 --set model.layers=2 --set "
                                     "strategy.schedule=1f1b --set training.global_batch_size=16 --steps 1";
    const ProgramOutcome o = run("replay" + many + " --rank 5 --json");
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_NE(o.out.find("rank 5 of 8 replayed"), std::string::npos) << o.out;
    const ProgramOutcome none = run("replay" + many + " --rank 8");
    EXPECT_EQ(none.code, 1);
    EXPECT_NE(none.err.find("ranks 0 to 7"), std::string::npos) << none.err;
}

TEST(Simexec, TraceIsComparable) {
    const fs::path trace = scratch("step.trace");
    EXPECT_EQ(run("run" + small + " --steps 2 -q --trace " + trace.string()).code, 0);
    EXPECT_GT(fs::file_size(trace), 1000u);
}

// Routers choose the same whichever executor runs them.
TEST(Simexec, RecordsRouting) {
    const std::string two = small +
                            " --set cluster.devices_per_node=2 --set strategy.expert_parallel=2 --set model.moe.experts=4 --set "
                            "model.moe.top_k=2 --set model.moe.expert_ffn_size=16 --set model.moe.imbalance=[1,1e-6,0,0] --steps 2 -q";
    std::vector<std::string> said;
    for (const std::string executor : {"serial", "threads", "queues"}) {
        const fs::path file = scratch("routing_" + executor + ".json");
        const ProgramOutcome o = run("run" + two + " --executor " + executor + " --routing " + file.string());
        ASSERT_EQ(o.code, 0) << o.err;
        std::ifstream in(file);
        said.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
        EXPECT_EQ(said.back(), said.front()) << executor;
    }
    const nlohmann::json loads = nlohmann::json::parse(said[0]);
    ASSERT_EQ(loads.size(), 1u); // layers
    std::int64_t tokens = 0;
    for (const auto& n : loads[0]) tokens += n.get<std::int64_t>();
    EXPECT_EQ(tokens, 2 * 4 * 16 * 2); // steps, sequences, their length, experts each
}

// A row or a line of JSON a step; the learning rate warms up and goes down, and the loss is the report's.
TEST(Simexec, LogsEveryStep) {
    const fs::path csv = scratch("log.csv"), json = scratch("log.jsonl");
    const std::string how =
        "run" + small + " --steps 8 --set training.learning_rate=0.01 --set training.warmup_steps=2 --decay linear --least-rate 0.1";
    const nlohmann::json r = report(how + " --log " + csv.string());
    const auto rows = lines_of(csv);
    ASSERT_EQ(rows.size(), 9u);
    EXPECT_EQ(rows[0], "step,loss,gradient_norm,learning_rate,seconds,tokens_per_s,mfu,memory_bytes");
    report(how + " --log " + json.string());
    const auto lines = lines_of(json);
    ASSERT_EQ(lines.size(), 8u);
    std::vector<double> rates;
    for (const std::string& line : lines) {
        const nlohmann::json step = nlohmann::json::parse(line, nullptr, false);
        ASSERT_FALSE(step.is_discarded()) << line;
        rates.push_back(step["learning_rate"]);
        EXPECT_GT(step["gradient_norm"], 0);
        EXPECT_EQ(step["memory_bytes"], r["memory"][0]["peak_bytes"]);
    }
    EXPECT_EQ(nlohmann::json::parse(lines.back())["loss"], r["last_loss"]);
    EXPECT_NEAR(rates[0], 0.005, 1e-12); // to the whole rate in two steps, and from there to a tenth of it in seven: behind the last
    for (int i = 1; i < 8; ++i) EXPECT_NEAR(rates[i], 0.01 * (0.1 + 0.9 * (8 - i) / 7), 1e-12) << "step " << i;
}

// Half a cosine: half of it is gone in the middle.
TEST(Simexec, DecaysAsACosine) {
    const fs::path json = scratch("cosine.jsonl");
    report("run" + small +
           " --steps 5 --set training.learning_rate=0.02 --set training.warmup_steps=0 --decay cosine --decay-steps 4 --log " +
           json.string());
    const auto lines = lines_of(json);
    ASSERT_EQ(lines.size(), 5u);
    EXPECT_NEAR(nlohmann::json::parse(lines[0])["learning_rate"], 0.02, 1e-12);
    EXPECT_NEAR(nlohmann::json::parse(lines[2])["learning_rate"], 0.01, 1e-12);
    EXPECT_GT(nlohmann::json::parse(lines[3])["learning_rate"], 0) << "the last step of the decay trains";
    EXPECT_NEAR(nlohmann::json::parse(lines[4])["learning_rate"], 0, 1e-12); // and stays there
}

// A run that goes on from before the log's last rows makes these again: each step has one row.
TEST(Simexec, ALogHasEachStepOnce) {
    for (const char* name : {"again.csv", "again.jsonl"}) {
        const fs::path folder = scratch("again"), log = scratch(name);
        fs::remove_all(folder);
        fs::remove(log);
        report("run" + small + " --steps 2 --checkpoint " + folder.string());
        report("run" + small + " --steps 5 --log " + log.string());
        std::ofstream(log, std::ios::app) << "5,4.1"; // of a run that was killed as it wrote
        report("run" + small + " --steps 6 --resume " + folder.string() + " --log " + log.string());
        const auto rows = lines_of(log);
        const std::size_t head = fs::path(name).extension() == ".csv";
        ASSERT_EQ(rows.size(), 6 + head) << name;
        for (std::size_t i = 0; i < 6; ++i)
            EXPECT_TRUE(rows[i + head].starts_with((head > 0 ? "" : R"({"step":)") + std::to_string(i) + ",")) << rows[i + head];
    }
}

// Two tokens a step have gradients that overflow fp16 at the first scale: the step is left out, its norm is nobody's, the warm-up does not
// count it, and a run that goes on from a checkpoint goes on with the scale and the counts.
TEST(Simexec, LeavesOutAStepThatOverflows) {
    const fs::path folder = scratch("overflow"), log = scratch("overflow.jsonl");
    fs::remove_all(folder);
    const std::string job = "run" + small +
                            " --set training.precision=fp16 --set training.gradient_clipping=1 --set training.sequence_length=2 --set "
                            "training.global_batch_size=1 --set training.learning_rate=0.01 --set training.warmup_steps=4 --steps ";
    const nlohmann::json whole = report(job + "6 --log " + log.string());
    ASSERT_EQ(whole["steps_left_out"], 1);
    EXPECT_EQ(whole["loss_scale"], 32768);
    const auto lines = lines_of(log);
    ASSERT_EQ(lines.size(), 6u);
    EXPECT_FALSE(nlohmann::json::parse(lines[0]).contains("gradient_norm"));
    for (int i = 1; i < 6; ++i)
        EXPECT_NEAR(nlohmann::json::parse(lines[i])["learning_rate"], 0.01 * std::min(i, 4) / 4, 1e-12) << "step " << i;
    report(job + "3 --checkpoint " + folder.string());
    const nlohmann::json rest = report(job + "6 --resume " + folder.string());
    for (const char* what : {"last_loss", "loss_scale", "steps_left_out"}) EXPECT_EQ(rest[what], whole[what]) << what;
}

// Bytes, and the same as ids of two or four bytes, under all headers, train to the same loss.
TEST(Simexec, TrainsOnTokenFiles) {
    std::string bytes, words, longs;
    for (int i = 0; i < 3000; ++i) {
        const char c = static_cast<char>((i * 7 + i / 13) % 100);
        bytes += c;
        words += {c, 0};
        longs += {c, 0, 0, 0};
    }
    const auto put = [](const std::string& name, const std::string& text) {
        std::ofstream(scratch(name), std::ios::binary) << text;
        return scratch(name).string();
    };
    const auto loss = [](const std::string& more) {
        return report("run" + small + " --steps 2 --text " + more)["last_loss"].get<double>();
    };
    const double expected = loss(put("tokens.txt", bytes));
    EXPECT_EQ(loss(put("nano.bin", words)), expected);
    EXPECT_EQ(loss(put("long.tok", longs) + " --token-type uint32"), expected);
    put("megatron.idx", std::string("MMIDIDX\0\0\1\0\0\0\0\0\0\0\4", 18));
    EXPECT_EQ(loss(put("megatron.bin", longs)), expected);
    std::string header(1024, '\0');
    const std::int32_t magic = 20240520;
    std::memcpy(header.data(), &magic, 4);
    EXPECT_EQ(loss(put("llmc.bin", header + words)), expected);
    const auto said = [](const std::string& more) { return run("run" + small + " --steps 1 --text " + more).out; };
    const std::string guess = said(scratch("nano.bin").string());
    EXPECT_NE(guess.find("tokens of 2 bytes, guessed from its name in .bin"), std::string::npos) << guess;
    EXPECT_NE(guess.find("--token-type sets another"), std::string::npos) << guess;
    EXPECT_NE(said(scratch("tokens.txt").string()).find("tokens of 1 byte, guessed, for its name does not end"), std::string::npos);
    EXPECT_NE(said(scratch("megatron.bin").string()).find("tokens of 4 bytes, as the .idx file beside it says"), std::string::npos);
    EXPECT_NE(said(scratch("long.tok").string() + " --token-type uint32").find("tokens of 4 bytes, as --token-type says"),
              std::string::npos);
    const ProgramOutcome odd = run("run" + small + " --text " + put("odd.bin", words + "x"));
    EXPECT_EQ(odd.code, 1);
    EXPECT_NE(odd.err.find("no whole number of tokens"), std::string::npos) << odd.err;
    const std::string wide = run("run" + small + " --steps 1 --set model.vocab_size=70000 --text " + put("wide.bin", longs)).out;
    EXPECT_NE(wide.find("tokens of 4 bytes, guessed from its name in .bin and a vocabulary"), std::string::npos) << wide;
    const ProgramOutcome high = run("run" + small + " --steps 1 --text " + put("high.bin", std::string(4000, '\xff')));
    EXPECT_EQ(high.code, 1);
    EXPECT_NE(high.err.find("is 65535, and model.vocab_size is"), std::string::npos) << high.err;
}

// 30 GB, of which nothing is on the disk: it is mapped, not read.
// A token that the model has not is found before the first step. Where the file changes during a run, what was trained is saved first.
TEST(Simexec, TokensAreOfTheVocabulary) {
    const fs::path file = scratch("tokens.bin"), folder = scratch("tokens_checkpoint");
    std::vector<std::uint16_t> tokens(20000, 7);
    const auto write = [&] {
        std::fstream out(file, std::ios::binary | std::ios::out | (fs::exists(file) ? std::ios::in : std::ios::trunc)); // in place
        out.write(reinterpret_cast<const char*>(tokens.data()), static_cast<std::streamsize>(2 * tokens.size()));
    };
    tokens[19990] = 60000;
    write();
    const std::string job = "run" + small + " --steps 1000000 --text " + file.string() + " --checkpoint " + folder.string();
    const ProgramOutcome o = run(job);
    EXPECT_EQ(o.code, 1);
    EXPECT_NE(o.err.find("token 19990 of the text is 60000"), std::string::npos) << o.err;
    EXPECT_FALSE(fs::exists(folder));
    tokens[19990] = 7;
    write();
    const fs::path log = scratch("tokens.csv");
    const Process p = start_process({"sh", "-c", "exec " + program + " " + job + " --log " + log.string()}, scratch("tokens_said"));
    std::error_code none;
    EXPECT_TRUE(comes([&] { return fs::exists(log) && fs::file_size(log, none) >= 200; })) << p.text(); // it has made a step
    tokens.assign(tokens.size(), 60000);
    write();
    EXPECT_EQ(p.wait(60), 1) << p.text();
    EXPECT_NE(p.text().find("with a checkpoint in"), std::string::npos) << p.text();
    ASSERT_TRUE(fs::exists(folder));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
}

// Signs need the variance of the steps before them.
TEST(Simexec, SignsNeedAWarmup) {
    const std::string job = "run" + small +
                            " --steps 4 --set cluster.devices_per_node=2 --set strategy.data_parallel=2 --set "
                            "training.gradient_clipping=0 --set strategy.gradient_compression.kind=onebit-adam";
    const ProgramOutcome o = run(job);
    EXPECT_EQ(o.code, 1);
    EXPECT_NE(o.err.find("/strategy/gradient_compression/start_step"), std::string::npos) << o.err;
    EXPECT_EQ(run(job + " --set strategy.gradient_compression.start_step=2").code, 0);
    EXPECT_EQ(run(job + " --set strategy.data_parallel=1 --set cluster.devices_per_node=1").code, 0); // nobody sends any
    EXPECT_EQ(run("run" + small + " --steps 1 --set training.learning_rate=0").code, 1);              // none is not the default
}

// A strategy that trains other numbers than one rank does is not compared; the answer names the field.
TEST(Simexec, AgreesOnlyWhereItCan) {
    const std::string replicas = "agree" + small + " --steps 1 --set training.gradient_clipping=0 --set cluster.devices_per_node=2 ";
    const std::pair<const char*, const char*> fields[] = {
        {"--set strategy.gradient_compression=int8", "strategy.gradient_compression.kind = int8"},
        {"--set strategy.gradient_compression.kind=zero-one-adam", "strategy.gradient_compression.kind = zero-one-adam"},
        {"--set strategy.synchronization.kind=diloco", "strategy.synchronization.kind = diloco"},
        {"--set strategy.framework=deepspeed --set strategy.zero_stage=3 --set strategy.quantized_weights=int8",
         "strategy.quantized_weights = int8"},
        {"--set strategy.framework=deepspeed --set strategy.zero_stage=3 --set strategy.quantized_gradients=int4",
         "strategy.quantized_gradients = int4"},
        {"--set model.layers=2 --set model.tied_embeddings=false --set strategy.pipeline_parallel=2 --set "
         "strategy.schedule=pipedream-async",
         "strategy.flush_every = "}};
    for (const auto& [set, named] : fields) {
        const ProgramOutcome o = run(replicas + set);
        EXPECT_EQ(o.code, 1) << set << o.out;
        EXPECT_NE(o.err.find(named), std::string::npos) << o.err;
    }
    EXPECT_EQ(run(replicas + "--set strategy.gradient_compression=bf16").code, 0); // nothing is rounded in double precision
}

TEST(Simexec, OptionsAreLookedAt) {
    const std::pair<const char*, const char*> wrong[] = {
        {"--every 2", "--checkpoint"},       {"--checkpoint x --every 0", "--every"}, {"--checkpoint x --every -1", "--every"},
        {"--patience 0", "must be above 0"}, {"--patience nan", "must be above 0"},   {"--patience inf", "must be above 0"},
        {"--memory nan", "must be above 0"}, {"--memory 0", "must be above 0"},       {"--memory much", "is no number"},
        {"--fp32 --fp64", "--fp32"}};
    for (const auto& [options, named] : wrong) {
        const ProgramOutcome o = run("run" + small + " --steps 1 " + options);
        EXPECT_EQ(o.code, 1) << options;
        EXPECT_NE(o.err.find(named), std::string::npos) << o.err;
        EXPECT_LT(o.err.size(), 200U) << o.err;
    }
    const ProgramOutcome unknown = run("chek job.json");
    EXPECT_NE(unknown.err.find("chek is no command (did you mean check?)"), std::string::npos) << unknown.err;
    const ProgramOutcome little = run("run" + small + " --steps 1 --memory 0.00001");
    EXPECT_EQ(little.code, 2);
    EXPECT_NE(little.err.find("(--memory 1e-05 GB)"), std::string::npos) << little.err;
}

// Steps that come in periods end with a whole one, and the report says so.
TEST(Simexec, SaysHowManyStepsItMade) {
    const ProgramOutcome o = run("run" + small +
                                 " --steps 3 --set cluster.devices_per_node=2 --set strategy.synchronization.kind=local_sgd "
                                 "--set strategy.synchronization.inner_steps=2 --set training.gradient_clipping=0");
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_NE(o.out.find("4 steps in all, where --steps asked for 3: they come in periods of 2"), std::string::npos) << o.out;
}

TEST(Simexec, ReportsTheHostsMemory) {
    const nlohmann::json r = report("run" + small +
                                    " --steps 1 --set strategy.framework=deepspeed --set strategy.zero_stage=1 "
                                    "--set strategy.offload.optimizer=cpu");
    EXPECT_GT(r["memory"][0]["host_predicted_bytes"], 0);
    EXPECT_GE(r["memory"][0]["host_allocated_bytes"], r["memory"][0]["host_predicted_bytes"]);
    EXPECT_FALSE(r["memory"][0].contains("nvme_predicted_bytes"));
}

TEST(Simexec, ResumeNamesWhatDiffers) {
    const fs::path folder = scratch("other_shape");
    ASSERT_EQ(run("run" + small + " -q --steps 1 --checkpoint " + folder.string()).code, 0);
    const ProgramOutcome o = run("run" + small + " --steps 2 --set model.hidden_size=32 --resume " + folder.string());
    EXPECT_EQ(o.code, 1);
    EXPECT_NE(o.err.find((folder / "step-00000001").string()), std::string::npos) << o.err;
    EXPECT_TRUE(std::regex_search(o.err, std::regex("is \\[[0-9, ]*16.*\\], and the scenario's is \\[[0-9, ]*32"))) << o.err;
}

// Batches follow from the text: a run goes on with its own.
TEST(Simexec, ResumesWithItsTextAlone) {
    const fs::path folder = scratch("its_text"), bare = scratch("no_text"), text = scratch("a.txt"), moved = scratch("b.txt"),
                   other = scratch("c.txt");
    std::ofstream(text) << std::string(2000, 'a');
    std::ofstream(moved) << std::string(2000, 'a');
    std::ofstream(other) << std::string(2000, 'c');
    ASSERT_EQ(run("run" + small + " -q --steps 1 --text " + text.string() + " --checkpoint " + folder.string()).code, 0);
    ASSERT_EQ(run("run" + small + " -q --steps 1 --checkpoint " + bare.string()).code, 0);
    const std::string on = "run" + small + " -q --steps 2 --resume ";
    const auto refused = [&](const std::string& arguments, const std::string& why) {
        const ProgramOutcome o = run(on + arguments);
        EXPECT_EQ(o.code, 1) << arguments;
        EXPECT_NE(o.err.find(why), std::string::npos) << o.err;
    };
    refused(folder.string(), "was trained on " + text.string() + " (2000 tokens), and this run reads the synthetic language");
    refused(folder.string() + " --text " + other.string(), "name that file with --text " + text.string());
    refused(bare.string() + " --text " + text.string(), "leave out --text");
    EXPECT_EQ(run(on + folder.string() + " --text " + moved.string()).code, 0) << "the same text";
    EXPECT_EQ(run(on + bare.string()).code, 0);
    std::ofstream(text) << std::string(2000, 'd');
    refused(folder.string() + " --text " + text.string(), "with other contents");
    // A checkpoint from before this fact was kept: it is taken as it is.
    const fs::path state = folder / "step-00000001" / "state.json";
    nlohmann::json json = nlohmann::json::parse(std::ifstream(state));
    json["facts"].erase("text_hash");
    json.erase("checksum");
    std::ofstream(state) << json.dump();
    EXPECT_EQ(run(on + folder.string()).code, 0);
}

TEST(Simexec, KeepsItsInputs) {
    const fs::path job = scratch("job.json"), text = scratch("input.txt"), twice = scratch("twice");
    fs::copy_file(ORRERY_SOURCE_DIR "/scenarios/tiny-gpt.json", job, fs::copy_options::overwrite_existing);
    std::ofstream(text) << std::string(20000, 'a');
    const auto before = fs::file_size(job);
    const auto refused = [&](const std::string& arguments, const std::string& why) {
        const ProgramOutcome o = run(arguments);
        EXPECT_EQ(o.code, 1) << arguments;
        EXPECT_NE(o.err.find(why), std::string::npos) << o.err;
    };
    const std::string runs = "run " + job.string() + " --steps 1 --text " + text.string();
    for (const char* option : {" --log ", " --trace ", " -o ", " --routing "})
        for (const fs::path& input : {job, text}) refused(runs + option + input.string(), "is an input and an output");
    for (const std::string command : {"check ", "calibrate ", "agree ", "replay "})
        refused(command + job.string() + " -o " + job.string(), "is an input and an output");
    refused(runs + " --log " + twice.string() + " --trace " + twice.string(), "is named by --log and by --trace");
    EXPECT_EQ(fs::file_size(job), before);
    EXPECT_EQ(fs::file_size(text), 20000u);
}

TEST(Simexec, LongFilesAreMappedAndEndlessOnesRefused) {
    const fs::path file = scratch("long.bin");
    std::ofstream(file) << "";
    std::error_code failed;
    fs::resize_file(file, std::uintmax_t{30} << 30, failed);
    if (failed) GTEST_SKIP() << "no such long files here";
    const auto spent = [] { // by programs that have ended: their time of a processor
        rusage all{};
        getrusage(RUSAGE_CHILDREN, &all);
        return static_cast<double>(all.ru_utime.tv_sec + all.ru_stime.tv_sec) +
               1e-6 * static_cast<double>(all.ru_utime.tv_usec + all.ru_stime.tv_usec);
    };
    const double before = spent();
    const ProgramOutcome o = run("run" + small + " -q --steps 1 --text " + file.string());
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_LT(spent() - before, 4); // reading takes longer
    fs::remove(file);
    const ProgramOutcome zero = run("run" + small + " --text /dev/zero");
    EXPECT_EQ(zero.code, 1);
    EXPECT_NE(zero.err.find("no regular file"), std::string::npos) << zero.err;
    const fs::path pipe = scratch("pipe");
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    const ProgramOutcome fifo = run("run" + small + " --text " + pipe.string());
    EXPECT_EQ(fifo.code, 1);
    EXPECT_NE(fifo.err.find("no regular file"), std::string::npos) << fifo.err;
}

// The newest is damaged: the one before is taken, and says so; drafts of a run that died go.
TEST(Simexec, ResumesFromTheCheckpointBefore) {
    const fs::path folder = scratch("damaged");
    ASSERT_EQ(run("run" + small + " -q --steps 4 --every 2 --checkpoint " + folder.string()).code, 0);
    const fs::path part = folder / "step-00000004" / "part-0";
    std::fstream damage(part, std::ios::in | std::ios::out | std::ios::binary);
    damage.seekp(static_cast<std::streamoff>(fs::file_size(part) / 2));
    damage << "damaged";
    damage.close();
    fs::create_directories(folder / ".step-00000003.draft");
    const ProgramOutcome o = run("run" + small + " --json --steps 6 --checkpoint " + folder.string() + " --resume " + folder.string());
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_NE(o.err.find("the checkpoint before it is taken"), std::string::npos) << o.err;
    const nlohmann::json r = nlohmann::json::parse(o.out, nullptr, false), whole = report("run" + small + " --steps 6");
    EXPECT_EQ(r["first_step"], 2);
    EXPECT_EQ(r["last_loss"], whole["last_loss"]);
    EXPECT_FALSE(fs::exists(folder / ".step-00000003.draft"));
    for (const char* step : {"step-00000002", "step-00000006"}) { // nothing else is left to take
        std::ofstream(folder / step / "part-0") << "short";
    }
    fs::remove_all(folder / "step-00000004");
    const ProgramOutcome none = run("run" + small + " --steps 8 --resume " + folder.string());
    EXPECT_EQ(none.code, 1);
    EXPECT_NE(none.err.find("no checkpoint there can be read"), std::string::npos) << none.err;
}

TEST(Simexec, IsQuietWhereItIsAsked) {
    for (const std::string command : {"run", "agree", "check", "replay"}) {
        const ProgramOutcome o = run(command + small + " -q --steps 1"), json = run(command + small + " -q --json --steps 1");
        EXPECT_EQ(o.code, 0) << command << o.err;
        EXPECT_EQ(o.out + o.err, "") << command;
        EXPECT_TRUE(nlohmann::json::accept(json.out)) << command;
    }
    EXPECT_EQ(run("doctor -q").out, "");
    const ProgramOutcome verbose = run("agree" + small + " -v"); // it would show nothing more
    EXPECT_EQ(verbose.code, 1);
    EXPECT_NE(verbose.err.find("-v"), std::string::npos) << verbose.err;
}

// A run that begins anew leaves another run's checkpoints alone; what a kill leaves of one that was being removed goes.
TEST(Simexec, KeepsAnotherRunsCheckpoints) {
    const fs::path folder = scratch("others_run");
    const std::string there = " --checkpoint " + folder.string();
    ASSERT_EQ(run("run" + small + " -q --steps 2" + there).code, 0);
    const fs::path other = scratch("a_third_run");
    ASSERT_EQ(run("run" + small + " -q --steps 1 --checkpoint " + other.string()).code, 0);
    for (const std::string& more : {std::string(), std::string(" --restart 1"), " --resume " + other.string()}) {
        const ProgramOutcome o = run("run" + small + " -q --steps 3" + there + more);
        EXPECT_EQ(o.code, 1) << more;
        EXPECT_NE(o.err.find("holds checkpoints of an earlier run: add --resume"), std::string::npos) << o.err;
    }
    EXPECT_TRUE(fs::exists(folder / "step-00000002"));
    EXPECT_FALSE(fs::exists(folder / "step-00000003"));
    EXPECT_EQ(run("run" + small + " -q --steps 2 --resume " + (folder / "step-00000002").string() + there).code, 1); // nothing to do
    fs::create_directories(folder / "step-00000009");
    fs::create_directories(folder / "step-00000008");
    std::ofstream(folder / "step-00000008" / "part-1") << "a part";
    fs::create_directories(folder / "step-00000007" / "notes");
    EXPECT_EQ(run("run" + small + " -q --steps 3 --resume " + folder.string() + there).code, 0);
    EXPECT_FALSE(fs::exists(folder / "step-00000009"));
    EXPECT_FALSE(fs::exists(folder / "step-00000008"));
    EXPECT_TRUE(fs::exists(folder / "step-00000007" / "notes")); // not ours
}

// Two runs in one folder would remove each other's checkpoints: the second is refused, and the first goes on.
TEST(Simexec, ASecondRunIsKeptOutOfTheFolder) {
    const fs::path folder = scratch("shared");
    const std::string line = "run" + small + " --checkpoint " + folder.string();
    const Words words{"sh", "-c", "exec " + program + " " + line + " -q --steps 1000000 --every 2"};
    const Process first = start_process(words, scratch("shared.txt"));
    std::error_code none; // the holder writes who it is when it has the lock
    const auto signed_by_it = [&] {
        const auto size = fs::file_size(folder / ".lock", none);
        return !none && size > 0;
    };
    ASSERT_TRUE(comes(signed_by_it)) << first.text();
    const ProgramOutcome second = run(line + " -q --steps 1000000 --resume " + folder.string());
    EXPECT_EQ(second.code, 1);
    EXPECT_NE(second.err.find(folder.string() + " is in use"), std::string::npos) << second.err;
    EXPECT_NE(second.err.find("process " + std::to_string(first.id)), std::string::npos) << second.err;
    kill(first.id, SIGTERM);
    EXPECT_EQ(first.wait(30), 5) << first.text();
    EXPECT_EQ(run(line + " -q --steps 1 --resume " + folder.string()).err.find("is in use"), std::string::npos);
}

TEST(Simexec, LooksAtItsOutputsFirst) {
    const fs::path file = scratch("a_file"), absent = scratch("absent") / "x.json";
    std::ofstream(file) << "text";
    for (const std::string& output :
         {"--trace " + absent.string(), "-o " + absent.string(), "--routing " + absent.string(), "--log " + absent.string(),
          "--trace " + fs::temp_directory_path().string(), "--checkpoint " + file.string(), "--checkpoint " + (file / "below").string(),
          "--export-weights " + file.string()}) {
        const ProgramOutcome o = run("run" + small + " --steps 1000000 " + output);
        EXPECT_EQ(o.code, 1) << output;
        EXPECT_NE(o.err.find("cannot be written: "), std::string::npos) << o.err;
        EXPECT_NE(o.err.find(output.substr(0, output.find(' '))), std::string::npos) << o.err;
    }
    for (const std::string command : {"agree", "check", "replay"}) {
        EXPECT_EQ(run(command + small + " --steps 1000 -o " + absent.string()).code, 1) << command;
        EXPECT_EQ(run(command + small + " --steps 1 -o /dev/full").code, 7) << command;
    }
    for (const std::string output : {"--log", "--trace", "-o", "-q -o"})
        EXPECT_EQ(run("run" + small + " --steps 1 " + output + " /dev/full").code, 7) << output;
}

// The name says how a trace is written, whoever writes it.
TEST(Simexec, TracesOfThatName) {
    const fs::path json = scratch("named.json"), compact = scratch("named.trace");
    for (const std::string command : {"run", "check", "replay"})
        for (const fs::path& file : {json, compact}) {
            fs::remove(file);
            ASSERT_EQ(run(command + small + " --steps 1 --trace " + file.string()).code, 0) << command;
            std::ifstream in(file);
            const std::string text{std::istreambuf_iterator<char>(in), {}};
            EXPECT_EQ(nlohmann::json::accept(text), file == json) << command;
        }
}

// The wait status of simexec with these arguments, sent a signal while it trains.
int stopped(const std::string& arguments, int signal = SIGTERM) {
    const pid_t child = fork();
    if (child == 0) {
        const std::string line = "exec " + program + arguments;
        execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
        _exit(127);
    }
    const Process p{child, {}};
    EXPECT_TRUE(comes([&] { return p.keeps(signal) || !p.alive(); }));
    kill(child, signal);
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

// Slurm's --signal=USR1, and a terminal that is closed.
TEST(Simexec, EverySignalThatAsksForAnEndLeavesACheckpoint) {
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) {
        const fs::path folder = scratch("signal" + std::to_string(signal));
        const int status = stopped(" run" + small + " -q --steps 100000 --checkpoint " + folder.string() + " 2> /dev/null", signal);
        ASSERT_TRUE(WIFEXITED(status)) << signal;
        EXPECT_EQ(WEXITSTATUS(status), 5) << signal;
        EXPECT_FALSE(fs::is_empty(folder)) << signal;
    }
}

// A file may not be as long as a checkpoint: that is said, as of a full disk, and nothing half-written stays.
TEST(Simexec, AFileThatMayNotBeSoLongIsAnError) {
    const fs::path folder = scratch("limited"), said = scratch("limited.txt");
    const std::string line = "ulimit -f 4; exec " + program + " run" + small + " -q --steps 2 --checkpoint " + folder.string() + " 2> " +
                             said.string(); // blocks of 512 or 1024 bytes
    const int status = std::system(line.c_str());
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 7);
    std::ifstream in(said);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    EXPECT_NE(text.find("cannot write the checkpoint: File too large"), std::string::npos) << text;
    for (const auto& entry : fs::directory_iterator(folder)) ADD_FAILURE() << entry.path();
}

// Beside the next steps a checkpoint is written from a copy, whose size the report has.
TEST(Simexec, SaysWhatACheckpointCopies) {
    const fs::path folder = scratch("copied");
    fs::remove_all(folder);
    const nlohmann::json r = report("run" + small + " --steps 1 --checkpoint " + folder.string());
    const auto part = fs::file_size(folder / "step-00000001" / "part-0");
    ASSERT_TRUE(r.contains("checkpoint_copy_bytes"));
    const auto copied = r["checkpoint_copy_bytes"].get<std::uintmax_t>();
    EXPECT_LT(copied, part) << "all but names and checksums";
    EXPECT_GT(copied, part - part / 4);
}

TEST(Simexec, SaysThatItWasStoppedAndWhatIsLeft) {
    const fs::path said = scratch("said"), folder = scratch("stopped");
    for (const bool saves : {false, true}) {
        const int status =
            stopped(" run" + small + " -q --steps 100000" + (saves ? " --checkpoint " + folder.string() : "") + " 2> " + said.string());
        EXPECT_EQ(WEXITSTATUS(status), 5);
        std::ifstream in(said);
        const std::string text{std::istreambuf_iterator<char>(in), {}};
        const char* left = saves ? "go on with --resume" : "nothing was saved";
        EXPECT_TRUE(std::regex_search(text, std::regex("stopped by a signal after step [0-9]+ of 100000: " + std::string(left)))) << text;
    }
}

TEST(Simexec, ADamagedCheckpointIsNamedInPlainWords) {
    const fs::path folder = scratch("no_json");
    for (const char* text : {"{\"version\": ", "{\"version\": 1}", "[]"}) {
        fs::create_directories(folder / "step-00000001");
        std::ofstream(folder / "step-00000001" / "state.json") << text;
        const ProgramOutcome o = run("run" + small + " --steps 2 --resume " + (folder / "step-00000001").string());
        EXPECT_EQ(o.code, 1);
        EXPECT_NE(o.err.find("state.json is corrupt"), std::string::npos) << o.err;
        EXPECT_EQ(o.err.find("json.exception"), std::string::npos) << o.err;
    }
}

// A signal ends the run behind its step, with a checkpoint; what goes on from there is what would have been.
TEST(Simexec, StopsAndGoesOn) {
    const fs::path folder = scratch("checkpoints");
    fs::remove_all(folder);
    const std::string text = " --text " ORRERY_SOURCE_DIR "/LICENSE";
    const int status = stopped(" run" + small + text + " -q --steps 100000 --checkpoint " + folder.string());
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 5);
    std::string newest;
    for (const auto& entry : fs::directory_iterator(folder)) newest = std::max(newest, entry.path().filename().string());
    ASSERT_TRUE(newest.starts_with("step-")) << newest;
    const int step = std::stoi(newest.substr(5));
    const std::string until = " --steps " + std::to_string(step + 3);
    const nlohmann::json on = report("run" + small + text + until + " --resume " + folder.string()),
                         whole = report("run" + small + text + until);
    EXPECT_EQ(on["first_step"], step);
    EXPECT_EQ(on["last_loss"], whole["last_loss"]);
    const nlohmann::json other = report("run" + small + text + until +
                                        " --set strategy.tensor_parallel=2 --set cluster.devices_per_node=2 --resume " + folder.string());
    EXPECT_NEAR(other["last_loss"], whole["last_loss"], 1e-5);
}

} // namespace
