// Expert parallelism (Lepikhin et al., arXiv:2006.16668) with parallel folding (Liu et al., arXiv:2504.14960): experts have a mesh of
// their own over the ranks of a stage, expert-tensor x expert x expert-data, whatever attention's tensor x context x data is. Experts
// are divided over ep, their columns over expert-tensor ranks; rows go to their experts by a dispatch and come back by a combine.
// Tokens enter as sequence parallelism left them: every rank sends its own.
//
// After it: values between dispatch and combine are placed over the experts' mesh and have as many rows as the fullest rank gets, or as any
// could where shapes are fixed beforehand (Practice::worst_case_rows; Value::filled: those it gets), or as there is room for in a plan that
// a router's own choices run (Runtime::routed); experts' parameters lie on that mesh too, so that their gradients are partial over
// expert-data ranks alone.
#include "sim/plan/passes/passes.hpp"

#include "sim/model/expert_load.hpp"
#include "sim/plan/emitter.hpp"
#include "sim/scenario/parameters.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

struct Folding {
    Lowering& l;
    const MoeSpec& moe;
    std::int64_t ep, etp;
    bool gathers, tokens_travel;

    bool moves() const { return ep > 1 || etp > 1; }

    int mixture(int layer) const { return mixture_layers(l.scenario.model, layer); }
    std::int64_t sent(std::int64_t tokens, int layer) const { return rows_sent(moe, tokens, mixture(layer)); }
    // Over the mean, what the fullest rank of a layer gets. Each layer's exchange waits for its own; where loads differ by layer, memory
    // is that of a rank which is the fullest of all of them: a bound.
    double fullest(int layer) const { return fullest_share(moe, static_cast<int>(ep), mixture(layer)); }
    // Rows the experts of the fullest rank work on.
    std::int64_t rows_of_experts(std::int64_t tokens, int layer) const {
        return static_cast<std::int64_t>(std::ceil(static_cast<double>(sent(tokens, layer)) * fullest(layer) - 1e-9)) * etp;
    }
    // A router's choices are not known before the plan runs, so buffers need room for them.
    bool routed() const { return l.scenario.runtime.routed && !moe.pads(); }
    // Room for the rows that leave a rank, and for those that its experts receive: runtime.expert_room times the mean, at most what all
    // ranks can send there.
    std::int64_t room_outside(std::int64_t tokens, int layer) const { return routed() ? most_rows_sent(moe, tokens) : sent(tokens, layer); }
    std::int64_t room_of_routed(std::int64_t tokens, int layer) const {
        const double times = std::max(fullest(layer), l.scenario.runtime.expert_room);
        const auto all = static_cast<double>(ep * most_rows_sent(moe, tokens, static_cast<int>(ep)));
        return static_cast<std::int64_t>(std::min(all, std::ceil(static_cast<double>(sent(tokens, layer)) * times - 1e-9))) * etp;
    }
    // Room for all rows of the group that could go to one rank: a token meets an expert once. Gathered tokens are repeated for all of
    // their experts before those of other ranks are masked out. filled: rows_of_experts.
    std::int64_t room(std::int64_t tokens, int layer, std::int64_t filled) const {
        if (!l.practice.worst_case_rows) return routed() ? room_of_routed(tokens, layer) : filled;
        return std::max(filled, ep * most_rows_sent(moe, tokens, gathers ? 1 : static_cast<int>(ep)) * etp);
    }
    // Tokens at the experts' side where tokens travel: all of the group's, or those with an expert here.
    std::int64_t tokens_arrived(std::int64_t tokens, int layer) const {
        if (gathers) return tokens * ep * etp;
        const double touched = static_cast<double>(ep) * (1 - std::pow(1 - 1 / static_cast<double>(ep), moe.top_k));
        return static_cast<std::int64_t>(std::ceil(static_cast<double>(tokens) * touched * fullest(layer) - 1e-9)) * etp;
    }

