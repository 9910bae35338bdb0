#include "exec/queues/transfers.hpp"

#include "exec/kernels/kernel.hpp"
#include "topology/check.hpp"

#include <algorithm>
#include <numeric>

namespace orrery {
namespace {

DType dtype_of(Element e) {
    switch (e) {
    case Element::fp32:
        return DType::fp32;
    case Element::fp64:
        return DType::fp64;
    case Element::int64:
        return DType::int64;
    case Element::boolean:
        return DType::uint8;
    case Element::bf16:
        return DType::bf16;
    case Element::fp16:
        return DType::fp16;
    }
    broken("an element of no type");
}

Pieces merged(const Pieces& pieces, std::int64_t size) {
    Pieces out;
    for (const Piece& p : pieces) {
        if (p.elements == 0) continue;
        if (!out.empty() && out.back().data + out.back().elements * size == p.data)
            out.back().elements += p.elements;
        else
            out.push_back(p);
    }
    return out;
}

// Elements [begin, begin + n), as far as there are any.
Pieces part(const Pieces& pieces, std::int64_t begin, std::int64_t n, std::int64_t size) {
    Pieces out;
    for (const Piece& p : pieces) {
        const std::int64_t from = std::max<std::int64_t>(begin, 0), to = std::min(begin + n, p.elements);
        if (from < to) out.push_back({p.data + from * size, to - from});
        begin -= p.elements;
    }
    return out;
}

// f(in, out, elements) over the common refinement of two lists of one length.
template <class F> void together(const Pieces& a, const Pieces& b, std::int64_t size, F&& f) {
    std::size_t i = 0, j = 0;
    std::int64_t at_a = 0, at_b = 0;
    while (i < a.size() && j < b.size()) {
        const std::int64_t n = std::min(a[i].elements - at_a, b[j].elements - at_b);
        f(a[i].data + at_a * size, b[j].data + at_b * size, n);
        if ((at_a += n) == a[i].elements) ++i, at_a = 0;
        if ((at_b += n) == b[j].elements) ++j, at_b = 0;
    }
}

class Builder {
  public:
    // alike: members' lists are cut alike, for they have one layout.
    Builder(const Attendance& member, const std::vector<int>& members, bool alike, std::byte* stage, Room room)
        : work_(std::get<Collective>(member.issue->op->work)), stage_(stage), room_(room), alike_(alike),
          members_(static_cast<int>(members.size())),
          index_(static_cast<int>(std::ranges::find(members, member.rank->rank) - members.begin())) {}

    CommCalls build(std::vector<CollectiveSides> all) {
        for (CollectiveSides& s : all) {
            size_ = bytes_of(s.element);
            dtype_ = dtype_of(s.element);
            // Members on several stages have the same tensors, and each its own addresses: a call a tensor.
            const bool as_listed = work_.kind == CollectiveKind::all_reduce && !alike_;
            s.in = as_listed ? s.in : merged(s.in, size_);
            s.out = as_listed ? s.out : merged(s.out, size_);
            add(s);
        }
        return std::move(out_);
    }

  private:
    void add(const CollectiveSides& s) {
        switch (work_.kind) {
        case CollectiveKind::all_reduce:
            return all_reduce(s);
        case CollectiveKind::reduce_scatter:
            return s.sent.empty() ? reduce_scatter(s) : reduce_scatter_rows(s);
        case CollectiveKind::all_gather:
            return s.sent.empty() ? all_gather(s) : all_to_all(s);
        case CollectiveKind::all_to_all:
            return all_to_all(s);
        case CollectiveKind::shift:
            return shift(s, 1);
        case CollectiveKind::shift_back:
            return shift(s, -1);
        case CollectiveKind::broadcast:
            broken("a broadcast, which no pass makes");
        }
    }
    void call(CommCall::Kind kind, const std::byte* in, std::byte* to, std::int64_t n, int peer = -1) {
        out_.calls.push_back({kind, work_.comm, in, to, n, dtype_, work_.maximum, peer});
    }
    void all_reduce(const CollectiveSides& s) {
        together(s.in, s.out, size_, [&](std::byte* in, std::byte* out, std::int64_t n) { call(CommCall::Kind::all_reduce, in, out, n); });
    }
    // Elements beyond a member's input are zero; the members' shards form one run.
    void reduce_scatter(const CollectiveSides& s) {
        const std::int64_t shard = elements(s.out), whole = shard * members_, have = elements(s.in);
        require(have <= whole, "a reduce-scatter's parts do not hold its sum");
        const bool direct = s.in.size() == 1 && (have == whole || whole * size_ <= room_.in);
        if (direct && have < whole) out_.before.push_back({s.in[0].data + have * size_, nullptr, (whole - have) * size_});
        std::byte* in = direct ? s.in[0].data : gathered_here(s.in, whole);
        std::byte* to = s.out.size() == 1 ? s.out[0].data : stage(shard);
        call(CommCall::Kind::reduce_scatter, in, to, shard);
        if (s.out.size() != 1) spread_behind(to, s.out);
    }
    // Parts of uneven size, for a call that has even ones: each at the beginning of a slot as long as the longest. The sum, which has room
    // for that, comes as it is: behind this member's part it is 0.
    void reduce_scatter_rows(const CollectiveSides& s) {
        const std::int64_t shard = *std::ranges::max_element(s.sent);
        if (shard == 0) return;
        require(s.out.size() == 1 && s.out[0].elements >= shard, "the sum of rows has no room in one run");
        std::byte* const in = stage(shard * members_);
        std::int64_t begin = 0;
        for (std::size_t m = 0; m < s.sent.size(); ++m) {
            std::byte* at = in + static_cast<std::int64_t>(m) * shard * size_;
            for (const Piece& p : part(s.in, begin, s.sent[m], size_)) {
                out_.before.push_back({at, p.data, p.elements * size_});
                at += p.elements * size_;
            }
            if (const std::int64_t left = shard - s.sent[m]; left > 0) out_.before.push_back({at, nullptr, left * size_});
            begin += s.sent[m];
        }
        call(CommCall::Kind::reduce_scatter, in, s.out[0].data, shard);
    }
    void all_gather(const CollectiveSides& s) {
        const std::int64_t shard = elements(s.in), whole = shard * members_;
        std::byte* in = s.in.size() == 1 ? s.in[0].data : gathered_here(s.in, shard);
        const bool direct = s.out.size() == 1 && (s.out[0].elements == whole || whole * size_ <= room_.out);
        std::byte* to = direct ? s.out[0].data : stage(whole);
        call(CommCall::Kind::all_gather, in, to, shard);
        if (!direct) spread_behind(to, s.out);
    }
    void all_to_all(const CollectiveSides& s) {
        const std::int64_t part_of_each = elements(s.in) / members_;
        std::int64_t sent = 0, received = 0;
        for (int m = 0; m < members_; ++m) {
            const auto at = static_cast<std::size_t>(m);
            const std::int64_t there = s.sent.empty() ? part_of_each : s.sent[at], back = s.sent.empty() ? part_of_each : s.received[at];
            const Pieces from = part(s.in, sent, there, size_), to = part(s.out, received, back, size_);
            if (work_.kind != CollectiveKind::all_gather) sent += there; // of which everyone gets the same
            received += back;
            exchange(from, to, m, m);
        }
    }
    void shift(const CollectiveSides& s, int by) {
        exchange(s.in, s.out, (index_ + by + members_) % members_, (index_ - by + members_) % members_);
    }

