#include "sim/search/space.hpp"

#include "sim/scenario/resolve.hpp"
#include "sim/scenario/suggest.hpp"

#include "sim/schedules/schedule.hpp"
#include "sim/search/lists.hpp"
#include "sim/search/threads.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <thread>

namespace orrery {

namespace {

using Json = nlohmann::json;

void refuse(std::map<std::string, std::int64_t>& refused, Problem& nearest, const std::vector<Problem>& problems) {
    if (problems.empty()) return;
    ++refused[problems.front().where];
    if (nearest.what.empty()) nearest = problems.front();
}

// Rules about degrees alone: no other field heals what they refuse.
bool about_degrees(const std::vector<Problem>& problems) {
    static constexpr const char* pointers[] = {"/strategy", "/strategy/tensor_parallel", "/strategy/expert_parallel",
                                               "/strategy/expert_tensor_parallel", "/strategy/data_parallel"};
    return std::any_of(problems.begin(), problems.end(), [](const Problem& p) {
        return std::any_of(std::begin(pointers), std::end(pointers), [&](const char* pointer) { return p.where == pointer; });
    });
}

// The points that one thread finds below some degrees.
struct Found {
    std::vector<Form> forms;
    std::map<std::string, std::int64_t> refused;
    Problem nearest;
};

// The meaning of fields: two choices that mean the same are one.
struct Resolved {
    Training training;
    Strategy strategy;
    Runtime runtime;
    bool operator==(const Resolved&) const = default;
};

Settings joined(const Settings& a, const Settings& b) {
    Settings all = a;
    all.insert(all.end(), b.begin(), b.end());
    return all;
}

FormShape shape_of(const Scenario& s) {
    FormShape shape;
    const Strategy& t = s.strategy;
    shape.tensor = t.tensor_parallel, shape.context = t.context_parallel, shape.pipeline = t.pipeline_parallel;
    if (!t.layers_per_chunk.empty()) shape.least_layers = *std::min_element(t.layers_per_chunk.begin(), t.layers_per_chunk.end());
    shape.micro_batch = s.training.micro_batch_size;
    shape.microbatches = s.microbatches();
    if (const ScheduleInfo* info = find_schedule(t.schedule)) shape.schedule = info->name;
    return shape;
}

// A combination's refusals and, where it is legal, its form.
struct Outcome {
    Form form; // without cores or rests: there is no such form
    std::map<std::string, std::int64_t> refused;
    Problem nearest;
    bool legal() const { return !form.rests.empty(); }
};

bool alike(const Outcome& a, const Outcome& b) {
    return a.form.cores == b.form.cores && a.form.rests == b.form.rests && a.refused == b.refused;
}

// The field and the subject of the first problem: what stands before its numbers.
std::string rule_of(const std::vector<Problem>& problems) {
    const Problem& first = problems.front();
    return first.where + ' ' + first.what.substr(0, first.what.find(" = "));
}

struct Below {
    const Lists& lists;
    Variation& variation;
    std::int32_t machine;
    Found& found;

    // Those of `choices` that are legal after `settings`, each that comes to something new.
    Choices legal(const Settings& settings, const std::vector<GroupValue>& choices, Outcome& outcome) {
        std::vector<GroupValue> out;
        std::vector<Resolved> seen;
        for (const GroupValue& c : choices) {
            const Scenario* s = variation.with(joined(settings, c.settings));
            if (!s) {
                refuse(outcome.refused, outcome.nearest, variation.problems());
                continue;
            }
            Resolved is{s->training, s->strategy, s->runtime};
            if (std::find(seen.begin(), seen.end(), is) != seen.end()) continue;
            seen.push_back(std::move(is));
            out.push_back(c);
        }
        return Choices(std::move(out));
    }

    Outcome outcome(const Settings& settings) {
        variation.with(settings);
        const Scenario shape = variation.resolved();
        Outcome o{{machine, settings, shape_of(shape), {}, {}}, {}, {}};
        o.form.cores = legal(settings, lists.cores(shape), o);
        if (!o.form.cores.empty()) o.form.rests = legal(joined(settings, o.form.cores.front().settings), lists.rests(shape), o);
        return o;
    }

    // By micro batch, of one schedule. Rules refuse more microbatches than some number, or fewer, or those that do not divide into rounds.
    // So micro batches between two that have the same cores, rests and refusals have these too, where the first core and rest are legal;
    // where they are not, the others are not either, as with any micro batch that the same rule refuses.
    std::vector<Outcome> outcomes(const std::vector<Settings>& all) {
        std::vector<Outcome> out;
        while (out.size() < all.size() && (out.empty() || !out.back().legal())) out.push_back(outcome(all[out.size()]));
        if (out.empty() || !out.back().legal()) return out;
        const Outcome first = out.back();
        const Settings rest = joined(first.form.cores.front().settings, first.form.rests.front().settings);
        std::map<std::string, std::size_t> refused; // by rule, one that it refuses
        std::vector<std::size_t> open;
        bool shared = true;
        for (std::size_t i = out.size(); i < all.size(); ++i) {
            if (variation.with(joined(all[i], rest))) {
                open.push_back(i);
                out.push_back(first);
                out.back().form.settings = all[i], out.back().form.shape = shape_of(variation.resolved());
            } else if (const auto [it, fresh] = refused.try_emplace(rule_of(variation.problems()), i); fresh) {
                out.push_back(outcome(all[i]));
                if (out.back().legal()) refused.erase(it), shared = false;
            } else
                out.push_back(Outcome(out[it->second]));
        }
        if (open.empty()) return out;
        out[open.back()] = outcome(all[open.back()]);
        shared = shared && alike(first, out[open.back()]);
        open.pop_back();
        for (const std::size_t i : open)
            if (!shared) out[i] = outcome(all[i]);
        return out;
    }

