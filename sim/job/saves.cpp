// The costs of a save, from the bytes of the plan's states and the rates of what takes them.
#include "sim/cost/calibration.hpp"
#include "sim/job/whole_run.hpp"
#include "sim/report/input_pipeline.hpp"
#include "sim/scenario/parameters.hpp"
#include "sim/scenario/perturb.hpp"
#include "sim/scenario/practice.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

double nics(const Cluster& c) { return c.inter.nics_per_node * c.inter.nic_bandwidth.value; }

double per_client(const Cluster& c) {
    const double rate = storage_rate_of_node(c);
    return rate > 0 ? rate : 1e9;
}
double storage_rate(const Cluster& c, double shared, double assumed_per_node) {
    return std::min(shared > 0 ? shared : assumed_per_node * c.nodes, per_client(c) * c.nodes);
}
double write_rate(const Cluster& c) { return storage_rate(c, c.storage.write.value, 0.5e9); }

// A node's NVMe in one direction, bytes/s: that direction's own rate, that of both, a usual host's.
double nvme_rate(const Cluster& c, BytesPerSecond own) {
    if (own.value > 0) return own.value;
    return c.host.nvme_bandwidth.value > 0 ? c.host.nvme_bandwidth.value : pointwise_table().nvme * 1e6;
}

} // namespace

double state_bytes(const Scenario& s, double parameters, double trained) {
    const Training& t = s.training;
    if (s.run && s.run->checkpoint.gigabytes > 0) return s.run->checkpoint.gigabytes * 1e9;
    // Shards in fp32 are parameters and masters at once, and so are the parameters that autocast leaves in fp32.
    const Practice practice = practice_of(s);
    const bool one_copy = (practice.fp32_shards && s.strategy.zero_stage == 3 && s.strategy.data_parallel > 1) ||
                          (practice.fp32_parameters && !t.master_remainders); // remainders beside 16 bits are as many bytes
    const double own = is_wide(t.precision) ? 4 : 2, of_trained = (one_copy ? 0 : own) + optimizer_state_bytes(t);
    const Trainable& some = s.model.trainable;
    const double second = t.optimizer == Optimizer::muon ? bytes_per_element(t.moment_dtype) : 0; // of tables, which AdamW has
    if (!some.partial()) return parameters * of_trained + second * static_cast<double>(table_parameters(s.model));
    // Frozen parameters are saved as they are; adapters come beside all parameters.
    const double frozen = some.lora ? parameters : parameters - trained;
    return trained * of_trained + frozen * (some.base_dtype == BaseDType::same ? own : 0.5);
}

SaveCost save_cost(const Scenario& s, double bytes) {
    const WholeRun::Checkpoint& c = s.run->checkpoint;
    const Cluster& cluster = s.cluster;
    // Every rank writes an equal share (a fully parallel save). Between full saves only a fraction of it.
    const double mean = bytes * (1 + (c.full_every - 1) * c.fraction) / c.full_every;
    const double of_node = mean / cluster.nodes, of_device = of_node / cluster.devices_per_node;
    const double pcie = cluster.host.pcie_bandwidth.value;
    // Copies of all devices of a node fill pinned memory at once: PCIe of each, and the host's memory, limit them.
    const double link = c.copy_gb_per_s > 0 ? c.copy_gb_per_s * 1e9 : pcie > 0 ? pcie : 20e9, host = cluster.host.memory_bandwidth.value;
    const double copy = std::max(of_device / link, host > 0 ? of_node / host : 0);
    const double stored = mean / write_rate(cluster);
    SaveCost cost;
    // A restart reads the last full save and what was saved on top of it: in the mean half of the saves between two full ones.
    const double read = c.fraction < 1 ? bytes * (1 + (c.full_every - 1) * c.fraction / 2) : bytes;
    cost.load_s = read / storage_rate(cluster, cluster.storage.read.value, 1e9);
    cost.near_load_s = cost.load_s;
    // A copy is held until it is written; in peers' memory the one before until the next is whole.
    const int held = c.kind == CheckpointKind::peer || c.kind == CheckpointKind::tiers ? 2 * (1 + c.replicas) : 1;
    cost.host_bytes = c.kind == CheckpointKind::sync ? 0 : held * bytes / cluster.nodes;
    // On NVMe, too, a save stays until the next is whole.
    cost.nvme_bytes = c.kind == CheckpointKind::local || c.kind == CheckpointKind::tiers ? 2 * bytes / cluster.nodes : 0;
    switch (c.kind) {
    case CheckpointKind::sync:
        cost.block_s = stored;
        break;
    case CheckpointKind::async:
        cost.block_s = copy;
        cost.write_s = stored;
        break;
    case CheckpointKind::peer:
    case CheckpointKind::local:
    case CheckpointKind::tiers: {
        const double network = nics(cluster) > 0 ? nics(cluster) : 1e9;
        const double to_peers = c.kind == CheckpointKind::local ? 0 : c.replicas * of_node / (network * 0.5);
        const double to_disk = c.kind == CheckpointKind::peer ? 0 : of_node / nvme_rate(cluster, cluster.host.nvme_write);
        cost.block_s = copy;
        cost.write_s = std::max(to_peers, to_disk);
        cost.storage_s = stored;
        const double back = c.kind == CheckpointKind::local ? nvme_rate(cluster, cluster.host.nvme_read) : network;
        cost.near_load_s = bytes / cluster.nodes / back + copy;
        break;
    }
    }
    cost.block_s += c.barrier_s;
    if (c.save_s >= 0) cost.block_s = c.save_s;
    if (s.run->restart.load_s >= 0) cost.load_s = cost.near_load_s = s.run->restart.load_s;
    return cost;
}

// A write beside training takes a part of the NICs: the step model says what that costs. Peers' copies take half of them while they last.
double pace_while_saving(const Scenario& scenario, const Prediction& prediction, const SaveCost& save, double bytes) {
    const CheckpointKind kind = scenario.run->checkpoint.kind;
    const double network = nics(scenario.cluster);
    if (kind == CheckpointKind::sync || kind == CheckpointKind::local || save.write_s <= 0 || network <= 0 || scenario.cluster.nodes < 2 ||
        scenario.cluster.graph)
        return 1;
    const double of_node = bytes / scenario.cluster.nodes / save.write_s;
    const double part = kind == CheckpointKind::async ? std::min(0.9, of_node / network) : 0.5;
    if (part < 0.005) return 1; // less than the step model resolves
    Scenario busy = scenario;
    Perturbation p;
    p.kind = Perturbation::Kind::background;
    p.factor = part;
    p.link = "nic";
    busy.perturb.push_back(p);
    apply_to_cluster(busy);
    PredictOptions options;
    options.verify = false;
    return std::max(1.0, predict(busy, options).report.step_time_s / prediction.report.step_time_s);
}

} // namespace orrery
