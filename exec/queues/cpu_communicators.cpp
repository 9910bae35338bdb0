// Communication between CPU streams: the last to come does the work, for all of those it was waited for.
#include "exec/local/collectives.hpp"
#include "exec/queues/cpu_state.hpp"
#include "topology/check.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace orrery {
namespace {

Element element_of(DType t) {
    switch (t) {
    case DType::fp64:
        return Element::fp64;
    case DType::bf16:
        return Element::bf16;
    case DType::fp16:
        return Element::fp16;
    case DType::int64:
        return Element::int64;
    case DType::boolean:
    case DType::uint8:
        return Element::boolean;
    default:
        return Element::fp32;
    }
}

std::exception_ptr mismatch(const CpuComm& comm, int member) {
    return std::make_exception_ptr(
        std::runtime_error("communicator " + comm.name + ": its member " + std::to_string(member) + " makes another call than its first"));
}

class CpuMember final : public StreamCommunicator {
  public:
    CpuMember(std::shared_ptr<CpuFabric::State> state, std::shared_ptr<CpuComm> comm, int member, std::function<void(QueueId, CpuCall)> add)
        : state_(std::move(state)), comm_(std::move(comm)), member_(member), add_(std::move(add)) {}

    Status all_reduce(const void* in, void* out, std::int64_t n, DType t, bool maximum, QueueId q) override {
        return call(CpuCall::Kind::all_reduce, in, out, n, t, q, -1, maximum);
    }
    Status reduce_scatter(const void* in, void* out, std::int64_t n, DType t, QueueId q) override {
        return call(CpuCall::Kind::reduce_scatter, in, out, n, t, q);
    }
    Status all_gather(const void* in, void* out, std::int64_t n, DType t, QueueId q) override {
        return call(CpuCall::Kind::all_gather, in, out, n, t, q);
    }
    Status send(const void* data, std::int64_t n, DType t, int peer, QueueId q) override {
        return call(CpuCall::Kind::send, data, nullptr, n, t, q, peer);
    }
    Status receive(void* data, std::int64_t n, DType t, int peer, QueueId q) override {
        return call(CpuCall::Kind::receive, nullptr, data, n, t, q, peer);
    }
    Status poll() override { return {}; }
    Status split(int color, int key, const std::string& name, std::unique_ptr<StreamCommunicator>& out) override;
    void abort() override {
        const CpuFabric::State::Lock lock(state_->mutex);
        state_->aborted = true;
        state_->connected.notify_all();
        state_->wake_all();
    }

  private:
    Status call(CpuCall::Kind kind, const void* in, void* out, std::int64_t n, DType t, QueueId q, int peer = -1, bool maximum = false) {
        CpuCall c;
        c.kind = kind;
        c.comm = comm_;
        c.member = member_;
        c.peer = peer;
        c.in = static_cast<std::byte*>(const_cast<void*>(in));
        c.out = static_cast<std::byte*>(out);
        c.elements = n;
        c.dtype = t;
        c.maximum = maximum;
        add_(q, std::move(c));
        return {};
    }

    std::shared_ptr<CpuFabric::State> state_;
    std::shared_ptr<CpuComm> comm_;
    int member_;
    std::function<void(QueueId, CpuCall)> add_;
};

Status CpuMember::split(int color, int key, const std::string& name, std::unique_ptr<StreamCommunicator>& out) {
    CpuFabric::State::Lock lock(state_->mutex);
    const int which = comm_->next_split[member_]++;
    CpuComm::Split& s = comm_->splits[which];
    s.wishes.resize(comm_->size, {-1, 0});
    s.wishes[member_] = {color, key};
    ++s.come;
    state_->connected.notify_all();
    state_->connected.wait(lock, [&] { return s.come == comm_->size || state_->broken(); });
    if (state_->broken()) return {"the split of " + comm_->name + " was given up"};
    if (color < 0) return {};
    std::vector<std::pair<int, int>> order; // key, member
    for (int m = 0; m < comm_->size; ++m)
        if (s.wishes[m].first == color) order.emplace_back(s.wishes[m].second, m);
    std::ranges::sort(order);
    auto& part = s.made[color];
    if (!part) {
        part = std::make_shared<CpuComm>();
        part->name = name;
        part->size = static_cast<int>(order.size());
        part->next.resize(order.size());
        part->next_split.resize(order.size());
    }
    const auto mine = std::ranges::find(order, std::pair(key, member_)) - order.begin();
    out = cpu_communicator(state_, part, static_cast<int>(mine), add_);
    return {};
}

} // namespace

