#include "sim/plan/passes/exchange_order.hpp"

#include "sim/plan/passes/exchange_lockstep.hpp"
#include "sim/plan/rendezvous.hpp"
#include "sim/schedules/support/clock.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

namespace orrery {
namespace {

struct Pipeline {
    int (*stage_of)(int, int);
    int stages, chunks, length; // chunks in all, and of one direction

    // The transfer of what `step` makes to the chunk that needs it, if that lives on another rank. `send` as seen from its maker.
    std::optional<TransferStep> made_by(const ScheduleStep& step) const {
        if (step.kind == StepKind::weight) return std::nullopt;
        const bool gradient = step.kind != StepKind::forward;
        const int to = receiver_of(step.chunk, gradient, length);
        if (to < 0) return std::nullopt;
        const int from_stage = stage_of(step.chunk, stages), to_stage = stage_of(to, stages);
        if (from_stage == to_stage) return std::nullopt;
        return TransferStep{std::int16_t(from_stage), std::int16_t(to_stage), gradient, step.chunk, step.microbatch, true};
    }
};

// The schedule by a clock in which links are free, forward, input and weight steps last one, and whole backward steps `backward`: what
// is at work at the same time on different ranks.
class Slots {
  public:
    Slots(const Schedule& schedule, const Pipeline& pipeline, int backward)
        : schedule_(schedule), lengths_{1, backward, 1, 1, 0},
          start_(start_times(schedule, pipeline.stage_of, pipeline.chunks, lengths_, pipeline.chunks / pipeline.length)) {
        for (std::size_t rank = 0; rank < start_.size(); ++rank)
            if (start_[rank].size() < schedule.ranks[rank].size()) give_up(rank);
    }

    // Gap g of a rank is the time between its steps g - 1 and g, in which it can exchange without holding anything up. There is none
    // between joined steps: that gap is over before all others open.
    std::int64_t opens(int rank, std::size_t gap) const {
        return gap == 0 || inside(rank, gap) ? 0 : start_[rank][gap - 1] + lengths_.of(schedule_.ranks[rank][gap - 1].kind);
    }
    std::int64_t closes(int rank, std::size_t gap) const {
        if (inside(rank, gap)) return -1;
        return gap == start_[rank].size() ? std::numeric_limits<std::int64_t>::max() : start_[rank][gap];
    }

  private:
    bool inside(int rank, std::size_t gap) const { return gap > 0 && schedule_.ranks[rank][gap - 1].joined; }

    // Shapes that cannot run are refused by ScheduleInfo::check, so this is a schedule's bug.
    [[noreturn]] void give_up(std::size_t rank) const {
        const ScheduleStep& step = schedule_.ranks[rank][start_[rank].size()];
        std::fprintf(stderr, "exchange pass: the schedule stands still: rank %zu, step %zu (chunk %d, microbatch %d) has no input\n", rank,
                     start_[rank].size(), step.chunk, step.microbatch);
        std::abort();
    }

