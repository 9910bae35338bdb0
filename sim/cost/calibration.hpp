// The constants of the cost model: read from scenarios/calibration/*.json, which are compiled in. Every group says what it rests on.
// Units inside: microseconds, bytes, bytes per microsecond (1 GB/s is 1000) and flops per microsecond, as the fits were made in.
#pragma once

#include "sim/plan/work.hpp"
#include "sim/scenario/practice.hpp"
#include "topology/catalog.hpp"

#include <array>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace orrery {

std::span<const EmbeddedFile> calibration_files();

struct Source {
    std::string kind, text;
}; // kind: measured, fitted, datasheet, assumed

// wide: the eight tiles of cuBLAS-like libraries, with split-K; wide_nosplit: without; block128: block-scaled fp8 on Ada; columns: 128 rows
// by any multiple of 8 columns (DeepGEMM, Hopper's block-scaled fp8); pairs: two processors on one tile of 256 by a multiple of 32
// (Blackwell's matrix units work in pairs), with split-K; pairs_nosplit: without; systolic: arrays, no waves; roofline: no tiles.
enum class TileMenu : std::uint8_t { wide, wide_nosplit, block128, columns, pairs, pairs_nosplit, systolic, roofline };
const char* name(TileMenu menu); // as calibration files have it

// Law and meaning of each constant: gemm.hpp.
// Share of the 16-bit peak that products have whose rows are not whole vectors of 16 bytes: cuBLAS has other kernels for them.
struct UnalignedTable {
    double batched = 1, alone = 1;
    Source source;
};

// Arrays of n by n units, as in TPUs: columns and depths of products fill whole ones. Products of groups (experts' rows, sorted) go by
// tiles of `group_rows` rows, independent of their groups, and a tile that two groups share is worked on for each (JAX's megablox gmm:
// make_group_metadata). 0: no such tiles.
// Rows of queries, keys and values of a head fill whole lanes (splash attention's NUM_LANES; 0: any).
// gather: rate of gathers of rows over that of GPUs' kernels, as shares of the memory's rate each.
struct SystolicTable {
    double array = 128, group_rows = 0, lanes = 0, gather = 1;
    Source source;
};

struct GemmTable {
    TileMenu menu = TileMenu::wide;
    double t0 = 0, tile = 0, efficiency = 1, feed = 0, stream = 0.8, split = 0, soft_waves = 0, throttle = 0, l2_share = 0, l2_stream = 1;
    double throttle_us = 3000;     // until half of the throttle is felt
    bool throttle_busy = false;    // it grows with the share of the peak in use, as power does
    double alone = 1;              // least share of its time that a tile's feed takes when few processors are fed
    double ragged = 0;             // of a tile's products, for rows that are none of the problem's
    double two_scales = 0;         // of a tile's products, where its columns cross from one block of scales into the next
    double ceiling = 0, pause = 0; // share of the peak that the chip as a whole keeps up, however its tiles fall (0: any), and us at either
                                   // end that count as rest
    double far = 0;                // of a tile's feed, for an operand that is not in the cache
    double overlap = 3;            // exponent that joins compute and memory: the higher, the more of the one the other hides
    Source source;
};

// TFLOP/s at full length and the row length at which half of it is lost, by head dimension.
struct AttentionPoint {
    double head_dim, tflops, s0;
};
struct AttentionSeries {
    std::vector<AttentionPoint> causal, full;
};
struct AttentionTable {
    AttentionSeries forward, backward;
    Source source;
    double sustained = 0; // clock of training of these kernels at their rate (AttentionDevice::busy_clock); 0: the device's for attention
};
struct AttentionWaves {
    double soft_waves = 0, rows = 128, critical = 0, start = 4;
};

// An inference engine's prefill, as its profilers measure it (fit/prefill.hpp): training is not timed by it.
struct PrefillTable {
    double start = 0, pre = 1, s0 = 0, critical = 0, soft_waves = 0, rows = 128;
    std::map<int, double> efficiency; // of the 16-bit peak, by head dimension
    Source source;
    double fall = 0;     // s0 falls with this power of the head dimension over 128
    double latent = 0;   // elements a token takes whatever its heads: its latent, read, rotated and kept
    double throttle = 0; // what the longest bursts lose to the power limit
};

