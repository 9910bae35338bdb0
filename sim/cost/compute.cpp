// Which law and which table time a compute op on the scenario's device.
#include "sim/cost/data.hpp"
#include "sim/cost/measured.hpp"
#include "topology/overloaded.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace orrery {

const char* kernel_name(AttentionKernel k) { return name(k == AttentionKernel::unfused ? AttentionKernel::flash2 : k); }

namespace {

[[noreturn]] void impossible(std::string_view what) {
    fmt::print(stderr, "orrery: cost: {}\n", what);
    std::abort();
}

// The substitute for a precision that a device has no units for: the next wider one that it has.
std::vector<std::string> precisions_for(DType t, ScalingRecipe recipe) {
    switch (t) {
    case DType::nvfp4:
        return {"nvfp4", "mxfp8", "fp8", "bf16", "fp16", "fp32"};
    case DType::mxfp8:
        return {"mxfp8", "fp8", "bf16", "fp16", "fp32"};
    case DType::fp8:
        if (recipe == ScalingRecipe::blockwise) return {"fp8_block", "fp8", "bf16", "fp16", "fp32"};
        if (recipe == ScalingRecipe::mxfp8) return {"mxfp8", "fp8", "bf16", "fp16", "fp32"};
        return {"fp8", "bf16", "fp16", "fp32"};
    case DType::bf16:
        return {"bf16", "fp32", "fp16"};
    case DType::fp16:
        return {"fp16", "bf16", "fp32"};
    case DType::tf32:
        return {"tf32", "fp32", "bf16", "fp16"};
    default:
        return {"fp32", "tf32", "bf16", "fp16"};
    }
}

// The longest rows of 16-bit operands that are not whole vectors of 16 bytes, by the lengths of rows: linears have in and out features,
// attention's products the head dimension and the keys. At most a tile's side; 0: all rows are whole vectors.
std::int64_t ragged_rows(DType t, std::int64_t a, std::int64_t b) {
    std::int64_t longest = 0;
    for (const std::int64_t row : {a, b})
        if (bytes_per_element(t) == 2 && row % 8 != 0) longest = std::max(longest, row);
    return std::min(longest, least_side);
}

// The activated gate that an activation in steps keeps beside its result: the table's traffic counts it over the other buffers.
double kept_gate_bytes(const Plan& plan, const Op& op, const Pointwise& w) {
    if (w.fused || (w.kind != PointwiseKind::swiglu && w.kind != PointwiseKind::geglu)) return 0;
    const bool forward = w.direction == Direction::forward;
    const std::vector<BufferId>& list = forward ? op.out : op.in;
    if (list.size() <= (forward ? 1u : 2u)) return 0;
    const Buffer& last = plan.buffers[list.back()];
    return last.shape.back() == 1 ? 0 : static_cast<double>(last.bytes.count); // one column: an expert's weights
}

// The copy in fp32 that an RMS norm in steps keeps: the table's traffic counts it over the other buffers.
double kept_wide_bytes(const Plan& plan, const Op& op, const Norm& w) {
    if (w.fused || w.kind != NormKind::rmsnorm) return 0;
    const bool forward = w.direction == Direction::forward;
    const std::vector<BufferId>& list = forward ? op.out : op.in;
    for (std::size_t i = forward ? 1 : 2; i < list.size(); ++i) // beside the result, or its gradient and the input
        if (const Buffer& buffer = plan.buffers[list[i]]; buffer.dtype == DType::fp32 && buffer.bytes.count == 4 * w.rows * w.cols)
            return static_cast<double>(buffer.bytes.count);
    return 0;
}

// A part in the storage it is a part of.
bool lies_there(const Plan& plan, const Op& op, const Pointwise& w) {
    return w.kind == PointwiseKind::own_part && plan.buffers[op.out[0]].storage >= 0;
}

double element_bytes(const Plan& plan, BufferId b) { return bytes_per_element(plan.buffers[b].dtype); }

} // namespace

double CostModel::Data::peak_of(const std::string& precision) const {
    auto find = [&](const char* name) {
        const auto at = device.peak.find(name);
        return at == device.peak.end() ? 0.0 : at->second.value * 1e-6;
    };
    if (precision == "fp8_block") return find("fp8");
    if (precision == "fp32" && find("fp32") == 0 && find("bf16") > 0) return find("bf16") / 6; // six 16-bit passes make one of 32 bits
    return find(precision.c_str());
}

