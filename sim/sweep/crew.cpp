#include "sim/sweep/crew.hpp"

#include "sim/ranks/ranks.hpp"
#include "sim/report/reuse.hpp"
#include "sim/sweep/deal.hpp"

#include <nlohmann/json.hpp>

#include <atomic>
#include <exception>
#include <optional>
#include <stdexcept>
#include <thread>

namespace orrery {
namespace {

using Bytes8 = std::vector<std::uint8_t>;

constexpr int ask_tag = 21, answer_tag = 23; // sizes; what follows has the next number

void send(const OrreryTransport& t, int to, int tag, const Bytes8& bytes) {
    const std::uint64_t size = bytes.size();
    wait(t, t.send(to, tag, &size, sizeof size));
    if (size > 0) wait(t, t.send(to, tag + 1, bytes.data(), bytes.size()));
}

// The message behind a size that has come.
Bytes8 receive(const OrreryTransport& t, int from, int tag, std::uint64_t size) {
    Bytes8 bytes(size);
    if (size > 0) wait(t, t.receive(from, tag + 1, bytes.data(), bytes.size()));
    return bytes;
}

std::vector<SweepRow> computed(const PointGroup& group, const EvaluateText& evaluate) {
    ReadyPlans kept{1, false};
    std::vector<SweepRow> rows;
    for (const std::string& json : group) rows.push_back(evaluate(json, kept));
    return rows;
}

// One of the other ranks, as rank 0 sees it.
struct CrewMember {
    int rank = 0, group = -1; // group: that it computes
    std::uint64_t size = 0;   // of its answer
    void* request = nullptr;
};

std::vector<SweepRow> rows_of(const Bytes8& bytes, std::size_t expected, int rank) {
    std::vector<SweepRow> rows;
    for (const auto& row : nlohmann::json::from_cbor(bytes)) rows.push_back(row_of(row.get_binary()));
    if (rows.size() != expected)
        throw std::runtime_error("rank " + std::to_string(rank) + " searches otherwise than rank 0: start all with the same program");
    return rows;
}

} // namespace

std::vector<std::vector<SweepRow>> deal_groups(const std::vector<PointGroup>& groups, const EvaluateText& evaluate,
                                               const OrreryTransport& t) {
    std::vector<std::vector<SweepRow>> rows(groups.size());
    const int count = static_cast<int>(groups.size());
    std::atomic<int> next{0};
    std::vector<CrewMember> crew(static_cast<std::size_t>(t.size) - 1);
    for (std::size_t i = 0; i < crew.size(); ++i) crew[i].rank = static_cast<int>(i) + 1;
    // Those that have messages begin first: what is left is rank 0's own.
    const auto give = [&](CrewMember& m) {
        const int g = next++;
        if (g >= count) return;
        m.group = g;
        send(t, m.rank, ask_tag, nlohmann::json::to_cbor(nlohmann::json(groups[g])));
        m.request = t.receive(m.rank, answer_tag, &m.size, sizeof m.size);
    };
    for (CrewMember& m : crew) give(m);
    std::thread mine([&] {
        for (int g = next++; g < count; g = next++) rows[g] = computed(groups[g], evaluate);
    });
    std::exception_ptr failed;
    try {
        for (bool busy = true; busy;) {
            busy = false;
            for (CrewMember& m : crew) {
                busy = busy || m.group >= 0;
                if (m.group < 0 || !t.done(m.request)) continue;
                const auto g = static_cast<std::size_t>(m.group);
                rows[g] = rows_of(receive(t, m.rank, answer_tag, m.size), groups[g].size(), m.rank);
                m.group = -1;
                give(m);
            }
            if (busy) std::this_thread::sleep_for(between_looks);
        }
    } catch (...) { failed = std::current_exception(), next = count; }
    mine.join();
    if (failed) std::rethrow_exception(failed);
    return rows;
}

void dismiss_crew(const OrreryTransport& t) {
    for (int r = 1; r < t.size; ++r) send(t, r, ask_tag, {});
}

void work_for_search(const EvaluateText& evaluate, const OrreryTransport& t) {
    while (true) {
        std::uint64_t size = 0;
        wait(t, t.receive(0, ask_tag, &size, sizeof size));
        if (size == 0) return;
        const auto group = nlohmann::json::from_cbor(receive(t, 0, ask_tag, size)).get<PointGroup>();
        nlohmann::json answer = nlohmann::json::array();
        for (const SweepRow& row : computed(group, evaluate)) answer.push_back(nlohmann::json::binary(bytes_of(row)));
        send(t, 0, answer_tag, nlohmann::json::to_cbor(answer));
    }
}

} // namespace orrery