// A layer of experts, as they measure it (fit/experts.hpp): nor by this.
struct ExpertsTable {
    double start = 0, per_expert = 0, copy = 1; // us, us, of the time its copies take at the datasheet's bandwidth
    GemmTable gemm;                             // of its grouped products
    Source source;
};

struct KernelTables {
    std::string device;                    // whose measurements these are
    double reference_tflops_16 = 0;        // the 16-bit peak that attention rates belong to
    std::map<std::string, GemmTable> gemm; // bf16 (fp16 too), fp8, fp8_block, mxfp8, nvfp4, tf32, fp32
    SystolicTable systolic;
    std::map<std::string, AttentionTable> attention; // flash-1, flash-2, flash-3, cudnn, flex
    AttentionWaves waves;
    std::map<std::string, PrefillTable> prefill; // "full", "latent"
    std::map<std::string, ExpertsTable> experts; // by type
    double sustained_16 = 1, sustained_8 = 1, sustained_other = 1, sustained_attention = 1;
    // The mix of kernels that the 16-bit clocks were measured in (clocks.hpp): the share of the time that products and attention have, and
    // the share of the board's limit that the other kernels draw. matrix_share 0: not known, and the clocks serve every mix.
    double matrix_share = 0, memory_power = 0;
    Source sustained_source;
    UnalignedTable unaligned;
    double torch_groups = 0; // speed of torch._grouped_mm, all experts in one kernel, against that of single products; 0: not known
    // The same of torch._scaled_grouped_mm with MXFP8, and what the kernels take that put a row's scales in the order it reads: us.
    // [results and gradients of rows, gradients of weights]
    std::array<double, 2> torch_groups_mxfp8{}, torch_groups_scales{};
    Source torch_groups_source;
    double memory_fused = 1, kernel_us = 2; // memory_fused: of the shares of pointwise.json, those that whole streams reach
    Source memory_source;
};

class OwnConstants; // a user's own (own_constants.hpp)

// The tables for this device: its own, those of the same silicon, or its architecture's, then its vendor's nearest (marked assumed).
// Products' and attention's with these releases of libraries: an entry "cudnn@cudnn-9.19" takes cudnn's place where that release is among
// them, and "bf16@rocm-7" bf16's.
KernelTables kernel_tables(const Device& device, std::span<const KernelRelease> releases = {}, const OwnConstants* own = nullptr);

