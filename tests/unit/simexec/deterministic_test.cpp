// Do two runs give the same bits, however many processors and whatever executor they have?
#include "process.hpp"
#include "started.hpp"

using namespace orrery::test;

namespace {

namespace fs = std::filesystem;

std::string bytes_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

// The weights after some steps, and the log without its times.
std::string left_by(const std::string& before, const std::string& job) {
    const fs::path folder = scratch("bits");
    fs::remove_all(folder);
    const int status =
        std::system((before + simexec_program + " run" + job + " --deterministic -q --steps 6 --set training.learning_rate=0.01 " +
                     "--text " ORRERY_SOURCE_DIR "/LICENSE --eval-every 3 --export-weights " + folder.string())
                        .c_str());
    EXPECT_EQ(status, 0) << job;
    const std::string bytes = bytes_of(folder / "model.safetensors");
    EXPECT_GT(bytes.size(), 1000u);
    return bytes;
}

const std::string jobs[] = {
    small_job,
    small_job + " --set model.dropout=0.1 --set cluster.devices_per_node=2 --set strategy.framework=fsdp --set training.precision=bf16",
    small_job +
        " --set model.layers=2 --set cluster.devices_per_node=4 --set strategy.tensor_parallel=2 --set strategy.pipeline_parallel=2 "
        "--set strategy.schedule=1f1b",
    small_job +
        " --set model.norm=rmsnorm --set model.position=rope --set model.activation=swiglu --set model.bias=false --set "
        "model.tied_embeddings=false --set cluster.devices_per_node=2 --set strategy.expert_parallel=2 --set model.moe.experts=4 --set "
        "model.moe.top_k=2 --set model.moe.expert_ffn_size=16 --set model.moe.imbalance=[1,1e-6,0,0]",
};

TEST(Deterministic, WhateverTheThreadsAndTheExecutor) {
    for (const std::string& job : jobs) {
        const std::string first = left_by("", job + " --executor serial");
        for (const char* executor : {" --executor serial", " --executor threads", " --executor queues"})
            for (const char* before : {"", "taskset -c 0 ", "OPENBLAS_NUM_THREADS=2 "})
                EXPECT_EQ(left_by(before, job + executor), first) << before << executor << job;
    }
}

} // namespace
