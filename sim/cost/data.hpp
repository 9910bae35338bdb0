// The data of a CostModel, shared by its sources: compute.cpp times ops, communicate.cpp collectives and transfers, cost.cpp sets it up.
#pragma once

#include "sim/cost/attention.hpp"
#include "sim/cost/collectives.hpp"
#include "sim/cost/cost.hpp"
#include "sim/cost/gemm.hpp"
#include "sim/cost/pointwise.hpp"
#include "sim/cost/quantize.hpp"
#include "sim/scenario/practice.hpp"

#include <optional>
#include <span>
#include <unordered_map>

namespace orrery {

// The least side of a tile of GPUs' products, and the depth that it works on at a time (gemm.hpp).
inline constexpr std::int64_t least_side = 64;

struct GemmKey {
    std::int64_t m, n, k, batch;
    std::uint8_t dtype, out;
    bool accumulate;
    std::uint8_t ragged;
    Reworked again;
    bool burst = false;
    double quicker = 1;
    bool operator==(const GemmKey&) const = default;
};

struct GemmKeyHash {
    std::size_t operator()(const GemmKey& key) const {
        std::uint64_t h = 0x9e3779b97f4a7c15u;
        for (std::int64_t v : {key.m, key.n, key.k, key.batch,
                               static_cast<std::int64_t>(key.dtype) * 65536 + key.out * 256 + key.ragged * 4 + (key.burst ? 2 : 0) +
                                   (key.accumulate ? 1 : 0)})
            h = (h ^ static_cast<std::uint64_t>(v)) * 0xff51afd7ed558ccdu, h ^= h >> 32;
        return h ^ std::hash<double>{}(key.again.m + 3 * key.again.k + 5 * key.quicker);
    }
};

// A group of ranks met before, and how much of S a second its links let pass, by kind and algorithm (0: not worked out yet).
struct KnownGroup {
    std::vector<int> ranks;
    Group group;
    double inside = 0, between = 0; // a hop on a node that has several of its ranks, and from node to node: more than the fits' (us)
    double adapter = 0;             // of the node with the slowest ones, one of them (bytes/us)
    mutable double link_rate[7][10] = {}, nic_rate[7][10] = {}; // nic_rate: its NICs alone
    mutable double shared_rate[10] = {};                        // of an all-reduce, while the groups beside it do the same
};

// A group, and what one algorithm puts on its links. Kinds that send the same volumes by it load them alike.
struct LastLoads {
    std::vector<int> ranks;
    Group group;
    Algorithm algorithm = Algorithm::none; // none: no loads here yet
    std::array<double, 3> volumes{};       // of the whole group, of a node's members, of its nodes
    std::vector<LinkLoad> loads;
};

// The table, peak (flops/us) and clock that serve a precision, and the name of the one it is timed as.
struct GemmRate {
    const GemmTable* table;
    double peak, clock;
    std::string name;
    bool mixed = false; // the clock is that of a mix of kernels, whatever the length of one
};

const char* kernel_name(AttentionKernel k); // "flash-2"

// Bytes/us that each device of the first node has for its copies while all of them copy: what its slot, the switches and host bridges above
// it and the memory of its socket let through, each shared by those whose way it is. `share`: of a PCIe link, delivered.
double copy_rate(const Fabric& fabric, double share);

// Host times of the table, which are of hosts of speed 1 (cluster.host.speed), on a host of this one (host.cpp).
void take_host_speed(PointwiseTable& t, double speed);

// The fabric as DeepEP sees it where hosts share an NVLink domain (tokens.cpp); none: as everyone does.
std::optional<Fabric> hosts_apart(const Cluster& cluster, const Runtime& runtime);
std::optional<TokenTable> tokens_of(const Device& device, const Runtime& runtime);

struct CostModel::Data {
    Device device;
    Strategy strategy;
    Runtime runtime;
    Training training;
    Practice practice;
    int nodes = 1, devices_per_node = 1;
    const Fabric* fabric = nullptr;
    std::optional<Fabric> apart;      // hosts of one domain as nodes of their own, where tokens see them so; the same links
    std::optional<TokenTable> tokens; // the dispatcher's kernels, where their pace was measured
    double slowest_link = 0;          // bytes/us; copies to the host apart
    KernelTables kernels;
    PointwiseTable pointwise;
    bool modules_overlap = false; // Transformer Engine's overlap of tensor parallelism, as NeMo's recipes and jobs that say so have it
    LinkTable links;
    FabricTable between;
    Domain domain;
    bool custom_graph = false;
    Sharp sharp;                       // what its switches can reduce
    std::vector<int> kind_of_node;     // where nodes are unlike
    std::vector<CostModel> kinds;      // of each kind of nodes, as if all were of it; empty: all are alike
    Time intra_latency, inter_latency; // of the cluster, zero: not said
    bool multicast = false;
    double bandwidth = 1, peak_16 = 1, power = 1;                    // bytes/us, flops/us; power: clock factor of a limit below the board's
    double host_memory = 1, pcie = 1, nvme_read = 1, nvme_write = 1; // bytes/us, of one device
    double host_speed = 1;                                           // cluster.host.speed; pointwise has its times at it
    double host_adam = 0;    // parameters/us, of one device's share of the node; 0: what host_memory gives
    std::int64_t hidden = 1; // the model's
    bool experts = false;    // the model has some
    std::int64_t looped = 0; // experts that a loop goes over (Practice::loops_over_experts)
    bool stacked = false;    // .. and takes out of one parameter for all
    bool regions = false;    // graphs hold parts of a layer, between ops that none can hold
    double keys_share = 0;   // of the columns of queries, keys and values those of the keys; 0: one product makes all
    std::int64_t dispatch_depth =
        0; // rows are sent to experts' slots and fetched back by products with masks of this many tokens; 0: rows are copied
    // Each expert's share of the rows on the fullest rank: one list for all layers, or one for each mixture layer (load_of gives it by
    // layer). Empty: all have as many.
    std::vector<std::vector<double>> expert_loads;
    std::vector<int> load_of;
    bool shared_tiles = false;       // rows of all experts are concatenated, in tiles of kernels.systolic
    std::int64_t adapter_rank = 0;   // LoRA's; 0: there is none
    std::int64_t joined_below = 0;   // ZeRO-3 gathers smaller parameters several at a time (stage3::Sizes::prefetch_bucket_size)
    bool ragged_heads = false;       // rows of a head's queries, keys and values are not whole vectors of 16 bytes
    Quantizer quantizer;             // of the training's precision
    double slowest = 1;              // time of the slowest device of the job against that of a device of a node
    double list_copy_us = 0;         // a member's copy between the list of parts and the collective's buffer; 0: there is no list
    std::vector<std::int64_t> owned; // bytes of tensors that each belong to one rank, which broadcasts it; none: ranks share all alike
    bool optimizer_apart = false;    // narrow gradients become the optimizer's, and its weights narrow ones, in kernels of their own
    bool autocast = false;           // PyTorch's picks the dtypes, and its casts are ops of the plan
    bool engine_norms = false, head_norms = false; // norms are Transformer Engine's; there are some over heads
    bool gated_halves = false;                     // an activation's steps go over the halves of one product's columns (Megatron)
    LossSteps loss_steps;
    bool torch_norms = false;     // norms of whole rows are PyTorch's own kernels
    bool joins_gradients = false; // one linear made queries, keys and values, in PyTorch's own operators
    mutable double quicker = 1;   // clock of matrix kernels of the op at hand, against the sustained one (clocks.hpp)
    // Results computed so far; a model is used by one thread.
    mutable std::optional<MemoryDevice> memory; // memory_device(), the same for all ops
    mutable std::unordered_map<GemmKey, double, GemmKeyHash> gemms;
    mutable std::unordered_map<std::uint64_t, KnownGroup> groups;
    mutable LastLoads met;                // of the group whose loads were asked for last: its kinds of collectives often load links alike
    mutable std::vector<LinkShare> route; // scratch
    mutable std::vector<std::vector<LinkLoad>> copies; // by device, from its host and to it; filled a node at a time

