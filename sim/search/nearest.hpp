// The points that lack least memory, of those that a bound says do not fit: candidates, as bounds of points that lack much the same are the
// same. Private to this room.
#pragma once

#include "sim/search/space.hpp"

#include <vector>

namespace orrery {

struct Miss {
    double device = 0, node = 0; // bytes that it lacks at least: of a device's memory; of its node's memory or NVMe
    double alive = 0;            // tokens that a device works on at once: fewer leave more memory for what a bound does not count
    int zero_stage = 0;
    PointId id;
    bool whole = false; // all points of this form, core and recompute: id.rest says nothing
    bool lacks() const { return device > 0 || node > 0; }
};

Miss miss_of(const Scenario& scenario, const PointId& id, double device_bytes, double node);

// The few points that lack the least of each kind of memory, each of another form. They do not depend on the order of adding.
class Misses {
  public:
    void add(const Miss& miss);
    void add(const Misses& others);
    bool empty() const { return by_device_.empty(); }
    std::vector<Miss> all() const; // each form once, those that lack least of a device's memory first

  private:
    std::vector<Miss> by_device_, by_node_; // the least first
};

} // namespace orrery
