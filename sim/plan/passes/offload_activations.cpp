// Saved activations in the host's memory between the forward and the backward pass (Megatron-Core's fine-grained offload, MaxText's remat
// policies). An activation that strategy.offload names leaves when the forward pass has read it last, beside the next unit's computation,
// and comes back while the backward pass computes the unit before the one that reads it.
//
// On NVMe it passes through the host both ways (ZeRO-Infinity): written while the next unit but one computes, read back two units before.
//
// DeepSpeed's own checkpoints on the host (cpu_checkpointing) are not beside computation: its stream makes the copies where the activation
// has been read last and where it is wanted again, to and from memory that is not pinned, and waits for each (partition_activations and
// gather_partitioned_activations of deepspeed/runtime/activation_checkpointing/checkpointing.py).
//
// After it: such a buffer has two lives on the device. The first ends with the forward pass's next unit, which waits for the copy if it is
// late; the second begins a unit early. Its place on the host lives from one to the other, or, where it is on its way to NVMe and back, has
// two lives too. Small or large, all that is named goes; what one pass alone reads, and what crosses stages, stays.
#include "sim/plan/emit.hpp"
#include "sim/plan/passes/passes.hpp"

#include <algorithm>

namespace orrery {
namespace {

// The op kind a list calls a node by; nothing: only a list of all has it.
std::optional<OffloadOp> kind_of(const Node& n) {
    switch (n.kind) {
    case NodeKind::attention:
    case NodeKind::ring_attention:
    case NodeKind::scores:
    case NodeKind::score_cap:
    case NodeKind::softmax:
    case NodeKind::attention_dropout:
    case NodeKind::context:
        return OffloadOp::attention;
    case NodeKind::norm:
    case NodeKind::head_norm:
        return OffloadOp::norm;
    case NodeKind::activation:
    case NodeKind::weigh:
    case NodeKind::clamp:
        return OffloadOp::activation;
    case NodeKind::rope:
        return OffloadOp::rope;
    case NodeKind::residual:
        return OffloadOp::residual;
    case NodeKind::linear:
        return named<OffloadOp>(name(n.part));
    default:
        return {};
    }
}

// The place of each layer among those of its stage, -1 where the chunk does not have it.
std::vector<int> places_of_layers(const Lowering& l, const Graph& g) {
    std::vector<int> place(static_cast<std::size_t>(l.scenario.model.layers + l.scenario.model.mtp_layers + 1), -1);
    int next = 0;
    for (const Graph& other : l.graphs) {
        if (other.stage != g.stage) continue;
        int last = -1;
        for (const Node& n : other.nodes) {
            if (n.layer < 0 || n.layer == last) continue;
            last = n.layer;
            if (&other == &g) place[n.layer] = next;
            ++next;
        }
        if (&other == &g) break;
    }
    return place;
}

std::int64_t at(std::size_t i) { return static_cast<std::int64_t>(i); }

// Ops to put into a block, each before the op that stood at its place; in the order in which they were asked for.
class Insertions {
  public:
    void before(std::int64_t place, Op op) { list_.push_back({place, std::move(op)}); }
    void apply(Block& block);

  private:
    struct One {
        std::int64_t place;
        Op op;
    };
    std::vector<One> list_;
};

void Insertions::apply(Block& block) {
    if (list_.empty()) return;
    std::stable_sort(list_.begin(), list_.end(), [](const One& a, const One& b) { return a.place < b.place; });
    std::vector<Op> ops;
    std::vector<std::int32_t> moved(block.ops.size());
    ops.reserve(block.ops.size() + list_.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i <= block.ops.size(); ++i) {
        for (; next < list_.size() && list_[next].place == at(i); ++next) ops.push_back(std::move(list_[next].op));
        if (i == block.ops.size()) break;
        moved[i] = static_cast<std::int32_t>(ops.size());
        ops.push_back(std::move(block.ops[i]));
        for (std::int32_t& d : ops.back().deps) d = moved[d];
    }
    block.ops = std::move(ops);
    set_units(block);
}

// Where a buffer is touched in a block.
struct Touched {
    std::int64_t first = -1, last = -1, alloc = -1, free = -1;
    BufferId written = -1; // the name, of those that share its storage, by which it is written last
    bool any() const { return first >= 0; }
};

class Offloading {
  public:
    explicit Offloading(Lowering& l) : l_(l), inserted_(l.plan.blocks.size()), leaves_(l.plan.buffers.size(), -1) {}
    void run();

