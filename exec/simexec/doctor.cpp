// `simexec doctor`: what this machine has, what is missing, and what that means.
#include "exec/cuda/plugin.hpp"
#include "exec/executors/executors.hpp"
#include "exec/kernels/kernel.hpp"
#include "exec/runtime/machine.hpp"
#include "exec/simexec/command.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

namespace orrery::simexec {

namespace {

// mpi where its plugin was built and finds MPI's library.
std::vector<std::string> executors_here() {
    std::vector<std::string> names = executor_names();
    const std::vector<Library> libraries = optional_libraries();
    const bool library = std::ranges::any_of(libraries, [](const Library& l) { return l.what == std::string("MPI") && l.found; });
    std::error_code none;
    const auto beside = std::filesystem::read_symlink("/proc/self/exe", none).parent_path() / "exec_mpi.so";
    if (library && std::filesystem::exists(beside, none)) names.emplace_back("mpi");
    return names;
}

} // namespace

int run_doctor(const Options& options) {
    const std::vector<std::string> executors = executors_here();
    nlohmann::ordered_json json{
        {"processor", processor_name()}, {"processors", processors()}, {"gemm", gemm_library()}, {"executors", executors}};
    std::string text =
        fmt::format("processor   {}, {} may be used\nkernels     {}, fp32 and fp64\n", processor_name(), processors(), gemm_library());
    text += fmt::format("executors   {}\n", fmt::join(executors, ", "));
    for (const Library& l : optional_libraries()) {
        text += fmt::format("{:<12}{}\n", l.what, l.found ? l.file + " is here" : "not here: " + l.detail);
        json["libraries"].push_back({{"what", l.what}, {"file", l.file}, {"found", l.found}, {"detail", l.detail}});
    }
    std::string why_not;
    const CudaPlugin* plugin = load_cuda(why_not);
    const int gpus = plugin ? plugin->devices(why_not) : 0;
    text += gpus > 0 ? fmt::format("CUDA        {} GPU{}, {}\n", gpus, gpus == 1 ? "" : "s", plugin->versions())
                     : fmt::format("CUDA        no GPU can be used: {}\n", why_not);
    json["cuda"] = {{"devices", gpus}, {"why_none", gpus > 0 ? "" : why_not}};
    if (plugin) {
        text += fmt::format("libraries   {}\n", plugin->versions());
        json["cuda"]["versions"] = plugin->versions();
    }
    for (int i = 0; i < gpus; ++i) {
        std::unique_ptr<StreamDevice> gpu;
        std::int64_t free = 0, total = 0;
        const Status opened = plugin->open(i, gpu);
        if (gpu) gpu->memory(free, total);
        text += gpu ? fmt::format("GPU {}       {}, {:.1f} of {:.1f} GB free\n", i, gpu->name(), static_cast<double>(free) * 1e-9,
                                  static_cast<double>(total) * 1e-9)
                    : fmt::format("GPU {}       cannot be opened: {}\n", i, opened.message);
        json["cuda"]["gpus"].push_back({{"name", gpu ? gpu->name() : ""}, {"memory_bytes", total}, {"why_not", opened.message}});
    }
    return deliver(options.json ? json.dump(2) + "\n" : text, options);
}

} // namespace orrery::simexec
