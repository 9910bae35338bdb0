#include "exec/local/executor.hpp"

#include "exec/queues/executor.hpp"

#include "topology/check.hpp"

namespace orrery {
namespace {

struct Known { const char* name; std::unique_ptr<Executor> (*make)(World&); };
constexpr Known known[] = {{"serial", serial_executor}, {"threads", threads_executor}, {"queues", queues_executor}};

} // namespace

std::unique_ptr<Executor> make_executor(const std::string& name, World& world) {
    for (const Known& k : known)
        if (name == k.name) return k.make(world);
    broken("no executor is called " + name);
}

std::vector<std::string> executor_names() {
    std::vector<std::string> names;
    for (const Known& k : known) names.emplace_back(k.name);
    return names;
}

} // namespace orrery
