// A vector that is read by its own kind of id. Ids are signed (-1: none), so that a plain vector would need a cast at each use.
#pragma once

#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

namespace orrery {

// [i] takes an id, a loop's counter or a size, and no id of another width.
template <class Id, class T> class Indexed : public std::vector<T> {
  public:
    using std::vector<T>::vector;
    Indexed() = default;
    Indexed(std::vector<T> all) : std::vector<T>(std::move(all)) {}

    template <class I>
    requires std::same_as<I, Id> || std::same_as<I, std::size_t> || std::same_as<I, int> T& operator[](I i) {
        return std::vector<T>::operator[](static_cast<std::size_t>(i));
    }
    template <class I>
    requires std::same_as<I, Id> || std::same_as<I, std::size_t> || std::same_as<I, int>
    const T& operator[](I i) const { return std::vector<T>::operator[](static_cast<std::size_t>(i)); }

    Id next_id() const { return static_cast<Id>(this->size()); } // of the element that is added next
    Id add(T value) {
        const Id id = next_id();
        this->push_back(std::move(value));
        return id;
    }
};

} // namespace orrery
