// Rounds of FedAvg, and the stream of FedBuff, as discrete events.
#include "sim/federated/federated.hpp"

#include "sim/job/random.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>

namespace orrery {
namespace {

// One seed's sums; a round is of fedbuff a step of the server.
struct FederatedCourse {
    const Federated& f;
    const FederatedTask& task;
    JobRandom random;
    std::vector<FederatedClient> clients;
    std::vector<double> lengths = {};
    double asked = 0, counted = 0, failed = 0, trained_s = 0, wasted_s = 0, down = 0, up = 0, stale = 0, worst_stale = 0, slowness = 0,
           samples = 0, worth = 0; // worth: fresh updates' worth of what was counted
};

// A client at work: when it answers, or gives up.
struct FederatedAnswer {
    double at = 0;
    std::size_t client = 0;
    bool given_up = false;
    std::int64_t began_at_step = 0; // of the server
    double began = 0;
    friend bool operator>(const FederatedAnswer& a, const FederatedAnswer& b) { return a.at != b.at ? a.at > b.at : a.client > b.client; }
};

FederatedAnswer ask(FederatedCourse& c, std::size_t client, double now, std::int64_t step) {
    const double whole = task_s(c.f, c.clients[client], c.task);
    const bool gives_up = c.f.dropout > 0 && c.random.share() < c.f.dropout;
    c.down += c.task.down_bytes;
    ++c.asked;
    return {now + (gives_up ? c.random.share() * whole : whole), client, gives_up, step, now};
}

// Time of its training that lies before `now`, where its answer would have come at `a.at`.
double trained_until(const FederatedCourse& c, const FederatedAnswer& a, double now) {
    const FederatedClient& client = c.clients[a.client];
    const double whole = training_s(c.f, client, c.task), download = c.task.down_bytes / (client.down_mbit_per_s * 125'000);
    return std::clamp(std::min(now, a.at) - a.began - download, 0.0, whole);
}

void count(FederatedCourse& c, const FederatedAnswer& a) {
    ++c.counted;
    c.up += c.task.up_bytes;
    c.trained_s += trained_until(c, a, a.at);
    c.slowness += c.clients[a.client].slowness;
    c.samples += c.clients[a.client].samples;
}

void waste(FederatedCourse& c, const FederatedAnswer& a, double now) {
    const double t = trained_until(c, a, now);
    c.trained_s += t;
    c.wasted_s += t;
}

// So many different clients of those that are there, or all that are.
std::vector<std::size_t> choose(FederatedCourse& c, std::size_t wanted) {
    std::vector<std::size_t> there;
    for (std::size_t i = 0; i < c.clients.size(); ++i)
        if (c.clients[i].available >= 1 || c.random.share() < c.clients[i].available) there.push_back(i);
    for (std::size_t i = 0; i < std::min(wanted, there.size()); ++i)
        std::swap(there[i], there[i + static_cast<std::size_t>(c.random.below(static_cast<int>(there.size() - i)))]);
    there.resize(std::min(wanted, there.size()));
    return there;
}

// The round ends with the answer that makes it full, or at its deadline; without one, with the last answer there is.
void round_of_averages(FederatedCourse& c) {
    std::vector<FederatedAnswer> answers;
    for (std::size_t client : choose(c, static_cast<std::size_t>(std::ceil(c.f.sampled * c.f.overcommit - 1e-9))))
        answers.push_back(ask(c, client, 0, 0));
    std::sort(answers.begin(), answers.end(), [](const FederatedAnswer& a, const FederatedAnswer& b) { return b > a; });
    const double deadline = c.f.deadline_s > 0 ? c.f.deadline_s : INFINITY;
    std::vector<char> in(answers.size(), 0);
    int got = 0;
    double end = 0;
    for (std::size_t i = 0; i < answers.size() && got < c.f.sampled && answers[i].at <= deadline; ++i) {
        end = answers[i].at;
        if (answers[i].given_up) continue;
        in[i] = 1;
        ++got;
    }
    if (got < c.f.sampled && std::isfinite(deadline)) end = deadline; // nobody knows that the others will not come
    for (std::size_t i = 0; i < answers.size(); ++i) in[i] ? count(c, answers[i]) : waste(c, answers[i], end);
    c.failed += got == 0 ? 1 : 0;
    c.worth += got;
    c.lengths.push_back(end + c.f.server_s);
}

// `sampled` clients are at work all the time: who has answered is followed by another.
void stream_of_updates(FederatedCourse& c) {
    std::priority_queue<FederatedAnswer, std::vector<FederatedAnswer>, std::greater<>> at_work;
    std::vector<char> busy(c.clients.size(), 0);
    double now = 0, last = 0;
    std::int64_t step = 0;
    const auto start_one = [&] {
        for (int tries = 0; tries < 1000; ++tries) { // of those that are there and not at work
            const auto i = static_cast<std::size_t>(c.random.below(static_cast<int>(c.clients.size())));
            if (busy[i] || (c.clients[i].available < 1 && c.random.share() >= c.clients[i].available)) continue;
            busy[i] = 1;
            at_work.push(ask(c, i, now, step));
            return;
        }
    };
    for (int i = 0; i < c.f.sampled && i < static_cast<int>(c.clients.size()); ++i) start_one();
    int in_buffer = 0;
    while (step < c.f.rounds && !at_work.empty()) {
        const FederatedAnswer a = at_work.top();
        at_work.pop();
        now = a.at;
        busy[a.client] = 0;
        if (a.given_up) {
            waste(c, a, now);
        } else {
            const auto stale = static_cast<double>(step - a.began_at_step);
            count(c, a);
            c.stale += stale;
            c.worst_stale = std::max(c.worst_stale, stale);
            c.worth += std::pow(1 + stale, -c.f.staleness_exponent);
            ++in_buffer;
        }
        if (in_buffer == c.f.buffer) {
            in_buffer = 0;
            ++step;
            c.lengths.push_back(now - last + c.f.server_s);
            last = now;
        }
        start_one();
    }
}

FederatedSpread spread_of(std::vector<double> all) {
    FederatedSpread s;
    if (all.empty()) return s;
    std::sort(all.begin(), all.end());
    const auto at = [&](double share) {
        return all[std::min(all.size() - 1, static_cast<std::size_t>(share * static_cast<double>(all.size())))];
    };
    s.mean = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
    s.p10 = at(0.1), s.p50 = at(0.5), s.p90 = at(0.9);
    return s;
}

void add(FederatedReport& r, const FederatedCourse& c, double seeds, std::vector<double>& lengths) {
    const double rounds = std::max<double>(1, static_cast<double>(c.lengths.size())), counted = std::max(1.0, c.counted);
    r.clients = static_cast<int>(c.clients.size());
    r.asked += c.asked / rounds / seeds;
    r.counted += c.counted / rounds / seeds;
    r.failed_share += c.failed / rounds / seeds;
    r.wasted_share += (c.trained_s > 0 ? c.wasted_s / c.trained_s : 0) / seeds;
    r.down_bytes += c.down / rounds / seeds;
    r.up_bytes += c.up / rounds / seeds;
    r.staleness += c.stale / counted / seeds;
    r.worst_staleness = std::max(r.worst_staleness, c.worst_stale);
    r.slowness_counted += c.slowness / counted / seeds;
    r.samples_counted += c.samples / rounds / seeds;
    for (const FederatedClient& client : c.clients) r.slowness_all += client.slowness / static_cast<double>(c.clients.size()) / seeds;
    lengths.insert(lengths.end(), c.lengths.begin(), c.lengths.end());
    if (c.f.target_rounds <= 0 || c.worth <= 0) return;
    const double needed = c.f.target_rounds * c.f.sampled / (c.worth / rounds);
    r.rounds_to_target += needed / seeds;
    r.time_to_target_s += needed * spread_of(c.lengths).mean / seeds;
    r.bytes_to_target += needed * (c.down + c.up) / rounds / seeds;
}

} // namespace

FederatedReport federated(const Federated& f, const FederatedTask& task, std::uint64_t seed) {
    FederatedReport r;
    std::vector<double> lengths;
    for (int i = 0; i < f.seeds; ++i) {
        const std::uint64_t own = seed * 1'000'003 + static_cast<std::uint64_t>(i);
        FederatedCourse c{f, task, JobRandom(own), clients_of(f, own)};
        if (f.aggregation == Aggregation::fedbuff)
            stream_of_updates(c);
        else
            for (int round = 0; round < f.rounds; ++round) round_of_averages(c);
        add(r, c, f.seeds, lengths);
    }
    r.round_s = spread_of(lengths);
    return r;
}

} // namespace orrery
