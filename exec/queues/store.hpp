// Words between the ranks of a job, beside its data: who is there, ids, how far each has come, that one has failed. Keys and short values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

namespace orrery {

class Store {
  public:
    virtual ~Store() = default;
    virtual void set(const std::string& key, const std::string& value) = 0;
    virtual std::optional<std::string> get(const std::string& key) = 0;    // as it is now
    virtual std::int64_t add(const std::string& key, std::int64_t by) = 0; // to a count that begins at zero; what it is then
    virtual void forget(const std::string& prefix) = 0;                    // all keys and counts that begin so
    virtual std::int64_t clock_offset() { return 0; }                      // from this process's clock to the common one, in ns
};

// Between threads of one process.
class LocalStore final : public Store {
  public:
    void set(const std::string& key, const std::string& value) override;
    std::optional<std::string> get(const std::string& key) override;
    std::int64_t add(const std::string& key, std::int64_t by) override;
    void forget(const std::string& prefix) override;
    std::size_t kept(); // keys and counts

  private:
    std::mutex mutex_;
    std::map<std::string, std::string> values_;
    std::map<std::string, std::int64_t> counts_;
};

struct StoreLost : std::runtime_error {
    using std::runtime_error::runtime_error;
}; // whoever keeps it is gone, or does not answer
inline constexpr const char* store_lost = "the process of rank 0, which keeps the ranks' store, is gone";
struct StoreTimeout : std::runtime_error {
    using std::runtime_error::runtime_error;
};
// A key of the store: why the job has failed, as the first rank said that failed. Another: that it said nothing, because it is gone.
inline constexpr const char *failed_key = "failed", *gone_key = "gone", *failures_key = "failures"; // the last one a count
// Says why the job has failed, where no rank has; whether this rank is the first. Throws StoreLost.
bool first_failure(Store& store, const std::string& why);
// As it stands there: SaidElsewhere or PeerGone (exec/mpi/processes.hpp). Returns where no rank has failed.
void throw_if_failed(Store& store);

// The words of an error about a late rank: "rank 3 has not come" (within 60 s) ": was its process started?".
struct Late {
    std::string who, hint{};
};
// The value, once somebody has set it; StoreTimeout, saying who is late, after `seconds`. Both throw where a rank has failed.
std::string wait_for(Store& store, const std::string& key, double seconds, const Late& late);
// Returns when `ranks` callers have come to the barrier of that name. A name serves once.
void barrier(Store& store, const std::string& name, int ranks, double seconds);

} // namespace orrery