    std::vector<Outcome> outcomes_apart(const std::vector<Settings>& all) {
        std::vector<Outcome> out;
        for (const Settings& settings : all) out.push_back(outcome(settings));
        return out;
    }

    void take(Outcome& o) {
        for (const auto& [where, n] : o.refused) found.refused[where] += n;
        if (found.nearest.what.empty()) found.nearest = o.nearest;
        if (o.legal()) found.forms.push_back(std::move(o.form));
    }

    void degrees(const Settings& settings, bool apart) {
        variation.with(settings);
        if (about_degrees(variation.problems())) return refuse(found.refused, found.nearest, variation.problems());
        const Scenario shape = variation.resolved();
        const std::vector<GroupValue> batches = lists.micro_batches(shape);
        if (batches.empty())
            refuse(found.refused, found.nearest,
                   {{"/training/global_batch_size", fmt::format("training.global_batch_size = {} must be a multiple of data_parallel = {}",
                                                                shape.training.global_batch_size, shape.strategy.data_parallel)}});
        std::vector<std::vector<Outcome>> by_schedule;
        for (const GroupValue& schedule : lists.schedules(shape)) {
            std::vector<Settings> all;
            for (const GroupValue& c : product(batches, {schedule})) all.push_back(joined(settings, c.settings));
            by_schedule.push_back(apart ? outcomes_apart(all) : outcomes(all));
        }
        for (std::size_t batch = 0; batch < batches.size(); ++batch)
            for (std::vector<Outcome>& of_schedule : by_schedule) take(of_schedule[batch]);
    }
};

// A machine's forms, degrees side by side on all threads and then in order.
void enumerate(StrategySpace& space, std::int32_t machine, const Lists& lists, const SpaceOptions& options) {
    const Variations& variations = space.machines[machine].variations;
    const std::vector<Settings> all = lists.degrees();
    if (all.empty()) return;
    std::vector<Found> found(all.size());
    std::atomic<std::size_t> next{0};
    const auto caller = std::this_thread::get_id();
    in_threads(options.jobs, [&] {
        Variation variation(variations, false);
        for (std::size_t i = next++; i < all.size(); i = next++) {
            if (options.go_on && !options.go_on()) return;
            if (options.listing && std::this_thread::get_id() == caller) options.listing(i, all.size());
            Below{lists, variation, machine, found[i]}.degrees(all[i], options.apart || lists.has_others());
        }
    });
    for (Found& f : found) {
        space.forms.insert(space.forms.end(), std::make_move_iterator(f.forms.begin()), std::make_move_iterator(f.forms.end()));
        for (const auto& [where, n] : f.refused) space.refused[where] += n;
        if (space.nearest.what.empty()) space.nearest = f.nearest;
    }
}

std::string meant_by(const std::string& pointer) {
    const std::string_view field = field_of_short_name(pointer.substr(pointer.rfind('/') + 1));
    return field.empty() ? "its keys are JSON pointers, as in \"/strategy/tensor_parallel\" (simrun schema --markdown lists them)"
                         : "did you mean \"" + pointer_of(field) + "\"?";
}

// The space's file: {pointer: [values]}; a value alone is a list of one.
SpaceFile read_space(const std::string& text, std::vector<Problem>& problems) {
    SpaceFile file;
    if (text.empty()) return file;
    for (const Problem& p : json_problems(text)) problems.push_back({p.where.empty() ? "" : "space " + p.where, "the space is " + p.what});
    if (!problems.empty()) return file;
    const Json j = Json::parse(text, nullptr, false, true);
    if (!j.is_object()) {
        problems.push_back({"", "the space must be an object of fields and lists, as in {\"/strategy/tensor_parallel\": [1, 2, 4, 8]}"});
        return file;
    }
    for (const auto& [pointer, list] : j.items()) {
        const std::string where = "space " + pointer;
        if (!Variations::is_of_the_base(pointer) && !Variations::can_vary(pointer))
            problems.push_back({where, "the space names \"" + pointer + "\", which is not a field: " + meant_by(pointer)});
        else if (list.is_array() && list.empty())
            problems.push_back({where, "the space gives " + pointer + " no value: name at least one"});
        else if (pointer == "/strategy/data_parallel" || pointer == "/strategy/layer_split" || pointer == "/strategy/recompute_layers")
            problems.push_back({where, "the space cannot vary " + pointer + ": " +
                                           (pointer.ends_with("data_parallel") ? "it follows from the other degrees"
                                                                               : "it depends on the stages; the search refines it")});
        else if (pointer == "/strategy/recompute" && list.dump().find("auto") != std::string::npos)
            problems.push_back({where, "the space cannot choose segments by \"auto\": name numbers, as in {\"segments\": 4}"});
        // A list of recomputed ops is a value itself.
        else if (list.is_array() && !(pointer == "/strategy/recompute" && list.front().is_string() && list.front() != "none" &&
                                      list.front() != "selective" && list.front() != "full"))
            for (const Json& value : list) file[pointer].push_back(value.dump());
        else
            file[pointer].push_back(list.dump());
    }
    return file;
}

// Overrides of each machine: all combinations of what cannot vary in place.
std::vector<std::vector<std::string>> machines_of(const SpaceFile& file) {
    std::vector<std::vector<std::string>> all{{}};
    for (const auto& [pointer, list] : file) {
        if (Variations::can_vary(pointer)) continue;
        std::vector<std::vector<std::string>> more;
        for (const auto& before : all)
            for (const std::string& value : list) {
                more.push_back(before);
                more.back().push_back(pointer + "=" + value);
            }
        all = std::move(more);
    }
    return all;
}

} // namespace

std::int64_t StrategySpace::legal() const {
    std::int64_t n = 0;
    for (const Form& f : forms) n += static_cast<std::int64_t>(f.cores.size() * f.rests.size() * machines[f.machine].recomputes.size());
    return n;
}

StrategySpace make_space(std::string_view json_text, const SpaceOptions& options) {
    StrategySpace space;
    const SpaceFile file = read_space(options.space, space.problems);
    if (!space.problems.empty()) return space;
    space.steps_differ = file.contains("/training/global_batch_size") || file.contains("/training/sequence_length");
    for (const std::vector<std::string>& overrides : machines_of(file)) {
        ParseOptions parsing = options.parsing;
        parsing.overrides.insert(parsing.overrides.end(), overrides.begin(), overrides.end());
        SpaceMachine machine{Variations(json_text, parsing), "", {}};
        for (const Problem& p : machine.variations.problems()) space.problems.push_back(p);
        if (space.problems.empty() && machine.variations.base().strategy.recompute_segments < 0)
            space.problems.push_back({"/strategy/recompute",
                                      "strategy.recompute = {segments: auto} chooses for one strategy, and a search for "
                                      "each of its own: leave it out, or name numbers of segments in the space"});
        if (!space.problems.empty()) return space;
        for (const std::string& one : overrides) machine.label += (machine.label.empty() ? "" : " ") + one.substr(one.rfind('/') + 1);
        space.machines.push_back(std::move(machine));
        const Lists lists(space.machines.back().variations, file, options);
        space.machines.back().recomputes = lists.recomputes();
        if (space.free.empty()) space.free = lists.free();
        space.cores_change_work = space.cores_change_work || lists.has_others();
        space.homes_open = lists.homes_open();
        space.synchronization_open = lists.open("/strategy/synchronization");
        space.compression_open = lists.open("/strategy/gradient_compression");
        space.may_leave = space.may_leave || lists.free_homes();
        enumerate(space, static_cast<std::int32_t>(space.machines.size()) - 1, lists, options);
    }
    return space;
}

namespace {

const SpaceMachine& machine_of(const StrategySpace& space, const Form& form) { return space.machines[form.machine]; }
const Form& form_of(const StrategySpace& space, const PointId& id) { return space.forms[id.form]; }

} // namespace

Settings settings_of(const StrategySpace& space, const PointId& id) {
    const Form& form = form_of(space, id);
    Settings all = joined(form.settings, form.cores[id.core].settings);
    all = joined(all, machine_of(space, form).recomputes[id.recompute].settings);
    return joined(all, form.rests[id.rest].settings);
}

std::optional<PointId> same_point(const StrategySpace& space, const StrategySpace& part, const PointId& id) {
    const Form& from = form_of(part, id);
    const auto place = [](const Choices& choices, const GroupValue& value) {
        std::int32_t i = 0;
        while (i < static_cast<std::int32_t>(choices.size()) && !(choices[i] == value)) ++i;
        return i < static_cast<std::int32_t>(choices.size()) ? i : -1;
    };
    for (std::size_t i = 0; i < space.forms.size(); ++i) {
        const Form& form = space.forms[i];
        if (form.machine != from.machine || form.settings != from.settings) continue;
        const PointId found{static_cast<std::int32_t>(i), place(form.cores, from.cores[id.core]), id.recompute,
                            place(form.rests, from.rests[id.rest])};
        if (found.core >= 0 && found.rest >= 0) return found;
    }
    return std::nullopt;
}

std::string json_of(const StrategySpace& space, const PointId& id) {
    return machine_of(space, form_of(space, id)).variations.json(settings_of(space, id));
}

} // namespace orrery