GemmRate CostModel::Data::rate(DType t) const {
    for (const std::string& p : precisions_for(t, runtime.fp8_recipe)) {
        const double peak = peak_of(p);
        if (peak <= 0) continue;
        const bool eight = p == "fp8" || p == "fp8_block" || p == "mxfp8" || p == "nvfp4", sixteen = p == "bf16" || p == "fp16";
        const double clock = power * (eight ? kernels.sustained_8 : sixteen ? clock_of(kernels.sustained_16) : kernels.sustained_other);
        for (const std::string& table : {p, std::string(eight ? "fp8" : "bf16"), std::string("bf16"), std::string("fp32")})
            if (const auto at = kernels.gemm.find(table); at != kernels.gemm.end())
                return {&at->second, peak, clock, p, sixteen && kernels.matrix_share > 0};
    }
    impossible(fmt::format("device {} has no peak for any precision of {}", device.name, name(t)));
}

// Rows that are no whole vectors are read piece by piece, and a product takes as long as the pieces do. Of an operand whose rows are
// shorter than a tile's side these are few: the tile is filled up for the processors, but not read (an adapter of rank 4 multiplies 64
// deep, and reads 4). So an adapter of a smaller rank is no slower.
double CostModel::Data::gemm(DType dtype, DType out, GemmShape shape, std::int64_t batch, bool accumulate, std::int64_t ragged,
                             Reworked again, bool burst) const {
    const auto byte = [](auto x) { return static_cast<std::uint8_t>(x); };
    const GemmKey key{shape.m,    shape.n,      shape.k, batch, byte(dtype),        byte(out),
                      accumulate, byte(ragged), again,   burst, burst ? 1 : quicker};
    if (const auto at = gemms.find(key); at != gemms.end()) return at->second;
    const GemmRate r = rate(dtype);
    GemmDevice d;
    d.processors = std::max(1, device.processors);
    const double piecewise = batch > 1 ? kernels.unaligned.batched : kernels.unaligned.alone;
    d.peak = ragged > 0 ? r.peak * std::min(1.0, piecewise * least_side / static_cast<double>(ragged)) : r.peak;
    d.peak_16 = peak_16;
    d.bandwidth = bandwidth;
    d.l2 = static_cast<double>(device.l2_cache.count);
    d.clock = burst ? power : r.clock;
    d.array = kernels.systolic.array;
    const double kept = r.mixed ? 0 : pointwise.throttle_kept;
    d.relief = burst ? 0 : (1 - kept) * std::min(r.table->throttle, pointwise.throttle_power);
    GemmProblem p{static_cast<double>(shape.m),
                  static_cast<double>(shape.n),
                  static_cast<double>(shape.k),
                  static_cast<double>(batch),
                  bytes_per_element(dtype),
                  bytes_per_element(out),
                  accumulate,
                  again};
    const double us = gemm_us(*r.table, d, p);
    gemms.emplace(key, us);
    return us;
}

// PyTorch's kernel for all experts, of 16 bits or of MXFP8: what multiplies rows that its own operators move.
double CostModel::Data::torch_groups(const Linear& w) const {
    if (w.groups < 2 || practice.expert_rows == ExpertRows::kernels) return 0;
    if (bytes_per_element(w.dtype) == 2) return kernels.torch_groups;
    const bool weights = w.direction == Direction::weight_gradient;
    return is_low(w.dtype) && rate(w.dtype).name == "mxfp8" ? kernels.torch_groups_mxfp8[weights] : 0;
}

int CostModel::Data::launches(const Linear& w) const {
    if (torch_groups(w) <= 0) return static_cast<int>(w.groups);
    return is_low(w.dtype) ? 4 : 2; // one sets the groups' addresses and sizes, two put both operands' scales in order
}

double CostModel::Data::grouped(const Linear& w, Shares shares) const {
    const double even = evenly(w);
    return shares.empty() ? even : std::max(even, unevenly(w, shares, even));
}

bool CostModel::Data::packs(const Linear& w) const {
    return kernels.systolic.group_rows > 0 || runtime.fused_experts || torch_groups(w) > 0 ||
           (runtime.fp8_recipe == ScalingRecipe::blockwise && bytes_per_element(w.dtype) <= 1);
}

// Groups of unlike rows: the last tile of each is filled by half in the mean, and none is less than a tile; kernels of their own take no
// less than one of a row of tiles does. A sum of convex functions of the groups' rows, so that less uneven ones are never slower. (Where
// tiles lie across groups, the tables' own law counts their borders.)
double CostModel::Data::unevenly(const Linear& w, Shares shares, double even) const {
    if (kernels.systolic.group_rows > 0) return even;
    const std::int64_t side = w.direction == Direction::weight_gradient ? least_side : 2 * least_side; // of rows, or deep
    const double tile = static_cast<double>(side), count = static_cast<double>(w.groups), rows = count * static_cast<double>(w.m),
                 filled = tile * std::ceil(static_cast<double>(w.m) / tile);
    Linear smallest = w;
    smallest.groups = 1;
    smallest.m = std::min(w.m, side);
    const double least = packs(w) ? 0 : evenly(smallest);
    double us = 0;
    for (const double share : shares)
        if (share > 0) us += std::max(least, even / count * std::max(tile, share * rows + tile / 2) / filled);
    return us;
}

