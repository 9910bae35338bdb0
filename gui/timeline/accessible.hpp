// The timeline for those who do not see it: a list of rows, each with what runs in it and how much of the time.
#pragma once

namespace orrery {

void make_timelines_accessible(); // once a process

} // namespace orrery