  private:
    using Life = std::vector<std::pair<std::int32_t, Touched>>; // by block, in the order a microbatch passes them

    void find_lives();
    bool goes(const Life& life) const;
    // Where it is while it is away; disk: -1: on the host all the time.
    struct Places {
        BufferId host, disk;
    };
    Places places_of(BufferId x, BufferId written);
    void send(std::int32_t block, const Touched& in, BufferId x, const Places& to);
    void store(std::int32_t block, const Touched& in, const Places& to);
    void fetch(std::int32_t block, const Touched& in, BufferId x, BufferId written, const Places& from);
    void wait(std::int32_t block, std::int64_t end, const char* what, BufferId x, BufferId written);
    const Block& block(std::int32_t b) const { return l_.plan.blocks[b]; }
    // The first op of the run of ops of one unit that op i stands in, and the op behind it.
    std::int64_t begin_of_unit(const Block& b, std::int64_t i) const;
    std::int64_t end_of_unit(const Block& b, std::int64_t i) const;
    std::int64_t units_before(const Block& b, std::int64_t i, int units) const;
    std::int64_t units_after(const Block& b, std::int64_t i, int units) const;
    Op op_like(const Op& near, Work work, QueueId queue) const;
    Op copy(const Op& near, CopyKind kind, BufferId from, BufferId to) const;
    // Whether computation makes the copies itself.
    bool stops(const Places& p) const { return l_.practice.computation_copies_checkpoints && p.disk < 0; }
    void send_within(std::int32_t block, const Touched& in, BufferId x, const Places& to);
    void fetch_within(std::int32_t block, const Touched& in, BufferId x, BufferId written, const Places& from);

