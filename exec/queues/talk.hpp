// Messages among all ranks of a job, through the store of rank 0's process: numbers that all get, bytes that rank 0 gets, and a barrier.
// All of them gather, collect and meet in one order.
#pragma once

#include "exec/queues/store.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace orrery {

class Talk {
  public:
    Talk(std::shared_ptr<Store> store, int rank, int ranks, double patience)
        : store_(std::move(store)), rank_(rank), ranks_(ranks), patience_(patience) {}
    // Each throws StoreTimeout where a rank has not come after `patience` seconds, naming it, and as throw_if_failed() does.
    std::vector<std::vector<std::int64_t>> gather(const std::vector<std::int64_t>& mine); // everyone's, by rank; as many from each
    std::vector<std::string> collect(const std::string& mine);                            // everyone's at rank 0; elsewhere nothing
    void meet();

  private:
    std::string at_rank_zero(int rank, const std::string& key) const;

    std::shared_ptr<Store> store_;
    int rank_, ranks_;
    double patience_;
    int number_ = 0; // of what they did together so far: the same on all ranks
    // At rank 0, prefixes of keys: whoever has come to a gather has left all that was before it, and asks for none of that again.
    std::vector<std::string> over_{};
};

} // namespace orrery