std::unique_ptr<StreamCommunicator> cpu_communicator(std::shared_ptr<CpuFabric::State> state, std::shared_ptr<CpuComm> comm, int member,
                                                     std::function<void(QueueId, CpuCall)> add) {
    return std::make_unique<CpuMember>(std::move(state), std::move(comm), member, std::move(add));
}

void CpuFabric::State::post(Lock& lock, const std::shared_ptr<CpuGroup>& group) {
    const std::vector<CpuCall> calls = std::exchange(group->calls, {});
    group->pending = calls.size();
    for (CpuCall c : calls) {
        c.group = group;
        arrive(lock, std::move(c));
    }
}

void CpuFabric::State::done(const CpuCall& call) {
    if (--call.group->pending == 0 && !broken()) wake(*call.group->stream); // broken: it has gone on already
}

void CpuFabric::State::arrive(Lock& lock, CpuCall call) {
    const std::shared_ptr<CpuComm> held = std::move(call.comm); // what waits in a communicator does not keep it alive
    CpuComm& comm = *held;
    if (call.kind == CpuCall::Kind::send || call.kind == CpuCall::Kind::receive) {
        const bool sends = call.kind == CpuCall::Kind::send;
        const std::pair<int, int> way = sends ? std::pair(call.member, call.peer) : std::pair(call.peer, call.member);
        auto& partners = sends ? comm.receives[way] : comm.sends[way];
        if (partners.empty()) {
            (sends ? comm.sends : comm.receives)[way].push_back(std::move(call));
            return;
        }
        const CpuCall partner = std::move(partners.front());
        partners.pop_front();
        return carry(lock, comm, sends ? call : partner, sends ? partner : call);
    }
    const std::int64_t number = comm.next[call.member]++;
    CpuComm::Round& round = comm.rounds[number];
    round.calls.resize(comm.size);
    round.calls[call.member] = std::move(call);
    if (std::ranges::any_of(round.calls, [](const CpuCall& c) { return c.group == nullptr; })) return;
    const CpuComm::Round whole = std::move(round);
    comm.rounds.erase(number);
    meet(lock, comm, whole);
}

void CpuFabric::State::meet(Lock& lock, CpuComm& comm, const CpuComm::Round& round) {
    const CpuCall& first = round.calls[0];
    for (const CpuCall& c : round.calls)
        if (c.kind != first.kind || c.elements != first.elements || c.dtype != first.dtype || c.maximum != first.maximum)
            return fail(mismatch(comm, c.member));
    std::vector<Pieces> in, out;
    const std::int64_t whole = first.elements * comm.size;
    for (const CpuCall& c : round.calls) {
        in.push_back({{c.in, c.kind == CpuCall::Kind::reduce_scatter ? whole : c.elements}});
        out.push_back({{c.out, c.kind == CpuCall::Kind::all_gather ? whole : c.elements}});
    }
    const Element element = element_of(first.dtype);
    lock.unlock();
    if (first.kind == CpuCall::Kind::all_reduce)
        all_reduce(in, out, element, first.maximum);
    else if (first.kind == CpuCall::Kind::reduce_scatter)
        reduce_scatter(in, out, element);
    else
        all_gather(in, out, element);
    lock.lock();
    for (const CpuCall& c : round.calls) done(c);
}

void CpuFabric::State::carry(Lock& lock, const CpuComm& comm, const CpuCall& send, const CpuCall& receive) {
    if (send.elements != receive.elements || send.dtype != receive.dtype) return fail(mismatch(comm, receive.member));
    lock.unlock();
    std::memcpy(receive.out, send.in, static_cast<std::size_t>(send.elements * bytes_of(element_of(send.dtype))));
    lock.lock();
    done(send);
    done(receive);
}

} // namespace orrery