CostModel::Data::Shares CostModel::Data::shares_of(const Op& op, const Linear& w) const {
    if (expert_loads.empty() || w.groups < 2) return {};
    const std::size_t layer = static_cast<std::size_t>(std::max<int>(op.layer, 0));
    const std::size_t list = load_of.empty() ? 0 : static_cast<std::size_t>(load_of[std::min(layer, load_of.size() - 1)]);
    const std::vector<double>& shares = expert_loads[std::min(list, expert_loads.size() - 1)];
    return shares.size() == static_cast<std::size_t>(w.groups) ? Shares(shares) : Shares{};
}

// A framework's grouped linear is a kernel an expert. On streams side by side though they be, each fills the device, and one is through
// before the next has got far: one after another they are within 9 % of Transformer Engine's on B200 (MooreThreads/SimuMax e691807,
// configs/system/b200_bf16_ceperm.json: 20 to 256 experts of 128 to 9832 rows), packed as one kernel 18 % too fast. Kernels made for all
// experts (fused_experts, DeepGEMM's by blocks) do pack their tiles.
double CostModel::Data::evenly(const Linear& w) const {
    const bool packed = packs(w);
    const std::int64_t ragged = ragged_rows(w.dtype, w.n, w.k);
    Reworked again;
    if (w.groups > 1 && shared_tiles) { // each border between groups lies in a tile, which is worked on once more
        const double rows = static_cast<double>(w.groups * w.m);
        (w.direction == Direction::weight_gradient ? again.k : again.m) +=
            std::min(kernels.systolic.group_rows, rows) * static_cast<double>(w.groups - 1) / rows;
    }
    const double together = gemm(w.dtype, w.out_dtype, gemm_shape(w), w.groups, w.accumulate, ragged, again);
    if (const double speed = torch_groups(w); speed > 0) {
        const double scales = is_low(w.dtype) ? kernels.torch_groups_scales[w.direction == Direction::weight_gradient] : 0;
        if (is_low(w.dtype)) return together / speed + static_cast<double>(w.groups * w.m) * scales;
        // It was timed in loops long enough for the power limit, against the law of a burst: the limit is in its speed. No faster
        // than one kernel that packs all groups, at the clock of training.
        return std::max(together, gemm(w.dtype, w.out_dtype, gemm_shape(w), w.groups, w.accumulate, ragged, again, true) / speed);
    }
    if (w.groups == 1 || packed) return together;
    return std::max(together, static_cast<double>(w.groups) * gemm(w.dtype, w.out_dtype, gemm_shape(w), 1, w.accumulate, ragged));
}

// Rows in this number of parts, one after another.
double CostModel::Data::in_pieces(const Linear& w, int pieces, Shares shares) const {
    Linear part = w;
    part.m = (w.m + pieces - 1) / pieces;
    return pieces * grouped(part, shares);
}

// Modules with a product each where the plan has one (queries, keys and values; gate and up): each reads the rows again, narrow ones
// fill the device less, and each makes a gradient of the rows. These are added up two by two in kernels of their own; a compiler adds
// them up where the sum is read. whole: each has all columns (A of an adapter, whose columns are its rank).
KernelTime CostModel::Data::in_modules(const Linear& w, int pieces, int modules, bool whole, Shares shares) const {
    KernelTime t{0, 0};
    const double keys = static_cast<double>(w.n) * keys_share;
    for (int i = 0; i < modules; ++i) {
        Linear part = w;
        if (!whole) part.n = modules == 2 ? w.n / 2 : std::llround(i == 0 ? static_cast<double>(w.n) - 2 * keys : keys);
        if (part.n <= 0) return {in_pieces(w, pieces, shares), launches(w) * pieces};
        t.us += in_pieces(part, pieces, shares);
        t.kernels += launches(part) * pieces;
    }
    if (w.direction != Direction::input_gradient) return t;
    const std::int64_t elements = w.groups * w.m * w.k;
    const double bytes = static_cast<double>(elements) * bytes_per_element(w.out_dtype);
    const Pointwise add{PointwiseKind::add, Direction::forward, elements, strategy.fused};
    const KernelTime sum = memory_time(pointwise, kernels, {bandwidth}, add, (strategy.fused ? 1 : 3) * bytes);
    if (strategy.fused) return {t.us + (modules - 1) * (sum.us - kernels.kernel_us * sum.kernels), t.kernels};
    return {t.us + (modules - 1) * sum.us, t.kernels + (modules - 1) * sum.kernels};
}

