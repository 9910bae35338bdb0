#include "sim/cost/own_constants.hpp"
#include "sim/plan/lowering.hpp"
#include "sim/scenario/parameters.hpp"
#include "sim/scenario/practice.hpp"
#include "sim/search/bounds.hpp"
#include "sim/search/parts.hpp"
#include "sim/search/sharing.hpp"

#include <algorithm>

namespace orrery {

namespace {

// Bytes; gradients apart, as some software has none while it goes forward.
struct Held {
    double always = 0, gradients = 0;
};

// The host has moments and masters, and the device a copy of the masters.
bool leaves_masters(const Scenario& s, const Practice& practice) {
    const Training& t = s.training;
    const Offload& o = s.strategy.offload;
    return practice.keeps_master_on_device && t.master_weights && !is_wide(t.precision) && !t.optimizer_in_backward &&
           o.optimizer == Tier::cpu && o.optimizer_fraction >= 1 && o.gradients == Tier::none && o.parameters == Tier::none &&
           !s.model.trainable.partial() && !s.strategy.served() && !s.strategy.workers();
}

// Outputs of the microbatches before the last one, which a stage with the loss keeps until the step ends (memory/reserve.cpp).
double kept_outputs(const Scenario& s, const Practice& practice, int directions) {
    if (!practice.keeps_outputs || s.runtime.reserved_gb >= 0) return 0;
    const Strategy& t = s.strategy;
    const double rows =
        static_cast<double>(s.training.micro_batch_size) * static_cast<double>(s.training.sequence_length) / t.context_parallel;
    const double logits = rows * static_cast<double>(s.model.vocab_size) / t.tensor_parallel;
    return std::max(0.0, static_cast<double>(s.microbatches()) / directions - 1) * logits * bytes_per_element(activation_dtype(s));
}

Held bytes_of(const Scenario& s, const Practice& practice, const SharingPractice& shared, const Elements& e, int directions) {
    const Strategy& t = s.strategy;
    const Training& training = s.training;
    const Elements shards = shards_of(s, directions);
    const auto sharded = [&](bool yes) { return e.dense / (yes ? shards.dense : 1) + e.experts / (yes ? shards.experts : 1); };
    double states = optimizer_state_bytes(training);
    // In a model that is tuned only frozen parameters are bounded: adapters are few, and gradients and states are theirs.
    const Trainable& tuned = s.model.trainable;
    const double parameter = tuned.base_dtype == BaseDType::nf4             ? bytes_per_element(DType::nf4)
                             : is_wide(training.precision)                  ? 4
                             : practice.fp32_parameters && !tuned.partial() ? 0 // they are among the states
                             : practice.gathers_low_parameters              ? 1 // and tables more
                                                                            : 2;
    const Offload& o = t.offload;
    const bool away = o.optimizer != Tier::none;
    if (tuned.partial() || t.served() || away) states = 0; // elsewhere: a device's part of them is not bounded
    if (away && leaves_masters(s, practice)) states = training.master_remainders ? 2 : 4;
    const bool fully = practice.fully_sharded(), once = practice.once_a_step(t.pipeline_parallel);
    const double gradient =
        fully && !once ? std::min(2.0, bytes_per_element(training.gradient_dtype)) : bytes_per_element(training.gradient_dtype);
    const bool none = tuned.partial() || training.optimizer_in_backward || o.gradients != Tier::none;
    Held h;
    h.always = states * sharded(t.zero_stage >= 1);
    // Shards that the optimizer steps on are among the states: copies of them are there for a gather alone.
    const bool among_states = states > 0 && practice.fp32_shards && shared.gathers_in_step;
    if (o.parameters == Tier::none && !among_states)
        h.always += parameter * sharded(!once && (t.zero_stage >= 3 || (t.zero_stage == 2 && fully)));
    h.gradients = none ? 0 : gradient * sharded(!once && t.zero_stage >= 2);
    return h;
}

// Segments of several layers keep less than a layer's input each, and activations that leave the device nothing: not bounded.
bool keeps_less(const Strategy& t) { return t.recomputes_segments() || t.offload.activations != Tier::none; }

// Bytes of the microbatches held at a moment, and of the parameters and gradients that are whole then.
class Moments {
  public:
    Moments(const Scenario& s, const SharingPractice& shared, const Profile& profile, const ScheduleInfo& info)
        : profile_(profile), chunks_(chunk_costs(s, profile, false)), segments_(keeps_less(s.strategy)), elements_(chunk_elements(s)),
          shards_(shards_of(s, info.directions)), whole_(whole_of(s, shared)) {}

    // Bytes beside what a stage has always.
    double most(const std::vector<InFlight::Moment>& moments) const {
        double forward = 0, backward = 0, tail_forward = 0, tail_backward = 0;
        for (const InFlight::Moment& m : moments) {
            double bytes = 0;
            for (const auto& [chunk, count] : m.held) bytes += count * saved(chunk);
            for (const int chunk : m.gathered) bytes += whole_.weights * unsharded(chunk);
            for (const int chunk : m.summed) bytes += whole_.gradients * unsharded(chunk);
            forward = std::max(forward, bytes);
            const double of_tail = std::max(0.0, profile_.tail.saved);
            if (m.forward >= 0 && is_last(m.forward))
                tail_forward = std::max(tail_forward, bytes + std::max(0.0, saved(m.forward) - of_tail) + profile_.tail_peak);
            if (m.begins < 0) continue;
            // A layer's backward pass begins when that of the tail is through, which has let go of what the tail saved.
            const double now = is_last(m.begins) && !segments_ ? bytes - of_tail : bytes;
            backward = std::max(backward, now + chunks_[at(m.begins % length())].rise);
            if (is_last(m.begins)) tail_backward = std::max(tail_backward, now + (segments_ ? 0 : profile_.tail_peak));
        }
        // The tail's peak is in one of its passes.
        return std::max({forward, backward, std::min(tail_forward, tail_backward)});
    }

