// The cluster as a graph of directed links, and the routes between devices. Built once per scenario from a Cluster.
// Device d (0 .. devices-1) is on node d / devices_per_node unless an explicit graph says otherwise.
#pragma once

#include "topology/cluster.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace orrery {

using LinkId = std::int32_t;

enum class LinkKind { scale_up, pcie, nic, trunk, copy }; // trunk: between switches; copy: device to host

struct Link {
    LinkKind kind;
    BytesPerSecond capacity; // of this direction
    Time latency;
    int node = -1; // the node it belongs to, -1 between switches
};

// All links of a fabric, by id. Most are as the one before, of the same node or the next: as much memory as there are runs of such.
class Links {
  public:
    void push_back(const Link& link);
    std::size_t size() const { return static_cast<std::size_t>(size_); }
    bool empty() const { return size_ == 0; }
    Link operator[](std::int64_t id) const;

    class Iterator {
      public:
        using value_type = Link;
        using difference_type = std::int64_t;
        Iterator(const Links& links, LinkId id) : links_(&links), id_(id) {}
        Link operator*() const { return links_->of_run(run_, id_); }
        Iterator& operator++();
        bool operator==(const Iterator& other) const { return id_ == other.id_; }

      private:
        const Links* links_;
        LinkId id_;
        std::size_t run_ = 0;
    };
    // f(link, how many): links alike but for their node, one after another.
    template <class F> void each_run(F&& f) const {
        for (std::size_t r = 0; r < runs_.size(); ++r)
            f(runs_[r].first, (r + 1 < runs_.size() ? runs_[r + 1].begin : size_) - runs_[r].begin);
    }
    Iterator begin() const { return {*this, 0}; }
    Iterator end() const { return {*this, size_}; }

  private:
    struct Run {
        LinkId begin;
        Link first;
        std::int32_t per_node; // links of a node, one after another; 0: all are of one node
    };
    Link of_run(std::size_t run, LinkId id) const;
    std::vector<Run> runs_;
    LinkId size_ = 0;
};

// A link and the share of a route's bytes it carries (1 but where equal-cost paths split).
struct LinkShare {
    LinkId link;
    double share;
};

// From the links that one group of devices uses to those of another that lies the same way: each block of links moves by so many ids.
struct LinkMoves {
    struct Block {
        LinkId first;
        std::int32_t by;
    };
    static constexpr std::size_t count = 5;
    std::array<Block, count> blocks{}; // ascending; they begin at the same links, whatever devices move
    int device = 0;                    // from each device to its counterpart

    std::size_t block_of(LinkId link) const {
        std::size_t b = count - 1;
        while (b > 0 && link < blocks[b].first) --b;
        return b;
    }
    LinkId operator()(LinkId link) const { return link + blocks[block_of(link)].by; }
};

// In an "nvlink-mesh" (and an "infinity-fabric") node every pair of devices has its own link, of bandwidth / (devices - 1): one pair alone
// never sees a device's whole bandwidth. Dies of a package (Device::dies) have more between themselves, and less to others. In a torus a
// device has six links of bandwidth / 6.
class Fabric {
  public:
    // Throws std::invalid_argument where cluster_problems(cluster) is not empty; the scenario parser reports those first.
    explicit Fabric(const Cluster& cluster);
    ~Fabric();
    Fabric(Fabric&&) noexcept;
    Fabric& operator=(Fabric&&) noexcept;

    int devices() const;
    int nodes() const;
    int node_of(int device) const;
    int domain_of(int device) const;   // of those that share links inside: its node, or nodes under one switch
    int local_index(int device) const; // its position inside its node
    int nic_of(int device) const;      // node-local NIC a device's traffic leaves by (the first, if it has several); -1: none
    const Links& links() const;
    const std::string& link_name(LinkId link) const; // "node3.gpu1 > nvswitch"; the first call makes those of all links

    // Links a byte from device a to device b crosses, with shares; empty where a == b. Parallel links between the same two
    // switches that always carry equal shares are one trunk link.
    std::vector<LinkShare> route(int a, int b) const;
    // The same, appended to `out`: no allocation where many routes are asked for.
    void append_route(int a, int b, std::vector<LinkShare>& out) const;
    // Links of a copy between a device and its host's memory; empty where the cluster does not say what its host can do.
    std::vector<LinkShare> copy_route(int device, bool to_host) const;
    // Whether the devices `to`, each the counterpart of the one of `from` at its place, lie as those do: all routes among them are then
    // those among `from`, link by link moved. false: not, or not known (an explicit graph, a torus, hashed routes, links that are down).
    bool find_moves(std::span<const int> from, std::span<const int> to, LinkMoves& out) const;
    Time latency(int a, int b) const;
    Time latency(int a, int b, std::vector<LinkShare>& scratch) const; // the same, without memory of its own
    // Bandwidth of the route's narrowest link (its capacity / share).
    BytesPerSecond narrowest(int a, int b) const;
    // Smallest total capacity, one direction, of a cut that halves the devices. Built topologies: exact over halves of whole nodes (one
    // node: of its devices). Explicit graphs: max-flow, exact up to 12 devices, beyond that an upper bound.
    BytesPerSecond bisection_bandwidth() const;

    // The rate at which a device can send (or receive) over its scale-up links, and over its share of the node's NICs.
    BytesPerSecond scale_up_bandwidth(int device) const;
    // Number of the device's package, the same for the dies of one package; and the part of its scale-up bandwidth that leads to other
    // packages. A device that is no die of several is alone in its package, and all of its links leave it.
    int package_of(int device) const;
    BytesPerSecond leaving_bandwidth(int device) const;
    BytesPerSecond nic_bandwidth(int device) const;
    // All of what it leaves its node by alone: its NICs, or the one that it shares.
    BytesPerSecond endpoint_bandwidth(int device) const;
    int devices_per_nic() const; // devices that share one NIC (1 or more)
    // For a leaf of switches or a spine: how many levels of switches there are from two devices to where their ways meet; 0: none.
    int levels_between(int a, int b) const;

    // The whole cluster as a graph, to draw or to search: edge i is link i; edges after the last link are joints on a board (a NIC in its
    // slot), which never limit anything.
    ExplicitGraph graph() const;

  private:
    struct Data;
    std::unique_ptr<Data> data_;
};

} // namespace orrery