// Attention as products and a softmax: a fused kernel takes no longer, where its tables end (short rows, few heads, types of 32 bits). The
// first FlashAttention does: its tables of 16 bits are Triton's kernel as training runs show it. The other tables give way to these steps
// also inside their range: AOTriton's backward pass on MI355X.
double CostModel::Data::steps_apart(const Attention& given) const {
    Attention w = given;
    if (is_low(w.dtype)) w.dtype = DType::bf16; // which nothing makes in steps of 8 bits
    const std::int64_t heads = w.batch * w.heads;
    const auto product = [&](std::int64_t n, std::int64_t k) {
        return gemm(w.dtype, w.dtype, {w.seq_q, n, k}, heads, false, ragged_rows(w.dtype, n, k));
    };
    const double products = product(w.seq_kv, w.qk_dim) + product(w.v_dim, w.seq_kv),
                 scores = static_cast<double>(heads * w.seq_q) * static_cast<double>(w.seq_kv) * bytes_per_element(w.dtype);
    const bool forward = w.direction == Direction::forward;
    const Softmax softmax{w.direction, heads * w.seq_q, w.seq_kv, w.causal, true};
    return (forward ? 1 : 2) * products + memory_time(pointwise, kernels, {bandwidth}, softmax, (forward ? 2 : 3) * scores).us;
}

double CostModel::Data::buffer_bytes(const Plan& plan, const Op& op) const {
    double sum = 0;
    for (const auto* list : {&op.in, &op.out})
        for (BufferId b : *list) sum += static_cast<double>(plan.buffers[b].bytes.count);
    return sum;
}

// Bytes of an element of what the op writes where that is a type to compute in of 8 bits or fewer, else 0.
double CostModel::Data::low_bytes(const Plan& plan, const Op& op) const {
    if (op.out.empty()) return 0;
    const DType t = plan.buffers[op.out.front()].dtype;
    return is_low(t) ? bytes_per_element(t) : 0;
}

KernelTime CostModel::Data::with(KernelTime t, Extra extra) const {
    if (extra.bytes <= 0) return t;
    return {t.us + kernels.kernel_us * extra.kernels + extra.bytes / (pointwise.quantize.phi * bandwidth), t.kernels + extra.kernels};
}

namespace {

// Bytes a microsecond that a thread of the host copies between pinned memory and other: a DGX A100 moves 25.7 and 25.8 GB/s between its
// devices and pinned memory, 10.0 and 10.8 to and from other memory (bandwidthTest, published by gengwg on GitHub), as if 16.4 and 18.6
// GB/s took turns with the link.
constexpr double staging = 17e3;

// Copies on computation's own queue are to and from memory that is not pinned: the driver moves them piece by piece through memory that is.
double staging_us(const Op& op, const Copy& c) { return op.queue == compute_queue ? static_cast<double>(c.bytes.count) / staging : 0; }

} // namespace

KernelTime CostModel::Data::copy(const Copy& c) const {
    const double rate = c.kind == CopyKind::host_to_nvme ? nvme_write : c.kind == CopyKind::nvme_to_host ? nvme_read : pcie;
    return {pointwise.copy_us + static_cast<double>(c.bytes.count) / rate, 1};
}

// Newton-Schulz iterations: X X^T, A A and the sum with A, B X and the sum with X, one product after another in bf16.
KernelTime CostModel::Data::muon(const OptimizerStep& w) const {
    KernelTime t = memory_time(pointwise, kernels, memory_device(), w, 0);
    if (w.part != OptimizerStep::Part::orthogonal) return t;
    const std::int64_t m = std::min(w.rows, w.cols), n = std::max(w.rows, w.cols);
    const auto product = [&](GemmShape s, bool adds) {
        return gemm(DType::bf16, DType::bf16, s, 1, adds, ragged_rows(DType::bf16, s.n, s.k));
    };
    const double one = product({m, m, n}, false) + product({m, m, m}, true) + product({m, n, m}, true);
    t.us += static_cast<double>(w.matrices) * newton_schulz_iterations * one;
    t.kernels += static_cast<int>(w.matrices) * newton_schulz_iterations * 3;
    return t;
}

// A step on the host: bound by its memory; with a measured rate of Adam, as much faster or slower as its bytes are fewer or more.
double CostModel::Data::host_us(const OptimizerStep& w, double buffer_bytes) const {
    const double bytes = optimizer_bytes(pointwise, w, buffer_bytes);
    if (host_adam <= 0) return bytes / host_memory;
    OptimizerStep adam = w;
    adam.kind = OptimizerKind::adam;
    const double elements = static_cast<double>(w.elements);
    return elements / host_adam * std::min(1.0, bytes / std::max(1.0, optimizer_bytes(pointwise, adam, 0)));
}

