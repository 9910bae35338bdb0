#include "sim/sweep/deal.hpp"

#include "sim/ranks/ranks.hpp"
#include "sim/report/reuse.hpp"
#include "sim/sweep/writer.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <deque>
#include <stdexcept>
#include <thread>

namespace orrery {
namespace {

constexpr int size_tag = 11, row_tag = 12, order_tag = 13;

// Points first .. end of the evaluation order. end = first: there is nothing more to do.
struct Range {
    std::int64_t first = 0, end = 0;
};

// The points left to compute, dealt in shares that shrink towards the end, so that ranks end together.
class Deck {
  public:
    Deck(std::vector<std::int64_t> points, std::int64_t alike, int ranks)
        : points_(std::move(points)), alike_(std::max<std::int64_t>(1, alike)), ranks_(ranks) {}
    std::int64_t point(std::int64_t k) const { return points_[k]; }
    Range next() {
        const std::lock_guard lock(mutex_);
        const std::int64_t left = static_cast<std::int64_t>(points_.size()) - next_;
        const std::int64_t share = std::min(left, std::clamp<std::int64_t>(left / (4 * ranks_), 1, std::max<std::int64_t>(alike_, 16)));
        const Range r{next_, next_ + share};
        next_ = r.end;
        return r;
    }
    void close() {
        const std::lock_guard lock(mutex_);
        next_ = static_cast<std::int64_t>(points_.size());
    }

  private:
    std::vector<std::int64_t> points_; // of the document
    std::int64_t alike_, next_ = 0;
    int ranks_;
    std::mutex mutex_;
};

// One of the other ranks, as rank 0 sees it: it is sent a range, and sends its rows back one by one, each after its size.
class Worker {
  public:
    Worker(const OrreryTransport& t, int rank) : t_(t), rank_(rank) {}
    // Its points: to be kept until they are received.
    void give(std::vector<std::int64_t> points) {
        points_ = std::move(points);
        count_ = static_cast<std::int64_t>(points_.size());
        expected_ += count_;
        wait(t_, t_.send(rank_, order_tag, &count_, sizeof count_));
        if (count_ > 0) wait(t_, t_.send(rank_, order_tag, points_.data(), points_.size() * sizeof(std::int64_t)));
        over_ = count_ == 0;
        listen();
    }
    bool over() const { return over_ && expected_ == 0; }
    bool idle() const { return expected_ == 0 && !over_; }
    int rank() const { return rank_; }
    // A row that has come; nothing: none yet.
    std::optional<SweepRow> row() {
        if (!size_request_ || !t_.done(size_request_)) return std::nullopt;
        size_request_ = nullptr;
        std::vector<std::uint8_t> bytes(size_);
        wait(t_, t_.receive(rank_, row_tag, bytes.data(), bytes.size()));
        --expected_;
        listen();
        return row_of(bytes);
    }

  private:
    void listen() {
        if (!size_request_ && expected_ > 0) size_request_ = t_.receive(rank_, size_tag, &size_, sizeof size_);
    }

    const OrreryTransport& t_;
    int rank_;
    std::vector<std::int64_t> points_;
    std::int64_t count_ = 0, expected_ = 0;
    std::uint64_t size_ = 0;
    void* size_request_ = nullptr;
    bool over_ = false;
};

// Rank 0's state beside the deck: rows by point, counts, the file.
class Table {
  public:
    Table(const SweepDocument& document, const SweepRunOptions& options, Writer& writer, SweepRun& run)
        : document_(document), options_(options), writer_(writer), run_(run) {}
    void take(SweepRow row, int from) {
        const std::lock_guard lock(mutex_);
        const auto size = static_cast<std::int64_t>(run_.rows.size());
        if (row.index < 0 || row.index >= size || row.hash != point_hash(document_.point(row.index)))
            throw std::runtime_error(
                fmt::format("rank {} has another sweep than rank 0: start all ranks with the same program, file and options", from));
        writer_.add(row);
        keep(std::move(row));
    }
    void reuse(SweepRow row) {
        const std::lock_guard lock(mutex_);
        ++run_.reused;
        keep(std::move(row));
    }

  private:
    void keep(SweepRow row) {
        SweepRow& place = run_.rows[row.index];
        place = std::move(row);
        if (options_.found) options_.found(place);
        ++finished_;
        if (options_.progress) options_.progress(finished_, run_.rows.size());
    }

