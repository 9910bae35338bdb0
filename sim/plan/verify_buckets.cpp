// The plan's tensors and buckets against what its buffers and ops do with them: interpreters rely on the plan.
#include "sim/plan/verify_parts.hpp"

#include <fmt/format.h>

namespace orrery::verification {
namespace {

std::int64_t elements(const Buffer& b) {
    std::int64_t n = 1;
    for (std::int64_t d : b.shape) n *= d;
    return n;
}

class BucketCheck {
  public:
    BucketCheck(const Plan& plan, Findings& findings) : plan_(plan), findings_(findings) {}

    void layout(const TensorBucket& b);
    void buffer(const Buffer& b);
    void collective(const Block& block, std::int32_t op, const Collective& c);

  private:
    const Buffer& of(BufferId b) const { return plan_.buffers[at(b)]; }
    void fault(std::string where, const char* what) { findings_.add("bucket", std::move(where), what); }
    bool lists(const TensorBucket& b, const std::vector<BufferId>& ids, BufferId BucketTensor::*side) const;

    const Plan& plan_;
    Findings& findings_;
};

void BucketCheck::layout(const TensorBucket& b) {
    const std::string where = fmt::format("stage {}, bucket {}", b.stage, b.name);
    std::int64_t end = 0;
    const bool trains = b.tensors.empty() || plan_.tensors[at(b.tensors.front().tensor)].trained;
    for (const BucketTensor& t : b.tensors) {
        const Buffer &w = of(t.parameter), &g = of(t.gradient < 0 ? t.parameter : t.gradient);
        if (w.role != Role::parameter || (t.gradient >= 0 && g.role != Role::gradient) || w.tensor != t.tensor || g.tensor != t.tensor)
            fault(where, "names a parameter and a gradient that are not of its tensor");
        if ((t.gradient >= 0) != plan_.tensors[at(t.tensor)].trained || plan_.tensors[at(t.tensor)].trained != trains)
            fault(where, "joins what is trained with what is not, or has gradients of what is not");
        if (t.begin != end || t.end - t.begin != elements(w) || elements(g) != elements(w))
            fault(where, "has tensors that do not lie side by side");
        end = t.end;
    }
    if (b.shard == 0) return;
    if (!trains) {
        if (b.reduce >= 0 || b.gather < 0 || b.shard * size(plan_, b.gather) < end)
            fault(where, "is not trained: it is gathered whole, and never reduced");
        return;
    }
    if (b.reduce < 0 || b.gather < 0 || size(plan_, b.reduce) != size(plan_, b.gather))
        fault(where, "is sharded, and not reduced and gathered by the same number of ranks");
    else if (b.shard * size(plan_, b.reduce) < end)
        fault(where, "has shards that do not hold all of it");
    if (b.gather_again >= 0 && size(plan_, b.reduce) % size(plan_, b.gather_again) != 0)
        fault(where, "is gathered again by ranks that are no part of those that share it");
}

void BucketCheck::buffer(const Buffer& b) {
    const bool shard = b.role == Role::parameter_shard || b.role == Role::gradient_shard || b.role == Role::gradient_part,
               flat = b.role == Role::gathered_parameters || b.role == Role::flat_gradients;
    if ((b.role == Role::parameter || b.role == Role::gradient) && b.tensor < 0) fault(b.name, "is of no tensor");
    if (b.role == Role::batch && b.ahead < 0) fault(b.name, "does not say of which tokens it is");
    if (!shard && !flat && b.role != Role::secondary_shard) return;
    if (b.bucket < 0) return fault(b.name, "is of no bucket");
    const TensorBucket& bucket = plan_.buckets[at(b.bucket)];
    if (shard && (bucket.shard == 0 || elements(b) != bucket.shard)) fault(b.name, "is not as long as its bucket's shards");
    if (b.role == Role::secondary_shard &&
        (bucket.gather_again < 0 || bucket.tensors.empty() || elements(b) * size(plan_, bucket.gather_again) < bucket.tensors.back().end))
        fault(b.name, "is a part of a second copy that does not hold all of its bucket");
    if (flat && (bucket.tensors.empty() || elements(b) < bucket.tensors.back().end)) fault(b.name, "does not hold all of its bucket");
}

bool BucketCheck::lists(const TensorBucket& b, const std::vector<BufferId>& ids, BufferId BucketTensor::*side) const {
    if (ids.size() == 1 && (of(ids[0]).role == Role::gathered_parameters || of(ids[0]).role == Role::flat_gradients)) return true;
    if (ids.size() != b.tensors.size()) return false;
    for (std::size_t i = 0; i < ids.size(); ++i)
        if (ids[i] != b.tensors[i].*side) return false;
    return true;
}

// A bucket travels as one message: over its communicator, its tensors in the order in which they lie.
void BucketCheck::collective(const Block& block, std::int32_t index, const Collective& c) {
    if (c.operands != Collective::Operands::joined) return;
    const Op& op = block.ops[at(index)];
    const std::int32_t id = op.in.empty() ? -1 : of(op.in[0]).bucket;
    if (id < 0) return fault(place(plan_, block, index), "joins what is of no bucket");
    const TensorBucket& b = plan_.buckets[at(id)];
    const bool gathers = c.kind == CollectiveKind::all_gather;
    const bool again = gathers && of(op.in[0]).bytes.count > 0 && b.gather_again >= 0 && c.comm == b.gather_again;
    if (!again && c.comm != (gathers ? b.gather : b.reduce)) fault(place(plan_, block, index), "is not on its bucket's communicator");
    if (c.dtype != (gathers ? b.gathered_in : b.reduced_in)) fault(place(plan_, block, index), "has another dtype than its bucket");
    if (!lists(b, gathers ? op.out : op.in, gathers ? &BucketTensor::parameter : &BucketTensor::gradient))
        fault(place(plan_, block, index), "names other tensors than its bucket, or in another order");
}

} // namespace

void check_buckets(const Plan& plan, Findings& findings) {
    BucketCheck check(plan, findings);
    for (const TensorBucket& b : plan.buckets) check.layout(b);
    for (const Buffer& b : plan.buffers) check.buffer(b);
    for (const Block& block : plan.blocks)
        for (std::int32_t i = 0; i < static_cast<std::int32_t>(block.ops.size()); ++i)
            if (const auto* c = std::get_if<Collective>(&block.ops[at(i)].work)) check.collective(block, i, *c);
}

} // namespace orrery::verification
