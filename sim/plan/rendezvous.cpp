#include "sim/plan/rendezvous.hpp"

#include <algorithm>
#include <optional>

namespace orrery {
namespace {

using Kind = RendezvousFault::Kind;

bool same_value(const TransferStep& a, const TransferStep& b) { return a.chunk == b.chunk && a.microbatch == b.microbatch; }

// One direction and kind between two ranks. Ends are posted in program order; of the first `met` both are posted, and the first `done`
// are over.
struct Channel {
    int from, to;
    bool gradient;
    std::vector<TransferStep> sends, receives;
    std::size_t met = 0, done = 0;
    std::size_t begun[2] = {0, 0}; // by end (receives, sends): those whose exchange has begun
};

struct RankState {
    std::size_t at = 0;        // position in the program
    bool posted = false;       // the exchange at `at` is posted and waits
    int missing = 0, open = 0; // its transfers whose peer has not posted, and those that are not done
    bool failed = false;       // stopped at a fault of its own
    struct Port {
        int peer;
        bool gradient, send;
        int channel;
    };
    std::vector<Port> ports; // a handful: neighbours x direction x kind
};

enum Value : std::uint8_t { absent, expected, present };

class Rendezvous {
  public:
    Rendezvous(const PipelineProgram& program, int (*stage_of)(int, int), int chunks, bool overlap, int directions)
        : program_(program), stage_of_(stage_of), stages_(static_cast<int>(program.size())), chunks_(chunks), length_(chunks / directions),
          overlap_(overlap), ranks_(program.size()) {
        std::int64_t microbatches = 0;
        for (const auto& steps : program)
            for (const ProgramStep& action : steps) {
                microbatches = std::max<std::int64_t>(microbatches, action.step.microbatch + 1);
                for (const TransferStep& transfer : action.transfers)
                    microbatches = std::max<std::int64_t>(microbatches, transfer.microbatch + 1);
            }
        for (auto& values : made_) values.assign(microbatches * chunks, 0);
        for (auto& values : arrived_) values.assign(microbatches * chunks, absent);
        for (int rank = 0; rank < stages_; ++rank) runnable_.push_back(stages_ - 1 - rank);
    }

    std::vector<RendezvousFault> run() {
        while (!runnable_.empty()) {
            const int rank = runnable_.back();
            runnable_.pop_back();
            advance(rank);
        }
        return faults_;
    }

    // Whoever has not reached the end, and for what; then ends that were posted and never met.
    std::vector<RendezvousFault> standstill() {
        for (int rank = 0; rank < stages_; ++rank) {
            const RankState& state = ranks_[rank];
            if (state.at >= program_[rank].size() || state.failed) continue;
            const ProgramStep& action = program_[rank][state.at];
            if (!action.is_exchange) {
                const auto there = [&](const std::optional<TransferStep>& need) {
                    return !need || arrived_[need->gradient][at(need->chunk, need->microbatch)] == present;
                };
                auto need = input_of(rank, action.step);
                if (action.step.joined && there(need)) need = input_of(rank, program_[rank][state.at + 1].step);
                if (need)
                    fault({Kind::waits, rank, need->from_stage, state.at, *need});
                else
                    fault({Kind::waits, rank, rank, state.at, {}}); // a value its own rank makes later
                continue;
            }
            auto reason = state.missing > 0 ? &Channel::met : &Channel::done; // else for a peer whose own exchange cannot begin
            for (const TransferStep& transfer : action.transfers)
                if (behind(rank, transfer, reason)) fault({Kind::waits, rank, peer_of(transfer), state.at, transfer});
        }
        if (overlap_)
            for (const Channel& channel : channels_) {
                const bool unsent = channel.receives.size() > channel.met, unread = channel.sends.size() > channel.met;
                if (unsent) fault({Kind::waits, channel.to, channel.from, program_[channel.to].size(), channel.receives[channel.met]});
                if (unread) fault({Kind::waits, channel.from, channel.to, program_[channel.from].size(), channel.sends[channel.met]});
            }
        return faults_;
    }

