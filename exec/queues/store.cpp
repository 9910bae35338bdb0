#include "exec/queues/store.hpp"

#include "exec/local/clock.hpp"
#include "exec/mpi/processes.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>

namespace orrery {
namespace {

template <class F, class L> void poll(Store& store, double seconds, F&& holds, L&& late) {
    const std::int64_t began = wall_ns();
    for (int i = 0; !holds(); ++i) {
        if (i % 40 == 20) throw_if_failed(store);
        if (static_cast<double>(wall_ns() - began) > seconds * 1e9) {
            const Late l = late();
            throw StoreTimeout(fmt::format("{} within {:.0f} s{}", l.who, seconds, l.hint));
        }
        std::this_thread::sleep_for(std::chrono::microseconds(i < 100 ? 100 : 5000));
    }
}

template <class M> void forget_in(M& map, const std::string& prefix) {
    for (auto it = map.lower_bound(prefix); it != map.end() && it->first.starts_with(prefix);) it = map.erase(it);
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

void LocalStore::forget(const std::string& prefix) {
    const std::lock_guard lock(mutex_);
    forget_in(values_, prefix);
    forget_in(counts_, prefix);
}

std::size_t LocalStore::kept() {
    const std::lock_guard lock(mutex_);
    return values_.size() + counts_.size();
}

std::string wait_for(Store& store, const std::string& key, double seconds, const Late& late) {
    std::optional<std::string> value;
    poll(
        store, seconds, [&] { return (value = store.get(key)).has_value(); }, [&] { return late; });
    return *value;
}

void barrier(Store& store, const std::string& name, int ranks, double seconds) {
    const std::string key = "barrier " + name;
    std::int64_t come = store.add(key, 1);
    const auto all = [&] { return come >= ranks || (come = store.add(key, 0)) >= ranks; };
    poll(store, seconds, all,
         [&] { return Late{fmt::format("of {} ranks {} have come to the place where all wait for each other", ranks, come)}; });
}

} // namespace orrery
