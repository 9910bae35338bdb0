// A request: what (one byte), key, value; an answer: one string. Strings are their length (4 bytes, of this machine's order) and their
// bytes.
#include "exec/queues/tcp_store.hpp"

#include "exec/local/clock.hpp"
#include "exec/queues/sockets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <list>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <poll.h>
#include <set>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace orrery {
namespace {

constexpr std::uint32_t longest = 1u << 20;
constexpr const char* another_job = "another job"; // the answer to a hello that is not for us

void append(std::string& to, const std::string& text) {
    const auto n = static_cast<std::uint32_t>(text.size());
    to.append(reinterpret_cast<const char*>(&n), sizeof n);
    to += text;
}

bool receive_text(int s, std::string& text) {
    std::uint32_t n = 0;
    if (!receive_all(s, &n, sizeof n) || n > longest) return false;
    text.resize(n);
    return receive_all(s, text.data(), n);
}

// A peer whose machine has vanished is noticed too, whether it is silent or owes an answer.
void keep_alive(int s) {
    const int on = 1, idle = 5, interval = 2, probes = 3, unanswered_ms = 11000;
    setsockopt(s, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
    setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(s, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(s, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(s, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// The system alone would try for two minutes where nothing answers, and the next address of the host may be the right one.
bool connect_within(int s, const addrinfo& to, int milliseconds) {
    const int flags = ::fcntl(s, F_GETFL);
    ::fcntl(s, F_SETFL, flags | O_NONBLOCK);
    if (::connect(s, to.ai_addr, to.ai_addrlen) != 0) {
        if (errno != EINPROGRESS) return false;
        pollfd until{s, POLLOUT, 0};
        int error = 0;
        socklen_t size = sizeof error;
        if (::poll(&until, 1, milliseconds) != 1 || ::getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) return false;
    }
    ::fcntl(s, F_SETFL, flags);
    return true;
}

// Where nobody listens on a port of those that systems give to connections, this socket may be given that very port, and reach itself.
bool reached_itself(int s) {
    sockaddr_storage mine{}, theirs{};
    socklen_t of_mine = sizeof mine, of_theirs = sizeof theirs;
    return ::getsockname(s, reinterpret_cast<sockaddr*>(&mine), &of_mine) == 0 &&
           ::getpeername(s, reinterpret_cast<sockaddr*>(&theirs), &of_theirs) == 0 && of_mine == of_theirs &&
           std::memcmp(&mine, &theirs, of_mine) == 0;
}

int dial(const std::string& host, int port, double seconds) {
    constexpr double longest_try = 5; // a first packet is sent again after one second and after three
    const int milliseconds = static_cast<int>(1000 * std::clamp(seconds, 0.1, longest_try));
    addrinfo hints{}, *found = nullptr;
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return -1;
    int s = -1;
    for (const addrinfo* a = found; a && s < 0; a = a->ai_next) {
        s = ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (s >= 0 && (!connect_within(s, *a, milliseconds) || reached_itself(s))) {
            ::close(s);
            s = -1;
        }
    }
    freeaddrinfo(found);
    return s;
}

} // namespace

struct StoreServer::State {
    int socket = -1, port = 0;
    std::string job;
    LocalStore values;
    std::mutex mutex;
    std::list<std::thread> threads;
    std::vector<int> clients;
    std::set<std::string> here; // ranks whose connection has not ended
    std::condition_variable changed;
    std::atomic<bool> over{false};
    std::thread accepting;

    void accept_all() {
        for (;;) {
            const int client = ::accept4(socket, nullptr, nullptr, SOCK_CLOEXEC);
            if (over) {
                if (client >= 0) ::close(client);
                return;
            }
            if (client < 0) { // a caller has hung up, or this process has too many files open: the next one may have better luck
                if (errno == EBADF || errno == EINVAL) return;
                if (errno != EINTR) std::this_thread::sleep_for(std::chrono::milliseconds(10));
                continue;
            }
            keep_alive(client);
            const std::lock_guard lock(mutex);
            clients.push_back(client);
            threads.emplace_back([this, client] { serve(client); });
        }
    }
    // Nothing: a stranger said it.
    std::optional<std::string> answer_to(char what, const std::string& key, const std::string& value) {
        if (what == 'S') values.set(key, value);
        if (what == 'D') values.forget(key);
        if (what == 'G')
            if (const auto found = values.get(key)) return "=" + *found;
        if (what == 'A') {
            std::int64_t by = 0;
            if (std::from_chars(value.data(), value.data() + value.size(), by).ec != std::errc{}) return std::nullopt;
            return std::to_string(values.add(key, by));
        }
        if (what == 'T') return std::to_string(wall_ns());
        return "";
    }
    void serve(int client) {
        std::string rank; // empty: it has not said that it is one of the job's, or it has left
        for (char what = 0; receive_all(client, &what, 1);) {
            std::string key, value;
            if (!receive_text(client, key) || !receive_text(client, value)) break;
            const bool refused = what == 'H' && (value != job || !rank.empty() || !enters(key));
            if (what == 'H' && !refused) rank = key;
            if (rank.empty() && !refused) break;
            if (what == 'B') leaves(std::exchange(rank, {}));
            const std::optional<std::string> answer = refused ? another_job : answer_to(what, key, value);
            if (!answer) break;
            std::string out;
            append(out, *answer);
            if (!send_all(client, out.data(), out.size()) || refused) break;
        }
        ::shutdown(client, SHUT_RDWR); // whoever said what nobody understands waits for no answer
        if (rank.empty()) return;
        if (!over && !values.get(failed_key)) {
            values.set(gone_key, rank);
            values.set(failed_key, fmt::format("the process of rank {} is gone", rank));
        }
        leaves(rank);
    }
    // False: that rank is here already, so this one is of another job whose launcher does not tell it from ours.
    bool enters(const std::string& rank) {
        const std::lock_guard lock(mutex);
        return here.insert(rank).second;
    }
    void leaves(const std::string& rank) {
        const std::lock_guard lock(mutex);
        here.erase(rank);
        changed.notify_all();
    }
};

StoreServer::StoreServer(int port, std::string job) : state_(std::make_unique<State>()) {
    State& s = *state_;
    s.job = std::move(job);
    s.socket = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1, off = 0;
    sockaddr_in6 at{};
    at.sin6_family = AF_INET6;
    at.sin6_addr = in6addr_any;
    at.sin6_port = htons(static_cast<std::uint16_t>(port));
    const sockaddr* address = reinterpret_cast<sockaddr*>(&at);
    socklen_t length = sizeof at;
    sockaddr_in old{};
    if (s.socket >= 0) {
        setsockopt(s.socket, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    } else { // no IPv6 here
        s.socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        old.sin_family = AF_INET;
        old.sin_port = at.sin6_port;
        address = reinterpret_cast<sockaddr*>(&old);
        length = sizeof old;
    }
    setsockopt(s.socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (s.socket < 0 || ::bind(s.socket, address, length) != 0 || ::listen(s.socket, 1024) != 0)
        throw std::runtime_error(fmt::format("rank 0 cannot listen on port {}: {}; choose another with ORRERY_PORT, the same for all ranks",
                                             port, std::strerror(errno)));
    sockaddr_in6 bound{};
    socklen_t size = sizeof bound;
    getsockname(s.socket, reinterpret_cast<sockaddr*>(&bound), &size);
    s.port = ntohs(bound.sin6_port);
    s.accepting = std::thread([&s] { s.accept_all(); });
}

StoreServer::~StoreServer() {
    State& s = *state_;
    s.over = true;
    ::shutdown(s.socket, SHUT_RDWR);
    s.accepting.join();
    {
        const std::lock_guard lock(s.mutex);
        for (int c : s.clients) ::shutdown(c, SHUT_RDWR);
    }
    for (std::thread& t : s.threads) t.join();
    for (int c : s.clients) ::close(c);
    ::close(s.socket);
}

void StoreServer::see_off(int own, double seconds) {
    State& s = *state_;
    std::unique_lock lock(s.mutex);
    s.changed.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return s.here.size() <= s.here.count(std::to_string(own)); });
}

int StoreServer::port() const { return state_->port; }
std::size_t StoreServer::kept() { return state_->values.kept(); }

TcpStore::TcpStore(const std::string& host, int port, int rank, double seconds, const std::string& job) {
    const std::int64_t began = wall_ns();
    const auto left = [&] { return seconds - static_cast<double>(wall_ns() - began) * 1e-9; };
    while ((socket_ = dial(host, port, left())) < 0) {
        if (left() < 0)
            throw StoreTimeout(fmt::format("rank {}: rank 0 does not answer at {}:{} for {:.0f} s: is its process there, and are "
                                           "MASTER_ADDR and MASTER_PORT (or ORRERY_PORT) the same everywhere?",
                                           rank, host, port, seconds));
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    keep_alive(socket_);
    const timeval patience{20, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (ask('H', std::to_string(rank), job).empty()) return;
    ::close(socket_);
    throw std::runtime_error(
        fmt::format("at {}:{} is another job's rank 0: choose another port with ORRERY_PORT, the same for all ranks; or two processes of "
                    "this job have one rank: give each machine a node rank of its own",
                    host, port));
}

TcpStore::~TcpStore() {
    try {
        ask('B', "", "");
    } catch (const StoreLost&) { // then nobody misses it
    }
    ::close(socket_);
}

void TcpStore::vanish() { ::shutdown(socket_, SHUT_RDWR); }

std::string TcpStore::ask(char what, const std::string& key, const std::string& value) {
    const std::lock_guard lock(mutex_);
    std::string out(1, what), answer;
    append(out, key);
    append(out, value);
    if (!send_all(socket_, out.data(), out.size()) || !receive_text(socket_, answer)) throw StoreLost(store_lost);
    return answer;
}

void TcpStore::set(const std::string& key, const std::string& value) { ask('S', key, value); }

std::optional<std::string> TcpStore::get(const std::string& key) {
    const std::string answer = ask('G', key, "");
    return answer.empty() ? std::nullopt : std::optional(answer.substr(1));
}

std::int64_t TcpStore::add(const std::string& key, std::int64_t by) { return std::stoll(ask('A', key, std::to_string(by))); }

void TcpStore::forget(const std::string& prefix) { ask('D', prefix, ""); }

std::int64_t TcpStore::clock_offset() {
    std::int64_t best = std::numeric_limits<std::int64_t>::max(), offset = 0;
    for (int i = 0; i < 16; ++i) {
        const std::int64_t before = wall_ns(), theirs = std::stoll(ask('T', "", "")), after = wall_ns();
        if (after - before >= best) continue;
        best = after - before;
        offset = theirs - (before + after) / 2;
    }
    return offset;
}

} // namespace orrery
