#include "sim/scenario/perturb.hpp"

#include "sim/scenario/suggest.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery {

bool has_jitter(const std::vector<Perturbation>& perturbations) {
    return std::ranges::any_of(perturbations, [](const Perturbation& p) { return p.kind == Perturbation::Kind::jitter; });
}

const char* class_name(LinkKind kind) {
    switch (kind) {
    case LinkKind::scale_up:
        return "scale_up";
    case LinkKind::pcie:
        return "pcie";
    case LinkKind::nic:
        return "nic";
    case LinkKind::trunk:
        return "trunk";
    case LinkKind::copy:
        return "copy";
    }
    return "";
}

bool means(const Perturbation& p, const Fabric& fabric, LinkId id) {
    const Link& link = fabric.links()[id];
    if (p.index >= 0 && p.index != link.node) return false;
    const bool by_name = p.link.find(" > ") != std::string::npos; // of a large cluster names take long to make
    return by_name ? p.link == fabric.link_name(id) : p.link == class_name(link.kind);
}

std::string unknown_link(const Perturbation& p, const Fabric& fabric) {
    const Links& links = fabric.links();
    const auto count = static_cast<LinkId>(links.size());
    if (p.link.empty()) return {};
    for (LinkId l = 0; l < count; ++l)
        if (means(p, fabric, l)) return {};
    std::vector<std::string> classes, names;
    for (LinkId l = 0; l < count; ++l) {
        const LinkKind kind = links[l].kind;
        if (std::find(classes.begin(), classes.end(), class_name(kind)) != classes.end()) continue;
        classes.push_back(class_name(kind));
        names.push_back("\"" + fabric.link_name(l) + "\"");
    }
    return "\"" + p.link + "\"" + (p.index < 0 ? "" : " of node " + std::to_string(p.index)) + " is no link of this cluster: " +
           (links.empty() ? "it has none" : "its classes are " + join(classes) + ", its links have names as " + join(names));
}

void apply_to_cluster(Scenario& scenario) {
    Cluster& c = scenario.cluster;
    if (c.graph) return; // its links are its own: the engine slows each
    for (Perturbation& p : scenario.perturb) {
        const bool links = p.kind == Perturbation::Kind::slow_link || p.kind == Perturbation::Kind::background;
        if (!links || p.index >= 0 || (p.link != "nic" && p.link != "scale_up")) continue;
        const double left = p.kind == Perturbation::Kind::slow_link ? 1 / p.factor : 1 - p.factor;
        BytesPerSecond& rate = p.link == "nic" ? c.inter.nic_bandwidth : c.intra.bandwidth;
        rate = BytesPerSecond{rate.value * left};
        p.in_cluster = true;
    }
}

std::string perturbation_text(const std::vector<Perturbation>& perturbations) {
    const auto links = [](const Perturbation& p) { return p.link + (p.index < 0 ? "" : fmt::format(" of node {}", p.index)); };
    std::string text;
    for (const Perturbation& p : perturbations) {
        using Kind = Perturbation::Kind;
        if (!text.empty()) text += "; ";
        switch (p.kind) {
        case Kind::slow_rank:
            text += fmt::format("rank {} {:.4g} x slower", p.index, p.factor);
            break;
        case Kind::slow_node:
            text += fmt::format("node {} {:.4g} x slower", p.index, p.factor);
            break;
        case Kind::slow_link:
            text += fmt::format("{} {:.4g} x slower", links(p), p.factor);
            break;
        case Kind::jitter:
            text += fmt::format("jitter of {:.2g} %", p.factor * 100);
            break;
        case Kind::background:
            text += fmt::format("others take {:.3g} % of {}", p.factor * 100, links(p));
            break;
        }
    }
    return text;
}

} // namespace orrery
