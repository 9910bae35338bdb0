// The SQLite file of a sweep: one row a point, keyed by its hash. Write-ahead log, synchronous=FULL: what commit() returned from is on
// the disk, and a process that dies between two commits leaves a file that opens as it was.
#pragma once

#include "sim/sweep/sweep.hpp"

#include <map>
#include <memory>
#include <span>
#include <string>

struct sqlite3;
struct sqlite3_stmt;

namespace orrery {

class SweepStore {
  public:
    explicit SweepStore(const std::string& path); // made where it is not there; throws std::runtime_error

    std::map<std::string, SweepRow> rows() const; // by hash
    void commit(std::span<const SweepRow> rows);  // all of them, in one transaction
    void clear();

  private:
    void refuse_strangers() const; // throws where the file is another program's
    void write_ahead();
    std::int64_t number(const char* sql) const; // of a query's first row and column
    void execute(const char* sql);
    bool has_column(const std::string& name) const;
    [[noreturn]] void fail(const std::string& doing) const;

    std::string path_;
    struct Close { // what was opened is closed where opening the rest fails, too
        void operator()(sqlite3* db) const;
        void operator()(sqlite3_stmt* statement) const;
    };
    std::unique_ptr<sqlite3_stmt, Close> statement(const std::string& sql, const char* doing) const;

    std::unique_ptr<sqlite3, Close> db_;
    std::unique_ptr<sqlite3_stmt, Close> insert_;
};

} // namespace orrery
