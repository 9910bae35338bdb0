// A plan by hand: one stage, F and B of one chunk; parameters and gradients for the whole step, activations from F to B.
#pragma once

#include "sim/memory/memory.hpp"

#include <string>

namespace orrery::hand_made {

inline BufferId buffer(Plan& p, const std::string& name, std::int64_t bytes, MemoryKind kind, Scope scope, int stage = 0) {
    Buffer b;
    b.name = name;
    b.bytes = Bytes{bytes};
    b.kind = kind;
    b.scope = scope;
    b.stage = static_cast<std::int16_t>(stage);
    p.buffers.push_back(b);
    return static_cast<BufferId>(p.buffers.size() - 1);
}

inline Op op(Work work, const std::string& name = "") {
    Op o;
    o.work = work;
    o.name = name;
    return o;
}

inline Work compute() { return Pointwise{PointwiseKind::gelu, Direction::forward, 1, true}; }

struct Sizes {
    std::int64_t parameters = 1000, gradients = 500, saved = 100, temporary = 30;
};

// blocks: 0 = F (allocates a temporary and what B needs, frees the temporary), 1 = B (frees what F left).
inline Plan forward_backward(const Sizes& s = {}) {
    Plan p;
    p.mesh.order = {Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::dpr, Axis::dpw, Axis::pp};
    buffer(p, "w.l0.fc1", s.parameters, MemoryKind::parameters, Scope::run);
    buffer(p, "g.l0.fc1", s.gradients, MemoryKind::gradients, Scope::step);
    const BufferId saved = buffer(p, "c0.l0.fc1", s.saved, MemoryKind::activations, Scope::microbatch);
    const BufferId temporary = buffer(p, "c0.l0.scores", s.temporary, MemoryKind::workspace, Scope::action);
    Block f{"F0", BlockKind::forward, 0, 0, false, 0, {}}, b{"B0", BlockKind::backward, 0, 0, false, 0, {}};
    f.ops = {op(Alloc{saved}), op(Alloc{temporary}), op(compute(), "l0.fc1.fwd"), op(Free{temporary}), op(compute(), "l0.out.fwd")};
    b.ops = {op(compute(), "l0.fc1.dgrad"), op(Free{saved})};
    p.blocks = {f, b};
    p.programs.push_back(Program{0, {}, {}});
    return p;
}

inline void add(Plan& p, int block, int microbatch, int first = 0, int last = -1) {
    Action a;
    a.block = block;
    a.first = first;
    a.last = last < 0 ? static_cast<int>(p.blocks[block].ops.size()) : last;
    a.microbatch[0] = microbatch;
    p.programs[0].actions.push_back(a);
}

// A device of 10 kB and no reserve, so that every byte in a report is the plan's.
inline Scenario bare(std::int64_t capacity = 10000) {
    Scenario s;
    s.cluster.device.memory = Bytes{capacity};
    s.runtime.reserved_gb = 0;
    return s;
}

} // namespace orrery::hand_made
