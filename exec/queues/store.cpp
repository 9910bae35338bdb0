#include "exec/queues/store.hpp"

#include "exec/local/clock.hpp"
#include "exec/mpi/processes.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>

namespace orrery {
namespace {

template <class F> void poll(Store& store, double seconds, const std::string& what, F&& holds) {
    const std::int64_t began = wall_ns();
    for (int i = 0; !holds(); ++i) {
        if (i % 40 == 20) throw_if_failed(store);
        if (static_cast<double>(wall_ns() - began) > seconds * 1e9)
            throw StoreTimeout(fmt::format("{} did not come within {:.0f} s", what, seconds));
        std::this_thread::sleep_for(std::chrono::microseconds(i < 100 ? 100 : 5000));
    }
}

} // namespace

bool first_failure(Store& store, const std::string& why) {
    if (store.get(failed_key) || store.add(failures_key, 1) > 1) return false;
    store.set(failed_key, why);
    return true;
}

void throw_if_failed(Store& store) {
    const auto why = store.get(failed_key);
    if (!why) return;
    if (const auto gone = store.get(gone_key)) throw PeerGone(*why, std::stoi(*gone));
    throw SaidElsewhere("another rank has failed: " + *why);
}

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
    poll(store, seconds, "\"" + key + "\"", [&] { return (value = store.get(key)).has_value(); });
    return *value;
}

void barrier(Store& store, const std::string& name, int ranks, double seconds) {
    store.add("barrier " + name, 1);
    poll(store, seconds, fmt::format("all {} ranks at the barrier {}", ranks, name),
         [&] { return store.add("barrier " + name, 0) >= ranks; });
}

} // namespace orrery
