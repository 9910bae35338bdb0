#include "gui/core/tracks.hpp"

namespace orrery {

TrackStore tracks_of(const Trace& trace) {
    TrackStore store;
    store.trace = &trace;
    store.op_kinds = kinds_of_ops(trace);
    for (std::size_t l = 0; l < trace.lanes.size(); ++l) {
        const std::vector<Span>& spans = trace.lanes[l].spans;
        for (std::size_t i = 0; i < spans.size(); ++i) {
            if (i == 0 || spans[i].queue != spans[i - 1].queue)
                store.tracks.push_back({static_cast<std::int32_t>(l), spans[i].queue, static_cast<std::int32_t>(i), 0});
            ++store.tracks.back().count;
        }
    }
    return store;
}

} // namespace orrery
