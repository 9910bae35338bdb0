// Copies in memory: are they there, whole, and still there when a machine's memory is gone? Ranks are threads here.
#include "exec/checkpoint/copies.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <deque>
#include <mutex>
#include <numeric>
#include <thread>
#include <unistd.h>

namespace orrery {
namespace {

namespace fs = std::filesystem;

// Messages between threads, each pair's in order.
class Post {
  public:
    explicit Post(int ranks) : ranks_(ranks), shared_(static_cast<std::size_t>(ranks)), meet_(ranks) {}
    PeerLink link(int rank) {
        PeerLink l;
        l.rank = rank;
        l.ranks = ranks_;
        l.patience_s = 20;
        l.send = [this, rank](int to, const void* data, std::size_t bytes) -> void* {
            const std::lock_guard lock(mutex_);
            boxes_[{rank, to}].emplace_back(static_cast<const char*>(data), bytes);
            return new Request{};
        };
        l.receive = [this, rank](int from, void* data, std::size_t bytes) -> void* { return new Request{from, rank, data, bytes}; };
        l.done = [this](void* p) {
            auto* r = static_cast<Request*>(p);
            if (r->into) {
                const std::lock_guard lock(mutex_);
                auto& box = boxes_[{r->from, r->to}];
                if (box.empty()) return false;
                EXPECT_EQ(box.front().size(), r->bytes);
                std::memcpy(r->into, box.front().data(), r->bytes);
                box.pop_front();
            }
            delete r;
            return true;
        };
        l.gather = [this, rank](const std::vector<std::int64_t>& mine) {
            shared_[rank] = mine;
            meet_.arrive_and_wait();
            const auto all = shared_;
            meet_.arrive_and_wait();
            return all;
        };
        return l;
    }