  private:
    std::size_t at(int chunk, int microbatch) const { return std::size_t(microbatch) * chunks_ + chunk; }
    static int peer_of(const TransferStep& transfer) { return transfer.send ? transfer.to_stage : transfer.from_stage; }

    void fault(RendezvousFault found) { faults_.push_back(found); }

    // The transfer a step needs on its rank before it may run; none where its input is made there.
    std::optional<TransferStep> input_of(int rank, const ScheduleStep& step) const {
        const bool gradient = step.kind != StepKind::forward;
        const int sender = sender_of(step.chunk, gradient, length_);
        if (step.kind == StepKind::weight || sender < 0 || stage_of_(sender, stages_) == rank) return std::nullopt;
        return TransferStep{
            std::int16_t(stage_of_(sender, stages_)), std::int16_t(rank), gradient, std::int16_t(sender), step.microbatch, false};
    }

    // Made on this rank already: what precedes the step in its microbatch.
    bool made_here(int rank, const ScheduleStep& step) const {
        const auto made = [&](bool gradient, int chunk) { return made_[gradient][at(chunk, step.microbatch)] != 0; };
        if (step.kind == StepKind::weight) return made(true, step.chunk);
        const bool gradient = step.kind != StepKind::forward;
        const int sender = sender_of(step.chunk, gradient, length_);
        const bool here = sender >= 0 && stage_of_(sender, stages_) == rank;
        return (!gradient || made(false, step.chunk)) && (!here || made(gradient, sender));
    }

    int channel_of(int rank, const TransferStep& transfer) {
        const int peer = peer_of(transfer);
        for (const RankState::Port& port : ranks_[rank].ports)
            if (port.peer == peer && port.gradient == transfer.gradient && port.send == transfer.send) return port.channel;
        const int index = static_cast<int>(channels_.size());
        channels_.push_back({transfer.from_stage, transfer.to_stage, transfer.gradient, {}, {}});
        ranks_[transfer.from_stage].ports.push_back({transfer.to_stage, transfer.gradient, true, index});
        ranks_[transfer.to_stage].ports.push_back({transfer.from_stage, transfer.gradient, false, index});
        return index;
    }

    // Not among the first `count` of its channel.
    bool behind(int rank, const TransferStep& transfer, std::size_t Channel::*count) {
        const Channel& channel = channels_[channel_of(rank, transfer)];
        const auto& ends = transfer.send ? channel.sends : channel.receives;
        for (std::size_t k = channel.*count; k < ends.size(); ++k)
            if (same_value(ends[k], transfer)) return true;
        return false;
    }

    void wake(int rank) {
        if (ranks_[rank].at < program_[rank].size()) runnable_.push_back(rank);
    }

    void post(int rank, const TransferStep& transfer) {
        Channel& channel = channels_[channel_of(rank, transfer)];
        (transfer.send ? channel.sends : channel.receives).push_back(transfer);
        if (!transfer.send && arrived_[transfer.gradient][at(transfer.chunk, transfer.microbatch)] == absent)
            arrived_[transfer.gradient][at(transfer.chunk, transfer.microbatch)] = expected;
        while (channel.met < channel.sends.size() && channel.met < channel.receives.size()) {
            const TransferStep& sent = channel.sends[channel.met];
            const TransferStep& wanted = channel.receives[channel.met++];
            if (!same_value(sent, wanted)) fault({Kind::mismatch, channel.to, channel.from, ranks_[channel.to].at, sent, wanted});
            if (overlap_)
                deliver(channel);
            else
                for (int end : {channel.from, channel.to})
                    if (--ranks_[end].missing == 0) begin(end);
        }
    }

    // All peers have posted (blocking only).
    void begin(int rank) {
        for (const TransferStep& transfer : program_[rank][ranks_[rank].at].transfers) {
            Channel& channel = channels_[channel_of(rank, transfer)];
            ++channel.begun[transfer.send];
            while (channel.done < std::min(channel.begun[0], channel.begun[1])) {
                for (int end : {channel.from, channel.to}) --ranks_[end].open;
                deliver(channel);
            }
        }
    }

    void deliver(Channel& channel) {
        const TransferStep& sent = channel.sends[channel.done++];
        arrived_[sent.gradient][at(sent.chunk, sent.microbatch)] = present;
        wake(channel.from);
        wake(channel.to);
    }

