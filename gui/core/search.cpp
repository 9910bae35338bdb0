#include "gui/core/queries.hpp"
#include "topology/at.hpp"

#include <QStringList>

#include <algorithm>

namespace orrery {

Search::Search(const Trace& trace, const QString& text) {
    const QStringList words = text.split(' ', Qt::SkipEmptyParts);
    QStringList plain;
    for (const QString& word : words) {
        bool number = false;
        const int mb = word.startsWith("mb:") ? word.mid(3).toInt(&number) : 0;
        if (number)
            microbatch_ = mb;
        else
            plain.push_back(word);
    }
    empty_ = words.empty();
    const auto all = [&](const QString& in) {
        return std::all_of(plain.begin(), plain.end(), [&](const QString& w) { return in.contains(w, Qt::CaseInsensitive); });
    };
    ops_.resize(trace.ops.size());
    for (std::size_t o = 0; o < ops_.size(); ++o) {
        const TraceOp& op = trace.ops[o];
        ops_[o] = all(QString::fromStdString(op.name + " " + op.kind + " " + op.phase) + " " + label(kind_of_op(op)));
    }
    for (int c = 0; c <= static_cast<int>(WaitCause::dependency); ++c) {
        const auto cause = static_cast<WaitCause>(c);
        causes_.push_back(all(QString(name(cause)) + " " + cause_text(cause)));
    }
}

bool Search::matches(const Span& s) const {
    if (empty_ || (microbatch_ >= 0 && s.microbatch != microbatch_)) return false;
    return s.op >= 0 ? ops_[at(s.op)] : causes_[at(static_cast<int>(s.cause))];
}

std::optional<SpanRef> Search::next(const TrackStore& store, std::optional<SpanRef> from, bool forward) const {
    // Times first, then lanes, then spans: a total order that both directions walk.
    using Key = std::pair<std::int64_t, SpanRef>;
    const Trace& trace = *store.trace;
    std::optional<Key> start, best;
    if (from) start = Key{span_of(trace, *from).begin.ps, *from};
    const auto better = [&](const Key& a, const Key& b) { return forward ? a < b : b < a; };
    for (const Track& t : store.tracks) {
        std::int32_t i = forward ? 0 : slice_count(t) - 1;
        if (start) i = std::clamp(last_begun(store, t, start->first) + (forward ? -1 : 1), 0, slice_count(t) - 1);
        if (start && forward)
            while (i > 0 && slice(store, t, i).begin.ps >= start->first) --i; // several may begin at once
        for (; i >= 0 && i < slice_count(t); i += forward ? 1 : -1) {
            const Span& s = slice(store, t, i);
            const Key key{s.begin.ps, {t.lane, span_index(t, i)}};
            if (best && !better(key, *best)) break;
            if ((start && !better(*start, key)) || !matches(s)) continue;
            best = key;
            break;
        }
    }
    return best ? std::optional(best->second) : std::nullopt;
}

} // namespace orrery