  private:
    struct Request {
        int from = 0, to = 0;
        void* into = nullptr;
        std::size_t bytes = 0;
    };
    int ranks_;
    std::mutex mutex_;
    std::map<std::pair<int, int>, std::deque<std::string>> boxes_;
    std::vector<std::vector<std::int64_t>> shared_;
    std::barrier<> meet_;
};

fs::path scratch(const std::string& name) {
    return fs::path(testing::TempDir()) / ("orrery_copies_" + std::to_string(getpid()) + "_" + name);
}

void on_all(int ranks, const std::function<void(int rank, const PeerLink& link)>& work) {
    Post post(ranks);
    std::vector<std::jthread> threads;
    for (int r = 0; r < ranks; ++r) threads.emplace_back([&, r] { work(r, post.link(r)); });
}

// A tensor of which each rank has four elements, of these values.
std::vector<float> values(int rank, std::int64_t step) {
    std::vector<float> v(4);
    std::iota(v.begin(), v.end(), static_cast<float>(100 * step + 10 * rank));
    return v;
}
CheckpointPiece piece(int rank, int ranks, const std::vector<float>& v) {
    return {"p/w", {4 * ranks}, {4 * rank}, {4}, 0, 4, DType::fp32, reinterpret_cast<const std::byte*>(v.data())};
}

void keep(const fs::path& folder, int rank, const PeerLink& link, std::int64_t first, std::int64_t last) {
    MemoryCopies copies(folder, link, first - 1);
    for (std::int64_t step = first; step <= last; ++step) {
        std::vector<float> v = values(rank, step);
        copies.begin({step, 7, {{"corpus", "x"}}}, std::vector{piece(rank, link.ranks, v)});
        std::ranges::fill(v, -1.0f); // the bytes are its own
        copies.look();
    }
    copies.finish();
}

fs::path memory_of(int rank) { return scratch("rank" + std::to_string(rank)); }

void expect_step(const std::optional<fs::path>& found, std::int64_t step, int parts) {
    ASSERT_TRUE(found.has_value());
    const Checkpoint c = load_checkpoint(*found);
    EXPECT_EQ(c.state.step, step);
    EXPECT_EQ(c.state.seed, 7u);
    EXPECT_EQ(c.state.facts.at("corpus"), "x");
    const CheckpointTensor& w = c.tensors.at("p/w");
    ASSERT_EQ(w.shape, std::vector<std::int64_t>{4 * parts});
    for (int r = 0; r < parts; ++r) EXPECT_EQ(std::memcmp(w.data.data() + 16 * r, values(r, step).data(), 16), 0) << r;
}

TEST(Copies, OneProcessKeepsTheNewestTwo) {
    const fs::path folder = memory_of(0);
    fs::remove_all(folder);
    keep(folder, 0, {}, 1, 5);
    EXPECT_EQ(checkpoint_steps(folder).size(), 0u) << "no index yet: whoever gathers writes it";
    expect_step(gather_copies(folder, {}), 5, 1);
    EXPECT_TRUE(fs::exists(folder / "step-00000004"));
    EXPECT_FALSE(fs::exists(folder / "step-00000003"));
    fs::remove(folder / "step-00000005" / "part-0");
    expect_step(gather_copies(folder, {}), 4, 1);
    const MemoryCopies again(folder, {}, 2); // a run that begins at step 2 again
    EXPECT_FALSE(gather_copies(folder, {}).has_value());
}

// Any machine's memory may go, of any number of ranks; so may several that are no peers of each other.
TEST(Copies, TheLossOfAMemoryIsNoLoss) {
    for (const int ranks : {2, 3, 4, 5}) {
        for (int lost = 0; lost < ranks; ++lost) {
            for (int r = 0; r < ranks; ++r) fs::remove_all(memory_of(r));
            on_all(ranks, [&](int r, const PeerLink& link) { keep(memory_of(r), r, link, 1, 3); });
            fs::remove_all(memory_of(lost));
            std::vector<std::optional<fs::path>> found(static_cast<std::size_t>(ranks));
            on_all(ranks, [&](int r, const PeerLink& link) { found[r] = gather_copies(memory_of(r), link); });
            for (const auto& f : found) expect_step(f, 3, ranks);
        }
    }
}

TEST(Copies, WithoutAPartTheStepBeforeIsTaken) {
    for (int r = 0; r < 4; ++r) fs::remove_all(memory_of(r));
    on_all(4, [&](int r, const PeerLink& link) { keep(memory_of(r), r, link, 1, 3); });
    for (int r : {1, peer_of(1, 4)}) fs::remove(memory_of(r) / "step-00000003" / "part-1");
    std::vector<std::optional<fs::path>> found(4);
    on_all(4, [&](int r, const PeerLink& link) { found[r] = gather_copies(memory_of(r), link); });
    for (const auto& f : found) expect_step(f, 2, 4);
}

// Fewer ranks than wrote, their memory being all that is left.
TEST(Copies, FewerRanksFindAllParts) {
    for (int r = 0; r < 4; ++r) fs::remove_all(memory_of(r));
    on_all(4, [&](int r, const PeerLink& link) { keep(memory_of(r), r, link, 1, 2); });
    fs::remove_all(memory_of(3));
    std::vector<std::optional<fs::path>> found(3);
    on_all(3, [&](int r, const PeerLink& link) { found[r] = gather_copies(memory_of(r), link); });
    for (const auto& f : found) expect_step(f, 2, 4);
}

TEST(Copies, PeersAreOnOtherMachines) {
    for (const int machines : {2, 3, 4})
        for (const int of_machine : {1, 2, 8})
            for (int r = 0; r < machines * of_machine; ++r)
                EXPECT_NE(peer_of(r, machines * of_machine) / of_machine, r / of_machine) << machines << " " << of_machine << " " << r;
}

TEST(Copies, APeerThatDoesNotComeIsNamed) {
    Post post(2);
    PeerLink link = post.link(0);
    link.patience_s = 0.2;
    fs::remove_all(memory_of(0));
    MemoryCopies copies(memory_of(0), link, 0);
    const std::vector<float> v = values(0, 1);
    copies.begin({1, 7, {}}, std::vector{piece(0, 2, v)});
    EXPECT_THROW(copies.finish(), LostCopy);
}

} // namespace
} // namespace orrery
