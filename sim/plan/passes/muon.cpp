#include "sim/plan/passes/muon.hpp"

#include "sim/plan/passes/optimizer_block.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace orrery {
namespace {

// The linears whose weights they are, by tensor, of one chunk.
std::map<TensorId, const Node*> linears_of(const Lowering& l, int chunk) {
    std::map<TensorId, const Node*> of;
    const Graph& g = l.graphs[chunk];
    for (const Node& n : g.nodes)
        if (n.kind == NodeKind::linear && !n.params.empty())
            if (const auto it = l.tensor_ids.find(g.value(n.params.front()).name); it != l.tensor_ids.end()) of.emplace(it->second, &n);
    return of;
}

void add(std::vector<MatrixShape>& shapes, MatrixShape m) {
    if (m.rows <= 0 || m.cols <= 0 || m.count <= 0) return;
    for (MatrixShape& known : shapes)
        if (known.rows == m.rows && known.cols == m.cols && known.ranks == m.ranks) {
            known.count += m.count;
            return;
        }
    shapes.push_back(m);
}

// A parameter's matrices. Queries, keys and values are three (Megatron-Core's muon_split_qkv, on by default); gate and up two where they
// are linears of their own; each expert has its own.
void add_matrices(const Lowering& l, const Parameter& p, const Node* linear, std::vector<MatrixShape>& shapes) {
    const Buffer& w = l.plan.buffers[p.weight];
    const std::size_t last = w.shape.size() - 1;
    MatrixShape m{w.shape[last - 1], w.shape[last], last > 1 ? w.shape[0] : 1};
    const int ranks = (p.expert ? l.plan.expert_mesh : l.plan.mesh).extent(Axis::tp);
    if (ranks > 1 && w.placement.on(Axis::tp) == PlacementKind::sharded && l.scenario.training.muon_matrices == MuonMatrices::duplicated) {
        const bool by_rows = w.placement.dim[Axis::tp] == static_cast<int>(last) - 1;
        (by_rows ? m.rows : m.cols) *= ranks;
        m.ranks = ranks;
    }
    const Model& model = l.scenario.model;
    if (linear && linear->part == LinearPart::qkv) {
        const std::int64_t heads = model.attention_heads, keys = model.kv_heads, all = heads + 2 * keys;
        MatrixShape queries = m, others = m;
        queries.rows = m.rows * heads / all;
        others.rows = (m.rows - queries.rows) / 2;
        others.count *= 2;
        add(shapes, queries);
        return add(shapes, others);
    }
    const bool pair = linear && model.gated() && modules_of(l, *linear) == 2 && m.rows % 2 == 0;
    if (pair) m.rows /= 2, m.count *= 2;
    add(shapes, m);
}

std::vector<MatrixShape> matrices_of(const Lowering& l, int stage, const std::vector<std::int32_t>& parameters) {
    std::vector<MatrixShape> shapes;
    std::map<int, std::map<TensorId, const Node*>> linears; // by chunk
    for (const std::int32_t i : parameters) {
        const Parameter& p = l.parameters[stage][i];
        if (!linears.contains(p.chunk)) linears[p.chunk] = linears_of(l, p.chunk);
        const auto& of_chunk = linears[p.chunk];
        const auto it = of_chunk.find(p.tensor);
        add_matrices(l, p, it == of_chunk.end() ? nullptr : it->second, shapes);
    }
    return shapes;
}

MuonSet whole_set(const Lowering& l, int stage, const std::vector<std::int32_t>& parameters, bool expert) {
    MuonSet set;
    set.expert = expert;
    for (const std::int32_t i : parameters) {
        const Parameter& p = l.parameters[stage][i];
        set.gradients.push_back(p.gradient);
        set.weights.push_back(p.weight);
        set.elements += p.elements;
    }
    set.shapes = matrices_of(l, stage, parameters);
    return set;
}

void take_shard(const Bucket& b, MuonSet& set) {
    set.gradients.push_back(b.gradient_shard);
    set.weights.push_back(b.weight_shard);
    set.elements += b.shard_elements;
}

} // namespace

bool by_muon(const Lowering& l, const Parameter& p) {
    if (l.scenario.training.optimizer != Optimizer::muon || !p.trained()) return false;
    const UnitKind unit = l.graphs[p.chunk].unit_kinds[p.unit];
    return (unit == UnitKind::layer || unit == UnitKind::prediction) && l.plan.tensors[p.tensor].use == TensorUse::weight &&
           l.plan.buffers[p.weight].shape.size() == (p.expert ? 3u : 2u); // an expert's biases have two
}

