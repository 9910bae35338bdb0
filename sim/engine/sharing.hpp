// Max-min fair rates of fluid bundles over directed links, kept up to date as bundles come and go.
//
// A bundle b has a rate r_b <= cap_b and puts w(b,l) r_b on link l; link l holds  sum_b w(b,l) r_b <= C_l.  Max-min fair: every
// bundle is at its cap, or crosses a saturated link on which no bundle has a higher rate.
// Example: links A, B of capacity 1; x on A, y on A and B, z on B with weight 2. All rates rise together: B is full at 1/3
// (y + 2z = 1), so y = z = 1/3; x goes on alone until A is full: x = 2/3.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace orrery {

class Sharing {
  public:
    struct Use {
        std::int32_t link;
        double weight;
    }; // weight > 0: link bytes per payload byte (times the twins that cross one link)

    // Capacities in bytes per second; 0 (a failed link) and infinity (a link that never limits) are fine.
    explicit Sharing(std::span<const double> link_capacities);
    Sharing(Sharing&&) noexcept;
    Sharing& operator=(Sharing&&) noexcept;
    ~Sharing();

    // Adds a bundle; uses may be empty (then its rate is its cap), caps may be infinite. Returns its id; ids of removed bundles are
    // used again, last removed first. Rates are those of the last update() until the next one; a new bundle's is 0.
    // Weights are kept to 4e-16, absolutely, and go up to 2^24.
    std::int32_t add(std::span<const Use> uses, double cap);
    void set_cap(std::int32_t bundle, double cap);
    void remove(std::int32_t bundle);

    // Brings rates up to date. Returns the bundles whose rate changed since the last call (new ones included), in ascending order of id;
    // the span is valid until the next call of any member that is not const.
    // The rates are a function of the set of bundles present, to the last bit: neither the order in which they came, nor what came
    // and went between, nor their ids can be seen in them.
    std::span<const std::int32_t> update();
    double rate(std::int32_t bundle) const;
    double load(std::int32_t link) const; // link bytes per second, as of the last update()

  private:
    class Solver;
    std::unique_ptr<Solver> solver_;
};

} // namespace orrery
