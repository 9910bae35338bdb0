#include "exec/weights/merge.hpp"

#include "exec/kernels/shards.hpp"
#include "topology/check.hpp"

#include <stdexcept>

namespace orrery {

namespace {

constexpr const char *down = ".lora_a", *up = ".lora_b";

} // namespace

AdapterShapes adapters_of(const Plan& plan) {
    AdapterShapes shapes;
    for (const Buffer& b : plan.buffers) {
        if (b.role != Role::parameter || b.tensor < 0) continue;
        const std::string& name = plan.tensors[b.tensor].name;
        if (name.ends_with(down) || name.ends_with(up)) shapes[name] = shard_view(plan, b, {}, {}).whole;
    }
    return shapes;
}

std::optional<Counterpart> place_of_adapter(const AdapterShapes& adapters, const std::string& tensor) {
    const auto found = adapters.find(tensor);
    if (found == adapters.end()) return std::nullopt;
    Counterpart c;
    c.sources.push_back({tensor, found->second});
    c.columns = found->second.back();
    c.rows = 1;
    for (std::size_t d = 0; d + 1 < found->second.size(); ++d) c.rows *= found->second[d];
    c.place = [](std::int64_t row) { return Counterpart::Row{0, row}; };
    return c;
}

Merge::Merge(const std::filesystem::path& files, const AdapterShapes& adapters, const Trainable& trainable) : files_(files) {
    const auto data = [&](const std::string& name) {
        const SafeTensor* t = files_.find(name);
        if (!t) throw std::runtime_error(files.string() + " has no adapter " + name);
        return t->data;
    };
    for (const auto& [name, shape] : adapters) {
        if (!name.ends_with(down)) continue;
        const std::string matrix = name.substr(0, name.size() - std::char_traits<char>::length(down));
        const auto wide = adapters.find(matrix + up);
        require(wide != adapters.end(), "an adapter has one matrix of two");
        Adapter& adapter = adapters_[matrix];
        adapter.a_ = data(name);
        adapter.b_ = data(wide->first);
        adapter.rows_ = wide->second[wide->second.size() - 2];
        adapter.columns_ = shape.back();
        adapter.rank_ = wide->second.back();
        adapter.scale_ = trainable.alpha / trainable.rank;
    }
}

void Merge::Adapter::add(std::int64_t row, std::int64_t column, std::span<double> values) const {
    const std::int64_t expert = row / rows_;
    for (std::int64_t r = 0; r < rank_; ++r) {
        const double b = scale_ * read_weight(b_, row * rank_ + r, WeightType::f64);
        const std::int64_t from = (expert * rank_ + r) * columns_ + column;
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] += b * read_weight(a_, from + static_cast<std::int64_t>(i), WeightType::f64);
    }
}

const Merge::Adapter* Merge::beside(const std::string& tensor) const {
    const auto found = adapters_.find(tensor);
    return found == adapters_.end() ? nullptr : &found->second;
}

} // namespace orrery