std::vector<MatrixShape> of_first_owner(std::vector<MatrixShape> all, std::int64_t ranks) {
    std::stable_sort(all.begin(), all.end(), [](const MatrixShape& a, const MatrixShape& b) { return a.local() > b.local(); });
    const auto rounds = [&](std::int64_t matrices) { return (matrices + ranks - 1) / ranks; };
    std::int64_t at = 0;
    for (MatrixShape& m : all) {
        const std::int64_t before = rounds(at);
        at += m.count;
        m.count = rounds(at) - before;
    }
    std::erase_if(all, [](const MatrixShape& m) { return m.count == 0; });
    return all;
}

std::vector<MuonSet> muon_sets(const Lowering& l, int stage) {
    const DataParallel& dp = l.data_parallel;
    const auto& parameters = l.parameters[stage];
    std::vector<MuonSet> sets;
    for (const bool expert : {false, true}) {
        std::vector<std::int32_t> whole, owned;
        MuonSet shards;
        std::int64_t owners = 1;
        if (!dp.sharded())
            for (std::int32_t i = 0; i < static_cast<std::int32_t>(parameters.size()); ++i)
                if (parameters[i].expert == expert && by_muon(l, parameters[i])) whole.push_back(i);
        for (const auto& buckets : dp.buckets)
            for (const Bucket& b : buckets) {
                if (!dp.sharded() || b.stage != stage || !b.muon || b.expert != expert) continue;
                if (!dp.sharded(b)) { // experts that no other rank has
                    whole.insert(whole.end(), b.parameters.begin(), b.parameters.end());
                } else if (l.practice.owns_matrices) {
                    owners = b.shards;
                    owned.insert(owned.end(), b.parameters.begin(), b.parameters.end());
                    take_shard(b, shards);
                } else {
                    MuonSet set;
                    set.expert = expert;
                    set.gathered = &b;
                    set.shapes = matrices_of(l, stage, b.parameters);
                    take_shard(b, set);
                    sets.push_back(std::move(set));
                }
            }
        if (!whole.empty()) sets.push_back(whole_set(l, stage, whole, expert));
        if (owned.empty()) continue;
        shards.expert = expert;
        shards.shapes = of_first_owner(matrices_of(l, stage, owned), owners);
        sets.push_back(std::move(shards));
    }
    return sets;
}

namespace {

// The ops of one set, and the room they need.
class MuonStep {
  public:
    MuonStep(Lowering& l, int stage, const MuonSet& set, const MuonStates& states, const std::string& suffix, Block& out)
        : l_(l), set_(set), states_(states), out_(out), stage_(stage), suffix_(suffix) {}

    void run() {
        for (const MatrixShape& m : set_.shapes) matrices_ += m.count;
        BufferId direction = add_to_momentum();
        if (set_.gathered) direction = gather(direction);
        std::vector<BufferId> made{direction};
        orthogonalize(direction, made);
        apply(made);
        for (const BufferId b : made) free(b);
    }

  private:
    // type: bf16 where it is gathered from shards, else as the momentum is added up.
    BufferId room(const char* what, std::int64_t elements, DType type, bool divided, bool sharded) {
        Buffer b;
        b.role = Role::step_gradients;
        b.name = fmt::format("opt.{}{}", what, suffix_);
        b.shape = {elements};
        b.dtype = type;
        b.bytes = bytes(b.shape, type);
        b.kind = MemoryKind::workspace;
        b.scope = Scope::action;
        b.stage = static_cast<std::int16_t>(stage_);
        b.expert = set_.expert;
        if (divided) b.placement.set(Axis::tp, PlacementKind::sharded);
        if (sharded)
            for (Axis a : {Axis::dp, Axis::cp}) b.placement.set(a, PlacementKind::sharded);
        const BufferId id = l_.add(std::move(b));
        out_.ops.push_back(step_op({}, Alloc{id}, {}, {}, host_queue));
        return id;
    }
    void free(BufferId b) { out_.ops.push_back(step_op({}, Free{b}, {}, {}, host_queue)); }

    OptimizerStep work(OptimizerStep::Part part, std::int64_t elements, std::int64_t matrices) const {
        OptimizerStep w{OptimizerKind::muon, elements, false, false, part};
        w.matrices = matrices;
        return w;
    }

