// The kept picture of the rows, and for what it was made. Inside Timeline only.
#pragma once

#include "gui/timeline/timeline.hpp"

namespace orrery {

struct Timeline::Frame {
    QImage image;
    bool valid = false;
    TimeRange range;
    QSize size;
    int scroll = 0;
    std::int32_t microbatch = -1;
    double ratio = 1;
    double cost_ms = 0; // of the last picture at the screen's own resolution
};

} // namespace orrery
