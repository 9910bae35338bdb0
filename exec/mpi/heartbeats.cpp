#include "exec/mpi/heartbeats.hpp"

#include "exec/local/clock.hpp"
#include "exec/mpi/processes.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <random>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace orrery {
namespace {

constexpr std::int64_t second = 1'000'000'000, between = second / 2, asleep = 2 * second;
constexpr std::size_t most_addresses = 4;

struct Beat {
    std::uint64_t job;
    std::int32_t rank, goodbye;
};

// A process's address: its machine, its port, its addresses in that machine's networks.
struct Whereabouts {
    std::int64_t machine = 0, port = 0, job = 0;
    std::array<std::int64_t, most_addresses> addresses{};

    std::vector<std::int64_t> words() const {
        std::vector<std::int64_t> w{machine, port, job};
        w.insert(w.end(), addresses.begin(), addresses.end());
        return w;
    }
    static Whereabouts of(const std::vector<std::int64_t>& w) {
        Whereabouts x{w[0], w[1], w[2], {}};
        std::copy_n(w.begin() + 3, most_addresses, x.addresses.begin());
        return x;
    }
};

std::array<std::int64_t, most_addresses> own_addresses() {
    std::array<std::int64_t, most_addresses> found{};
    ifaddrs* all = nullptr;
    if (getifaddrs(&all) != 0) return found;
    std::size_t n = 0;
    for (const ifaddrs* a = all; a && n < found.size(); a = a->ifa_next) {
        if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET || (a->ifa_flags & IFF_LOOPBACK) || !(a->ifa_flags & IFF_UP)) continue;
        sockaddr_in at{};
        std::memcpy(&at, a->ifa_addr, sizeof at);
        found[n++] = at.sin_addr.s_addr;
    }
    freeifaddrs(all);
    return found;
}

std::int64_t this_machine() {
    std::array<char, 256> name{};
    gethostname(name.data(), name.size() - 1);
    return static_cast<std::int64_t>(std::hash<std::string>{}(name.data()));
}

struct Peer {
    int rank = 0;
    std::vector<sockaddr_in> at;
    std::int64_t heard = -1; // -1: never
    bool left = false;
};

} // namespace

struct Heartbeats::State {
    int socket = -1, rank = 0;
    std::uint64_t job = 0;
    std::int64_t silence = 0;
    Silence silent;
    std::vector<Peer> peers;
    std::atomic<bool> over{false};
    std::thread thread;

    int open() { // its port; 0: none is to be had
        socket = ::socket(AF_INET, SOCK_DGRAM, 0);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        socklen_t size = sizeof at;
        if (socket < 0 || ::bind(socket, reinterpret_cast<sockaddr*>(&at), size) != 0) return 0;
        ::getsockname(socket, reinterpret_cast<sockaddr*>(&at), &size);
        return ntohs(at.sin_port);
    }
    void meet(int other, const Whereabouts& there, const Whereabouts& here) {
        if (there.port == 0) return;
        Peer p{other, {}};
        const auto add = [&](std::int64_t address) {
            sockaddr_in at{};
            at.sin_family = AF_INET;
            at.sin_port = htons(static_cast<std::uint16_t>(there.port));
            at.sin_addr.s_addr = static_cast<std::uint32_t>(address);
            p.at.push_back(at);
        };
        if (there.machine == here.machine) add(htonl(INADDR_LOOPBACK));
        for (std::int64_t a : there.addresses)
            if (there.machine != here.machine && a != 0) add(a);
        peers.push_back(std::move(p));
    }
    void send(bool goodbye) const {
        const Beat beat{job, rank, goodbye};
        for (const Peer& p : peers)
            for (const sockaddr_in& at : p.at) // lost ones are made up for by the next
                ::sendto(socket, &beat, sizeof beat, MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&at), sizeof at);
    }
    void listen() {
        for (Beat beat{}; ::recv(socket, &beat, sizeof beat, MSG_DONTWAIT) == sizeof beat;) {
            if (beat.job != job) continue;
            const auto p = std::ranges::find(peers, beat.rank, &Peer::rank);
            if (p == peers.end()) continue;
            p->heard = wall_ns();
            p->left = p->left || beat.goodbye;
        }
    }
    // Where rank 0 is silent, ranks say it one after the other.
    std::int64_t allowed() const { return silence + std::min<std::int64_t>(std::max(rank - 1, 0), 3) * second; }

    void watch() {
        std::int64_t sent = 0, last = wall_ns();
        while (!over) {
            pollfd ready{socket, POLLIN, 0};
            ::poll(&ready, 1, 100);
            const std::int64_t now = wall_ns();
            if (now - last > asleep) // this process was stopped itself: it has heard nobody
                for (Peer& p : peers)
                    if (p.heard >= 0) p.heard = now;
            last = now;
            listen();
            if (now - sent >= between) {
                send(false);
                sent = now;
            }
            for (const Peer& p : peers)
                if (p.heard >= 0 && !p.left && now - p.heard > allowed()) return silent(p.rank, static_cast<double>(now - p.heard) * 1e-9);
        }
    }
};

Heartbeats::Heartbeats(const OrreryTransport& t, double patience, double seconds, Silence silent) : state_(std::make_unique<State>()) {
    State& s = *state_;
    s.rank = t.rank;
    s.silence = static_cast<std::int64_t>(seconds * 1e9);
    s.silent = std::move(silent);
    std::random_device random;
    const Whereabouts here{this_machine(), s.open(), (static_cast<std::int64_t>(random()) << 32) | random(), own_addresses()};
    const auto all = gather_over_ranks(t, here.words(), patience);
    s.job = static_cast<std::uint64_t>(all[0][2]); // rank 0's: old datagrams are of other jobs
    for (int r = 0; r < t.size; ++r)
        if ((t.rank == 0) != (r == 0)) s.meet(r, Whereabouts::of(all[r]), here);
    s.send(false); // who has come so far is missed from now on
    if (here.port != 0 && !s.peers.empty()) s.thread = std::thread([&s] { s.watch(); });
}

Heartbeats::~Heartbeats() {
    State& s = *state_;
    s.over = true;
    if (s.thread.joinable()) s.thread.join();
    for (int i = 0; i < 3 && !s.peers.empty(); ++i) { // a datagram may be lost
        s.send(true);
        if (i < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (s.socket >= 0) ::close(s.socket);
}

} // namespace orrery
