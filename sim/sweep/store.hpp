// The SQLite file of a sweep: one row a point, keyed by its hash. Write-ahead log, synchronous=FULL: what commit() returned from is on
// the disk, and a process that dies between two commits leaves a file that opens as it was.
#pragma once

#include "sim/sweep/sweep.hpp"

#include <map>
#include <span>
#include <string>

struct sqlite3;
struct sqlite3_stmt;

namespace orrery {

class SweepStore {
  public:
    explicit SweepStore(const std::string& path);   // made where it is not there; throws std::runtime_error
    ~SweepStore();
    SweepStore(const SweepStore&) = delete;
    SweepStore& operator=(const SweepStore&) = delete;

    std::map<std::string, SweepRow> rows() const;   // by hash
    void commit(std::span<const SweepRow> rows);    // all of them, in one transaction
    void clear();

  private:
    void execute(const char* sql);
    [[noreturn]] void fail(const std::string& doing) const;

    std::string path_;
    sqlite3* db_ = nullptr;
    sqlite3_stmt* insert_ = nullptr;
};

} // namespace orrery
