// The serial executor. Each rank's host issues its ops in order: a computation runs at once where what it waits for is done; a
// communication is posted on its queues and moves when it is at their heads and its partners are there. A host that meets a computation
// that cannot run yet stops there, and the next rank has its turn; only where all stop do hosts issue further, as far as the next
// communication.
#include "exec/local/clock.hpp"
#include "exec/local/executor.hpp"
#include "exec/local/meetings.hpp"

namespace orrery {
namespace {

class Serial final : public Executor {
  public:
    explicit Serial(World& world) : world_(world), meetings_(world) {}

    const char* name() const override { return "serial"; }

    void step(std::vector<OpTime>* record) override {
        record_ = record;
        began_ = wall_ns();
        meetings_.begin_step();
        for (bool further = false;;) {
            bool progress = false, finished = true;
            for (Issuer& h : meetings_.hosts()) {
                progress = advance(h, further) || progress;
                finished = finished && h.finished();
            }
            if (finished) return move_loss_scale(world_);
            if (!progress && further) throw StandsStill(to_text(meetings_.blocked()));
            further = !progress;
        }
    }

  private:
    bool advance(Issuer& h, bool further);
    bool serve(Issuer& h);
    void run_now(Issuer& h, const Issue& issue);
    std::int64_t now() const { return record_ ? wall_ns() - began_ : 0; }
    std::int64_t cpu() const { return record_ ? cpu_ns() : 0; }

    World& world_;
    Meetings meetings_;
    std::vector<OpTime>* record_ = nullptr;
    std::int64_t began_ = 0;
    std::vector<Operand> in_, out_;
};

bool Serial::serve(Issuer& h) {
    bool progress = false;
    while (const auto m = meetings_.take(h)) {
        const std::int64_t begin = now(), cpu_begin = cpu();
        meetings_.move(*m);
        meetings_.settle(*m, begin, now(), cpu() - cpu_begin, record_);
        progress = true;
    }
    return progress;
}

bool Serial::advance(Issuer& h, bool further) {
    bool progress = serve(h);
    for (; h.next < h.done.size(); ++h.next, progress = true) {
        const Issue& issue = h.issue(h.next);
        const Op& op = *issue.op;
        if (const auto* a = std::get_if<Alloc>(&op.work)) {
            h.rank->memory.allocate(a->buffer, issue.microbatch);
            h.done[h.next] = 1;
        } else if (const auto* f = std::get_if<Free>(&op.work)) {
            h.rank->memory.release(f->buffer, issue.microbatch);
            h.done[h.next] = 1;
        } else if (is_posted(op)) {
            meetings_.post(h, h.next, now());
            if (further) return ++h.next, true;
            serve(h);
        } else if (h.queues[op.queue].empty() && h.ready(issue)) {
            run_now(h, issue);
        } else {
            if (!further || std::holds_alternative<HostSync>(op.work)) return progress;
            meetings_.post(h, h.next, now());
        }
    }
    return progress;
}

void Serial::run_now(Issuer& h, const Issue& issue) {
    in_.clear();
    out_.clear();
    for (BufferId b : issue.op->in) in_.push_back(h.rank->memory.operand(b, issue.microbatch));
    for (BufferId b : issue.op->out) out_.push_back(h.rank->memory.operand(b, issue.microbatch));
    const std::int64_t begin = now(), cpu_begin = cpu();
    run_op(world_, *h.rank, issue, in_, out_);
    h.done[h.next] = 1;
    if (record_)
        record_->push_back(
            {h.rank->rank, static_cast<std::int32_t>(h.next), -1, begin, begin, now(), cpu() - cpu_begin, h.rank->memory.device().by_kind});
}

} // namespace

std::unique_ptr<Executor> serial_executor(World& world) { return std::make_unique<Serial>(world); }

} // namespace orrery
