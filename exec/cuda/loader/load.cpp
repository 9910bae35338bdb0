// Finds the CUDA plugin at run time, so that the program starts on a machine that has no CUDA.
#include "exec/cuda/plugin.hpp"

#include <dlfcn.h>

#include <filesystem>

namespace orrery {
namespace {

std::string beside_the_program() {
    std::error_code e;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", e);
    return e ? std::string{} : (self.parent_path() / "exec_cuda.so").string();
}

} // namespace

const CudaPlugin* load_cuda(std::string& why_not) {
    const std::string beside = beside_the_program();
    void* library = beside.empty() ? nullptr : dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
    std::string first;
    if (!library) {
        if (const char* e = dlerror()) first = e;
        library = dlopen("exec_cuda.so", RTLD_NOW | RTLD_LOCAL);
    }
    if (!library) {
        why_not = "the CUDA plugin exec_cuda.so does not load: " +
                  (std::filesystem::exists(beside) ? first : "it was not built (no CUDA toolkit where this was built), or lies elsewhere");
        return nullptr;
    }
    const auto make = reinterpret_cast<const CudaPlugin* (*)()>(dlsym(library, "orrery_cuda_plugin"));
    const CudaPlugin* plugin = make ? make() : nullptr;
    if (!plugin || plugin->abi != cuda_plugin_abi) {
        why_not = "exec_cuda.so is of another build: build it again with the program";
        return nullptr;
    }
    return plugin;
}

std::shared_ptr<StreamDevice> open_cuda(int device, std::string& why_not) {
    const CudaPlugin* plugin = load_cuda(why_not);
    if (!plugin) return nullptr;
    const int count = plugin->devices(why_not);
    if (device >= count) {
        why_not = count > 0 ? "there are " + std::to_string(count) + " GPUs"
                            : "there is no GPU to be had: " + why_not + " (" + plugin->versions() + ")";
        return nullptr;
    }
    std::unique_ptr<StreamDevice> opened;
    why_not = plugin->open(device, opened).message;
    return opened;
}

} // namespace orrery