    const Schedule& schedule_;
    StepLengths lengths_;
    std::vector<std::vector<std::int64_t>> start_; // by rank and step
};

// The other end of a transfer: the sending step on its rank, and the step that needs it on the rank it goes to. Of joined steps, the
// second sends and the first receives for both.
struct Delivery {
    TransferStep transfer;
    std::size_t made, used;
};

struct ChannelOrder {
    int to;
    std::vector<Delivery> deliveries; // in the order of their sends
};

std::vector<ChannelOrder> channels_of(const Schedule& schedule, const Pipeline& pipeline) {
    std::vector<std::size_t> used[2];
    for (auto& index : used) index.assign(std::size_t(microbatches_of(schedule) * pipeline.chunks), 0);
    const auto at = [&](int chunk, int microbatch) { return std::size_t(microbatch) * pipeline.chunks + chunk; };
    for (const auto& steps : schedule.ranks)
        for (std::size_t i = 0; i < steps.size(); ++i)
            if (steps[i].kind != StepKind::weight)
                used[steps[i].kind != StepKind::forward][at(steps[i].chunk, steps[i].microbatch)] =
                    i > 0 && steps[i - 1].joined ? i - 1 : i;
    std::vector<ChannelOrder> channels;
    for (const auto& steps : schedule.ranks) {
        const std::size_t first = channels.size(); // this rank's: a handful
        for (std::size_t i = 0; i < steps.size(); ++i) {
            const auto sent = pipeline.made_by(steps[i]);
            if (!sent) continue;
            auto channel = std::find_if(channels.begin() + std::ptrdiff_t(first), channels.end(), [&](const ChannelOrder& known) {
                return known.to == sent->to_stage && known.deliveries[0].transfer.gradient == sent->gradient;
            });
            if (channel == channels.end()) channel = channels.insert(channel, {sent->to_stage, {}});
            const int user = receiver_of(sent->chunk, sent->gradient, pipeline.length);
            channel->deliveries.push_back({*sent, steps[i].joined ? i + 1 : i, used[sent->gradient][at(user, sent->microbatch)]});
        }
    }
    return channels;
}

// An end of a transfer in a gap of its rank, and the time at which both ends are there.
struct Appointment {
    std::int64_t time;
    TransferStep transfer;
};

using Gaps = std::vector<std::vector<std::vector<Appointment>>>; // by rank and gap

Gaps empty_gaps(const Schedule& schedule) {
    Gaps gaps;
    for (const auto& steps : schedule.ranks) gaps.emplace_back(steps.size() + 1);
    return gaps;
}

// A channel delivers in the order of its sends: where a rank uses a later value first, what precedes it on the channel comes with it.
void settle_uses(ChannelOrder& channel) {
    auto& deliveries = channel.deliveries;
    for (std::size_t k = deliveries.size(); k-- > 1;) deliveries[k - 1].used = std::min(deliveries[k - 1].used, deliveries[k].used);
}

// Gaps of sender and receiver that are open at the same time, so that neither waits for the other. Events of one time there are one
// exchange, and all of it can begin at once: nothing stands still, since up to any time all exchanges before it are done. First choice:
// after the step that makes the value, before the step that uses it. Else the receiver takes it earlier (it would hold up a sender whose
// next step is due), or the sender gives it later; Megatron's interleaved schedule does both. Else the first choice stands, and one waits.
class Meeting {
  public:
    Meeting(const Slots& slots, int from, int to) : slots_(slots), from_(from), to_(to) {}

    // For the deliveries of a channel in order: neither end ever moves back. False: one end will wait for the other.
    bool next(const Delivery& delivery) {
        const std::size_t earliest = std::max(give, delivery.made + 1);
        while (take < delivery.used && slots_.closes(to_, take) < slots_.opens(from_, earliest)) ++take;
        give = earliest;
        if (meet(earliest, delivery.used)) {
            take = delivery.used;
            return true;
        }
        std::size_t sender = earliest, receiver = take;
        for (int tries = 0; tries < 16 && receiver <= delivery.used; ++tries) {
            if (meet(sender, receiver)) {
                give = sender;
                take = receiver;
                return true;
            }
            if (slots_.closes(from_, sender) < slots_.opens(to_, receiver))
                ++sender;
            else
                ++receiver;
        }
        return false;
    }

    std::int64_t time() const { return std::max(slots_.opens(from_, give), slots_.opens(to_, take)); }

    std::size_t give = 0, take = 0; // gaps of the sender and of the receiver

  private:
    bool meet(std::size_t sender, std::size_t receiver) const {
        return std::max(slots_.opens(from_, sender), slots_.opens(to_, receiver)) <=
               std::min(slots_.closes(from_, sender), slots_.closes(to_, receiver));
    }