    Lowering& l_;
    std::vector<Insertions> inserted_; // by block
    std::vector<std::int32_t> leaves_; // by buffer: index in lives_, -1
    std::vector<Life> lives_;
};

void Offloading::find_lives() {
    for (BufferId b : l_.leaving) {
        const BufferId root = storage(l_.plan, b);
        if (std::int32_t& index = leaves_[root]; index < 0) {
            index = static_cast<std::int32_t>(lives_.size());
            lives_.emplace_back();
        }
    }
    const auto visit = [&](std::int32_t id) {
        if (id < 0) return;
        const auto touched = [&](BufferId raw) -> Touched* {
            const std::int32_t index = leaves_[storage(l_.plan, raw)];
            if (index < 0) return nullptr;
            Life& life = lives_[index];
            if (life.empty() || life.back().first != id) life.push_back({id, {}});
            return &life.back().second;
        };
        const Block& b = block(id);
        for (std::size_t i = 0; i < b.ops.size(); ++i) {
            if (const auto* a = std::get_if<Alloc>(&b.ops[i].work))
                if (Touched* t = touched(a->buffer)) t->alloc = at(i);
            if (const auto* f = std::get_if<Free>(&b.ops[i].work))
                if (Touched* t = touched(f->buffer)) t->free = at(i);
            for (const auto* list : {&b.ops[i].in, &b.ops[i].out})
                for (BufferId raw : *list)
                    if (Touched* t = touched(raw)) {
                        if (t->first < 0) t->first = at(i);
                        t->last = at(i);
                        if (list == &b.ops[i].out) t->written = raw;
                    }
        }
    };
    for (const ChunkBlocks& c : l_.chunks) visit(c.forward);
    for (std::size_t c = l_.chunks.size(); c-- > 0;) visit(l_.chunks[c].backward);
    for (std::size_t c = l_.chunks.size(); c-- > 0;) visit(l_.chunks[c].weight);
}

// Made and read by one forward pass, read and freed by backward passes.
bool Offloading::goes(const Life& life) const {
    if (life.size() < 2 || block(life[0].first).kind != BlockKind::forward || block(life[1].first).kind == BlockKind::forward) return false;
    return life[0].second.alloc >= 0 && life[0].second.written >= 0 && life[1].second.any() && life.back().second.free >= 0;
}

std::int64_t Offloading::begin_of_unit(const Block& b, std::int64_t i) const {
    while (i > 0 && b.ops[i - 1].unit == b.ops[i].unit) --i;
    return i;
}

std::int64_t Offloading::end_of_unit(const Block& b, std::int64_t i) const {
    const std::int16_t unit = b.ops[i].unit;
    while (i < at(b.ops.size()) && b.ops[i].unit == unit) ++i;
    return i;
}

// The begin of the unit that is this number of units before that of op i, and the end of the one as far behind it.
std::int64_t Offloading::units_before(const Block& b, std::int64_t i, int units) const {
    std::int64_t begin = begin_of_unit(b, i);
    for (; units > 0 && begin > 0; --units) begin = begin_of_unit(b, begin - 1);
    return begin;
}

std::int64_t Offloading::units_after(const Block& b, std::int64_t i, int units) const {
    std::int64_t end = end_of_unit(b, i);
    for (; units > 0 && end < at(b.ops.size()); --units) end = end_of_unit(b, end);
    return end;
}

Op Offloading::op_like(const Op& near, Work work, QueueId queue) const {
    Op op;
    op.work = std::move(work);
    op.queue = queue;
    op.phase = Phase::offload;
    op.layer = near.layer;
    op.unit = near.unit;
    op.port = near.port;
    return op;
}

Op Offloading::copy(const Op& near, CopyKind kind, BufferId from, BufferId to) const {
    const bool leaves = kind == CopyKind::device_to_host || kind == CopyKind::host_to_nvme;
    static constexpr QueueId queues[] = {d2h_queue, h2d_queue, to_disk_queue, from_disk_queue};
    static constexpr const char* names[] = {"to_host.", "from_host.", "to_disk.", "from_disk."};
    const auto k = static_cast<std::size_t>(kind);
    Op op = op_like(near, Copy{kind, l_.plan.buffers[from].bytes}, queues[k]);
    op.name = names[k] + l_.plan.buffers[leaves ? from : to].name;
    op.in = {from};
    op.out = {to};
    return op;
}

// What leaves is what was written last: a sum, where the buffer held a rank's summand before it was reduced in place.
Offloading::Places Offloading::places_of(BufferId x, BufferId written) {
    Buffer host = l_.buffer(x);
    host.placement = l_.buffer(written).placement;
    Buffer disk = host;
    host.name = "host." + host.name;
    host.space = Space::host;
    Places places{l_.add(std::move(host)), -1};
    if (l_.scenario.strategy.offload.activations != Tier::nvme) return places;
    disk.name = "disk." + disk.name;
    disk.space = Space::nvme;
    places.disk = l_.add(std::move(disk));
    return places;
}

// Computation goes on at `end` where the way of `written` has ended: the memory of `x` is another's from there.
void Offloading::wait(std::int32_t id, std::int64_t end, const char* what, BufferId x, BufferId written) {
    const Op& near = block(id).ops[end - 1];
    Op wait = op_like(near, HostWork{Time{}}, compute_queue);
    wait.name = what + l_.plan.buffers[x].name;
    wait.in = wait.out = {written};
    Insertions& insert = inserted_[id];
    insert.before(end, std::move(wait));
    insert.before(end, op_like(near, Free{x}, host_queue));
}

void Offloading::send(std::int32_t id, const Touched& in, BufferId x, const Places& to) {
    const Block& b = block(id);
    Insertions& insert = inserted_[id];
    const Op& last = b.ops[in.last];
    insert.before(in.last + 1, op_like(last, Alloc{to.host}, host_queue));
    insert.before(in.last + 1, copy(last, CopyKind::device_to_host, in.written, to.host));
    if (to.disk >= 0) store(id, in, to);
    wait(id, units_after(b, in.last, 1), "left.", x, in.written);
}

void Offloading::store(std::int32_t id, const Touched& in, const Places& to) {
    const Block& b = block(id);
    Insertions& insert = inserted_[id];
    const Op& last = b.ops[in.last];
    insert.before(in.last + 1, op_like(last, Alloc{to.disk}, host_queue));
    insert.before(in.last + 1, copy(last, CopyKind::host_to_nvme, to.host, to.disk));
    wait(id, units_after(b, in.last, 2), "stored.", to.host, to.host);
}

// The values written last on the device are those that come back.
void Offloading::fetch(std::int32_t id, const Touched& in, BufferId x, BufferId written, const Places& from) {
    const Block& b = block(id);
    Insertions& insert = inserted_[id];
    if (from.disk >= 0) {
        const std::int64_t early = units_before(b, in.first, 2);
        const Op& near = b.ops[early];
        insert.before(early, op_like(near, Alloc{from.host}, host_queue));
        Op read = copy(near, CopyKind::nvme_to_host, from.disk, from.host);
        read.layer = b.ops[in.first].layer;
        insert.before(early, std::move(read));
    }
    const std::int64_t begin = units_before(b, in.first, 1);
    const Op& near = b.ops[begin];
    insert.before(begin, op_like(near, Alloc{x}, host_queue));
    Op back = copy(near, CopyKind::host_to_device, from.host, written);
    back.layer = b.ops[in.first].layer;
    insert.before(begin, std::move(back));
    if (from.disk >= 0) insert.before(begin, op_like(near, Free{from.host}, host_queue));
}

void Offloading::send_within(std::int32_t id, const Touched& in, BufferId x, const Places& to) {
    const Op& last = block(id).ops[in.last];
    Op leave = copy(last, CopyKind::device_to_host, in.written, to.host);
    leave.queue = compute_queue;
    Insertions& insert = inserted_[id];
    insert.before(in.last + 1, op_like(last, Alloc{to.host}, host_queue));
    insert.before(in.last + 1, std::move(leave));
    insert.before(in.last + 1, op_like(last, Free{x}, host_queue));
}

void Offloading::fetch_within(std::int32_t id, const Touched& in, BufferId x, BufferId written, const Places& from) {
    const Op& first = block(id).ops[in.first];
    Op back = copy(first, CopyKind::host_to_device, from.host, written);
    back.queue = compute_queue;
    Insertions& insert = inserted_[id];
    insert.before(in.first, op_like(first, Alloc{x}, host_queue));
    insert.before(in.first, std::move(back));
}

void Offloading::run() {
    find_lives();
    for (std::size_t b = 0; b < leaves_.size(); ++b) { // in the order of the buffers
        if (leaves_[b] < 0) continue;
        const Life& life = lives_[leaves_[b]];
        if (!goes(life)) continue;
        const auto x = static_cast<BufferId>(b);
        const Places away = places_of(x, life[0].second.written);
        const BufferId written = life[0].second.written;
        if (stops(away)) {
            send_within(life[0].first, life[0].second, x, away);
            fetch_within(life[1].first, life[1].second, x, written, away);
        } else {
            send(life[0].first, life[0].second, x, away);
            fetch(life[1].first, life[1].second, x, written, away);
        }
        const auto& [last, where] = life.back();
        const Op& freed = block(last).ops[where.free];
        inserted_[last].before(where.free + 1, op_like(freed, Free{away.disk >= 0 ? away.disk : away.host}, host_queue));
    }
    for (std::size_t b = 0; b < inserted_.size(); ++b) inserted_[b].apply(l_.plan.blocks[b]);
}

} // namespace

void note_leaving(Lowering& l, const Graph& g, const std::vector<BufferId>& forward_buffers) {
    const Offload& o = l.scenario.strategy.offload;
    if (o.activations == Tier::none) return;
    const std::vector<int> place = places_of_layers(l, g);
    const auto listed = [&](OffloadOp op) {
        return o.activation_ops.empty() || std::find(o.activation_ops.begin(), o.activation_ops.end(), op) != o.activation_ops.end();
    };
    const auto among_layers = [&](int layer) { return layer >= 0 && (o.activation_layers < 0 || place[layer] < o.activation_layers); };
    const auto note = [&](ValueId v) {
        const BufferId b = forward_buffers[v];
        if (b >= 0 && !g.values[v].parameter && !g.values[v].counts) l.leaving.push_back(b);
    };
    std::vector<int> made_in(g.values.size(), -1); // by value: the layer that makes it
    for (const Node& n : g.nodes)
        for (ValueId v : n.out) made_in[v] = n.layer;
    for (const Node& n : g.nodes) {
        if (!among_layers(n.layer)) continue;
        const std::optional<OffloadOp> kind = kind_of(n);
        if (kind ? listed(*kind) : o.activation_ops.empty())
            for (ValueId v : n.out) note(v);
        if (listed(OffloadOp::layer_input))
            for (ValueId v : n.in)
                if (made_in[v] != n.layer) note(v);
    }
}

void offload_activations(Lowering& l) {
    if (!l.leaving.empty()) Offloading(l).run();
}

} // namespace orrery