    // The momentum is the gradients' mean; a step is made of it and of the gradient again (Nesterov). Matrices come one after the other
    // and need the room of one; shards need all of theirs.
    BufferId add_to_momentum() {
        std::int64_t largest = 0;
        for (const MatrixShape& m : set_.shapes) largest = std::max(largest, m.local());
        const bool shard = set_.gathered != nullptr;
        const BufferId direction = room("direction", shard ? set_.elements : largest, shard ? DType::bf16 : DType::fp32, true, shard);
        std::vector<BufferId> in = set_.gradients;
        in.insert(in.end(), states_.scale.begin(), states_.scale.end());
        in.push_back(states_.momentum);
        out_.ops.push_back(step_op("momentum" + suffix_, work(OptimizerStep::Part::direction, set_.elements, matrices_), in,
                                   {states_.momentum, direction}));
        return direction;
    }

    // Distributed Muon: all of the bucket on each rank.
    BufferId gather(BufferId shard) {
        const std::int64_t elements = set_.elements * set_.gathered->shards;
        const BufferId whole = room("directions", elements, DType::bf16, true, false);
        const CommId comm = l_.plan.buckets[set_.gathered->id].gather;
        const Collective work{CollectiveKind::all_gather, comm, bytes({elements}, DType::bf16), DType::bf16};
        out_.ops.push_back(step_op("directions.gather" + suffix_, work, {shard}, {whole}, queue_of(comm)));
        free(shard);
        return whole;
    }

    // Each matrix gathered over tensor-parallel ranks, where that is asked for, and made orthogonal in bf16: X, the next X, A and B.
    void orthogonalize(BufferId direction, std::vector<BufferId>& made) {
        std::int64_t elements = 0, largest = 0;
        for (const MatrixShape& m : set_.shapes) {
            const std::int64_t side = std::min(m.rows, m.cols);
            elements = std::max(elements, 2 * m.elements() + 2 * side * side);
            if (m.ranks > 1) largest = std::max(largest, m.elements());
        }
        const BufferId scratch = room("newton_schulz", elements, DType::bf16, false, false);
        const DType type = l_.plan.buffers[direction].dtype;
        const BufferId whole = largest > 0 ? room("whole_matrix", largest, type, false, false) : -1;
        for (const MatrixShape& m : set_.shapes) {
            if (m.ranks > 1) gather_matrices(m, direction, whole, type);
            const BufferId x = m.ranks > 1 ? whole : direction;
            OptimizerStep w = work(OptimizerStep::Part::orthogonal, m.elements() * m.count, m.count);
            w.rows = m.rows;
            w.cols = m.cols;
            out_.ops.push_back(step_op(fmt::format("orthogonal.{}x{}{}", m.rows, m.cols, suffix_), w, {x}, {x, scratch}));
        }
        free(scratch);
        if (whole >= 0) made.push_back(whole);
    }

    void gather_matrices(const MatrixShape& m, BufferId direction, BufferId whole, DType type) {
        const CommId comm = set_.expert ? l_.add_expert_communicator("etp", mask(Axis::tp)) : l_.comm("tp");
        for (std::int64_t left = m.count; left > 0;) {
            const std::int64_t times = std::min<std::int64_t>(left, 255);
            Collective work{CollectiveKind::all_gather, comm, bytes({m.elements()}, type), type};
            work.times = static_cast<std::uint8_t>(times);
            out_.ops.push_back(
                step_op(fmt::format("matrix.gather.{}x{}{}", m.rows, m.cols, suffix_), work, {direction}, {whole}, queue_of(comm)));
            left -= times;
        }
    }

    void apply(const std::vector<BufferId>& made) {
        std::vector<BufferId> in = made, result = set_.weights;
        if (states_.master >= 0) {
            in.push_back(states_.master);
            result.push_back(states_.master);
        }
        out_.ops.push_back(step_op("optimizer" + suffix_, work(OptimizerStep::Part::apply, set_.elements, matrices_), in, result));
    }

    Lowering& l_;
    const MuonSet& set_;
    const MuonStates& states_;
    Block& out_;
    int stage_;
    std::string suffix_;
    std::int64_t matrices_ = 0;
};

} // namespace

void step_by_muon(Lowering& l, int stage, const MuonSet& set, const MuonStates& states, const std::string& suffix, Block& out) {
    MuonStep(l, stage, set, states, suffix, out).run();
}

} // namespace orrery
