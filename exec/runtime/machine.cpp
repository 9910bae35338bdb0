#include "exec/runtime/machine.hpp"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace orrery {

std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("model name"))
            if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
    return "unknown processor";
}

int processors() {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

int online_processors() { return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))); }

std::int64_t physical_memory() { return std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE); }

std::vector<Library> optional_libraries() {
    std::vector<Library> list{{"MPI", "libmpi.so.40", false, {}},
                              {"CUDA driver", "libcuda.so.1", false, {}},
                              {"NCCL", "libnccl.so.2", false, {}},
                              {"cuDNN", "libcudnn.so.9", false, {}}};
    for (Library& l : list) {
        if (void* handle = dlopen(l.file.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
            l.found = true;
            dlclose(handle);
        } else if (const char* why = dlerror()) {
            l.detail = why;
        }
    }
    return list;
}

} // namespace orrery
