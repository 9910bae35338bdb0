// A bound of the step of all points of a form, by arithmetic alone: no plan is made. Private to this room.
#pragma once

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

} // namespace orrery
