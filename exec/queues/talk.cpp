#include "exec/queues/talk.hpp"

#include <fmt/format.h>

#include <sstream>
#include <utility>

namespace orrery {

std::string Talk::at_rank_zero(int rank, const std::string& key) const {
    const Late late = number_ == 0 ? Late{fmt::format("rank {} has not come", rank), ": was its process started?"}
                                   : Late{fmt::format("rank {} has said nothing", rank),
                                          ": its process stands still, or waits for something else than the others"};
    return wait_for(*store_, key, patience_, late);
}

// Rank 0 collects and hands out: two words a rank, however many there are.
std::vector<std::vector<std::int64_t>> Talk::gather(const std::vector<std::int64_t>& mine) {
    constexpr double hears_of_it = 5; // seconds: rank 0 knows who is late, and the others hear it from there
    const auto key = [this](int rank) { return fmt::format("gather {} of {}", number_, rank); };
    const std::string all_key = fmt::format("gather {} of all", number_);
    store_->set(key(rank_), fmt::format("{}", fmt::join(mine, " ")));
    if (rank_ == 0) {
        std::string all;
        for (int r = 0; r < ranks_; ++r) all += at_rank_zero(r, key(r)) + "\n";
        for (const std::string& prefix : std::exchange(over_, {fmt::format("gather {} ", number_)})) store_->forget(prefix);
        store_->set(all_key, all);
    }
    std::istringstream in(wait_for(*store_, all_key, patience_ + hears_of_it, {"rank 0 has not told what all ranks have said"}));
    std::vector<std::vector<std::int64_t>> all(static_cast<std::size_t>(ranks_), std::vector<std::int64_t>(mine.size(), 0));
    for (auto& of_rank : all)
        for (std::int64_t& x : of_rank) in >> x;
    ++number_;
    return all;
}

std::vector<std::string> Talk::collect(const std::string& mine) {
    constexpr std::size_t piece = std::size_t{1} << 19; // the longest value of the store is twice that
    const auto key = [this](int rank, std::size_t i) { return fmt::format("piece {} of {}: {}.", number_, rank, i); };
    for (std::size_t i = 0; i * piece <= mine.size(); ++i) store_->set(key(rank_, i), mine.substr(i * piece, piece));
    std::vector<std::string> all;
    for (int r = 0; rank_ == 0 && r < ranks_; ++r) {
        std::string& whole = all.emplace_back();
        for (std::size_t i = 0; whole.size() == i * piece; ++i) { // the last is shorter
            whole += at_rank_zero(r, key(r, i));
            store_->forget(key(r, i));
        }
    }
    ++number_;
    return all;
}

void Talk::meet() {
    const std::string name = fmt::format("{} of all", number_++);
    if (rank_ == 0) over_.push_back("barrier " + name);
    barrier(*store_, name, ranks_, patience_);
}

} // namespace orrery
