// Values by index of which long runs are equal, as capacities of links are: as much memory as there are runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace orrery {

template <class T> class Runs {
  public:
    void push_back(const T& value, std::size_t count = 1) {
        if (count > 0 && (runs_.empty() || !(runs_.back().value == value))) runs_.push_back({size_, value});
        size_ += count;
    }
    std::size_t size() const { return size_; }
    const T& operator[](std::size_t i) const {
        const auto next = std::upper_bound(runs_.begin(), runs_.end(), i, [](std::size_t x, const Run& r) { return x < r.begin; });
        return (next - 1)->value;
    }
    std::vector<T> all() const {
        std::vector<T> values;
        values.reserve(size_);
        each_run([&](const T& value, std::size_t count) { values.insert(values.end(), count, value); });
        return values;
    }
    // f(value, how many), one run after another.
    template <class F> void each_run(F&& f) const {
        for (std::size_t r = 0; r < runs_.size(); ++r) f(runs_[r].value, end_of(r) - runs_[r].begin);
    }
    // Each value becomes f(index, value).
    template <class F> void change(F&& f) {
        Runs changed;
        for (std::size_t r = 0, i = 0; r < runs_.size(); ++r)
            for (; i < end_of(r); ++i) changed.push_back(f(i, runs_[r].value));
        *this = std::move(changed);
    }

  private:
    std::size_t end_of(std::size_t run) const { return run + 1 < runs_.size() ? runs_[run + 1].begin : size_; }
    struct Run {
        std::size_t begin;
        T value;
    };
    std::vector<Run> runs_;
    std::size_t size_ = 0;
};

} // namespace orrery