// Microseconds in which PyTorch's own elementwise kernel looks up the types of its operands, which are unlike; 0: it does not. narrows: a
// cast to 16 bits.
double CostModel::Data::looked_up_us(double elements, bool narrows, bool sum) const {
    const double rate = practice.looks_types_up ? unlike_rate(narrows) : 0;
    return rate > 0 ? elements / (rate * (sum ? pointwise.unlike.added : 1)) : 0;
}

double CostModel::Data::unlike_rate(bool narrows) const {
    const auto rate = pointwise.unlike.elements.find(device.architecture);
    if (rate == pointwise.unlike.elements.end()) return 0;
    const auto among = [&](const std::vector<std::string>& listed) {
        return std::find(listed.begin(), listed.end(), device.architecture) != listed.end();
    };
    if (narrows && practice.narrows_apart && among(pointwise.unlike.narrowed_apart)) return 0;
    if (practice.vectors_unlike && among(pointwise.unlike.vectored)) return 0;
    return rate->second * std::max(1, device.processors);
}

MemoryDevice CostModel::Data::memory_device() const {
    if (practice.sharding == Sharding::compiler) return {bandwidth, 0, 0, 0, static_cast<double>(std::max(1, device.processors))};
    const auto strided = pointwise.strided.elements.find(device.architecture);
    const double processors = std::max(1, device.processors);
    const auto rows = pointwise.torch_norms.rows_us.find(device.architecture);
    return {bandwidth,          strided == pointwise.strided.elements.end() ? 0 : strided->second * processors,
            unlike_rate(false), unlike_rate(true),
            processors,         rows == pointwise.torch_norms.rows_us.end() ? std::array{pointwise.torch_norms.row_us, 0.0} : rows->second};
}

// One linear made queries, keys and values, which were split: autograd joins their gradients again (torch.cat).
KernelTime CostModel::Data::joined_gradients(const Plan& plan, const Op& op) const {
    double bytes = 0;
    for (const BufferId b : op.out)
        if (plan.buffers[b].kind != MemoryKind::workspace) bytes += 2 * static_cast<double>(plan.buffers[b].bytes.count);
    return memory_time(pointwise, kernels, {bandwidth}, Pointwise{PointwiseKind::copy, Direction::backward, 0, true}, bytes);
}

// The same of an op, where its operands are unlike.
double CostModel::Data::unlike_us(const Plan& plan, const Op& op, const Pointwise& w) const {
    if (op.in.empty() || op.out.empty()) return 0;
    const bool cast = w.kind == PointwiseKind::cast, sum = w.kind == PointwiseKind::add || w.kind == PointwiseKind::bias_dropout_add;
    const bool gathers = op.phase == Phase::gradient_reduce && practice.fully_sharded(); // a unit's gradients into one buffer
    const bool own_kernel = !w.fused || gathers;
    if (!(cast || sum) || !own_kernel) return 0;
    const double to = element_bytes(plan, op.out.front());
    const auto unlike = std::find_if(op.in.begin(), op.in.end(), [&](BufferId b) { return element_bytes(plan, b) != to; });
    if (unlike == op.in.end()) return 0;
    const bool joins = gathers && cast && practice.sharding == Sharding::per_parameter && // torch._chunk_cat
                       plan.buffers[op.out.front()].role == Role::flat_gradients;
    return looked_up_us(static_cast<double>(w.elements), cast && element_bytes(plan, *unlike) > to, sum) /
           (joins ? pointwise.unlike.joined : 1);
}

// The kernels around an expert's products in a loop over experts: of all of them, what stands beside the three products forward and the six
// backward, as much at each of the plan's two linears. Forward the host waits for the device twice an expert, once at each of these: every
// time the queue has run dry, so that the host's launches of an expert do not hide behind the one before it, and the device waits for what
// the host reads and for the first launch after it.
KernelTime CostModel::Data::with_loop(KernelTime t, const Linear& w) const {
    const bool forward = w.direction == Direction::forward;
    const double beside = forward ? (pointwise.expert_loop[0] - 3) / 2 : (pointwise.expert_loop[1] - 6) / 4;
    const auto more = static_cast<int>(std::lround(static_cast<double>(w.groups) * beside));
    t = {t.us + kernels.kernel_us * more, t.kernels + more};
    if (w.direction == Direction::weight_gradient && stacked) { // an expert's weights are picked out of all experts' too
        const std::int64_t all = w.groups * w.n * w.k;
        const double each = practice.autocast || is_wide(training.precision) ? 4 : 2; // bytes
        t.us += static_cast<double>(w.groups) * added_whole_us(all, each * static_cast<double>(all));
    }
    if (!forward) return t;
    return {std::max(t.us, t.kernels * launch_us()) + static_cast<double>(w.groups) * (pointwise.copy_us + launch_us()), t.kernels};
}

