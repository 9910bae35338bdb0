// Exact busy times from a track's samples. A full-width picture asks for a hundred thousand of them: columns are looked up in batches
// whose memory is fetched ahead, and where few slices are in sight they are simply walked.
#include "gui/core/tracks.hpp"
#include "topology/at.hpp"

#include <algorithm>
#include <cstring>

namespace orrery {

namespace {

// The part of a track that a look-up needs, in registers.
struct View {
    const Span* spans;         // of the lane
    const std::int32_t* order; // null: spans are in line
    std::int32_t first, count;
    const std::int64_t* samples;
    const Eight* eights;
    const std::uint32_t* cells;
    std::size_t width, last_cell, sample_count;
    std::int64_t begin;
    int shift;
    const SliceKind* op_kinds;
    const std::int8_t* slot;

    View(const TrackStore& store, const Track& t)
        : spans(store.trace->lanes[at(t.lane)].spans.data()), order(t.order.empty() ? nullptr : t.order.data()), first(t.first),
          count(slice_count(t)), samples(t.samples.data()), eights(t.eights.data()), cells(t.cells.data()), width(t.kinds.size() + 1),
          last_cell(t.cells.size() - 2), sample_count(t.samples.size() / width), begin(t.begin), shift(t.cell_shift),
          op_kinds(store.op_kinds.data()), slot(t.slot.data()) {}

