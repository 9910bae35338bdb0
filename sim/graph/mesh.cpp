#include "sim/graph/mesh.hpp"

#include <algorithm>
#include <stdexcept>

namespace orrery {

const char* name(Axis axis) {
    switch (axis) {
    case Axis::tp:
        return "tp";
    case Axis::cp:
        return "cp";
    case Axis::ep:
        return "ep";
    case Axis::dp:
        return "dp";
    case Axis::dpr:
        return "dpr";
    case Axis::dpw:
        return "dpw";
    case Axis::pp:
        return "pp";
    }
    return "?";
}

int Mesh::ranks() const {
    int n = 1;
    for (int s : size) n *= s;
    return n;
}

int Mesh::rank_of(const Coordinates& c) const {
    int rank = 0, stride = 1;
    for (Axis a : order) {
        rank += c[a] * stride;
        stride *= extent(a);
    }
    return rank;
}

int Mesh::stride(Axis axis) const {
    int step = 1;
    for (Axis a : order) {
        if (a == axis) break;
        step *= extent(a);
    }
    return step;
}

int Mesh::stride_in_stage(Axis axis) const {
    int step = 1;
    for (Axis a : order) {
        if (a == axis) break;
        if (a != Axis::pp) step *= extent(a);
    }
    return step;
}

Coordinates Mesh::coordinates(int rank) const {
    Coordinates c{};
    for (Axis a : order) {
        c[a] = rank % extent(a);
        rank /= extent(a);
    }
    return c;
}

RankOrder parse_rank_order(std::string_view text) {
    RankOrder order;
    const auto add = [&](Axis a) {
        if (std::find(order.begin(), order.end(), a) == order.end()) order.push_back(a);
    };
    while (!text.empty()) {
        const auto dash = text.find('-');
        const std::string_view word = text.substr(0, dash);
        text = dash == std::string_view::npos ? std::string_view{} : text.substr(dash + 1);
        if (word == "tp")
            add(Axis::tp);
        else if (word == "cp")
            add(Axis::cp);
        else if (word == "ep")
            add(Axis::ep);
        else if (word == "dp") {
            add(Axis::dp);
            add(Axis::dpr);
            add(Axis::dpw);
        } else if (word == "pp")
            add(Axis::pp);
        else
            throw std::invalid_argument("rank_order: '" + std::string(word) + "' is not one of tp, cp, ep, dp, pp");
    }
    for (Axis a : {Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::dpr, Axis::dpw, Axis::pp}) add(a);
    return order;
}

} // namespace orrery