// A part that is picked out of a tensor has a gradient of the whole tensor: zeros that the part is put into (PyTorch's index_backward and
// select_backward), added in place to the sum of the other parts' (InputBuffer::accumulate). (The kernels themselves are among the loop's:
// with_loop.)
double CostModel::Data::added_whole_us(std::int64_t elements, double bytes) const {
    const Pointwise zeros{PointwiseKind::zero, Direction::forward, elements, false},
        sum{PointwiseKind::add, Direction::forward, elements, false};
    return std::max(0.0, memory_time(pointwise, kernels, {bandwidth}, zeros, bytes).us - kernels.kernel_us) +
           std::max(0.0, memory_time(pointwise, kernels, {bandwidth}, sum, 3 * bytes).us - kernels.kernel_us);
}

// An expert of that loop picks its rows out of all tokens.
KernelTime CostModel::Data::with_whole_gradients(KernelTime t, const Permute& w, double gradient_bytes) const {
    return {t.us + static_cast<double>(std::min(looped, w.rows)) * added_whole_us(w.tokens * w.cols, gradient_bytes), t.kernels};
}

bool CostModel::Data::waits_in_loop(const Op& op) const {
    const auto* w = std::get_if<Linear>(&op.work);
    return practice.loops_over_experts && w != nullptr && w->groups > 1 && w->direction == Direction::forward;
}

// So many casts between 16 and 32 bits.
KernelTime CostModel::Data::with_casts(KernelTime t, std::int64_t elements, bool narrows, int times, bool fused) const {
    const Pointwise cast{PointwiseKind::cast, Direction::forward, elements, fused};
    const KernelTime one = memory_time(pointwise, kernels, {bandwidth}, cast, 6 * static_cast<double>(elements));
    const double looks = fused ? 0 : looked_up_us(static_cast<double>(elements), narrows, false);
    return {t.us + times * std::max(one.us, looks > 0 ? kernels.kernel_us + looks : 0), t.kernels + times};
}

// Under autocast a linear casts its weight to 16 bits in each forward pass, in a kernel for each module, where the plan has no op for that
// (casts_weight); each module but the first, whose cast is an op of the plan, casts its rows as well, and the gradient of them. (The cast
// of a weight's gradient is in the op that adds it.)
KernelTime CostModel::Data::with_autocast(KernelTime t, const Linear& w, int modules, bool casts_weight) const {
    if (casts_weight && w.direction == Direction::forward) t = with_casts(t, w.groups * w.n * w.k / modules, true, modules, strategy.fused);
    if (w.direction == Direction::weight_gradient || strategy.fused) return t;
    return with_casts(t, w.groups * w.m * w.k, w.direction == Direction::forward, modules - 1, false);
}

// Each adapter casts its rows to fp32 and back to 16 bits, and the gradient of them likewise.
KernelTime CostModel::Data::with_row_casts(KernelTime t, const Linear& w, int modules) const {
    for (const bool narrows : {false, true}) t = with_casts(t, w.groups * w.m * w.k, narrows, modules, false);
    return t;
}