    // Runs a rank as far as it goes. Values are on time or never: a step whose input was not even posted is a fault, not a wait.
    void advance(int rank) {
        RankState& state = ranks_[rank];
        while (state.at < program_[rank].size() && !state.failed) {
            const ProgramStep& action = program_[rank][state.at];
            const std::size_t count = !action.is_exchange && action.step.joined ? 2 : 1;
            if (action.is_exchange ? !exchange(rank, state, action) : !compute(rank, state, count)) return;
            state.at += count;
        }
    }

    bool exchange(int rank, RankState& state, const ProgramStep& action) {
        if (!state.posted) {
            for (const TransferStep& transfer : action.transfers)
                if (transfer.send && !made_[transfer.gradient][at(transfer.chunk, transfer.microbatch)])
                    fault({Kind::early_send, rank, transfer.to_stage, state.at, transfer});
            state.posted = true;
            state.missing = state.open = static_cast<int>(action.transfers.size());
            for (const TransferStep& transfer : action.transfers) post(rank, transfer);
        }
        if (!overlap_ && state.open > 0) return false;
        state.posted = false;
        return true;
    }

    // A step, or two joined ones: both have their input, or neither begins.
    bool compute(int rank, RankState& state, std::size_t count) {
        bool all = true;
        for (std::size_t i = state.at; i < state.at + count; ++i) {
            const ScheduleStep& step = program_[rank][i].step;
            const auto need = input_of(rank, step);
            const Value value = need ? Value(arrived_[need->gradient][at(need->chunk, need->microbatch)]) : present;
            if (value == absent || !made_here(rank, step)) {
                fault({Kind::no_input, rank, need ? int(need->from_stage) : rank, i, need.value_or(TransferStep{})});
                state.failed = true;
                return false;
            }
            all = all && value == present; // else only with overlap: an exchange without it has been left over complete
        }
        for (std::size_t i = state.at; all && i < state.at + count; ++i)
            if (const ScheduleStep& step = program_[rank][i].step; step.kind != StepKind::weight)
                made_[step.kind != StepKind::forward][at(step.chunk, step.microbatch)] = 1;
        return all;
    }

    const PipelineProgram& program_;
    int (*stage_of_)(int, int);
    int stages_, chunks_, length_; // chunks in all, and of one direction
    bool overlap_;
    std::vector<RankState> ranks_;
    std::vector<Channel> channels_;
    std::vector<std::uint8_t> made_[2], arrived_[2]; // by (gradient), then (chunk, microbatch)
    std::vector<int> runnable_;
    std::vector<RendezvousFault> faults_;
};

std::string name_of(const TransferStep& transfer) {
    return std::string(transfer.gradient ? "the gradient" : "the activation") + " of chunk " + std::to_string(transfer.chunk) +
           ", microbatch " + std::to_string(transfer.microbatch);
}

} // namespace

std::vector<RendezvousFault> rendezvous(const PipelineProgram& program, int (*stage_of)(int, int), int chunks, bool overlap,
                                        int directions) {
    Rendezvous meeting(program, stage_of, chunks, overlap, directions);
    meeting.run();
    return meeting.standstill();
}

std::string to_text(const RendezvousFault& fault) {
    const std::string where = "rank " + std::to_string(fault.rank) + ", action " + std::to_string(fault.position) + ": ";
    const std::string peer = "rank " + std::to_string(fault.peer);
    switch (fault.kind) {
    case Kind::waits:
        if (fault.peer == fault.rank) return where + "waits for a value made later on the same rank";
        return where + "waits for " + peer + (fault.transfer.send ? " to receive " : " to send ") + name_of(fault.transfer);
    case Kind::mismatch:
        return where + "expects " + name_of(fault.expected) + " from " + peer + ", which sends " + name_of(fault.transfer);
    case Kind::no_input:
        return where + "needs " + name_of(fault.transfer) + ", which nothing before it receives or makes";
    case Kind::early_send:
        return where + "sends " + name_of(fault.transfer) + " to " + peer + " before it is made";
    }
    return where;
}

} // namespace orrery
