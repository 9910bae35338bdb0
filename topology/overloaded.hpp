// A visitor of a std::variant made of one function for each of its types.
#pragma once

namespace orrery {

template <class... F> struct Overloaded : F... { using F::operator()...; };
template <class... F> Overloaded(F...) -> Overloaded<F...>;

} // namespace orrery