// Kernels of an eager sequence that processors bind: how often they visit an element, and the bytes of it that they move (of the table's
// 16-bit types).
struct Visits {
    double times = 0, bytes = 0;
};
struct TrafficEntry {
    double bytes;
    std::array<double, 2> phi, traffic;
    std::array<int, 2> kernels;
    Visits strided, unlike, narrowing;
}; // [eager, fused]
// Which recipes of 8- and 4-bit training move what; the counts are in quantize.hpp.
struct QuantizeTable {
    double phi = 0.6;
    double earlier = 1; // kernels of before (Practice::early_casts) are these times slower, for these recipes
    std::vector<ScalingRecipe> earlier_recipes, both_ways, present_maximum, norm_casts;
    std::vector<std::string> turning_architectures;
    std::map<std::string, double> ported, translated; // phi of Practice::ported_casts and ::translated_casts, by architecture
    Source source;
    bool has_earlier(ScalingRecipe recipe) const;
};
// Host time of modules' calls beside their launches (host.cpp; Practice::module_calls), us: [forward, backward].
struct CallTable {
    std::map<std::string, std::array<double, 2>> calls;
    // Practice::module_hooks. module: around each module, also one without parameters. gather: more where it has parameters that are
    // gathered and let go of; alone: of a single rank, which gathers nothing. member: more of each further parameter that is gathered with
    // others. gradient: of each trained parameter, whose gradient goes into a bucket; bucket: of each bucket that is reduced, of several
    // ranks and of one. context: more of each module's forward pass with Practice::hook_contexts. slice: of each trained parameter and
    // rank beyond two, whose part is cut out of the gradient; view: of each parameter gathered with others and rank beyond two, whose part
    // is taken out of what came (Practice::cuts_by_rank). step: of each trained parameter in the optimizer's step
    // (Practice::steps_by_parameter).
    struct {
        std::array<double, 2> module{}, gather{}, alone{}, member{}, bucket{};
        double gradient = 0, context = 0, slice = 0, view = 0, step = 0;
        Source source;
    } hook;
    std::array<double, 2> region{}; // of a captured region between ops that no graph can hold
    Source region_source;
    std::array<double, 2> low{}, expert{},
        low_expert{}; // more of a linear in 8 bits or fewer; of each expert; more of each expert in 8 bits
    Source source;
};
struct PointwiseTable {
    QuantizeTable quantize;
    CallTable calls;
    std::map<std::string, std::array<TrafficEntry, 2>> ops; // [forward, backward]
    double loss_phi = 0.7, loss_stream_phi = 0.85, loss_autocast_phi = 0.85, loss_whole_phi = 1, loss_compiled_phi = 1;
    std::array<std::array<double, 4>, 9> loss_bytes{}; // [eager, fused, whole (Practice::torch_loss), autocast, one kernel, 16-bit logits,
                                                       // over the logits, compiled: autocast, 16-bit logits][part]
    std::array<std::array<int, 4>, 9> loss_kernels{};
    double embedding_phi = 0.7;
    double optimizer_phi = 0.8, optimizer_kernel_elements = 2e7;
    int optimizer_eager_kernels = 12;
    double foreach_adam = 2;    // traffic of torch's foreach Adam over the fused one's (Practice::foreach_temporaries)
    double optimizer_apart = 0; // bytes per parameter of what stands around a step of narrow gradients (Practice::copies_half_gradients)
    // Bytes per parameter [eager, fused]; of Muon's parts [kernels for each matrix, bytes per parameter].
    std::map<std::string, std::array<double, 2>> optimizer;
    double host_share = 0.6, host_memory = 0, pcie_share = 0.85, pcie = 0, nvme = 0, copy_us = 10; // rates in bytes/us
    struct {
        double start_us = 0, block_us = 0, rows = 1, blocks_per_processor = 1;
    } head_norms; // the reduction of a head norm's weight gradient
    Source head_norms_source, gated_halves_source;
    std::array<double, 2> expert_loop{}; // kernels an expert, [forward, backward] (Practice::loops_over_experts)
    Source expert_loop_source;
    struct {
        std::map<std::string, double> elements; // a us and processor, by architecture; the others have kernels that know the types
        double added = 1, joined = 1;           // of that: where two operands make a third; where many are joined into one (_chunk_cat)
        std::vector<std::string> narrowed_apart;
        std::vector<std::string> vectored; // architectures whose unlike operands cost bytes alone since 2026 (Practice::vectors_unlike)
        Source source;
    } unlike; // Practice::looks_types_up
    struct {
        std::map<std::string, double> elements; // a us and processor, by architecture
        Source source;
    } strided; // kernels over operands that are not of one shape and contiguous
    struct {
        double row_us = 0, input = 1, weight = 1, weight_row_us = 0, partial_rows = 0;
        Source source;
        std::map<std::string, std::array<double, 2>> rows_us{}; // by architecture: [forward, the input's gradient]; else [row_us, none]
    } torch_norms;
    Source column_sums_source;
    double epilogue = 0.6; // of a kernel's time, less its start, where another kernel does its work on what it writes anyway
    Source epilogue_source;
    double launch_eager = 7, launch_graph = 0.3, launch_blocking = 40, exchange_sync = 150, list_copy = 12;
    double throttle_kept = 1,
           throttle_power =
               0; // share of a burst's fall of clock with a product's length that training keeps, and the most that such a fall can be
    double spread = 0, spread_layerwise = 0,
           spread_from = 8; // of devices' speeds, relative, and of their layers'; the sustained clocks are of this many devices
    double compute_slowdown = 0, communication_slowdown = 0;
    double ring_slowdown = 0, bytes_share = 0; // of computation beside a ring inside a node; the last: of it (beside.cpp)
    Source by_index_source, source, loss_source, embedding_source, optimizer_source, host_source, launch_source, blocking_source,
        exchange_source, list_source, interference_source, spread_source, throttle_source;
};
PointwiseTable pointwise_table();

