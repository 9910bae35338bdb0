#include "sim/plan/passes/exchange_blocks.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace orrery {
namespace {

Op memory_op(Work work, std::uint8_t port) {
    Op op;
    op.work = std::move(work);
    op.queue = host_queue;
    op.phase = Phase::exchange;
    op.port = port;
    return op;
}

// Each tensor-parallel rank sends 1/t of a value that all hold, and the receivers gather it over NVLink.
bool scatters(const Lowering& l) {
    const Strategy& s = l.scenario.strategy;
    return l.practice.scatters_transfers && s.tensor_parallel > 1 && !s.sequence_parallel;
}

// Transfers awaited one by one: both ends take activations first, those of earlier stages before later ones', so that they meet.
std::vector<std::size_t> order_of(const std::vector<TransferStep>& transfers, bool apart) {
    std::vector<std::size_t> order(transfers.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto earlier = [&](std::size_t a, std::size_t b) {
        return std::pair{transfers[a].gradient, transfers[a].from_stage} < std::pair{transfers[b].gradient, transfers[b].from_stage};
    };
    if (apart) std::stable_sort(order.begin(), order.end(), earlier);
    return order;
}

// The block of one exchange as it grows.
struct ExchangeMaker {
    Lowering& l;
    const bool blocking;
    const bool scatter = scatters(l), apart = blocking && l.practice.transfers_one_by_one;
    std::string name = "X";
    std::vector<Op> before = {}, behind = {}, later = {}; // memory ops around the exchange; gathers of a block of their own
    // A second transfer of one channel goes into a second exchange after the first: transfers to one peer keep their order.
    std::vector<Op> rounds = {};
    std::vector<std::vector<CommId>> met = {};

    Op& round_of(CommId comm) {
        std::size_t round = apart ? met.size() : 0;
        while (round < met.size() && std::find(met[round].begin(), met[round].end(), comm) != met[round].end()) ++round;
        if (round == rounds.size()) {
            met.emplace_back();
            rounds.emplace_back();
            rounds.back().phase = Phase::exchange;
            rounds.back().work = Exchange{};
        }
        met[round].push_back(comm);
        return rounds[round];
    }

    // A rank's own 1/t of the value; the receivers of all of them make it whole.
    BufferId part_of(BufferId whole, bool send) {
        Buffer p = l.buffer(whole);
        p.name += send ? ".part" : ".received";
        p.bytes = {(p.bytes.count + l.tp() - 1) / l.tp()};
        p.shape[0] = p.shape[0] / l.tp() + (p.shape[0] % l.tp() != 0);
        p.storage = send ? whole : -1;
        p.part_of = send ? l.comm("tp") : -1;
        p.kind = send ? p.kind : MemoryKind::communication;
        p.placement.set(Axis::tp, PlacementKind::sharded, 0);
        return l.add(std::move(p));
    }

    void gather(BufferId whole, BufferId part, std::uint8_t port) {
        Op gather;
        gather.name = l.buffer(whole).name + ".gather";
        gather.work = Collective{CollectiveKind::all_gather, l.comm("tp"), l.buffer(whole).bytes, l.buffer(whole).dtype};
        gather.queue = queue_of(l.comm("tp"));
        gather.phase = Phase::exchange;
        gather.port = port;
        gather.in = {part};
        gather.out = {whole};
        auto& ops = blocking ? behind : later;
        ops.push_back(gather);
        ops.push_back(memory_op(Free{part}, port));
    }

    void add(const TransferStep& t, std::uint8_t port) {
        // A transfer names its sending chunk: activations go to the chunk after, gradients to the one before.
        const int receiver = t.gradient ? t.chunk - 1 : t.chunk + 1;
        const ChunkBlocks& mine = l.chunks[t.send ? t.chunk : receiver];
        const BufferId whole = t.send ? (t.gradient ? mine.input_gradient : mine.output) : (t.gradient ? mine.output_gradient : mine.input);
        const BufferId root = storage(l.plan, whole);
        const CommId comm = l.add_communicator(fmt::format("pp.{}.{}-{}", t.gradient ? "down" : "up", t.from_stage, t.to_stage),
                                               mask(Axis::pp), {t.from_stage, t.to_stage});
        const BufferId part = scatter ? part_of(whole, t.send) : whole;
        Op& round = round_of(comm);
        std::get<Exchange>(round.work).transfers.push_back({comm, t.send, l.buffer(part).bytes, part, port});
        (t.send ? round.in : round.out).push_back(part);
        name += fmt::format(".{}{}{}", t.send ? "s" : "r", t.gradient ? "B" : "F", t.send ? t.chunk : receiver);
        if (t.send) {
            if (l.buffer(root).freed_by_send) behind.push_back(memory_op(Free{root}, port));
            return;
        }
        before.push_back(memory_op(Alloc{root}, port));
        if (!scatter) return;
        before.push_back(memory_op(Alloc{part}, port));
        gather(whole, part, port);
    }

    Block block(int stage) {
        Block block;
        block.kind = BlockKind::exchange;
        block.stage = static_cast<std::int16_t>(stage);
        block.name = name;
        block.blocking = blocking;
        block.ops = std::move(before);
        for (Op& op : rounds) {
            op.name = name;
            op.queue = queue_of(std::get<Exchange>(op.work).transfers[0].comm);
            if (apart && &op != &rounds.front()) op.deps.push_back(static_cast<std::int32_t>(block.ops.size()) - 1);
            block.ops.push_back(std::move(op));
        }
        for (Op& op : behind) block.ops.push_back(std::move(op));
        return block;
    }
};

} // namespace

ExchangeBlocks make_exchange_block(Lowering& l, int stage, const std::vector<TransferStep>& transfers, bool blocking) {
    ExchangeMaker maker{l, blocking};
    for (std::size_t i : order_of(transfers, maker.apart)) maker.add(transfers[i], static_cast<std::uint8_t>(i));
    Block block = maker.block(stage);
    ExchangeBlocks made;
    if (!maker.later.empty()) {
        Block gather;
        gather.kind = BlockKind::exchange;
        gather.stage = block.stage;
        gather.name = "G" + block.name.substr(1);
        gather.ops = std::move(maker.later);
        made.gather = l.add(std::move(gather));
    }
    made.exchange = l.add(std::move(block));
    return made;
}

} // namespace orrery
