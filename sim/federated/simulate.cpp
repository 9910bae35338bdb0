// Rounds of FedAvg, and the stream of FedBuff, as discrete events.
#include "sim/federated/federated.hpp"

#include "sim/job/random.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
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

// `sampled` clients are at work all the time: who has answered is followed by another. The server steps beside them on every `buffer`
// answers, one step after the other: who answers while it works and the buffer is full waits, and is followed when the buffer takes the
// answer.
class FederatedStream {
  public:
    explicit FederatedStream(FederatedCourse& course) : c_(course), busy_(course.clients.size(), 0) {}

    void run() {
        for (int i = 0; i < c_.f.sampled && i < static_cast<int>(c_.clients.size()); ++i) start_one(i);
        while (step_ < c_.f.rounds && (!at_work_.empty() || !summed_.empty())) {
            if (!summed_.empty() && (at_work_.empty() || server_free_ <= at_work_.top().at))
                finish();
            else
                answer();
        }
    }

  private:
    bool shown() const { return static_cast<int>(c_.example.rounds.size()) < c_.example_rounds; }

    void start_one(int place) {
        for (int tries = 0; tries < 1000; ++tries) { // of those that are there and not at work
            const auto i = static_cast<std::size_t>(c_.random.below(static_cast<int>(c_.clients.size())));
            if (busy_[i] || (c_.clients[i].available < 1 && c_.random.share() >= c_.clients[i].available)) continue;
            busy_[i] = 1;
            FederatedAnswer a = ask(c_, i, now_, step_);
            a.place = place;
            at_work_.push(a);
            return;
        }
    }

    void answer() {
        const FederatedAnswer a = at_work_.top();
        at_work_.pop();
        now_ = a.at;
        if (!a.given_up) {
            waiting_.push_back(a);
            return take();
        }
        busy_[a.client] = 0;
        if (shown()) {
            ++round_.given_up;
            keep(c_, a, 0, now_, FederatedOutcome::given_up, static_cast<int>(a.began_at_step));
        }
        waste(c_, a, now_);
        start_one(a.place);
    }

    // Answers into the buffer while it has room; a full one to the server if that is free.
    void take() {
        while (!waiting_.empty() && buffer_.size() < static_cast<std::size_t>(c_.f.buffer)) {
            const FederatedAnswer a = waiting_.front();
            waiting_.pop_front();
            busy_[a.client] = 0;
            buffer_.push_back(a);
            sum();
            start_one(a.place);
        }
    }

    void sum() {
        if (buffer_.size() < static_cast<std::size_t>(c_.f.buffer) || !summed_.empty()) return;
        summed_ = std::exchange(buffer_, {});
        for (const FederatedAnswer& a : summed_) {
            const auto stale = static_cast<double>(step_ - a.began_at_step);
            count(c_, a);
            c_.stale += stale;
            c_.worst_stale = std::max(c_.worst_stale, stale);
            c_.worth += std::pow(1 + stale, -c_.f.staleness_exponent);
            if (!shown()) continue;
            ++round_.counted;
            keep(c_, a, 0, now_, FederatedOutcome::counted, static_cast<int>(a.began_at_step));
            c_.example.tasks.back().staleness = stale;
        }
        server_free_ = now_ + c_.f.server_s;
        if (server_free_ <= now_) finish(); // who follows at this instant has the new model
    }

    void finish() {
        now_ = server_free_;
        ++step_;
        summed_.clear();
        c_.lengths.push_back(now_ - last_);
        if (shown()) {
            round_.begin_s = last_;
            round_.end_s = now_;
            c_.example.rounds.push_back(std::exchange(round_, {}));
            keep_under_way();
        }
        last_ = now_;
        if (step_ >= c_.f.rounds) return;
        sum();
        take();
    }

    // As the example ends: those still at work, and those whose answers the server has not summed.
    void keep_under_way() {
        if (shown()) return;
        const auto one = [&](const FederatedAnswer& a) {
            keep(c_, a, 0, now_, FederatedOutcome::under_way, static_cast<int>(a.began_at_step));
        };
        for (const FederatedAnswer& a : buffer_) one(a);
        for (const FederatedAnswer& a : waiting_) one(a);
        for (FederatedAtWork left = at_work_; !left.empty(); left.pop()) one(left.top());
    }

    using FederatedAtWork = std::priority_queue<FederatedAnswer, std::vector<FederatedAnswer>, std::greater<>>;
    FederatedCourse& c_;
    std::vector<char> busy_; // by client
    FederatedAtWork at_work_;
    std::deque<FederatedAnswer> waiting_;
    std::vector<FederatedAnswer> buffer_, summed_; // summed: what the server is working on
    double now_ = 0, last_ = 0, server_free_ = 0;
    std::int64_t step_ = 0;    // models that are finished
    FederatedRoundSpan round_; // that the example is in
};

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
            FederatedStream(c).run();
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
