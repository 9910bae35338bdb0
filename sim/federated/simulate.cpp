// Rounds of FedAvg, and the stream of FedBuff, as discrete events.
#include "sim/federated/federated.hpp"

#include "sim/job/random.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <utility>

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
    FederatedExample example = {};
    int example_rounds = 0;
};

// A client at work: when it answers, or gives up.
struct FederatedAnswer {
    double at = 0;
    std::size_t client = 0;
    bool given_up = false;
    std::int64_t began_at_step = 0; // of the server
    double began = 0;
    int place = 0;
    friend bool operator>(const FederatedAnswer& a, const FederatedAnswer& b) { return a.at != b.at ? a.at > b.at : a.client > b.client; }
};

FederatedAnswer ask(FederatedCourse& c, std::size_t client, double now, std::int64_t step) {
    const double whole = task_s(c.f, c.clients[client], c.task);
    const bool gives_up = c.f.dropout > 0 && c.random.share() < c.f.dropout;
    c.down += c.task.down_bytes;
    ++c.asked;
    return {now + (gives_up ? c.random.share() * whole : whole), client, gives_up, step, now, 0};
}

// Time of its training that lies before `now`, where its answer would have come at `a.at`.
double trained_until(const FederatedCourse& c, const FederatedAnswer& a, double now) {
    const FederatedClient& client = c.clients[a.client];
    const double whole = training_s(c.f, client, c.task), download = download_s(client, c.task);
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

// As part of the example: a task that ends at `end`, or is stopped there; the answer's times count from `from`.
void keep(FederatedCourse& c, const FederatedAnswer& a, double from, double end, FederatedOutcome outcome, int round) {
    const FederatedClient& client = c.clients[a.client];
    FederatedTaskSpan t;
    t.client = static_cast<int>(a.client);
    t.place = a.place;
    t.round = round;
    const double stopped = std::min(a.at, end), download = c.task.down_bytes / (client.down_mbit_per_s * 125'000);
    const double trained = a.began + download + training_s(c.f, client, c.task);
    t.begin_s = from + a.began;
    t.train_s = from + std::min(stopped, a.began + download);
    t.upload_s = from + std::min(stopped, trained);
    t.end_s = from + stopped;
    t.outcome = outcome;
    c.example.tasks.push_back(t);
    c.example.places = std::max(c.example.places, a.place + 1);
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

void keep_round(FederatedCourse& c, std::vector<FederatedAnswer>& answers, const std::vector<char>& in, double end) {
    FederatedRoundSpan round;
    round.begin_s = c.example.rounds.empty() ? 0 : c.example.rounds.back().end_s;
    round.end_s = round.begin_s + end + c.f.server_s;
    round.asked = static_cast<int>(answers.size());
    for (std::size_t i = 0; i < answers.size(); ++i) {
        answers[i].place = static_cast<int>(i);
        const bool left = answers[i].given_up && answers[i].at <= end;
        const FederatedOutcome outcome = in[i] ? FederatedOutcome::counted : left ? FederatedOutcome::given_up : FederatedOutcome::late;
        ++(in[i] ? round.counted : left ? round.given_up : round.late);
        keep(c, answers[i], round.begin_s, end, outcome, static_cast<int>(c.example.rounds.size()));
    }
    c.example.rounds.push_back(round);
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
    if (static_cast<int>(c.lengths.size()) < c.example_rounds) keep_round(c, answers, in, end);
    c.failed += got == 0 ? 1 : 0;
    c.worth += got;
    c.lengths.push_back(end + c.f.server_s);
}

// As the example ends: those still at work, whose answers come later.
using FederatedAtWork = std::priority_queue<FederatedAnswer, std::vector<FederatedAnswer>, std::greater<>>;
void keep_under_way(FederatedCourse& c, FederatedAtWork at_work, double now) {
    if (static_cast<int>(c.example.rounds.size()) < c.example_rounds) return;
    for (; !at_work.empty(); at_work.pop())
        keep(c, at_work.top(), 0, now, FederatedOutcome::under_way, static_cast<int>(at_work.top().began_at_step));
}

// `sampled` clients are at work all the time: who has answered is followed by another.
void stream_of_updates(FederatedCourse& c) {
    FederatedAtWork at_work;
    std::vector<char> busy(c.clients.size(), 0);
    double now = 0, last = 0;
    std::int64_t step = 0;
    const auto start_one = [&](int place) {
        for (int tries = 0; tries < 1000; ++tries) { // of those that are there and not at work
            const auto i = static_cast<std::size_t>(c.random.below(static_cast<int>(c.clients.size())));
            if (busy[i] || (c.clients[i].available < 1 && c.random.share() >= c.clients[i].available)) continue;
            busy[i] = 1;
            FederatedAnswer a = ask(c, i, now, step);
            a.place = place;
            at_work.push(a);
            return;
        }
    };
    for (int i = 0; i < c.f.sampled && i < static_cast<int>(c.clients.size()); ++i) start_one(i);
    int in_buffer = 0;
    FederatedRoundSpan round; // that the example is in
    const auto shown = [&] { return static_cast<int>(c.example.rounds.size()) < c.example_rounds; };
    while (step < c.f.rounds && !at_work.empty()) {
        const FederatedAnswer a = at_work.top();
        at_work.pop();
        now = a.at;
        busy[a.client] = 0;
        if (shown()) {
            ++(a.given_up ? round.given_up : round.counted);
            keep(c, a, 0, now, a.given_up ? FederatedOutcome::given_up : FederatedOutcome::counted, static_cast<int>(a.began_at_step));
            c.example.tasks.back().staleness = static_cast<double>(step - a.began_at_step);
        }
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
            if (shown()) {
                round.begin_s = last;
                round.end_s = now;
                c.example.rounds.push_back(std::exchange(round, {}));
                keep_under_way(c, at_work, now);
            }
            last = now;
        }
        start_one(a.place);
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

FederatedReport federated(const Federated& f, const FederatedTask& task, std::uint64_t seed, int example_rounds) {
    FederatedReport r;
    std::vector<double> lengths;
    for (int i = 0; i < f.seeds; ++i) {
        const std::uint64_t own = seed * 1'000'003 + static_cast<std::uint64_t>(i);
        FederatedCourse c{f, task, JobRandom(own), clients_of(f, own)};
        c.example_rounds = i == 0 ? example_rounds : 0;
        if (f.aggregation == Aggregation::fedbuff)
            stream_of_updates(c);
        else
            for (int round = 0; round < f.rounds; ++round) round_of_averages(c);
        add(r, c, f.seeds, lengths);
        if (i > 0) continue;
        r.example = std::move(c.example);
        std::stable_sort(r.example.tasks.begin(), r.example.tasks.end(),
                         [](const FederatedTaskSpan& a, const FederatedTaskSpan& b) { return a.begin_s < b.begin_s; });
    }
    r.round_s = spread_of(lengths);
    return r;
}

} // namespace orrery
