// Values by index, zero at first, in pages: where all of a page are zero it takes no memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace orrery {

template <class T> class Pages {
  public:
    static constexpr std::size_t page = 1 << 15;

    explicit Pages(std::size_t size) : pages_((size + page - 1) / page), size_(size) {}
    std::size_t size() const { return size_; }
    T& operator[](std::size_t i) {
        std::vector<T>& p = pages_[i / page];
        if (p.empty()) p.resize(std::min(page, size_ - i / page * page));
        return p[i % page];
    }
    // f(index, value) for each value that is not zero, in order.
    template <class F> void each(F&& f) {
        for (std::size_t p = 0; p < pages_.size(); ++p)
            for (std::size_t i = 0; i < pages_[p].size(); ++i)
                if (pages_[p][i] != 0) f(p * page + i, pages_[p][i]);
    }

  private:
    std::vector<std::vector<T>> pages_;
    std::size_t size_;
};

} // namespace orrery