    void place(Value& v, PlacementKind over_tp, int tp_dim) const {
        v.expert = true;
        v.placement = {};
        for (Axis a : {Axis::ep, Axis::dp, Axis::dpr, Axis::dpw}) v.placement.set(a, PlacementKind::sharded, 0);
        v.placement.set(Axis::tp, over_tp, tp_dim);
    }
    void shard_parameter(Value& v) const {
        v.expert = true;
        v.placement = {};
        v.shape[0] /= ep;
        v.placement.set(Axis::ep, PlacementKind::sharded, 0);
        for (std::size_t d = 0; d < v.dims.size(); ++d)
            if (v.dims[d] == DimKind::expert_parallel) {
                v.shape[d] /= etp;
                v.placement.set(Axis::tp, PlacementKind::sharded, static_cast<int>(d));
            }
    }
    // A value of the experts' region: its rows, its columns, and how expert-tensor ranks hold it.
    void shard_rows(Value& v, std::int64_t room, std::int64_t filled) const {
        v.shape[0] = room;
        v.filled = filled;
        const bool columns = v.dims[1] == DimKind::expert_parallel;
        if (columns) v.shape[1] /= etp;
        place(v, etp == 1 ? PlacementKind::invariant : columns ? PlacementKind::sharded : PlacementKind::varying, columns ? 1 : 0);
    }

    Node mover(NodeKind kind, const Node& at, std::vector<ValueId> in, ValueId out) const {
        Node n;
        n.kind = kind;
        n.name = at.name.substr(0, at.name.rfind('.') + 1) + name(kind);
        n.layer = at.layer;
        n.unit = at.unit;
        n.in = std::move(in);
        n.out = {out};
        n.gradient_dtype = at.gradient_dtype;
        n.dispatches_tokens = tokens_travel;
        return n;
    }
};

// One chunk's graph with its experts' rows sent to them and back.
struct GraphFolding {
    const Folding& f;
    Graph& g;
    std::vector<Node> nodes = {};
    Node held = {}; // a dispatch of rows, or the permutation after one of tokens, until experts want its rows
    bool holding = false;
    std::vector<ValueId> here = {};                 // tokens, probabilities and map after a dispatch of tokens
    std::vector<ValueId> inside = {}, outside = {}; // rows and their probabilities
    std::int64_t tokens = 0, room = 0, filled = 0;  // of the permutation met last: its tokens, and rows of the experts
    std::vector<ValueId> ends = {};                 // what permutations take back

    void shard_inside() {
        for (ValueId v : inside) f.shard_rows(g.value(v), room, filled);
    }

    // Tokens with their probabilities and map: whole to each rank they go to, whose gradients of them are summands.
    void dispatch_tokens(const Node& n) {
        const std::vector<ValueId> sent{n.in[0], n.in[3], n.in[1]};
        std::vector<ValueId> arrived;
        for (ValueId s : sent) {
            Value v = g.value(s);
            v.name += ".dispatched";
            v.shape[0] = f.tokens_arrived(tokens, n.layer);
            f.place(v, PlacementKind::varying, 0);
            v.placement.set(Axis::ep, PlacementKind::varying);
            arrived.push_back(g.add(std::move(v)));
        }
        Node dispatch = f.mover(NodeKind::dispatch, n, {sent[0], n.in[2], sent[1], sent[2]}, arrived[0]);
        dispatch.out = arrived;
        nodes.push_back(std::move(dispatch));
        shard_inside();
        here = arrived;
        held = n;
        held.in = {arrived[0], arrived[2], n.in[2], arrived[1]};
        held.dispatches_tokens = true;
        holding = true;
    }

    // Rows are sent from where their tokens are. Shared experts beside it stand before it: it waits for the permutation alone, and the sort
    // behind it for the exchange.
    void dispatch_rows(const Node& n) {
        inside.clear();
        for (ValueId o : outside) {
            Value received = g.value(o);
            received.name += ".dispatched";
            f.shard_rows(received, room, filled);
            g.value(o).shape[0] = f.room_outside(tokens, n.layer);
            g.value(o).filled = f.sent(tokens, n.layer);
            g.value(o).placement = g.value(n.in[0]).placement;
            inside.push_back(g.add(std::move(received)));
        }
        nodes.push_back(n);
        held = f.mover(NodeKind::dispatch, n, {outside[0], n.in[2], outside[1]}, inside[0]);
        held.out = inside;
        holding = true;
    }

    void permute(const Node& n) {
        tokens = g.value(n.in[0]).shape[0];
        filled = f.rows_of_experts(tokens, n.layer);
        room = f.room(tokens, n.layer, filled);
        outside = inside = n.out;
        if (f.moves()) return f.tokens_travel ? dispatch_tokens(n) : dispatch_rows(n);
        shard_inside();
        nodes.push_back(n);
    }

    bool of_experts(const Node& n) const {
        if (n.kind != NodeKind::linear && n.kind != NodeKind::adapt && n.kind != NodeKind::clamp && n.kind != NodeKind::activation &&
            n.kind != NodeKind::weigh && n.kind != NodeKind::weighted_bias && n.kind != NodeKind::dropout)
            return false;
        const Value& out = g.value(n.out[0]);
        return !out.dims.empty() && out.dims[0] == DimKind::routed;
    }

