// The parts of a trace that come from its plan, independent of the interpreter, so that spans of both are matched by the same names.
#pragma once

#include "sim/plan/plan.hpp"
#include "sim/trace/trace.hpp"

namespace orrery {

TraceOp trace_op(const Op& op);                         // bytes: a collective's (of all its calls), or those an exchange sends
std::vector<std::string> queue_names(const Plan& plan); // by QueueId

} // namespace orrery
