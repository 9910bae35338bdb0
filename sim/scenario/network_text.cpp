// Lists in a cluster: links that are down, and nodes that are unlike the others.
#include "sim/scenario/fields.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace orrery {
namespace {

// The item being read is the list's last.
LinkDown& down(Scenario& s) { return s.cluster.inter.down.back(); }
OtherNodes& other(Scenario& s) { return s.cluster.others.back(); }

const Fields& down_fields() {
    static const Fields fields = {
        Field{"leaf", IntSlot{[](Scenario& s) { return &down(s).leaf; }}, "a leaf switch, plane by plane"}.least(0).most(1e7),
        Field{"uplink", IntSlot{[](Scenario& s) { return &down(s).uplink; }}, "its first uplink that is down"}.least(0).most(1e6),
        Field{"uplinks", IntSlot{[](Scenario& s) { return &down(s).uplinks; }}, "this many of them"}.least(1).most(1e6),
        Field{"node", IntSlot{[](Scenario& s) { return &down(s).node; }}, "a node"}.least(0).most(1e6),
        Field{"nic", IntSlot{[](Scenario& s) { return &down(s).nic; }}, "one of its NICs"}.least(0).most(1e4),
        Field{"port", IntSlot{[](Scenario& s) { return &down(s).port; }}, "one of the NIC's ports; default: all"}.least(0).most(15),
        Field{"share", NumberSlot{[](Scenario& s) { return &down(s).share; }}, "of its rate that is lost; default: all"}.over(0).most(1),
        Field{"flaps_per_hour", NumberSlot{[](Scenario& s) { return &down(s).flaps_per_hour; }}, "how often it goes down and comes back"}
            .least(0)
            .most(1e6),
        Field{"flap_s", NumberSlot{[](Scenario& s) { return &down(s).flap_s; }}, "how long it is down each time"}.least(0).most(3600).in(
            "s"),
    };
    return fields;
}

// Flaps count as the share of time that the link is down.
void settle(Reading& reading, LinkDown& d, const Json& item, const std::string& at) {
    if ((d.leaf < 0) == (d.node < 0))
        return reading.problem(at, dotted(at) + " = " + short_text(item) +
                                       " must name a leaf (and its uplinks) or a node (and a nic), as in {\"leaf\": 0, \"uplinks\": 2} or "
                                       "{\"node\": 3, \"nic\": 1}");
    if (d.flaps_per_hour == 0 && d.flap_s == 0) return;
    if (d.flaps_per_hour <= 0 || d.flap_s <= 0 || item.contains("share"))
        return reading.problem(at, dotted(at) + ": a flapping link has flaps_per_hour and flap_s, both above 0, and no share");
    d.share = std::min(1.0, d.flaps_per_hour * d.flap_s / 3600);
    if (d.share >= 1) reading.problem(at, dotted(at) + ": it is down all of the time: leave flaps_per_hour and flap_s out");
}

const Fields& other_fields() {
    static const Fields fields = {
        Field{"nodes", IntSlot{[](Scenario& s) { return &other(s).nodes; }}, "how many"}.least(1).most(1'000'000).needed(),
        Field{"gb_per_s", ScaledSlot{[](Scenario& s, double v) { other(s).scale_up = BytesPerSecond::gigabytes(v); }},
              "links inside, per device; default: the device's own"}
            .least(1e-3)
            .most(1e6)
            .in("GB/s"),
        Field{"gbit_per_s", ScaledSlot{[](Scenario& s, double v) { other(s).nic_bandwidth = BytesPerSecond::gigabits(v); }},
              "per NIC; default: as the other nodes'"}
            .least(1e-3)
            .most(1e7)
            .in("Gb/s"),
    };
    return fields;
}

bool is_list(Reading& reading, const Json& value, const std::string& where, const char* example, std::size_t most) {
    if (value.is_array() && value.size() <= most) return true;
    reading.problem(where, dotted(where) + " = " + short_text(value) + " must be a list of at most " + std::to_string(most) + ", as in " +
                               example);
    return false;
}

} // namespace

void read_down(Reading& reading, const Json& value, const std::string& where) {
    std::vector<LinkDown>& list = reading.scenario.cluster.inter.down;
    list.clear();
    if (!is_list(reading, value, where, "[{\"leaf\": 0, \"uplinks\": 2}]", 100'000)) return;
    for (std::size_t i = 0; i < value.size(); ++i) {
        const std::string at = where + "/" + std::to_string(i);
        list.emplace_back();
        const std::size_t before = reading.problems.size();
        if (!value[i].is_object())
            reading.problem(at, dotted(at) + " = " + short_text(value[i]) + " must be an object, as in {\"node\": 3, \"nic\": 1}");
        else
            read_object(reading, value[i], at, down_fields());
        if (reading.problems.size() == before) settle(reading, list.back(), value[i], at);
    }
}

void read_other_nodes(Reading& reading, const Json& value, const std::string& where) {
    Cluster& c = reading.scenario.cluster;
    c.others.clear();
    if (!is_list(reading, value, where, "[{\"nodes\": 4, \"device\": \"a100-sxm-80gb\"}]", 64)) return;
    for (std::size_t i = 0; i < value.size(); ++i) {
        const std::string at = where + "/" + std::to_string(i);
        if (!value[i].is_object() || !value[i].contains("device") || !value[i].contains("nodes")) {
            reading.problem(at, dotted(at) + " = " + short_text(value[i]) +
                                    " must be an object with nodes and device, as in {\"nodes\": 4, \"device\": \"a100-sxm-80gb\"}");
            continue;
        }
        c.others.emplace_back();
        const Device own = c.device;
        read_device(reading, value[i]["device"], at + "/device");
        c.others.back().device = std::exchange(c.device, own);
        static constexpr const char* done[] = {"device"};
        read_object(reading, value[i], at, other_fields(), done);
    }
}

} // namespace orrery