KernelTime CostModel::Data::time(const Plan& plan, const Op& op) const {
    if (!memory) memory = memory_device();
    auto buffers = [&] { return buffer_bytes(plan, op); };
    return std::visit(
        Overloaded{
            [&](const Linear& w) -> KernelTime {
                KernelTime t = op.modules > 1 && keys_share > 0
                                   ? in_modules(w, op.pieces, op.modules, op.of_adapter, shares_of(op, w))
                                   : KernelTime{in_pieces(w, op.pieces, shares_of(op, w)), launches(w) * op.pieces};
                if (w.groups > 1 && practice.loops_over_experts) t = with_loop(t, w);
                if (op.of_adapter && practice.casts_adapters_rows && w.direction != Direction::weight_gradient)
                    t = with_row_casts(t, w, op.modules);
                if (practice.autocast && bytes_per_element(w.dtype) == 2)
                    return with_autocast(t, w, op.modules, op.in.size() < 2 || plan.buffers[op.in[1]].role == Role::parameter);
                if (!is_low(w.dtype)) return t;
                if (w.direction != Direction::weight_gradient) {
                    t = with(t, weight_extra(quantizer, w.direction == Direction::input_gradient, static_cast<double>(w.groups * w.n * w.k),
                                             2, bytes_per_element(w.dtype)));
                    if (w.groups == 1) return t;
                    // Rows have the hidden size on one side of each of an expert's linears: what comes in, or what goes out.
                    return with(t, padding_extra(quantizer, static_cast<double>(w.groups * w.m) * static_cast<double>(hidden), 2));
                }
                return with(t, weight_gradient_extra(quantizer, static_cast<double>(w.groups * w.m * w.k), bytes_per_element(w.dtype)));
            },
            [&](const Matmul& w) -> KernelTime {
                return {gemm(w.dtype, w.dtype, {w.m, w.n, w.k}, w.batch, false, ragged_rows(w.dtype, w.n, w.k)), 1};
            },
            [&](const Attention& w) -> KernelTime {
                const AttentionTable& table = kernels.attention.at(kernel_name(w.kernel));
                // fp32 and tf32 have fewer units than 16 bits; 8-bit units are assumed to be used as well as 16-bit ones.
                const double own = peak_of(name(w.dtype)), peak = own > 0 && !is_low(w.dtype) ? std::min(own, peak_16) : peak_16;
                const AttentionDevice d{static_cast<double>(std::max(1, device.processors)),
                                        (is_low(w.dtype) ? std::max(own, peak) : peak) * 1e-6, bandwidth,
                                        power * clock_of(kernels.sustained_attention), power * clock_of(table.sustained)};
                const double fused = attention_us(kernels, table, d, w);
                const bool timed = w.kernel == AttentionKernel::flash1 && (w.dtype == DType::bf16 || w.dtype == DType::fp16);
                const KernelTime t{timed ? fused : std::min(fused, steps_apart(w)), w.direction == Direction::forward ? 1 : 3};
                if (w.direction == Direction::forward || !joins_gradients || op.out.empty()) return t;
                const KernelTime join = joined_gradients(plan, op);
                return {t.us + join.us, t.kernels + join.kernels};
            },
            [&](const Softmax& w) { return memory_time(pointwise, kernels, *memory, w, buffers()); },
            [&](const Norm& w) {
                const double own = buffers() - kept_wide_bytes(plan, op, w);
                const bool whole_rows = torch_norms && w.fused && w.cols >= 512; // not of single heads
                KernelTime t =
                    whole_rows ? torch_norm_time(pointwise, kernels, *memory, w, own) : memory_time(pointwise, kernels, *memory, w, own);
                if (engine_norms && w.fused && w.direction == Direction::backward &&
                    w.cols < 512) // of queries and keys, each; wider ones have kernels of their own
                    t.us += 2 * head_norm_us(pointwise, device.processors, static_cast<double>(w.rows) / 2);
                if (w.across) t = {t.us + kernels.kernel_us * t.kernels, 2 * t.kernels}; // queries and keys have a norm each
                const double low = low_bytes(plan, op);
                return low > 0 ? with(t, norm_extra(quantizer, static_cast<double>(w.rows * w.cols), 2, low)) : t;
            },
            [&](const Pointwise& w) -> KernelTime {
                const bool drops = w.kind == PointwiseKind::dropout && op.of_adapter;
                if (drops || (w.kind == PointwiseKind::copy && op.modules > 1)) { // one for each module
                    // Dropout reads and writes rows in fp32 where they were cast, and writes a mask.
                    const double bytes = drops && practice.casts_adapters_rows ? 9.0 * static_cast<double>(w.elements) : buffers();
                    const KernelTime one = memory_time(pointwise, kernels, *memory, w, bytes);
                    return {op.modules * one.us, op.modules * one.kernels};
                }
                if (w.kind == PointwiseKind::own_part) // of what lies there whole it reads the part
                    return memory_time(pointwise, kernels, *memory, w, 2.0 * static_cast<double>(plan.buffers[op.out[0]].bytes.count));
                if (autocast && w.kind == PointwiseKind::cast && !op.in.empty() && plan.buffers[op.in[0]].role == Role::parameter)
                    return with_casts({0, 0}, w.elements / op.modules, true, op.modules, strategy.fused);
                if (w.epilogue) { // its traffic is partly hidden under its host's products
                    Pointwise own = w;
                    own.epilogue = false;
                    Op alone = op;
                    alone.work = own;
                    const KernelTime t = time(plan, alone);
                    return {pointwise.epilogue * std::max(0.0, t.us - kernels.kernel_us * t.kernels), 0};
                }
                const auto not_before = [&](KernelTime t) {
                    const double us = unlike_us(plan, op, w);
                    return us > 0 ? KernelTime{std::max(t.us, kernels.kernel_us + us), t.kernels} : t;
                };
                if (autocast && w.kind == PointwiseKind::bias_dropout_add &&
                    op.out.size() == 1) { // without dropout: addmm has added the bias
                    Pointwise sum = w;
                    sum.kind = PointwiseKind::add;
                    return not_before(memory_time(pointwise, kernels, *memory, sum, buffers()));
                }
                const double low = w.kind == PointwiseKind::cast ? low_bytes(plan, op) : 0;
                if (w.kind == PointwiseKind::rope && practice.rotates_halves)
                    return rotation_time(pointwise, kernels, *memory, w, buffers());
                if (low <= 0) return not_before(memory_time(pointwise, kernels, *memory, w, buffers() - kept_gate_bytes(plan, op, w)));
                const Extra extra = cast_extra(quantizer, w.direction == Direction::backward, static_cast<double>(w.elements), 2, low);
                return with({kernels.kernel_us, 1}, {extra.bytes + buffers(), extra.kernels});
            },
            [&](const Embedding& w) {
                const bool forward = w.direction == Direction::forward,
                           wide = !forward && !autocast && !op.out.empty() && element_bytes(plan, op.out.front()) > 2;
                const double activation = autocast ? 4
                                          : forward && !op.out.empty()
                                              ? element_bytes(plan, op.out.front())
                                              : std::min(4.0, std::max(2.0, bytes_per_element(training.precision)));
                return memory_time(pointwise, kernels, *memory, w, activation, wide);
            },
            [&](const CrossEntropy& w) { return memory_time(pointwise, kernels, *memory, w, loss_steps); },
            [&](const Router& w) { return memory_time(pointwise, kernels, *memory, w, buffers()); },
            [&](const Permute& w) -> KernelTime {
                if (dispatch_depth > 0 && w.part != Permute::Part::sort) {
                    const std::int64_t sequences =
                        std::max<std::int64_t>(1, w.tokens / dispatch_depth); // of a divided one, this rank's share of its slots
                    const GemmShape shape{dispatch_depth, w.cols, std::max<std::int64_t>(1, w.rows / sequences)};
                    const int products = w.part == Permute::Part::gather && w.direction == Direction::backward
                                             ? 2
                                             : 1; // of rows, and of the mask of weights
                    const DType type = is_low(training.precision) ? DType::bf16 : training.precision;
                    return {products * gemm(type, type, shape, sequences, false, 0), products};
                }
                const bool of_loop = looped > 0 && w.part == Permute::Part::scatter && w.direction == Direction::backward;
                Permute counted = w;
                if (of_loop) counted.by = ExpertRows::gathered; // each expert's rows by an index, whose adjoint adds
                KernelTime t = memory_time(pointwise, kernels, *memory, counted);
                t.us /= kernels.systolic.gather;
                if (!of_loop || op.out.empty()) return t;
                return with_whole_gradients(t, w, static_cast<double>(plan.buffers[op.out.front()].bytes.count));
            },
            [&](const OptimizerStep& w) -> KernelTime {
                if (w.on_host) return {pointwise.copy_us + host_us(w, buffers()), 1};
                if (w.kind == OptimizerKind::muon) return muon(w);
                KernelTime t = memory_time(pointwise, kernels, *memory, w, buffers());
                if (optimizer_apart && w.fused)
                    t.us += pointwise.optimizer_apart * static_cast<double>(w.elements) /
                            (pointwise.optimizer_phi * kernels.memory_fused * bandwidth);
                return t;
            },
            [&](const GradientNorm& w) { return memory_time(pointwise, kernels, *memory, w, buffers()); },
            [&](const Compress& w) { return compress(plan, op, w); },
            [&](const Copy& w) {
                KernelTime t = copy(w);
                t.us += staging_us(op, w);
                return t;
            },
            [&](const HostSync&) -> KernelTime {
                return {0, 0};
            },
            [&](const HostWork& w) -> KernelTime {
                return {w.duration.seconds() * 1e6, 0};
            },
            [&](const auto&) -> KernelTime { impossible(fmt::format("op {} is not one of compute, a copy or host work", op.name)); },
        },
        op.work);
}