    double peak_of(const std::string& precision) const;
    GemmRate rate(DType t) const;
    double clock_of(double sustained) const;                                      // of the op at hand
    KernelTime compress(const Plan& plan, const Op& op, const Compress& w) const; // compress.cpp
    // ragged: the longest of its operands' rows that are no whole vectors, at most least_side; 0: all are. burst: at the clock of the
    // tables, not at the sustained one.
    double gemm(DType dtype, DType out, GemmShape shape, std::int64_t batch, bool accumulate, std::int64_t ragged, Reworked again = {},
                bool burst = false) const;
    double torch_groups(const Linear& w) const; // speed of torch._grouped_mm where that makes it, else 0
    using Shares = std::span<const double>;
    Shares shares_of(const Op& op, const Linear& w) const;
    double grouped(const Linear& w, Shares shares = {}) const; // us
    double evenly(const Linear& w) const;
    double unevenly(const Linear& w, Shares shares, double even) const;
    bool packs(const Linear& w) const; // one kernel makes all groups
    int launches(const Linear& w) const;
    double in_pieces(const Linear& w, int pieces, Shares shares = {}) const; // us
    KernelTime in_modules(const Linear& w, int pieces, int modules, bool whole, Shares shares) const;
    double steps_apart(const Attention& given) const; // us
    double buffer_bytes(const Plan& plan, const Op& op) const;
    double low_bytes(const Plan& plan, const Op& op) const;
    KernelTime with(KernelTime t, Extra extra) const;
    KernelTime time(const Plan& plan, const Op& op) const;
    KernelTime muon(const OptimizerStep& w) const;
    KernelTime copy(const Copy& c) const;
    void load_copies(int of) const; // a device: of all of its node
    bool on_host(const Op& op) const;
    double host_us(const OptimizerStep& w, double buffer_bytes) const;
    double unlike_rate(bool narrows) const; // elements/us where PyTorch looks types up; 0: nothing does
    MemoryDevice memory_device() const;
    KernelTime joined_gradients(const Plan& plan, const Op& op) const;
    double looked_up_us(double elements, bool narrows, bool sum) const;
    double launch_us() const;               // of a kernel that no captured graph holds, on the host
    bool waits_in_loop(const Op& op) const; // the host waits for each expert of a loop over them
    KernelTime with_loop(KernelTime t, const Linear& w) const;
    double added_whole_us(std::int64_t elements, double bytes) const;
    KernelTime with_whole_gradients(KernelTime t, const Permute& w, double gradient_bytes) const;
    KernelTime with_casts(KernelTime t, std::int64_t elements, bool narrows, int times, bool fused) const;
    KernelTime with_row_casts(KernelTime t, const Linear& w, int modules) const;
    KernelTime with_autocast(KernelTime t, const Linear& w, int modules, bool casts_weight) const;
    double unlike_us(const Plan& plan, const Op& op, const Pointwise& w) const;
    bool makes_calls() const;                // whether ops are issued by calls that take the host longer than launches
    bool runs_hooks() const;                 // whether modules have hooks on the host
    double hooks_us(const Op& op) const;     // of those that run with an op
    bool within_product(const Op& op) const; // whether the call of the product beside it issues it
    const KnownGroup& known(std::span<const int> ranks) const;
    double link_rate(const KnownGroup& g, CollectiveKind kind, Algorithm a) const;
    void limit_by(const LinkLoad& l, double& rate, double& of_nics) const; // bytes/us that a link lets pass, and one that is a NIC's
    double nic_eta(double across, double of_nics) const;
    bool are_near(int from, int to) const;                         // they meet over the links of one domain
    void set_eta(std::vector<LinkLoad>& loads, double eta) const;  // of the NICs among them
    double message_rate(int from, int to, double narrowest) const; // bytes/us, between nodes; narrowest: where they have no NICs
    double shared_rate(const KnownGroup& g, Algorithm a) const;
    const std::vector<LinkLoad>& loads_of(std::span<const int> ranks, CollectiveKind kind, Algorithm a) const; // until the next call
    const Group& group(std::span<const int> ranks) const;                                                      // until the next call
    double least_rate(const KnownGroup& g) const; // of a ring or tree over it and the groups beside it (bytes/us)
    double extra_hop(int from, int to) const;
    bool switches_reduce(const KnownGroup& g, bool one_byte) const;
    template <class Ask> CommCost slowest_kind(std::span<const int> ranks, Ask&& ask) const;
    bool rings_of_old(const Collective& c, const Group& g) const; // whether NCCL of then takes a ring where a tree would be faster
    double owners_us(const Group& g, double bytes, std::span<const int> ranks) const; // what their turns add to a gather
    Group token_group(std::span<const int> ranks) const;                              // tokens.cpp
    std::vector<LinkLoad> token_loads(const Collective& c, std::span<const int> ranks) const;
    double token_processors() const; // what a dispatcher's kernels hold
    TokenPace pace_of(const Collective& c, const Group& g) const;
    CommCost send_tokens(const Collective& c, std::span<const int> ranks, const LinkTable& table) const;
    double channels(const Group& g, const CollectiveTime& t) const; // beside.cpp
    double slowed_by_processors(double held) const;
    double slowed_by_bytes(double bus) const;
    void take_beside(CommCost& c, double held, double bus) const;
    double on_link(LinkId link, double load) const; // what a byte takes of this link, where not all of its rate is to be had
    std::optional<CommCost> measured(const Collective& c, std::size_t members) const;
    std::optional<CommCost> measured(Bytes transferred) const;
    CommCost bundle(const CollectiveTime& t, double bytes, double limit, double extra_us, std::string algorithm) const;
};

} // namespace orrery
