// The counts of quantize.hpp.
#include "sim/cost/quantize.hpp"

#include <algorithm>

namespace orrery {

bool QuantizeTable::has_earlier(ScalingRecipe recipe) const {
    return std::find(earlier_recipes.begin(), earlier_recipes.end(), recipe) != earlier_recipes.end();
}

Quantizer quantizer(const QuantizeTable& table, ScalingRecipe recipe, const std::string& architecture, const Practice& practice,
                    bool compiled) {
    const auto among = [](const auto& all, const auto& one) { return std::find(all.begin(), all.end(), one) != all.end(); };
    Quantizer q;
    q.casts_weights = practice.casts_weights_at_use;
    q.weight_maximum = among(table.present_maximum, recipe);
    q.both_ways = among(table.both_ways, recipe);
    if (compiled && practice.compiler_sees_casts) {
        q.reads_again = q.both_ways;
        q.both_ways = true;
        q.norm_casts = false;
        return q;
    }
    q.turns_input = !q.both_ways && among(table.turning_architectures, architecture);
    q.present_maximum = among(table.present_maximum, recipe);
    q.norm_casts = among(table.norm_casts, recipe);
    return q;
}

Extra cast_extra(const Quantizer& q, bool gradient, double elements, double wide, double low) {
    Extra e;
    if (q.both_ways || (gradient && q.turns_input)) e.bytes += elements * low;
    if (q.reads_again) e.bytes += elements * wide, ++e.kernels;
    if (q.present_maximum) e.bytes += elements * wide, ++e.kernels;
    return e;
}

Extra norm_extra(const Quantizer& q, double elements, double wide, double low) {
    Extra e;
    if (q.both_ways) e.bytes += elements * low;
    if (q.reads_again) e.bytes += elements * wide, ++e.kernels;
    if (q.norm_casts) return e;
    e.bytes += elements * wide * 2, ++e.kernels;
    if (q.present_maximum) e.bytes += elements * wide, ++e.kernels;
    return e;
}

Extra padding_extra(const Quantizer& q, double elements, double wide) {
    if (!q.pads_experts) return {};
    return {2 * elements * wide, 1};
}

Extra weight_gradient_extra(const Quantizer& q, double elements, double low) {
    if (!q.turns_input) return {};
    return {2 * elements * low, 1};
}

Extra weight_extra(const Quantizer& q, bool gradient, double elements, double wide, double low) {
    if (!q.casts_weights) return {};
    const bool maximum = !gradient && q.weight_maximum;
    return {elements * (wide + low + (maximum ? wide : 0)), maximum ? 2 : 1};
}

} // namespace orrery
