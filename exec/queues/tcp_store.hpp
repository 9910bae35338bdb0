// A store over TCP: rank 0's process serves it, all ranks ask it. A rank whose connection ends before it has said goodbye has failed, and
// everyone who asks is told. Ranks of another job, which found the port, are shown out, and have no part in that.
#pragma once

#include "exec/queues/store.hpp"

#include <memory>
#include <string>

namespace orrery {

class StoreServer {
  public:
    // port 0: any that is free. job: what its ranks say that they belong to. Throws std::runtime_error, with the port, where it cannot
    // listen.
    explicit StoreServer(int port, std::string job = {});
    ~StoreServer();
    StoreServer(const StoreServer&) = delete;
    StoreServer& operator=(const StoreServer&) = delete;
    // Waits until ranks but `own`, whose process this is, have left, so that what was said last reaches them: `seconds` at most.
    void see_off(int own, double seconds);
    int port() const;
    std::size_t kept(); // keys and counts in it

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// Tries for `seconds`. Where a rank's connection is lost, failed_key and gone_key say so. Throws StoreTimeout where nobody answers,
// std::runtime_error where another job does.
class TcpStore final : public Store {
  public:
    TcpStore(const std::string& host, int port, int rank, double seconds, const std::string& job = {});
    ~TcpStore() override;
    void set(const std::string& key, const std::string& value) override;
    std::optional<std::string> get(const std::string& key) override;
    std::int64_t add(const std::string& key, std::int64_t by) override;
    void forget(const std::string& prefix) override;
    // Offset of the server's monotonic clock from this process's, in ns: from the quickest of several round trips.
    std::int64_t clock_offset() override;
    void vanish(); // ends the connection without goodbye, as a process that dies does

  private:
    std::string ask(char what, const std::string& key, const std::string& value);

    std::mutex mutex_;
    int socket_ = -1;
};

} // namespace orrery