    const Slots& slots_;
    int from_, to_;
};

void append_exchange(std::vector<ProgramStep>& program, std::vector<TransferStep> transfers) {
    if (!transfers.empty()) program.push_back({true, {}, std::move(transfers)});
}

constexpr std::size_t most_together = 4; // the ports of an action

bool same_channel(const TransferStep& a, const TransferStep& b) {
    return a.from_stage == b.from_stage && a.to_stage == b.to_stage && a.gradient == b.gradient;
}

// One exchange for all that happens at one time: an exchange begins when all its transfers can. Sends first. False: it had to be cut.
bool append_exchanges(std::vector<ProgramStep>& program, std::vector<Appointment>& gap) {
    if (gap.size() > 1)
        std::stable_sort(gap.begin(), gap.end(), [](const Appointment& a, const Appointment& b) {
            return a.time != b.time ? a.time < b.time : a.transfer.send > b.transfer.send;
        });
    bool whole = true;
    for (std::size_t i = 0; i < gap.size();) {
        std::vector<TransferStep> together;
        const std::int64_t time = gap[i].time;
        for (; i < gap.size() && gap[i].time == time; ++i) {
            const auto on_channel = [&](const TransferStep& transfer) { return same_channel(transfer, gap[i].transfer); };
            const bool cut = together.size() == most_together || std::any_of(together.begin(), together.end(), on_channel);
            if (cut) append_exchange(program, std::exchange(together, {}));
            whole = whole && !cut;
            together.push_back(gap[i].transfer);
        }
        append_exchange(program, std::move(together));
    }
    return whole;
}

struct Blocking {
    PipelineProgram program;
    bool all_meet = true; // in gaps of the clock: then the program runs through, for the clock's own times show how
};

Blocking blocking(const Schedule& schedule, const Pipeline& pipeline, std::vector<ChannelOrder>& channels, int backward) {
    const Slots slots(schedule, pipeline, backward);
    Blocking result;
    Gaps gaps = empty_gaps(schedule);
    for (ChannelOrder& channel : channels) {
        const int from = channel.deliveries[0].transfer.from_stage;
        Meeting meeting(slots, from, channel.to);
        for (Delivery& delivery : channel.deliveries) {
            result.all_meet = meeting.next(delivery) && result.all_meet;
            delivery.transfer.send = true;
            gaps[from][meeting.give].push_back({meeting.time(), delivery.transfer});
            delivery.transfer.send = false;
            gaps[channel.to][meeting.take].push_back({meeting.time(), delivery.transfer});
        }
    }
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
        const auto& steps = schedule.ranks[rank];
        auto& program = result.program.emplace_back();
        program.reserve(2 * steps.size() + 1);
        for (std::size_t i = 0; i <= steps.size(); ++i) {
            result.all_meet = append_exchanges(program, gaps[rank][i]) && result.all_meet;
            if (i < steps.size()) program.push_back({false, steps[i], {}});
        }
    }
    return result;
}

bool joins(const Schedule& schedule) {
    for (const auto& steps : schedule.ranks)
        for (const ScheduleStep& step : steps)
            if (step.joined) return true;
    return false;
}

PipelineProgram overlapped(const Schedule& schedule, const Pipeline& pipeline, const std::vector<ChannelOrder>& channels) {
    Gaps receives = empty_gaps(schedule);
    // Where steps are joined, some values are made long before their use (DualPipe's last forward before the steady phase): a receive
    // that stands one step ahead of the use would leave the send, and after it the sender's host, waiting.
    std::optional<Slots> slots;
    if (joins(schedule)) slots.emplace(schedule, pipeline, 2);
    for (const ChannelOrder& channel : channels) {
        const int from = channel.deliveries[0].transfer.from_stage;
        std::size_t gap = 0; // the first that is open when the value is there
        for (Delivery delivery : channel.deliveries) {
            delivery.transfer.send = false;
            std::size_t ahead_of = delivery.used;
            if (slots) {
                while (gap < ahead_of && slots->closes(channel.to, gap) < slots->opens(from, delivery.made + 1)) ++gap;
                if (gap < ahead_of) ahead_of = gap + (schedule.ranks[channel.to][gap].joined ? 2 : 1);
            }
            receives[channel.to][ahead_of].push_back({0, delivery.transfer});
        }
    }
    PipelineProgram program(schedule.ranks.size());
    for (std::size_t rank = 0; rank < program.size(); ++rank) {
        const auto& steps = schedule.ranks[rank];
        program[rank].reserve(3 * steps.size() + 1);
        const auto post = [&](std::size_t i) {
            for (const Appointment& receive : receives[rank][i]) append_exchange(program[rank], {receive.transfer});
        };
        post(0);
        for (std::size_t i = 0; i < steps.size();) {
            const std::size_t first = i, behind = first + (steps[first].joined ? 2 : 1);
            post(behind);
            for (i = first; i < behind; ++i) program[rank].push_back({false, steps[i], {}});
            for (i = first; i < behind; ++i)
                if (auto sent = pipeline.made_by(steps[i])) append_exchange(program[rank], {*sent});
        }
    }
    return program;
}

} // namespace

