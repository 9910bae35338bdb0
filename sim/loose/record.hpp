// What workers that never meet all at once did for a while, span by span: the course that LooseReport has the means of.
#pragma once

#include "sim/loose/loose.hpp"

#include <cstdint>
#include <vector>

namespace orrery {

// step: a worker's own. push, pull: to servers and back. update: a server's. send: parameters to a peer. mix: what came, into its own.
// wait: for servers, or for the messages of peers.
enum class LooseDoing : std::uint8_t { step, push, update, pull, send, mix, wait };

struct LooseSpan {
    int worker = -1; // -1: the servers
    LooseDoing doing = LooseDoing::step;
    double begin_s = 0, end_s = 0; // since the record begins
    std::int64_t step = -1;        // of the worker; of servers the version of the parameters that they make
    std::int64_t version = -1;     // step, pull: of the parameters that it uses, or fetches, where servers count them
    double age = -1; // parameter_server: updates that the gradient missed; of others steps that the parameters sent are old; -1: not known
    int peer = -1;   // send: who gets them; update: whose gradient, -1: all workers'
};

struct LooseRecord {
    int workers = 0; // followed; the spans are those of the first `shown`
    int shown = 0;
    double length_s = 0;
    std::vector<LooseSpan> spans; // by begin
};

// Records the course that follow(work) measures, from where it begins to measure, for about `steps` steps of each worker.
LooseRecord record(const LooseWork& work, int steps, int most_workers, StopFlag stop = nullptr);

} // namespace orrery
