// Max-min fair rates of fluid bundles over directed links, kept up to date as bundles come and go.
//
// A bundle b has a rate r_b <= cap_b and puts w(b,l) r_b on link l; link l holds  sum_b w(b,l) r_b <= C_l.  Max-min fair: every
// bundle is at its cap, or crosses a saturated link on which no bundle has a higher rate.
// Example: links A, B of capacity 1; x on A, y on A and B, z on B with weight 2. y and x meet at A: 1/2 each; B then holds
// 1/2 + 2 r_z <= 1, so r_z = 1/4 if B saturates first: filling all at one speed, B fills at r = 1/3 (y + 2z), so y = z = 1/3, x = 2/3.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace orrery {

class Sharing {
  public:
    struct Use { std::int32_t link; double weight; };   // weight > 0: link bytes per payload byte (times the twins that cross one link)

    explicit Sharing(std::span<const double> link_capacities);

    // Adds a bundle; uses may be empty (then its rate is its cap). Returns its id; ids of removed bundles are used again.
    std::int32_t add(std::span<const Use> uses, double cap);
    void remove(std::int32_t bundle);

    // Brings rates up to date. Returns the bundles whose rate changed since the last call (new ones included), in ascending order of id.
    // The result depends only on the set of bundles present, never on the order in which they came.
    std::span<const std::int32_t> update();
    double rate(std::int32_t bundle) const;

  private:
    struct Link;
    struct Bundle;
    std::vector<double> capacity_;
    // implementation in sharing.cpp; private members may be added freely
};

} // namespace orrery
