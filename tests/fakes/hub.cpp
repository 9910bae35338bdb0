// Collectives are computed when all members have launched them, summed in the order of ranks.
#include "tests/fakes/hub.hpp"

#include "exec/kernels/kernel.hpp"

#include <algorithm>
#include <cstring>

namespace orrery::fake {

std::size_t size_of(ncclDataType_t t) {
    switch (t) {
    case ncclUint8:
        return 1;
    case ncclBfloat16:
    case ncclFloat16:
        return 2;
    case ncclFloat32:
    case ncclInt32:
        return 4;
    default:
        return 8;
    }
}

namespace {

// Of two bytes; each sum is rounded, as a ring of NCCL does.
template <std::uint16_t (*to)(float), float (*from)(std::uint16_t)> struct Half {
    std::uint16_t bits = 0;
    friend Half operator+(Half a, Half b) { return {to(from(a.bits) + from(b.bits))}; }
    friend bool operator<(Half a, Half b) { return from(a.bits) < from(b.bits); }
};

template <class T> void sum(const std::vector<Call>& members, std::size_t from, std::size_t n, void* out) {
    std::vector<T> total(n);
    for (std::size_t m = 0; m < members.size(); ++m) {
        const T* x = static_cast<const T*>(members[m].in) + from;
        for (std::size_t i = 0; i < n; ++i)
            total[i] = m == 0 ? x[i] : members[0].maximum ? std::max(total[i], x[i]) : static_cast<T>(total[i] + x[i]);
    }
    std::memcpy(out, total.data(), n * sizeof(T));
}

void reduce(const std::vector<Call>& members, std::size_t from, std::size_t n, void* out) {
    switch (members[0].type) {
    case ncclFloat32:
        return sum<float>(members, from, n, out);
    case ncclFloat64:
        return sum<double>(members, from, n, out);
    case ncclBfloat16:
        return sum<Half<to_bf16, from_bf16>>(members, from, n, out);
    case ncclFloat16:
        return sum<Half<to_fp16, from_fp16>>(members, from, n, out);
    case ncclInt64:
        return sum<std::int64_t>(members, from, n, out);
    default:
        return sum<unsigned char>(members, from, n, out);
    }
}

void meet(const std::vector<Call>& members) {
    const Call& first = members[0];
    const std::size_t size = size_of(first.type), bytes = first.count * size;
    for (const Call& c : members)
        if (c.kind != first.kind || c.count != first.count || c.type != first.type)
            state().misuse.emplace_back("members make different calls");
    std::vector<std::vector<std::byte>> results(members.size()); // in place is allowed: all is read before anything is written
    for (std::size_t m = 0; m < members.size(); ++m) {
        results[m].resize(first.kind == Kind::all_gather ? bytes * members.size() : bytes);
        if (first.kind == Kind::all_reduce) reduce(members, 0, first.count, results[m].data());
        if (first.kind == Kind::reduce_scatter) reduce(members, m * first.count, first.count, results[m].data());
        if (first.kind == Kind::all_gather)
            for (std::size_t i = 0; i < members.size(); ++i) std::memcpy(results[m].data() + i * bytes, members[i].in, bytes);
    }
    for (std::size_t m = 0; m < members.size(); ++m) {
        std::memcpy(members[m].out, results[m].data(), results[m].size());
        *members[m].done = true;
    }
}

} // namespace

void arrive(Hub& hub, Call call, std::int64_t round) {
    if (call.kind == Kind::send || call.kind == Kind::receive) {
        const bool sends = call.kind == Kind::send;
        const std::pair<int, int> way = sends ? std::pair(call.rank, call.peer) : std::pair(call.peer, call.rank);
        auto& partners = sends ? hub.receives[way] : hub.sends[way];
        if (partners.empty()) return (sends ? hub.sends : hub.receives)[way].push_back(call);
        const Call partner = partners.front();
        partners.pop_front();
        const Call &from = sends ? call : partner, &to = sends ? partner : call;
        if (from.count != to.count || from.type != to.type) state().misuse.emplace_back("a send and its receive differ");
        std::memcpy(to.out, from.in, from.count * size_of(from.type));
        *from.done = *to.done = true;
        return;
    }
    auto& members = hub.rounds[round];
    members.resize(hub.size);
    call.there = true;
    members[call.rank] = call;
    if (std::ranges::all_of(members, &Call::there)) meet(members);
}

} // namespace orrery::fake