// One generation of links inside a node; forms in collectives.hpp. Rates in bytes/us, at link_rate.
struct LinkTable {
    std::string name;
    double link_rate = 0; // datasheet, one direction: rates below scale with a cluster's own
    double nominal = 0;   // what NCCL takes the links for
    double hop = 0;       // latency of a hop in the machines fitted; a cluster's own adds or saves the difference
    double ll_base = 0, ll_step = 0, ll_rise = 0, ll_rate = 0;
    bool has_ll128 = false, ll128_between = false; // between nodes NCCL takes it only where NICs sit at the devices' PCIe switches
    double ll128_base = 0, ll128_step = 0, ll128_rate = 0;
    double simple_base = 0, simple_step = 0, simple_rate = 0, simple_copy = 0, simple_fill = 0;
    double reduce_factor = 1, byte_factor = 1;
    double direct_base = 0, direct_small_rate = 1, direct_small = 0, direct_rate = 0, direct_copy = 0, direct_fill = 0;
    bool has_nvls = false;
    double nvls_base = 0, nvls_fill = 0, nvls_efficiency = 0;
    double nvls_rack_fill = 0, nvls_rack_efficiency = 0; // of more than eight devices: their switches are a level apart
    // The rates that NCCL's tuner assumes of these links. Its choices stay those of the device's own links where a cluster states another
    // rate: a tuner that knows no times would else make faster links slower at the sizes where it changes its mind.
    double choice_nominal = 0, choice_ll_max = 0, choice_ll128_cap = 0, choice_bus = 0, choice_nvls_efficiency = 0;
    std::vector<double> choice_nvls_speeds;
    std::array<double, 3> choice_hop{};          // LL, LL128, Simple
    double ring_channels = 0, nvls_channels = 0; // of its kernels, a processor each; 0: not known
    struct Box {
        int devices;
        double ring, direct, ll, bus, reduce;
    };
    std::vector<Box> fitted_box; // rates by devices of the machine the curves were measured in, where its wiring is worse than these links;
                                 // bus: what NCCL takes it for
    Source source;
};
LinkTable link_table(const Cluster& cluster);
void scale_rates(LinkTable& t, double factor); // all rates but a rank's copy to itself, which no link carries
void scale_choice(LinkTable& t, double factor);

// A network between nodes, at the rate its NICs have: a kind's, or a site's own (calibration_fabric.cpp).
struct FabricTable {
    std::string name;
    double base = 0, doubling = 0, small = 0, large = 0;
    std::array<double, 3> ring_hop{}; // from node to node: LL, LL128, Simple
    double hop = 0;                   // NIC to NIC, in the machines fitted
    double eta_rail = 1, eta_ring_all_reduce = 1, eta_ring = 1, eta_tree = 1, eta_all_to_all_2 = 1, eta_all_to_all = 1, eta_fan_out = 1,
           ring_fall = 0;
    double eta_tree_more = 1,
           all_reduce_fall = 0; // trees of more than two nodes; what an all-reduce's ring loses with every doubling of two nodes
    // An all-reduce passes its ring twice or a tree up and down, and its larger sizes by other protocols: of its latencies, what rings that
    // gather or scatter have (base; both ramps), and an all-to-all (ramps).
    double gather_base = 1, gather_ramp = 1, all_to_all_ramp = 1;
    double p2p_base = 0, p2p_rendezvous = 0, p2p_eta = 1;
    double usable = 1; // share of a NIC's line rate that all flows through it have together
    Source source;
    // Whose constants choose between a ring and a tree: NCCL's tuner has one table for all kinds of networks (src/graph/tuning.cc), so
    // that another kind of one line rate has the same algorithm. Empty: its own (a site's measured curves).
    std::shared_ptr<const FabricTable> tuner;
};
FabricTable fabric_table(const Cluster& cluster, const OwnConstants* own = nullptr);

// The kernels of a dispatcher that sends whole tokens (scenarios/calibration/tokens_*.json): bytes/us that one of the processors given to
// them moves, a token counted once for each member it goes to, its own included.
struct TokenTable {
    struct Rate {
        double wide = 0, narrow = 0, sums = 0; // tokens of 16 bits and more, of 8, and the sums that come back
    };
    Rate inside, between; // between nodes: what the same processors hand on inside each
    double sharpness = 4; // of the join with the links' rate
    double first_us = 0;  // until a forward pass's dispatch knows where its tokens go
    Source source, between_source, first_source;
};
TokenTable token_table(std::string_view dispatcher); // "deepep", "hybridep"

} // namespace orrery