// Work of the host on its own memory (norms, clipping and zeros of gradients that live there): bound by it, as the optimizer's is.
bool CostModel::Data::on_host(const Op& op) const {
    return op.queue == host_queue && (std::holds_alternative<Pointwise>(op.work) || std::holds_alternative<GradientNorm>(op.work));
}

ComputeCost CostModel::compute(const Plan& plan, const Op& op, int kind) const {
    // Places are exchanged, not what lies there.
    if (const auto* p = std::get_if<Pointwise>(&op.work); p && (p->kind == PointwiseKind::swap || lies_there(plan, op, *p)))
        return {Time{}, 0};
    if (op.share < 1) { // its launches hide beside others
        Op each = op;
        each.share = 1;
        return {Time{std::llround(static_cast<double>(compute(plan, each, kind).duration.ps) * op.share)}, 0};
    }
    if (kind > 0) return data_->kinds.at(static_cast<std::size_t>(kind)).compute(plan, op);
    if (data_->on_host(op)) return {Time::microseconds(data_->pointwise.copy_us + data_->buffer_bytes(plan, op) / data_->host_memory), 1};
    if (const auto us = measured_us(data_->device, plan, op)) return {Time::microseconds(*us), 1};
    const KernelTime t = data_->time(plan, op);
    const bool on_device = op.queue == compute_queue;
    return {Time::microseconds(on_device ? t.us * data_->slowest : t.us), t.kernels};
}

} // namespace orrery
