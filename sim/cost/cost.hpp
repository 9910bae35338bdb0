// How long an op takes alone on its device, and what a collective asks of the links. All constants are data with provenance
// (calibration.hpp); nothing here knows a model's or a paper's name.
#pragma once

#include "sim/cost/groups.hpp"
#include "sim/plan/plan.hpp"
#include "topology/fabric.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace orrery {

// Time of a compute op alone on the device, and the kernels (host launches) it takes.
struct ComputeCost {
    Time duration;
    int kernels = 1;
};

// A collective or transfer as a fluid bundle (DESIGN: sharing links): first `latency`, then `payload` bytes at a rate of at most
// `cap`, each payload byte putting `load` bytes on each link named.
//
// A protocol that reaches a share `eta` of a NIC's rate at best leaves nothing of it to others: each of its bytes takes 1 / eta of one.
// So a ring goes at the pace of its slowest NIC, and rings that share one have together what one alone has.
struct LinkLoad {
    LinkId link;
    double load; // bytes
    double eta = 1;

    double taken() const { return load / eta; }
};
struct CommCost {
    Time latency;
    double payload = 0;    // bytes
    BytesPerSecond cap;    // of the protocol and algorithm, links aside
    std::string algorithm; // "ring/Simple", "tree/LL128", "nvls", "p2p", ...
    int kernels = 1;
    double eta = 1; // of the NIC that it loads most
    // How it slows computation beside it on its devices (beside.cpp). processors: those that its kernels hold; < 0: not known. slows: 0.2
    // makes the computation take 1.2 times as long; < 0: Interference::compute_slowdown. by_bytes: the part of it that memory and power
    // make for the bytes moved, all of it where copy engines move them.
    double processors = -1, slows = -1, slows_by_bytes = -1;
};

// Slowdowns while communication runs beside computation on one device: of computation, where a CommCost has none of its own.
struct Interference {
    double compute_slowdown = 0;
    double communication_slowdown = 0;
    bool operator==(const Interference&) const = default;
}; // 0.2: takes 1.2 times as long

// The source of a group of constants: {"gemm bf16", "fitted", "fit of .. to .."}; kind: measured, fitted, datasheet, assumed.
struct Provenance {
    std::string what, kind, text;
    bool operator==(const Provenance&) const = default;
};
inline std::string to_text(const Provenance& p) { return p.what + ": " + p.kind + ": " + p.text; }

// The clock of matrix kernels of each layer against the sustained one (clocks.hpp), by Op::layer; 1 beyond the list.
using LayerClocks = std::vector<double>;

// Remembers what it has worked out: one model for each thread.
class CostModel {
  public:
    CostModel(const Scenario& scenario, const Fabric& fabric);
    ~CostModel();
    CostModel(CostModel&&) noexcept;

    // Any op that is neither a Collective, an Exchange, an Alloc nor a Free. Zero for HostSync. kind: of the device's node, where a cluster
    // has unlike ones (Cluster::kind_of_node); collectives and transfers take what the slowest kind among their ranks takes.
    ComputeCost compute(const Plan& plan, const Op& op, int kind = 0) const;
    // The same at the clock of the op's layer: clocks(plan, kind).
    ComputeCost compute(const Plan& plan, const Op& op, int kind, const LayerClocks& clocks) const;
    LayerClocks clocks(const Plan& plan, int kind = 0) const;

    // The collective over these ranks (in the communicator's order), and the loads of its instance on the links. `algorithm` of the
    // result decides the loads, so that instances alike have loads alike.
    CommCost collective(const Collective& c, std::span<const int> ranks) const;
    std::vector<LinkLoad> loads(const Collective& c, const CommCost& cost, std::span<const int> ranks) const;

    // One point-to-point transfer.
    CommCost transfer(Bytes bytes, int from, int to) const;
    std::vector<LinkLoad> transfer_loads(int from, int to) const;

    // A copy between a device and its host's memory, as long as compute() says where nothing else takes its links; and what it loads there.
    CommCost copy(const Plan& plan, const Op& op, int rank) const;
    std::vector<LinkLoad> copy_loads(const Plan& plan, const Op& op, int rank) const;

    Interference interference() const;
    // The most that communication of the scenario slows computation beside it.
    double most_slowdown() const;
    Time launch() const; // host time per kernel launch
    // Host time of an op with this number of kernels: their launches, and the framework's call around them where it is not part of a
    // captured graph.
    Time host(const Op& op, int kernels) const;
    // Time of an exchange between stages besides its transfers: where it blocks, Megatron and DeepSpeed synchronise the host with the
    // device, which then waits for the next launches.
    Time exchange_sync() const;
    // Whether the host's times (cluster.host.speed) are nowhere part of an op's or a transfer's own: it only issues them.
    bool host_only_issues() const;
    // One per constant group used, for the report.
    std::vector<Provenance> provenance() const;

  private:
    Time launch_eager() const; // of a kernel that no captured graph holds
    CommCost shift(const Collective& c, std::span<const int> ranks) const;
    struct Data;
    std::unique_ptr<Data> data_;
};

} // namespace orrery
