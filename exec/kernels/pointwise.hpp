// The kinds of pointwise work, by file: activation.cpp; layout.cpp (copies with an order of their own, rotary embeddings); pointwise.cpp
// (the rest). Internal to this room.
#pragma once

#include "exec/kernels/call.hpp"

namespace orrery {

template <class T> void activation(const Pointwise& w, const Call& c);
template <class T> void rope(const Pointwise& w, const Call& c);
template <class T> void split(const Pointwise& w, const Call& c);
template <class T> void narrow(const Pointwise& w, const Call& c, bool first);
template <class T> void join_columns(const Pointwise& w, const Call& c);
template <class T> void concat(const Pointwise& w, const Call& c);
template <class T> void pack(const Call& c);
template <class T> void unpack(const Call& c); // copies of a head are summed

} // namespace orrery