    // Sends `from` to one member, receives `to` from another: each in one run, for the peer's runs are not known here.
    void exchange(const Pieces& from, const Pieces& to, int to_member, int from_member) {
        if (to_member == index_ && from_member == index_) {
            together(from, to, size_, [&](std::byte* a, std::byte* b, std::int64_t n) {
                if (a != b) out_.before.push_back({b, a, n * size_});
            });
            return;
        }
        if (const std::int64_t n = elements(from); n > 0)
            call(CommCall::Kind::send, from.size() == 1 ? from[0].data : gathered_here(from, n), nullptr, n, to_member);
        if (const std::int64_t n = elements(to); n > 0) {
            std::byte* into = to.size() == 1 ? to[0].data : stage(n);
            call(CommCall::Kind::receive, nullptr, into, n, from_member);
            if (to.size() != 1) spread_behind(into, to);
        }
    }
    std::byte* stage(std::int64_t n) {
        std::byte* at = stage_ + out_.staging;
        out_.staging += (n * size_ + 255) / 256 * 256;
        return at;
    }
    std::byte* gathered_here(const Pieces& from, std::int64_t n) {
        std::byte* const at = stage(n);
        std::int64_t filled = 0;
        for (const Piece& p : from) {
            out_.before.push_back({at + filled * size_, p.data, p.elements * size_});
            filled += p.elements;
        }
        if (filled < n) out_.before.push_back({at + filled * size_, nullptr, (n - filled) * size_});
        return at;
    }
    void spread_behind(const std::byte* from, const Pieces& to) {
        for (const Piece& p : to) {
            out_.behind.push_back({p.data, from, p.elements * size_});
            from += p.elements * size_;
        }
    }

    const Collective& work_;
    std::byte* stage_;
    Room room_;
    bool alike_;
    int members_, index_;
    std::int64_t size_ = 4;
    DType dtype_ = DType::fp32;
    CommCalls out_;
};

} // namespace

CommCalls collective_calls(const World& world, const Attendance& member, std::byte* stage, Room room) {
    const auto& work = std::get<Collective>(member.issue->op->work);
    const auto& members = world.members[work.comm][member.rank->rank];
    const bool alike = !(world.plan.communicators[work.comm].axes & mask(Axis::pp));
    return Builder(member, members, alike, stage, room).build(sides_of(world, member));
}

CommCalls exchange_calls(const World& world, const Attendance& side) {
    const auto& transfers = std::get<Exchange>(side.issue->op->work).transfers;
    CommCalls out;
    for (std::size_t k = 0; k < transfers.size(); ++k) {
        const Operand& o = end_of(side, k);
        const auto& members = world.members[transfers[k].comm][side.rank->rank];
        const auto peer = std::ranges::find_if(members, [&](int m) { return m != side.rank->rank; });
        require(peer != members.end(), "a transfer without a peer");
        const std::int64_t bytes = elements(*o.buffer) * static_cast<std::int64_t>(stored_bytes(o.buffer->dtype, world.real));
        const auto at = static_cast<int>(peer - members.begin());
        if (transfers[k].send)
            out.calls.push_back({CommCall::Kind::send, transfers[k].comm, o.data, nullptr, bytes, DType::uint8, false, at});
        else
            out.calls.push_back({CommCall::Kind::receive, transfers[k].comm, nullptr, o.data, bytes, DType::uint8, false, at});
    }
    return out;
}

} // namespace orrery
