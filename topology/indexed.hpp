// Containers that are read by their own kind of index, so that no use needs a cast: a vector by ids, an array by an enum.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace orrery {

// Ids are signed; -1 is none. [i] takes an id, a loop's counter, a position or a size, and no narrower id of something else.
template <class Id, class T> class Indexed : public std::vector<T> {
  public:
    using std::vector<T>::vector;
    Indexed() = default;
    Indexed(std::vector<T> all) : std::vector<T>(std::move(all)) {}

    template <class I>
    requires std::same_as<I, Id> || std::same_as<I, int> || std::same_as<I, std::int64_t> || std::same_as<I, std::size_t> T&
    operator[](I i) {
        return std::vector<T>::operator[](static_cast<std::size_t>(i));
    }
    template <class I>
    requires std::same_as<I, Id> || std::same_as<I, int> || std::same_as<I, std::int64_t> || std::same_as<I, std::size_t>
    const T& operator[](I i) const { return std::vector<T>::operator[](static_cast<std::size_t>(i)); }

    Id next_id() const { return static_cast<Id>(this->size()); } // of the element that is added next
    Id add(T value) {
        const Id id = next_id();
        this->push_back(std::move(value));
        return id;
    }
};

// One T for each of the enum's values; counted loops read it by number.
template <class E, class T, std::size_t count> struct ByEnum : std::array<T, count> {
    constexpr T& operator[](std::size_t i) { return std::array<T, count>::operator[](i); }
    constexpr const T& operator[](std::size_t i) const { return std::array<T, count>::operator[](i); }
    constexpr T& operator[](E e) { return std::array<T, count>::operator[](static_cast<std::size_t>(e)); }
    constexpr const T& operator[](E e) const { return std::array<T, count>::operator[](static_cast<std::size_t>(e)); }
};

} // namespace orrery