  private:
    struct Whole {
        double weights = 0, gradients = 0;
    }; // bytes an element

    static Whole whole_of(const Scenario& s, const SharingPractice& shared) {
        if (states_leave(s.strategy.offload) || s.model.trainable.partial() || s.training.optimizer_in_backward) return {};
        const double gradient = bytes_per_element(s.training.gradient_dtype);
        return {shared.gathers_in_step && !shared.keeps ? (s.runtime.fp8_all_gather ? 1.0 : 2.0) : 0,
                shared.zero >= 2 ? (shared.one_queue ? std::min(2.0, gradient) : gradient) : 0};
    }
    int length() const { return static_cast<int>(chunks_.size()); }
    bool is_last(int chunk) const { return chunk % length() == length() - 1; }
    double saved(int chunk) const { return segments_ ? 0 : std::max(0.0, chunks_[at(chunk % length())].saved); }
    double unsharded(int chunk) const { // beside the shard
        const Elements& e = elements_[at(chunk % length())];
        return e.dense * (1 - 1 / shards_.dense) + e.experts * (1 - 1 / shards_.experts);
    }

    const Profile& profile_;
    std::vector<ChunkCost> chunks_;
    bool segments_;
    std::vector<Elements> elements_;
    Elements shards_;
    Whole whole_;
};

} // namespace

double home_bound(const Scenario& s) {
    const ScheduleInfo* info = find_schedule(s.strategy.schedule);
    if (!info || !states_leave(s.strategy.offload)) return 0;
    return over_at_home(s, stage_elements(s, *info, chunk_elements(s)), info->directions);
}

double memory_bound(const Scenario& s, const Profile& profile, InFlight& in_flight, SharedWire* sharing) {
    const ScheduleInfo* info = find_schedule(s.strategy.schedule);
    if (!info) return 0;
    const int stages = s.strategy.pipeline_parallel, directions = info->directions;
    const std::vector<int>& split = s.strategy.layers_per_chunk;
    const std::vector<ChunkCost> chunks = chunk_costs(s, profile, false);
    const Practice practice = practice_of(s);
    const SharingPractice shared = sharing_practice(s);
    const bool made_anew = practice.gradients_none && !practice.once_a_step(stages);
    const double outputs = kept_outputs(s, practice, directions);
    const int length = static_cast<int>(split.size());
    const std::vector<Elements> elements = stage_elements(s, *info, chunk_elements(s));
    std::vector<bool> has_tail(at(stages));
    for (int direction = 0; direction < directions; ++direction)
        has_tail[at(info->stage_of(direction * length + length - 1, stages))] = true;
    const std::vector<InFlight::Held>& held = in_flight.of(s);
    const bool segments = keeps_less(s.strategy);
    const bool joined = joins(s, *info);
    const Moments moments(s, shared, profile, *info);
    double most = 0;
    for (int stage = 0; stage < stages; ++stage) {
        const Held h = bytes_of(s, practice, shared, elements[at(stage)], directions);
        double saved = 0, rise = 0, largest = 0, once = 0;
        const bool ordered = !held[at(stage)].of_chunk.empty();
        for (const auto& [chunk, count] : ordered ? held[at(stage)].of_chunk : held[at(stage)].at_least) {
            const ChunkCost& c = chunks[at(chunk % length)];
            const double one = segments || count <= 0 ? 0 : std::max(0.0, c.saved);
            saved += count * one;
            largest = std::max(largest, one);
            once += one;
            if (count > 0 && ordered) rise = rise == 0 ? c.rise : std::min(rise, c.rise);
        }
        // One half of a block may let go of what the other has not made yet: all microbatches but that one are whole before it, and the
        // first of each chunk before any backward step.
        if (joined) saved = std::max(saved - largest, directions == 1 ? once : 0), rise = 0;
        // A layer's backward pass begins when that of the tail is through, which has let go of what the tail saved.
        double working = saved + std::max(0.0, rise - (has_tail[at(stage)] ? std::max(0.0, profile.tail.saved) : 0));
        if (has_tail[at(stage)] && !joined) {
            const double layers_saved = segments ? 0 : chunks.back().saved - profile.tail.saved;
            working = std::max(working, std::max(0.0, layers_saved) + profile.tail_peak);
        }
        if (!joined && !info->asynchronous) working = std::max(working, moments.most(held[at(stage)].moments));
        const double with = made_anew ? std::max(h.gradients, working) : h.gradients + working;
        most = std::max(most, h.always + with + (has_tail[at(stage)] ? outputs : 0));
    }
    const LearnedConstants* learned = learned_for(s);
    const double less = learned ? std::min(1.0, learned->memory_factor(0)) * std::min(1.0, learned->memory_factor(1)) : 1;
    const bool buckets_held = s.runtime.reserved_gb < 0 && !s.runtime.plan_allocator;
    const double buckets = buckets_held ? static_cast<double>(practice.reduce_buffers * s.strategy.bucket_bytes.count) : 0;
    return (most + profile.reserve + buckets + (sharing && directions == 1 ? sharing->buffers(s) : 0)) * less;
}

} // namespace orrery
