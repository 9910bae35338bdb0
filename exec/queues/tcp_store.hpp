// A store over TCP: rank 0's process serves it, all ranks ask it. A rank whose connection ends before it has said goodbye has failed, and
// everyone who asks is told.
#pragma once

#include "exec/queues/store.hpp"

#include <memory>
#include <string>

namespace orrery {

class StoreServer {
  public:
    // port 0: any that is free. Throws std::runtime_error, with the port, where it cannot listen.
    explicit StoreServer(int port);
    ~StoreServer();
    StoreServer(const StoreServer&) = delete;
    StoreServer& operator=(const StoreServer&) = delete;
    int port() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// Tries for `seconds`. Where a rank's connection is lost, failed_key and gone_key say so.
class TcpStore final : public Store {
  public:
    TcpStore(const std::string& host, int port, int rank, double seconds);
    ~TcpStore() override;
    void set(const std::string& key, const std::string& value) override;
    std::optional<std::string> get(const std::string& key) override;
    std::int64_t add(const std::string& key, std::int64_t by) override;
    // Offset of the server's monotonic clock from this process's, in ns: from the quickest of several round trips.
    std::int64_t clock_offset() override;
    void vanish(); // ends the connection without goodbye, as a process that dies does

  private:
    std::string ask(char what, const std::string& key, const std::string& value);

    std::mutex mutex_;
    int socket_ = -1;
};

} // namespace orrery