    const Span& operator[](std::int32_t i) const { return order ? spans[order[i]] : spans[first + i]; }
    std::size_t slot_of(const Span& s) const {
        SliceKind k;
        if (s.kind == SpanKind::op && s.op >= 0)
            k = op_kinds[s.op];
        else if (s.kind == SpanKind::transfer_wait)
            k = SliceKind::transfer_wait;
        else
            k = s.cause == WaitCause::warm_up || s.cause == WaitCause::drain ? SliceKind::bubble : SliceKind::wait;
        return static_cast<std::size_t>(slot[static_cast<std::size_t>(k)]);
    }
    std::size_t cell_of(std::int64_t t) const { return std::min(static_cast<std::size_t>(t - begin) >> shift, last_cell); }
    // The last sample that begins at or before t; t >= begin.
    std::size_t sample_of(std::int64_t t, std::size_t c) const {
        std::size_t low = cells[c], high = std::min<std::size_t>(cells[c + 1] + 1, sample_count);
        if (high - low > 16) {
            while (low < high) {
                const std::size_t middle = (low + high) / 2;
                if (samples[middle * width] <= t)
                    low = middle + 1;
                else
                    high = middle;
            }
        } else {
            while (low < high && samples[low * width] <= t) ++low;
        }
        return low - 1;
    }
    // Busy time before t by slot, from sample r.
    void busy(std::int64_t t, std::size_t r, std::int64_t* out) const {
        const std::int64_t* record = samples + r * width + 1;
        for (std::size_t k = 0; k + 1 < width; ++k) out[k] = record[k];
        if (const Eight& e = eights[r]; e.exact) {
            // The part of each before t, all eight at once; those after the last slice have no length.
            const auto into = static_cast<std::uint32_t>(std::clamp<std::int64_t>(t - record[-1], 0, UINT32_MAX));
            std::uint32_t part[sample_step];
            for (int j = 0; j < sample_step; ++j) part[j] = std::min(std::max(into, e.begin[j]) - e.begin[j], e.length[j]);
            std::uint64_t slots;
            std::memcpy(&slots, e.slot.data(), sizeof slots); // bytes may be anything's: read once
            for (int j = 0; j < sample_step; ++j, slots >>= 8) out[slots & 0xff] += part[j];
            return;
        }
        std::int32_t i = static_cast<std::int32_t>(r) * sample_step;
        for (const std::int32_t stop = std::min(i + sample_step, count); i < stop; ++i) {
            const Span& s = (*this)[i];
            if (s.begin.ps >= t) break;
            out[slot_of(s)] += std::min(s.end.ps, t) - s.begin.ps;
        }
    }
    void busy(std::int64_t t, std::int64_t* out) const {
        if (t <= begin)
            std::fill(out, out + width - 1, 0);
        else
            busy(t, sample_of(t, cell_of(t)), out);
    }
};

std::int32_t last_begun(const View& v, std::int64_t t) {
    if (t < v.begin) return -1;
    std::int32_t i = static_cast<std::int32_t>(v.sample_of(t, v.cell_of(t))) * sample_step;
    const std::int32_t stop = std::min(i + sample_step, v.count);
    while (i < stop && v[i].begin.ps <= t) ++i;
    return i - 1;
}

// Few slices in sight: each gives its part to the columns it touches.
void walk(const View& v, const Columns& columns, std::int32_t from, std::int32_t to, std::int64_t* out) {
    const std::size_t kinds = v.width - 1;
    int c = 0;
    Edges edge(columns);
    std::int64_t left = *edge;
    edge.next();
    std::int64_t right = *edge;
    const auto next = [&] {
        ++c;
        left = right;
        edge.next();
        right = *edge;
    };
    for (std::int32_t i = from; i <= to; ++i) {
        const Span& s = v[i];
        const std::size_t k = v.slot_of(s);
        const std::int64_t b = std::max(s.begin.ps, columns.begin), e = std::min(s.end.ps, columns.end);
        while (right <= b && c + 1 < columns.count) next();
        while (e > left) {
            const std::int64_t part = std::min(e, right) - std::max(b, left);
            if (part > 0) out[at(c) * kinds + k] += part;
            if (e <= right || c + 1 == columns.count) break;
            next();
        }
    }
}

// Many slices in sight: the busy time before each edge, and differences.
void look_up(const View& v, const Columns& columns, std::int64_t* out) {
    constexpr int batch = 32;
    const std::size_t kinds = v.width - 1;
    std::int64_t before[slice_kind_count], after[slice_kind_count];
    Edges edge(columns);
    v.busy(*edge, before);
    std::int64_t t[batch];
    std::size_t where[batch];
    for (int c = 0; c < columns.count; c += batch) {
        const int n = std::min(batch, columns.count - c);
        for (int j = 0; j < n; ++j) {
            edge.next();
            t[j] = std::max(*edge, v.begin);
            where[j] = v.cell_of(t[j]);
            __builtin_prefetch(v.cells + where[j]);
        }
        for (int j = 0; j < n; ++j) __builtin_prefetch(v.samples + v.cells[where[j]] * v.width);
        for (int j = 0; j < n; ++j) {
            where[j] = t[j] > v.begin ? v.sample_of(t[j], where[j]) : 0;
            const char* e = reinterpret_cast<const char*>(v.eights + where[j]);
            __builtin_prefetch(e);
            __builtin_prefetch(e + 64);
        }
        for (int j = 0; j < n; ++j) {
            v.busy(t[j], where[j], after);
            std::int64_t* column = out + at(c + j) * kinds;
            for (std::size_t k = 0; k < kinds; ++k) column[k] = after[k] - before[k], before[k] = after[k];
        }
    }
}

} // namespace

std::int32_t last_begun(const TrackStore& store, const Track& track, std::int64_t t) { return last_begun(View(store, track), t); }

std::int32_t slice_at(const TrackStore& store, const Track& track, std::int64_t t) {
    const std::int32_t i = last_begun(store, track, t);
    return i >= 0 && slice(store, track, i).end.ps > t ? i : -1;
}

KindTimes busy_before(const TrackStore& store, const Track& track, std::int64_t t) {
    KindTimes out{};
    std::int64_t by_slot[slice_kind_count]{};
    View(store, track).busy(t, by_slot);
    for (std::size_t k = 0; k < track.kinds.size(); ++k) out[track.kinds[k]] = by_slot[k];
    return out;
}

void busy_in_columns(const TrackStore& store, const Track& track, const Columns& columns, std::vector<std::int64_t>& out) {
    out.assign(at(columns.count) * track.kinds.size(), 0);
    const View v(store, track);
    const std::int32_t from = std::max(0, last_begun(v, columns.begin)), to = last_begun(v, columns.end - 1);
    if (to < from) return;
    if (to - from < 6 * columns.count)
        walk(v, columns, from, to, out.data());
    else
        look_up(v, columns, out.data());
}

} // namespace orrery
