#include "sim/search/words.hpp"

#include "sim/report/report.hpp"
#include "sim/search/search.hpp"
#include "topology/indexed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace orrery {

std::string kind_of(const Scenario& s) {
    const Strategy& t = s.strategy;
    std::string text = fmt::format("tensor {} x pipeline {} x data {}", t.tensor_parallel, t.pipeline_parallel, t.data_parallel);
    if (t.context_parallel > 1) text += fmt::format(" x context {}", t.context_parallel);
    if (t.expert_parallel > 1) text += fmt::format(", expert {}", t.expert_parallel);
    if (s.cluster.nodes > 1) text += fmt::format(" on {} nodes", s.cluster.nodes);
    return text;
}

std::string label_of(const Scenario& s) {
    std::string text = fmt::format("{}, micro batch {}", strategy_text(s), s.training.micro_batch_size);
    const Overlap& o = s.strategy.overlap;
    std::string overlapped;
    for (const auto& [on, word] : {std::pair{o.grad_reduce, "gradients"},
                                   {o.param_gather, "parameters"},
                                   {o.tensor_parallel && s.strategy.tensor_parallel > 1, "tensor"},
                                   {o.pipeline && s.strategy.pipeline_parallel > 1, "pipeline"},
                                   {o.expert_parallel, "experts"},
                                   {o.shared_experts, "shared experts"}})
        if (on) overlapped += (overlapped.empty() ? ", overlapped: " : " ") + std::string(word);
    text += overlapped;
    if (s.strategy.context_parallel > 1) text += std::string(", ") + name(s.strategy.context_parallel_kind);
    if (s.strategy.expert_parallel > 1) text += std::string(", ") + name(s.runtime.token_dispatcher);
    if (s.strategy.rank_order != Strategy{}.rank_order) {
        text += ", ";
        for (const Axis axis : s.strategy.rank_order)
            if (axis != Axis::dpr && axis != Axis::dpw)
                text += (text.ends_with(' ') ? "" : "-") + std::string(name(axis)); // these follow dp
    }
    if (s.cluster.nodes > 1) text += fmt::format(", {} nodes", s.cluster.nodes);
    return text;
}

const char* unit(SearchBy by) {
    switch (by) {
    case SearchBy::time:
        return "s";
    case SearchBy::device_time:
        return "device s";
    case SearchBy::cost:
        return "USD";
    case SearchBy::energy:
        return "J";
    case SearchBy::goodput:
        return "times as long as without loss";
    case SearchBy::run_time:
        return "s per 1e12 tokens of the run";
    case SearchBy::run_cost:
        return "USD per 1e12 tokens of the run";
    case SearchBy::target_time:
        return "s to the target";
    case SearchBy::target_cost:
        return "USD to the target";
    case SearchBy::memory:
        break;
    }
    return "bytes";
}

std::string largest_parts(const ByEnum<Category, double, category_count>& seconds) {
    const double total = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    std::vector<std::size_t> order(seconds.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater<>{}, [&](std::size_t i) { return seconds[i]; });
    std::string text;
    for (std::size_t i = 0; i < 3; ++i)
        if (seconds[order[i]] > 0.005 * total)
            text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", in_words(static_cast<Category>(order[i])),
                                100 * seconds[order[i]] / total);
    return text;
}

} // namespace orrery
