// `simexec agree SCENARIO.json`: does its strategy train like one rank? In fp64 on the processor; on GPUs in what they store.
#include "exec/executors/executors.hpp"
#include "exec/local/agreement.hpp"
#include "exec/simexec/gpu.hpp"
#include "exec/simexec/others.hpp"
#include "exec/simexec/outputs.hpp"
#include "sim/memory/memory.hpp"
#include "topology/check.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>

namespace orrery::simexec {
namespace {

Learning learning(const Scenario& s, const AgreeOptions& how) {
    Learning l;
    l.steps = how.steps;
    l.forced_routing = routes_by_position(s);
    const bool gpus = how.device == "cuda" && how.executor == "queues";
    if (how.device == "cuda") l.real = gpus ? stored_on_gpu(s) : DType::fp32;
    if (how.device == "cuda" && !gpus) l.machine = machine_of(how.device);
    l.executor = [gpus, name = how.executor](World& w) {
        return gpus ? queues_executor(w, cuda_fleet(w, std::nullopt, first_step_patience)) : make_executor(name, w);
    };
    return l;
}

// At rank 0 the tensors of all ranks, from the bytes that each has of them: laid into a world of its own that never ran.
Gathered gathered_at_first(const World& world, Quantity what, const Others& others) {
    const auto bytes = [](const TensorPart& p) { return static_cast<std::size_t>(p.count) * bytes_per_element(p.stored); };
    std::string mine;
    for (const TensorPart& p : parts_of(world, *world.ranks[others.rank], what))
        mine.append(reinterpret_cast<const char*>(p.data), bytes(p));
    const std::vector<std::string> of_ranks = others.collect(mine);
    if (others.rank != 0) return {};
    const auto all = make_world(world.scenario, world.plan, world.real);
    for (std::size_t r = 0; r < of_ranks.size(); ++r) {
        std::size_t at = 0;
        for (const TensorPart& p : parts_of(*all, *all->ranks[r], what)) {
            require(at + bytes(p) <= of_ranks[r].size(), "a rank sends less than its tensors");
            std::memcpy(p.data, of_ranks[r].data() + at, bytes(p));
            at += bytes(p);
        }
        require(at == of_ranks[r].size(), "a rank sends more than its tensors");
    }
    return gather(*all, what);
}

// The process of one rank under mpirun: at rank 0 what all ranks learned, elsewhere nothing.
std::optional<Learned> learn_across(const Scenario& scenario, Learning how) {
    const OrreryTransport& transport = open_transport("leave out --executor mpi");
    if (transport.size != scenario.world_size())
        throw std::runtime_error(fmt::format("the scenario has {}, and the job has {}: mpirun -n {} simexec agree ..",
                                             counted(scenario.world_size(), "rank"), counted(transport.size, "process"),
                                             scenario.world_size()));
    const Others others = over(transport, first_step_patience);
    std::unique_ptr<Heartbeats> heartbeats = heartbeats_of(transport, first_step_patience);
    how.ranks = {transport.rank};
    how.gathered = [&](const World& w, Quantity what) { return gathered_at_first(w, what, others); };
    how.executor = [&](World& w) { return processes_executor(w, transport, first_step_patience); };
    Learned learned;
    or_end_all(transport, others, [&] {
        agree_on_terms(others, {{"program version", term(ORRERY_VERSION)},
                                {"plan", static_cast<std::int64_t>(hash(executed_plan(scenario)))},
                                {"number of --steps", how.steps}});
        learned = learn(scenario, how);
        learned.peaks = others.sum(learned.peaks);
    });
    heartbeats.reset();
    transport.finish();
    if (transport.rank != 0) return std::nullopt;
    return learned;
}

bool memory_as_predicted(const Scenario& s, const Learned& learned) {
    const Plan plan = executed_plan(s);
    const MemoryReport predicted = memory(plan, s);
    for (std::size_t r = 0; r < learned.peaks.size(); ++r) {
        const int stage = plan.mesh.coordinates(static_cast<int>(r))[Axis::pp];
        if (learned.peaks[r] != predicted.stages[stage].allocated_peak.count) return false;
    }
    return true;
}

} // namespace

int run_agree(const std::string& file, const Options& options, const AgreeOptions& how) {
    const bool across = how.executor == "mpi";
    if (!across)
        if (const std::string why = several_started("compare"); !why.empty()) return refuse(why);
    const std::optional<Scenario> scenario = load(file, options, true);
    if (!scenario) return bad_input;
    if (const std::string why = unlike_one_rank(*scenario); !why.empty())
        return refuse(why + ": simexec agree compares strategies that train as one rank does");
    if (how.device == "cuda" && (how.executor == "threads" || across))
        return refuse("--device cuda goes with --executor queues (a GPU a rank) or serial (all ranks on one)");
    if (const std::string why = why_unwritable({{"-o", options.output}}); !why.empty()) return refuse(why);
    Learning learns = learning(*scenario, how);
    const std::optional<Learned> many = across ? learn_across(*scenario, learns) : std::optional(learn(*scenario, learns));
    if (!many) return done; // rank 0 says what came out
    if (across) learns.executor = [](World& w) { return serial_executor(w); };
    const Agreement found = agreement(learn(on_one_rank(*scenario), learns), *many, limits_of(learns.real));
    const bool memory = memory_as_predicted(*scenario, *many), agrees = found.agrees() && memory;
    Table table{{"what", "largest difference", "of", ""}, {false, true, false, false}, {}};
    nlohmann::ordered_json json{{"name", scenario->name},   {"world_size", scenario->world_size()},
                                {"steps", how.steps},       {"device", how.device},
                                {"executor", how.executor}, {"numbers", name(learns.real)}};
    for (const Agreement::Row& r : found.rows) {
        table.rows.push_back({r.what, fmt::format("{:.2g}", r.difference.relative), r.difference.worst,
                              !r.agrees             ? fmt::format("over {:.0e}", r.limit)
                              : std::isinf(r.limit) ? "not held to a limit"
                                                    : "agrees"});
        json["differences"].push_back(
            {{"what", r.what}, {"relative", r.difference.relative}, {"worst", r.difference.worst}, {"agrees", r.agrees}});
    }
    table.rows.push_back({"peak memory, every rank", "", "", memory ? "as predicted, to the byte" : "not as predicted"});
    json["memory_as_predicted"] = memory;
    json["agrees"] = agrees;
    const TextStyle style = output_style(options);
    const std::string on = how.device == "cuda" ? how.executor == "queues" ? ", a GPU a rank" : ", all on one GPU" : "";
    const std::string text =
        fmt::format("{}: {} against one, {} in {}{}{}\n", scenario->name, counted(scenario->world_size(), "rank"),
                    counted(how.steps, "step"), name(learns.real), on, learns.forced_routing ? "; experts take tokens by position" : "") +
        to_text(table, style);
    if (const int code = deliver(options.json ? json.dump(2) + "\n" : text, options); code != done) return code;
    return agrees ? done : failed;
}

} // namespace orrery::simexec
