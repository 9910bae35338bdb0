#include "exec/queues/runner.hpp"

#include "exec/local/clock.hpp"
#include "exec/mpi/processes.hpp"
#include "exec/runtime/watch.hpp"
#include "topology/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <utility>

namespace orrery {
namespace {

constexpr Milliseconds slice{50}; // the host looks at the rest of the world so often while it waits

const std::vector<int>& members_of(const World& world, CommId c, int rank) { return world.members[c][rank]; }

} // namespace

bool Job::stopped() {
    if (stop) return true;
    if (all_here) return false;
    const std::int64_t now = wall_ns();
    if (now - asked_ < 200'000'000) return false;
    asked_ = now;
    try {
        if (store->get(failed_key)) stop = true;
    } catch (const std::exception&) { // the store is gone: so is rank 0
        stop = true;
    }
    return stop;
}

std::optional<bool> Job::fail(const std::string& why) {
    stop = true;
    try {
        return first_failure(*store, why);
    } catch (const std::exception&) { return std::nullopt; }
}

std::string Job::why() {
    if (!stopped()) return {};
    try {
        if (const auto said = store->get(failed_key)) return *said;
    } catch (const std::exception&) { // it went with rank 0
        return "the process of rank 0 is gone";
    }
    return "another rank has failed";
}

Runner::Runner(World& world, Rank& rank, StreamDevice& device, const StagePlan& stage, Job& job, const Fleet& fleet)
    : world_(world), rank_(rank), device_(device), stage_(stage), job_(job), separate_(fleet.separate_memory), delays_(fleet.delays) {
    const auto allocate = [&](std::int64_t bytes, MemorySpace space) {
        std::byte* p = nullptr;
        if (bytes > 0) {
            const Status s = device_.allocate(bytes, space, &p);
            if (!s.ok()) throw OutOfMemory(fmt::format("rank {}: {} bytes: {}", rank_.rank, bytes, s.message));
            owned_.push_back(p);
        }
        return p;
    };
    for (int space = 0; space < memories; ++space) {
        const std::int64_t extent = stage_.layout.extent[space];
        if (separate_)
            places_.base[space] = allocate(extent, space == 0 ? MemorySpace::device : MemorySpace::host);
        else
            places_.base[space] = rank_.memory.arena(space).base();
        if (!separate_ && extent > rank_.memory.arena(space).reserved())
            throw OutOfMemory(fmt::format("rank {}: its buffers, side by side, take {} bytes, and {} are reserved", rank_.rank, extent,
                                          rank_.memory.arena(space).reserved()));
    }
    for (std::int64_t bytes : staging_beside(world_, rank_, stage_)) {
        places_.staging.push_back(allocate(bytes, MemorySpace::device));
        staged_ += bytes;
    }
    program_ = rank_program(world_, rank_, stage_, places_);
    kept_ = allocate(program_.kept, MemorySpace::host);
    std::int64_t counts = 0;
    for (const Command& c : program_.commands)
        if (c.counted) counts = std::max(counts, 8 * elements(*c.in.back().buffer));
    counts_ = allocate(counts, MemorySpace::host);
    device_.give_up_when([&job] { return job.stopped(); });
    if (job_.last_resort > 0) last_resort_ = std::make_unique<LastResort>(exit_code_lost, [&job] { return job.why(); });
    comms_.resize(world_.plan.communicators.size());
    ends_.resize(rank_.order->issues.size());
    pending_.resize(stage_.queues.queues());
    ended_.resize(pending_.size());
}

Runner::~Runner() {
    for (auto& c : comms_) c.reset(); // one after another, in an order that all members have
    everyone_.reset();
    for (std::byte* p : owned_) device_.release(p);
}

void Runner::check(const Status& s, const char* what) {
    if (s.ok()) return;
    if (job_.stop) throw Left(s.message);
    const std::string said = fmt::format("rank {}: {}: {}", rank_.rank, what, s.message);
    if (s.cause == Cause::ours) throw std::runtime_error(said);
    if (s.cause == Cause::peer) throw LostPeer(said);
    throw LibraryFailed(said, s.cause);
}

void Runner::upload() {
    if (!separate_) return;
    for (int space = 0; space < 2; ++space)
        if (const Arena& a = rank_.memory.arena(space); a.extent() > 0)
            check(device_.copy(places_.base[space], a.base(), a.extent(), compute_queue), "upload");
    synchronise();
}

void Runner::fetch() {
    if (!separate_) return;
    for (int space = 0; space < 2; ++space)
        if (const Arena& a = rank_.memory.arena(space); a.extent() > 0)
            check(device_.copy(a.base(), places_.base[space], a.extent(), compute_queue), "download");
    synchronise();
}

void Runner::step(std::vector<OpTime>* record) {
    timing_ = record != nullptr;
    timed_.clear();
    std::ranges::fill(ends_, -1);
    std::ranges::fill(ended_, 0);
    if (separate_) { // the batch, which the host has laid where the mirror has it
        const StorageMap& map = rank_.memory.map();
        for (const BufferPlace& p : map.places)
            if (p.batch_rows > 0 && p.slot >= 0) {
                const std::byte* from = rank_.memory.of_slot(p.slot);
                check(device_.copy(places_.base[0] + (from - rank_.memory.arena(0).base()), from, p.stored, compute_queue), "the batch");
            }
        synchronise();
    }
    began_ = told_ = wall_ns();
    base_ = mark(compute_queue);
    const Armed armed = arm(job_.last_resort);
    for (issued_ = 0; issued_ < ends_.size(); ++issued_) {
        issue(issued_);
        beat();
        if (issued_ + 1 == ends_.size() || at(issued_ + 1).action != at(issued_).action) pulses_.push_back(mark(compute_queue));
    }
    finish();
    if (record) report(*record);
    for (EventId e : used_) device_.recycle(e);
    used_.clear();
}

Runner::Armed Runner::arm(double seconds) {
    if (last_resort_)
        last_resort_->arm(seconds, fmt::format("rank {}: its host thread does not come back from a library: the process ends", rank_.rank),
                          true);
    return Armed{last_resort_.get()};
}

void Runner::beat() {
    if (last_resort_) last_resort_->beat();
}

EventId Runner::mark(QueueId q) {
    EventId e = -1;
    check(device_.record(q, timing_, e), "an event");
    used_.push_back(e);
    return e;
}

void Runner::issue(std::size_t i) {
    const Issue& x = at(i);
    const Op& op = *x.op;
    if (const auto* a = std::get_if<Alloc>(&op.work)) return rank_.memory.count(world_.plan.buffers[a->buffer], 1);
    if (const auto* f = std::get_if<Free>(&op.work)) return rank_.memory.count(world_.plan.buffers[f->buffer], -1);
    const QueuedIssue& q = stage_.queues[i];
    if (std::holds_alternative<HostSync>(op.work)) {
        for (std::int32_t d : q.waits) wait_on_host(ends_[d], op.name.c_str());
        return;
    }
    for (std::int32_t d : q.waits) check(device_.wait(q.queues[0], ends_[d]), op.name.c_str());
    const Command& c = program_.commands[i];
    gather_queues(q);
    for (const Fill& f : c.fills) check(device_.fill(f.to, f.byte, f.bytes, q.queues[0]), op.name.c_str());
    release_queues(q);
    const EventId begin = timing_ ? mark(q.queues[0]) : -1;
    if (std::holds_alternative<Collective>(op.work) || std::holds_alternative<Exchange>(op.work)) {
        communicate(i);
    } else if (std::holds_alternative<Copy>(op.work)) {
        check(device_.copy(c.out[0].data, c.in[0].data, bytes_of(world_, c.in[0]), q.queues[0]), op.name.c_str());
    } else if (!std::holds_alternative<HostWork>(op.work)) {
        compute(i);
    }
    gather_queues(q);
    release_queues(q);
    const bool communicates = q.queues.back() >= first_comm_queue;
    if (q.signals || timing_ || communicates) ends_[i] = mark(q.queues[0]);
    if (communicates)
        for (QueueId queue : q.queues) pending_[queue].push_back({static_cast<std::int32_t>(i), ends_[i]});
    if (timing_) timed_.push_back({static_cast<std::int32_t>(i), begin, ends_[i], rank_.memory.device().by_kind});
}

// Whether the world looks at what the op is given, or makes. A device with memory of its own is not looked into; losses that came from it
// are.
bool Runner::watched(const Op& op) const {
    if (world_.watch == Watch::nothing || separate_) return false;
    return world_.watch == Watch::all || makes_loss(op) || std::holds_alternative<OptimizerStep>(op.work);
}

void Runner::compute(std::size_t i) {
    const Issue& x = at(i);
    const Op& op = *x.op;
    const Command& c = program_.commands[i];
    const QueueId queue = home(static_cast<std::int32_t>(i));
    KernelContext context = rank_.context;
    set_place(world_, x, context);
    const bool watches = watched(op);
    if (watches) check(device_.on_host([this, &x, &c] { watch_before(world_, rank_, x, c.in); }, queue), op.name.c_str());
    check(device_.run(op, c.in, c.out, context, queue), op.name.c_str());
    if (watches) check(device_.on_host([this, &x, &c] { watch_after(world_, rank_, x, c.out); }, queue), op.name.c_str());
    if (c.kept >= 0) check(device_.copy(kept_ + c.kept, c.out[c.result].data, bytes_of(world_, c.out[c.result]), queue), op.name.c_str());
}

// An op on several queues begins when it has come to the head of all of them, and they go on when all of it has ended: its first queue
// waits for the others..
void Runner::gather_queues(const QueuedIssue& q) {
    for (std::size_t k = 1; k < q.queues.size(); ++k) check(device_.wait(q.queues[0], mark(q.queues[k])), "a queue");
}

// ..and they for it.
void Runner::release_queues(const QueuedIssue& q) {
    if (q.queues.size() < 2) return;
    const EventId all = mark(q.queues[0]);
    for (std::size_t k = 1; k < q.queues.size(); ++k) check(device_.wait(q.queues[k], all), "a queue");
}

// A communication without its partners: as long as it is told to take. Integers (counts of experts) are as if every member had sent this
// one's, for sizes follow from them; other numbers are what lies there.
void Runner::stand_in(std::size_t i) {
    const QueueId queue = home(static_cast<std::int32_t>(i));
    for (const CommCall& c : program_.commands[i].calls.calls) {
        if (c.dtype != DType::int64 || !c.in || !c.out) continue;
        const auto copies = c.kind == CommCall::Kind::all_gather ? members_of(world_, c.comm, rank_.rank).size() : 1;
        for (std::size_t m = 0; m < copies; ++m)
            if (std::byte* const to = c.out + static_cast<std::int64_t>(m) * c.elements * 8; to != c.in)
                check(device_.copy(to, c.in, c.elements * 8, queue), "counts");
    }
    check(device_.delay(delays_[i], queue), "a delay");
}

void Runner::communicate(std::size_t i) {
    if (!delays_.empty()) return stand_in(i);
    const Issue& x = at(i);
    const Command& c = program_.commands[i];
    const QueueId queue = home(static_cast<std::int32_t>(i));
    if (!c.counted) {
        call(c.calls, queue, std::holds_alternative<Exchange>(x.op->work));
        return stores(i);
    }
    // The host must know the counts before it can say what goes where.
    const Operand& known = c.in.back();
    check(device_.copy(counts_, known.data, 8 * elements(*known.buffer), queue), "counts of experts");
    wait_on_host(mark(queue), "counts of experts");
    Attendance side = side_of(rank_, x, c);
    side.in.back().data = counts_;
    const CommCalls calls = collective_calls(world_, side, staging_at(stage_, places_, i, c.staging));
    require(calls.staging <= c.staging, "rows of experts are copied through more memory than was planned");
    call(calls, queue, false);
    stores(i);
}

// Sums as the buffers hold them, where the host emulates that.
void Runner::stores(std::size_t i) {
    if (!rank_.context.rounds || !std::holds_alternative<Collective>(at(i).op->work)) return;
    check(device_.on_host([this, i] { store(side_of(rank_, at(i), program_.commands[i])); }, home(static_cast<std::int32_t>(i))),
          "storing a sum");
}

void Runner::call(const CommCalls& calls, QueueId queue, bool each_on_its_own) {
    const auto move = [&](const std::vector<MemoryCall>& list) {
        for (const MemoryCall& m : list)
            check(m.from ? device_.copy(m.to, m.from, m.bytes, queue) : device_.fill(m.to, 0, m.bytes, queue), "staging");
    };
    move(calls.before);
    if (!calls.calls.empty()) {
        check(device_.begin_group(), "a group of calls");
        for (const CommCall& c : calls.calls) {
            StreamCommunicator& comm = *comms_[c.comm];
            const QueueId q = each_on_its_own ? queue_of(c.comm) : queue;
            switch (c.kind) {
            case CommCall::Kind::all_reduce:
                check(comm.all_reduce(c.in, c.out, c.elements, c.dtype, c.maximum, q), "all-reduce");
                break;
            case CommCall::Kind::reduce_scatter:
                check(comm.reduce_scatter(c.in, c.out, c.elements, c.dtype, q), "reduce-scatter");
                break;
            case CommCall::Kind::all_gather:
                check(comm.all_gather(c.in, c.out, c.elements, c.dtype, q), "all-gather");
                break;
            case CommCall::Kind::send:
                check(comm.send(c.in, c.elements, c.dtype, c.peer, q), "send");
                break;
            case CommCall::Kind::receive:
                check(comm.receive(c.out, c.elements, c.dtype, c.peer, q), "receive");
                break;
            }
        }
        check(device_.end_group(), "a group of calls");
    }
    move(calls.behind);
}

void Runner::wait_on_host(EventId event, const char* what) {
    std::int64_t last = wall_ns();
    for (bool yes = false; !yes;) {
        check(device_.happened(event, slice, yes), what);
        if (yes) return;
        beat();
        if (job_.stopped()) throw Left("another rank has failed");
        look_at_communicators();
        if (retire()) last = wall_ns();
        tell(false);
        if (static_cast<double>(wall_ns() - last) > job_.patience * 1e9) throw no_progress();
    }
}

void Runner::synchronise(bool with_others) {
    std::int64_t last = wall_ns();
    std::string heard; // of all ranks, when patience ended last
    for (bool done = false; !done;) {
        check(device_.synchronise(slice, done), "waiting for the device");
        beat();
        if (!done && job_.stopped()) throw Left("another rank has failed");
        if (!done) look_at_communicators();
        if (done || static_cast<double>(wall_ns() - last) <= job_.patience * 1e9) continue;
        std::string now = with_others ? stands() : std::string();
        if (now == heard)
            throw LostPeer(
                fmt::format("rank {}: the device did not end what it was given beside a step for {:.0f} s", rank_.rank, job_.patience));
        heard = std::move(now);
        last = wall_ns();
    }
}

// How far each rank has said that it is.
std::string Runner::stands() {
    std::string all;
    for (std::size_t r = 0; r < world_.ranks.size(); ++r) all += job_.store->get(fmt::format("rank {}", r)).value_or("") + "\n";
    return all;
}

void Runner::finish() {
    std::int64_t last = wall_ns();
    for (bool done = false; !done;) {
        check(device_.synchronise(slice, done), "the step");
        if (done) break;
        beat();
        if (job_.stopped()) throw Left("another rank has failed");
        look_at_communicators();
        if (retire()) last = wall_ns();
        tell(false);
        if (static_cast<double>(wall_ns() - last) > job_.patience * 1e9) throw no_progress();
    }
    for (auto& q : pending_) q.clear();
    pulses_.clear();
}

// An error that came after a call had returned: of the network, of a peer that is gone.
void Runner::look_at_communicators() {
    if (everyone_) check(everyone_->poll(), "the communicator of all ranks");
    for (const auto& c : comms_)
        if (c) check(c->poll(), "a communicator");
}

bool Runner::retire() {
    bool any = false;
    for (std::size_t q = 0; q < pending_.size(); ++q)
        while (!pending_[q].empty()) {
            bool yes = false;
            device_.happened(pending_[q].front().end, Milliseconds{0}, yes); // asked where something has failed, too
            if (!yes) break;
            ended_[q] += weight(pending_[q].front().issue, static_cast<QueueId>(q));
            pending_[q].pop_front();
            any = true;
        }
    for (; !pulses_.empty(); pulses_.pop_front(), any = true) {
        bool yes = false;
        device_.happened(pulses_.front(), Milliseconds{0}, yes);
        if (!yes) break;
    }
    return any;
}

// For each communicator: the number of its calls and transfers this rank has reached, and the first communication that waits there.
Runner::Reach Runner::reach() {
    Reach r{ended_, -1};
    std::vector<char> seen(ends_.size(), 0);
    for (auto& of_queue : pending_) {
        if (of_queue.empty() || std::exchange(seen[of_queue.front().issue], 1)) continue;
        const std::int32_t i = of_queue.front().issue;
        const QueuedIssue& q = stage_.queues[i];
        const bool heads = std::ranges::all_of(q.queues, [&](QueueId x) { return pending_[x].empty() || pending_[x].front().issue == i; });
        const bool ready = std::ranges::all_of(q.waits, [&](std::int32_t d) {
            bool yes = false;
            device_.happened(ends_[d], Milliseconds{0}, yes); // asked where something has failed, too
            return yes;
        });
        if (!heads || !ready) continue;
        for (QueueId x : q.queues) r.reached[x] += weight(i, x);
        if (r.first < 0 || i < r.first) r.first = i;
    }
    return r;
}

// Transfers of an exchange count one by one, as their peers count them.
std::int64_t Runner::weight(std::int32_t i, QueueId q) const {
    const auto* x = std::get_if<Exchange>(&at(static_cast<std::size_t>(i)).op->work);
    return x ? std::ranges::count_if(x->transfers, [&](const Transfer& t) { return queue_of(t.comm) == q; }) : 1;
}

void Runner::tell(bool at_once) {
    if (!at_once && wall_ns() - told_ < 500'000'000) return;
    told_ = wall_ns();
    const Reach r = reach();
    job_.store->set(fmt::format("rank {}", rank_.rank),
                    fmt::format("{}| {}", fmt::join(r.reached, " "),
                                r.first < 0 ? std::string("no communication") : place(world_.plan, at(static_cast<std::size_t>(r.first)))));
}

// Whether that rank has come as far on the communicator, and where it stands.
Runner::Peer Runner::peer(int rank, CommId c, std::int64_t calls) {
    const std::string said = job_.store->get(fmt::format("rank {}", rank)).value_or("");
    if (said.empty()) return {false, "has not been heard of"};
    std::istringstream in(said);
    std::int64_t n = 0;
    for (QueueId q = 0; q <= queue_of(c); ++q) in >> n;
    return {n >= calls, "stands at " + said.substr(said.find("| ") + 2)};
}

std::string Runner::waits() {
    const Reach r = reach();
    if (r.first < 0) return {};
    const Issue& x = at(static_cast<std::size_t>(r.first));
    const auto named = [&](CommId c) { return world_.plan.communicators[c].name; };
    std::string missing;
    if (const auto* c = std::get_if<Collective>(&x.op->work)) {
        for (int m : members_of(world_, c->comm, rank_.rank))
            if (const Peer p = peer(m, c->comm, r.reached[queue_of(c->comm)]); m != rank_.rank && !p.there && missing.empty())
                missing = fmt::format("rank {} on communicator {} (which {})", m, named(c->comm), p.stands);
        if (missing.empty()) missing = "communicator " + named(c->comm) + ", to which all have come, as far as is known";
        missing += fmt::format(" (its call {} of the step; members {})", r.reached[queue_of(c->comm)],
                               fmt::join(members_of(world_, c->comm, rank_.rank), " "));
    } else if (const auto* e = std::get_if<Exchange>(&x.op->work)) {
        for (std::size_t k = 0; k < e->transfers.size() && missing.empty(); ++k) {
            const Transfer& t = e->transfers[k];
            for (int m : members_of(world_, t.comm, rank_.rank))
                if (const Peer p = peer(m, t.comm, rank_.order->ordinals[static_cast<std::size_t>(x.transfers_begin) + k] + 1);
                    m != rank_.rank && !p.there)
                    missing = fmt::format("the {} of rank {} on communicator {} (which {})", t.send ? "receive" : "send", m, named(t.comm),
                                          p.stands);
        }
        if (missing.empty()) missing = "its transfers";
    }
    return fmt::format("{} waits for {}", place(world_.plan, x), missing);
}

// A queue has ended all that waits for nothing.
Stand Runner::stand() {
    retire();
    const std::size_t n = ends_.size();
    Stand s{&rank_, std::vector<char>(n, 0), std::vector<char>(n, 0)};
    std::vector<char> waits(n, 0), held(pending_.size(), 0); // communications that have not ended; queues with something that is not done
    for (const auto& of_queue : pending_)
        for (const Pending& p : of_queue) waits[p.issue] = 1;
    for (std::size_t i = 0; i < std::min(issued_, n); ++i) {
        const auto& queues = stage_.queues[i].queues;
        const bool first = std::ranges::none_of(queues, [&](QueueId q) { return held[q]; });
        const bool ready = std::ranges::all_of(rank_.order->deps_of(at(i)), [&](std::int32_t d) { return s.done[d]; });
        s.done[i] = first && ready && !waits[i];
        s.arrived[i] = first && ready && waits[i];
        if (!s.done[i])
            for (QueueId q : queues) held[q] = 1;
    }
    return s;
}

LostPeer Runner::no_progress() {
    tell(true);
    const std::string what = waits();
    return LostPeer(fmt::format("rank {}: {}: no progress for {:.0f} s", rank_.rank,
                                what.empty() ? "no communication waits, and the device stopped making progress" : what, job_.patience));
}

void Runner::leave() {
    if (last_resort_)
        last_resort_->arm(
            std::min(10.0, job_.last_resort),
            fmt::format("rank {}: communicators were aborted, and a library does not return from that: the process ends", rank_.rank));
    device_.begin_group(); // one may wait for another's
    for (auto& c : comms_)
        if (c) c->abort();
    if (everyone_) everyone_->abort();
    device_.end_group();
    bool done = false;
    for (int i = 0; i < 100 && !done; ++i) device_.synchronise(slice, done); // its memory may go then
    if (last_resort_ && done) last_resort_->disarm();                        // else whoever frees its memory may wait for ever
}

void Runner::take_kept() {
    for (std::size_t i = 0; i < program_.commands.size(); ++i) {
        const Command& c = program_.commands[i];
        if (c.kept < 0) continue;
        const Operand kept{kept_ + c.kept, c.out[c.result].buffer, c.out[c.result].id};
        if (makes_routing(*at(i).op)) {
            note_routing(rank_, at(i), kept);
            continue;
        }
        if (clips(*at(i).op)) {
            note_overflow(world_, rank_, kept);
            continue;
        }
        set_place(world_, at(i), rank_.context);
        if (separate_) watch_after(world_, rank_, at(i), {&kept, 1});
        note_loss(world_, rank_, at(i), kept);
    }
}

// Every token's loss is on one rank of the job: the sum over ranks is all of them, everywhere. A rank whose step has ended waits here for
// those whose backward passes end later, as long as one of them gets on.
void Runner::share_losses() {
    const Armed armed = arm(job_.last_resort);
    std::vector<double>& mine = world_.losses;
    const auto all = static_cast<std::int64_t>(mine.size());
    std::int64_t n = 0;
    for (std::int64_t begin = 0; begin < all; begin += n) {
        n = std::min(losses_at_once(), all - begin);
        double* const part = mine.data() + begin;
        std::memcpy(host_losses_, part, static_cast<std::size_t>(n) * 8);
        check(device_.copy(shared_losses_, host_losses_, n * 8, compute_queue), "losses");
        check(everyone_->all_reduce(shared_losses_, shared_losses_, n, DType::fp64, false, compute_queue), "losses");
        check(device_.copy(host_losses_, shared_losses_, n * 8, compute_queue), "losses");
        synchronise(true);
        std::memcpy(part, host_losses_, static_cast<std::size_t>(n) * 8);
    }
}

void Runner::report(std::vector<OpTime>& record) {
    for (const Timed& t : timed_) {
        float begin = 0, end = 0;
        check(device_.milliseconds(base_, t.begin, begin), "times");
        check(device_.milliseconds(base_, t.end, end), "times");
        const auto ns = [&](float ms) {
            return began_ - job_.step_began + static_cast<std::int64_t>(std::max(0.0, static_cast<double>(ms)) * 1e6);
        };
        record.push_back({rank_.rank, t.issue, -1, ns(begin), ns(begin), ns(end), ns(end) - ns(begin), t.memory});
    }
}

} // namespace orrery