    const SweepDocument& document_;
    const SweepRunOptions& options_;
    Writer& writer_;
    SweepRun& run_;
    std::mutex mutex_;
    std::size_t finished_ = 0;
};

// The points that the file does not have, in the order of evaluation; what it has goes into the table.
std::vector<std::int64_t> left_to_do(const SweepDocument& document, const std::map<std::string, SweepRow>& known,
                                     const std::vector<std::int64_t>& order, Table& table) {
    std::vector<std::int64_t> left;
    for (const std::int64_t i : order) {
        const auto it = known.find(point_hash(document.point(i)));
        if (it == known.end() || !complete(it->second, document.point(i).json)) {
            left.push_back(i);
            continue;
        }
        SweepRow row = it->second;
        row.index = i;
        table.reuse(std::move(row));
    }
    return left;
}

// Hands out ranges and takes rows until every worker has been told that nothing is left, and `mine` is done.
void serve(Deck& deck, std::vector<Worker>& workers, Table& table, const Writer& writer, const std::atomic<bool>& mine_done) {
    while (true) {
        bool moved = false, all_over = true;
        if (writer.broken()) deck.close();
        for (Worker& w : workers) {
            if (w.idle()) {
                const Range r = deck.next();
                std::vector<std::int64_t> points;
                for (std::int64_t k = r.first; k < r.end; ++k) points.push_back(deck.point(k));
                w.give(std::move(points));
                moved = true;
            }
            if (auto row = w.row()) table.take(std::move(*row), w.rank()), moved = true;
            all_over = all_over && w.over();
        }
        if (all_over && mine_done) return;
        if (!moved) std::this_thread::sleep_for(between_looks);
    }
}

} // namespace

std::vector<std::uint8_t> bytes_of(const SweepRow& r) {
    return nlohmann::json::to_cbor(nlohmann::json{r.index,
                                                  r.hash,
                                                  r.label,
                                                  r.reason,
                                                  static_cast<int>(r.status),
                                                  r.world_size,
                                                  r.step_time_s,
                                                  r.tokens_per_s,
                                                  r.tokens_per_s_per_gpu,
                                                  r.mfu,
                                                  r.hfu,
                                                  r.bubble_fraction,
                                                  r.peak_bytes,
                                                  r.capacity_bytes,
                                                  r.step_time_error_bar,
                                                  r.memory_error_bar,
                                                  r.cost_usd,
                                                  r.energy_j,
                                                  r.time_to_target_s,
                                                  r.run_finished,
                                                  r.run_goodput,
                                                  r.run_s,
                                                  r.run_tokens,
                                                  r.run_cost_usd,
                                                  r.step_time_interval.faster,
                                                  r.step_time_interval.slower,
                                                  r.straggler_fraction});
}

SweepRow row_of(const std::vector<std::uint8_t>& bytes) {
    const nlohmann::json j = nlohmann::json::from_cbor(bytes);
    SweepRow r;
    std::size_t k = 0;
    const auto next = [&](auto& figure) { figure = j.at(k++).get<std::remove_reference_t<decltype(figure)>>(); };
    next(r.index), next(r.hash), next(r.label), next(r.reason);
    r.status = static_cast<PointStatus>(j.at(k++).get<int>());
    next(r.world_size);
    for (double* figure : {&r.step_time_s, &r.tokens_per_s, &r.tokens_per_s_per_gpu, &r.mfu, &r.hfu, &r.bubble_fraction}) next(*figure);
    next(r.peak_bytes), next(r.capacity_bytes);
    for (double* figure :
         {&r.step_time_error_bar, &r.memory_error_bar, &r.cost_usd, &r.energy_j, &r.time_to_target_s, &r.run_finished, &r.run_goodput,
          &r.run_s, &r.run_tokens, &r.run_cost_usd, &r.step_time_interval.faster, &r.step_time_interval.slower, &r.straggler_fraction})
        next(*figure);
    return r;
}

SweepRun deal_sweep(const SweepDocument& document, const std::string& database, const SweepRunOptions& options, const OrreryTransport& t) {
    SweepStore store(database);
    if (options.fresh) store.clear();
    SweepRun run;
    run.rows.resize(document.size());
    Writer writer(store);
    Table table(document, options, writer, run);
    const SweepOrder order = evaluation_order(document);
    Deck deck(left_to_do(document, store.rows(), order.points, table), order.alike, t.size);
    std::vector<Worker> workers;
    for (int r = 1; r < t.size; ++r) workers.emplace_back(t, r);
    std::atomic<bool> mine_done{false};
    std::thread mine([&] {
        ReadyPlans kept;
        for (Range r = deck.next(); r.first < r.end; r = deck.next())
            for (std::int64_t k = r.first; k < r.end; ++k)
                table.take(evaluate(document.point(deck.point(k)), deck.point(k), document.base_dir(), &kept, options.replans), 0);
        mine_done = true;
    });
    std::exception_ptr failed;
    try {
        serve(deck, workers, table, writer, mine_done);
    } catch (...) { failed = std::current_exception(), deck.close(); }
    mine.join();
    writer.finish();
    if (failed) std::rethrow_exception(failed);
    return run;
}

void work_for_sweep(const SweepDocument& document, const OrreryTransport& t, const Replans& replans) {
    ReadyPlans kept;
    std::deque<std::pair<std::uint64_t, std::vector<std::uint8_t>>> sent; // until the transport has taken them
    std::deque<void*> requests;
    while (true) {
        std::int64_t count = 0;
        wait(t, t.receive(0, order_tag, &count, sizeof count));
        if (count == 0) break;
        std::vector<std::int64_t> points(static_cast<std::size_t>(count));
        wait(t, t.receive(0, order_tag, points.data(), points.size() * sizeof(std::int64_t)));
        for (const std::int64_t i : points) {
            // A number that this document does not have is answered all the same: rank 0 says that the documents differ.
            SweepRow row;
            row.index = i;
            if (i < document.size()) row = evaluate(document.point(i), i, document.base_dir(), &kept, replans);
            std::vector<std::uint8_t> bytes = bytes_of(row);
            auto& message = sent.emplace_back(bytes.size(), std::move(bytes));
            requests.push_back(t.send(0, size_tag, &message.first, sizeof message.first));
            requests.push_back(t.send(0, row_tag, message.second.data(), message.second.size()));
        }
        while (!requests.empty()) wait(t, requests.front()), requests.pop_front();
        sent.clear();
    }
}

} // namespace orrery
