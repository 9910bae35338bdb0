#include "sim/scenario/homes.hpp"

#include "sim/scenario/abilities.hpp"
#include "sim/scenario/practice.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery {

namespace {

std::string at(const char* key) { return fmt::format("/strategy/offload/{}", key); }

// One place each for optimizer states, gradients, parameters and saved activations.
struct FourTiers {
    Tier optimizer = Tier::none, gradients = Tier::none, parameters = Tier::none, activations = Tier::none;
};

std::string words_of(const FourTiers& p) {
    std::string on_host, on_disk;
    for (const auto& [tier, what] : {std::pair{p.parameters, "parameters"},
                                     {p.gradients, "gradients"},
                                     {p.optimizer, "optimizer states"},
                                     {p.activations, "activations"}}) {
        std::string& list = tier == Tier::nvme ? on_disk : on_host;
        if (tier != Tier::none) list += (list.empty() ? "" : ", ") + std::string(what);
    }
    for (std::string* list : {&on_host, &on_disk})
        if (const std::size_t last = list->rfind(", "); last != std::string::npos) list->replace(last, 2, " and ");
    if (!on_host.empty()) on_host += " on the host";
    if (!on_disk.empty()) on_disk += " on NVMe";
    return fmt::format("{}{}{}", on_host, on_host.empty() || on_disk.empty() ? "" : ", ", on_disk);
}

// Sub-groups small enough for the room that is left on a host, and on their way while others are updated.
Home home_of(const FourTiers& p) {
    Home h;
    h.words = words_of(p);
    for (const auto& [tier, key] :
         {std::pair{p.optimizer, "optimizer"}, {p.gradients, "gradients"}, {p.parameters, "parameters"}, {p.activations, "activations"}}) {
        if (tier == Tier::none) continue;
        h.fields.emplace_back(at(key), fmt::format("\"{}\"", name(tier)));
        h.reach = std::max(h.reach, tier == Tier::nvme ? Reach::disk : Reach::host);
    }
    if (h.reach == Reach::disk) {
        h.fields.emplace_back(at("sub_group_size"), "100000000");
        h.fields.emplace_back(at("pipelined"), "true");
    }
    return h;
}

// Each farther than the one before. States that are updated most seldom leave first: what is read in every microbatch, last.
constexpr FourTiers of_states[] = {{},
                                   {Tier::cpu},
                                   {Tier::cpu, Tier::cpu},
                                   {Tier::cpu, Tier::cpu, Tier::cpu},
                                   {Tier::nvme},
                                   {Tier::nvme, Tier::cpu},
                                   {Tier::nvme, Tier::cpu, Tier::cpu},
                                   {Tier::nvme, Tier::nvme, Tier::cpu},
                                   {Tier::nvme, Tier::nvme, Tier::nvme}};

Tier tier_of(const Home& h, const char* key) {
    for (const auto& [pointer, value] : h.fields)
        if (pointer == at(key)) return value == "\"nvme\"" ? Tier::nvme : Tier::cpu;
    return Tier::none;
}

bool able(const Abilities& can, const FourTiers& p) {
    if (p.activations != Tier::none && !can.has_home("activations")) return false;
    if ((p.optimizer == Tier::nvme || p.activations == Tier::nvme) && !can.has_home("disk")) return false;
    if (p.optimizer == Tier::none) return true;
    return can.has_home(p.parameters != Tier::none ? "parameters" : p.gradients != Tier::none ? "gradients" : "optimizer");
}

} // namespace

const std::vector<Home>& all_homes() {
    static const std::vector<Home> all = [] {
        std::vector<Home> homes;
        for (FourTiers p : of_states)
            for (const Tier activations : {Tier::none, Tier::cpu}) {
                p.activations = activations;
                homes.push_back(home_of(p));
            }
        return homes;
    }();
    return all;
}

std::vector<Home> homes_of(const Scenario& s) {
    const Abilities can = abilities_of(s);
    const Strategy& t = s.strategy;
    const Practice practice = practice_of(s);
    const bool one = t.data_parallel * t.context_parallel == 1, piped = t.pipeline_parallel > 1,
               once_a_step = !one && practice.once_a_step(t.pipeline_parallel), fully = practice.fully_sharded(),
               simple = (!piped || once_a_step) && !(s.model.moe && t.shard_group_size > 0);
    const bool gradients = simple && (one || t.zero_stage >= 2),
               parameters = simple && (one || t.zero_stage == 3 || (t.zero_stage == 2 && fully));
    const bool disk = s.cluster.host.nvme.count > 0;
    std::vector<Home> out;
    for (const Home& h : all_homes()) {
        const FourTiers p{tier_of(h, "optimizer"), tier_of(h, "gradients"), tier_of(h, "parameters"), tier_of(h, "activations")};
        if ((p.gradients != Tier::none && !gradients) || (p.parameters != Tier::none && !parameters)) continue;
        if (piped && (p.gradients == Tier::nvme || p.parameters == Tier::nvme)) continue;
        if ((h.reach == Reach::disk && !disk) || !able(can, p)) continue;
        out.push_back(h);
    }
    return out;
}

} // namespace orrery