static void give_up(const std::vector<RendezvousFault>& faults) {
    std::fprintf(stderr, "exchange pass: the program stands still:\n");
    for (const RendezvousFault& fault : faults) std::fprintf(stderr, "  %s\n", to_text(fault).c_str());
    std::abort();
}

PipelineProgram insert_exchanges(const Schedule& schedule, int (*stage_of)(int, int), int stages, int chunks, bool overlap,
                                 int directions) {
    const Pipeline pipeline{stage_of, stages, chunks, chunks / directions};
    std::vector<ChannelOrder> channels = channels_of(schedule, pipeline);
    for (ChannelOrder& channel : channels) settle_uses(channel);
    if (overlap) return overlapped(schedule, pipeline, channels);
    if (chunks > stages && directions == 1)
        if (auto program = lockstep_exchanges(schedule, stage_of, stages, chunks)) return std::move(*program);
    // A backward pass takes about two forwards. Where some ends do not meet by that clock and their waits close a circle, steps of one
    // length are the way out: between them all gaps are open at whole times, so that every end meets the other.
    for (int backward : {2, 1}) {
        Blocking result = blocking(schedule, pipeline, channels, backward);
        if (result.all_meet || rendezvous(result.program, stage_of, chunks, false, directions).empty()) return std::move(result.program);
        if (backward == 1) give_up(rendezvous(result.program, stage_of, chunks, false, directions));
    }
    return {};
}

std::string to_text(const PipelineProgram& program) {
    static constexpr char letters[] = {'F', 'B', 'I', 'W'};
    bool plain = true;
    for (const auto& steps : program) {
        int chunk = -1;
        for (const ProgramStep& action : steps) {
            if (action.is_exchange) continue;
            plain = plain && (chunk < 0 || chunk == action.step.chunk);
            chunk = action.step.chunk;
        }
    }
    std::string text;
    const auto name = [&](char letter, int chunk, int microbatch) {
        text += letter;
        if (!plain) text += std::to_string(chunk) + ".";
        text += std::to_string(microbatch);
    };
    for (std::size_t rank = 0; rank < program.size(); ++rank) {
        text += std::to_string(rank) + ":";
        bool inside = false; // of joined steps
        for (const ProgramStep& action : program[rank]) {
            text += inside ? ';' : ' ';
            if (!action.is_exchange) {
                if (action.step.joined) text += '(';
                name(letters[static_cast<int>(action.step.kind)], action.step.chunk, action.step.microbatch);
                if (inside) text += ')';
                inside = action.step.joined;
                continue;
            }
            text += '{';
            for (const TransferStep& transfer : action.transfers) {
                if (text.back() != '{') text += ' ';
                name(transfer.gradient ? 'B' : 'F', transfer.chunk, transfer.microbatch);
                text += (transfer.send ? ">" : "<") + std::to_string(transfer.send ? transfer.to_stage : transfer.from_stage);
            }
            text += '}';
        }
        text += '\n';
    }
    return text;
}

} // namespace orrery
