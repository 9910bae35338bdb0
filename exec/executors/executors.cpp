#include "exec/executors/executors.hpp"

#include "exec/queues/executor.hpp"

#include "topology/check.hpp"

namespace orrery {
namespace {

struct Known {
    const char* name;
    std::unique_ptr<Executor> (*make)(World&, Patience);
};
constexpr Known known[] = {{"serial", [](World& world, Patience) { return serial_executor(world); }},
                           {"threads", threads_executor},
                           {"queues", [](World& world, Patience) { return queues_executor(world); }}};

} // namespace

std::unique_ptr<Executor> make_executor(const std::string& name, World& world, Patience patience) {
    for (const Known& k : known)
        if (name == k.name) return k.make(world, std::move(patience));
    broken("no executor is called " + name);
}

std::vector<std::string> executor_names() {
    std::vector<std::string> names;
    for (const Known& k : known) names.emplace_back(k.name);
    return names;
}

} // namespace orrery
