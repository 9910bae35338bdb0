// The executors of one process, by name: this room knows all of them, and none of them knows this room.
#pragma once

#include "exec/local/executor.hpp"

#include <memory>
#include <string>
#include <vector>

namespace orrery {

// `name` is one of executor_names(); an unknown name aborts, because the command line has checked it.
std::unique_ptr<Executor> make_executor(const std::string& name, World& world, Patience patience = {});
std::vector<std::string> executor_names(); // "serial", "threads", "queues"

} // namespace orrery
