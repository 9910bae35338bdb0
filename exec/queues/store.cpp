#include "exec/queues/store.hpp"

#include "exec/local/clock.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>

namespace orrery {
namespace {

template <class F> void poll(double seconds, const std::string& what, F&& holds) {
    const std::int64_t began = wall_ns();
    for (int i = 0; !holds(); ++i) {
        if (static_cast<double>(wall_ns() - began) > seconds * 1e9)
            throw StoreTimeout(fmt::format("{} did not come within {:.0f} s", what, seconds));
        std::this_thread::sleep_for(std::chrono::microseconds(i < 100 ? 100 : 5000));
    }
}

} // namespace

void LocalStore::set(const std::string& key, const std::string& value) {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
}

std::optional<std::string> LocalStore::get(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto it = values_.find(key);
    return it == values_.end() ? std::nullopt : std::optional(it->second);
}

std::int64_t LocalStore::add(const std::string& key, std::int64_t by) {
    const std::lock_guard lock(mutex_);
    return counts_[key] += by;
}

std::string wait_for(Store& store, const std::string& key, double seconds) {
    std::optional<std::string> value;
    poll(seconds, "\"" + key + "\"", [&] { return (value = store.get(key)).has_value(); });
    return *value;
}

void barrier(Store& store, const std::string& name, int ranks, double seconds) {
    store.add("barrier " + name, 1);
    poll(seconds, fmt::format("all {} ranks at the barrier {}", ranks, name), [&] { return store.add("barrier " + name, 0) >= ranks; });
}

} // namespace orrery