    void expert(Node& n) {
        if (holding) nodes.push_back(held);
        holding = false;
        for (ValueId& v : n.in)
            for (std::size_t i = 0; i < outside.size(); ++i)
                if (v == outside[i]) v = inside[i];
        for (ValueId v : n.out) f.shard_rows(g.value(v), room, filled);
        nodes.push_back(n);
        // The last of them: its sum over the expert-tensor ranks is part of the combine.
        const bool row_parallel = n.kind == NodeKind::linear && g.value(n.params[0]).dims[2] == DimKind::expert_parallel;
        if (row_parallel && f.etp > 1) g.value(n.out[0]).placement.set(Axis::tp, PlacementKind::partial);
        const bool last = std::find(ends.begin(), ends.end(), n.out[0]) != ends.end();
        if (!last || !f.moves() || f.tokens_travel) return;
        Value back = g.value(outside[0]);
        back.name = g.value(n.out[0]).name + ".combined";
        const ValueId combined = g.add(std::move(back));
        nodes.push_back(f.mover(NodeKind::combine, n, {n.out[0]}, combined));
        inside[0] = combined;
    }

    void unpermute(Node& n) {
        if (!f.tokens_travel) {
            n.in[0] = inside[0];
            nodes.push_back(n);
            return;
        }
        // Each rank sums the rows it has; the combine sums over ranks.
        const ValueId y = n.out[0];
        Value partial = g.value(y);
        partial.name = g.value(y).name + ".local";
        partial.shape[0] = f.tokens_arrived(tokens, n.layer);
        f.place(partial, PlacementKind::partial, 0);
        partial.placement.set(Axis::ep, PlacementKind::partial);
        const ValueId local = g.add(std::move(partial));
        n.in[1] = here[2];
        n.out[0] = local;
        n.dispatches_tokens = true;
        nodes.push_back(n);
        nodes.push_back(f.mover(NodeKind::combine, n, {local}, y));
    }

    void run() {
        for (Value& v : g.values)
            if (v.parameter && !v.dims.empty() && v.dims[0] == DimKind::expert) f.shard_parameter(v);
        for (const Node& n : g.nodes)
            if (n.kind == NodeKind::unpermute) ends.push_back(n.in[0]);
        for (Node& n : g.nodes)
            if (n.kind == NodeKind::permute)
                permute(n);
            else if (of_experts(n))
                expert(n);
            else if (n.kind == NodeKind::unpermute && f.moves())
                unpermute(n);
            else
                nodes.push_back(n);
        g.nodes = std::move(nodes);
    }
};

} // namespace

void expert_parallel(Lowering& l) {
    const Scenario& sc = l.scenario;
    if (!sc.model.moe) return;
    const Strategy& s = sc.strategy;
    const TokenDispatcher dispatcher = sc.runtime.token_dispatcher;
    const int stage_ranks = l.plan.mesh.ranks() / l.plan.stages, etp = s.expert_tensor_parallel, ep = s.expert_parallel;
    const int workers = l.plan.mesh.extent(Axis::dpw), copies = l.plan.mesh.extent(Axis::dpr), data = stage_ranks / (etp * ep * workers),
              replicas = data % copies == 0 ? copies : 1;
    l.plan.expert_mesh.size = {etp, 1, ep, data / replicas, replicas, workers, l.plan.stages};
    l.plan.expert_mesh.order = l.plan.mesh.order;
    const Folding f{l, *sc.model.moe, ep, etp, dispatcher == TokenDispatcher::allgather, dispatcher != TokenDispatcher::alltoall};
    if (ep > 1) l.add_expert_communicator("ep", mask(Axis::ep));
    if (etp > 1 && !f.tokens_travel) l.add_expert_communicator("etp", mask(Axis::tp));
    const bool tells_counts = ep > 1 && host_waits_for_counts(sc); // of all ranks that rows may come from
    if ((f.moves() && f.tokens_travel) || tells_counts) l.add_expert_communicator("ep.etp", mask(Axis::ep) | mask(Axis::tp));
    if (sc.model.moe->auxiliary_loss && s.tensor_parallel > 1 && s.context_parallel > 1)
        l.add_communicator("tp.cp", mask(Axis::tp) | mask(Axis::cp)); // of the loads of whole sequences
    for (Graph& g : l.graphs) GraphFolding{f, g}.run();
}

} // namespace orrery
