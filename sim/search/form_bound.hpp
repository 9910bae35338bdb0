// A bound of the step of all points of a form, by arithmetic alone: no plan is made. Private to this room.
#pragma once

#include "sim/cost/cost.hpp"
#include "sim/search/space.hpp"

namespace orrery {

class FormBounds {
  public:
    explicit FormBounds(const Scenario& base);
    // Seconds: the products of the layers' matrices at the device's peak, and the pipeline's filling and draining. 0 where nothing can be
    // said.
    double of(const FormShape& shape) const;

  private:
    double layers_ = 0, least_layer_ = 0; // seconds of a sequence on one device: of all layers, of the shortest one
    double factor_ = 1;
};

// The fewest ranks of a ring for which ring_bound() says anything: small plans of shorter rings are soon made.
inline constexpr int fewest_ring = 16;

// Seconds of a step that ring attention's steps take at least, whatever their sizes: each has kernels of its own, and the host issues them.
// A small plan of a ring of hundreds of ranks has thousands of these, and is not made where they alone take too long. 0 without a ring.
double ring_bound(const Scenario& scenario, const Fabric& fabric);

} // namespace orrery
