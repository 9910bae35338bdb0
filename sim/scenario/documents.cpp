#include "sim/scenario/documents.hpp"

#include <algorithm>

namespace orrery {
namespace {

std::int64_t rounded(std::int64_t a, std::int64_t b) { return std::max<std::int64_t>(1, (a + b / 2) / b); }

} // namespace

PackedDocuments documents_of(const Scenario& s) {
    if (!packs_documents(s)) return {1, s.training.sequence_length};
    const std::int64_t unit = document_unit(s), units = s.training.sequence_length / unit;
    const std::int64_t tokens = rounded(units, rounded(units, padded_document(s) / unit));
    return {rounded(units, tokens), tokens * unit};
}

std::int64_t document_unit(const Scenario& s) {
    return deals_documents(s) ? 2 * static_cast<std::int64_t>(s.strategy.context_parallel) : 1;
}

std::int64_t padded_document(const Scenario& s) {
    if (!packs_documents(s)) return 0;
    const std::int64_t unit = document_unit(s);
    return (s.training.document_tokens + unit - 1) / unit * unit;
}

bool packs_documents(const Scenario& s) {
    return s.training.document_tokens > 0 && s.training.document_tokens < s.training.sequence_length;
}

bool deals_documents(const Scenario& s) {
    return packs_documents(s) && s.strategy.context_parallel > 1 && s.strategy.context_parallel_kind != ContextKind::ulysses;
}

} // namespace orrery
