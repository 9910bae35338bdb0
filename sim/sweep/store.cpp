#include "sim/sweep/store.hpp"

#include "sim/scenario/input_file.hpp"
#include "topology/text.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <thread>

namespace orrery {

namespace {

constexpr const char* columns =
    "hash, label, status, reason, world_size, step_time_s, tokens_per_s, tokens_per_s_per_gpu, mfu, hfu, "
    "bubble_fraction, peak_bytes, capacity_bytes, step_time_error_bar, memory_error_bar, cost_usd, energy_j, "
    "time_to_target_s, run_finished, run_goodput, run_s, run_tokens, run_cost_usd, step_time_faster, step_time_slower, straggler_fraction";

constexpr std::int64_t application_id = 0x4F525259;  // "ORRY", in the file's header
constexpr std::chrono::milliseconds patience{10000}; // with other programs that write the same file

std::string text_of(sqlite3_stmt* s, int column) {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(s, column));
    return text == nullptr ? std::string() : std::string(text);
}

PointStatus status_of(const std::string& text) {
    for (PointStatus s : {PointStatus::fits, PointStatus::too_big, PointStatus::impossible}) {
        if (text == name(s)) return s;
    }
    return PointStatus::failed;
}

void bind_text(sqlite3_stmt* s, int at, const std::string& text) {
    sqlite3_bind_text(s, at, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
}

SweepRow read(sqlite3_stmt* s) {
    SweepRow r;
    r.hash = text_of(s, 0);
    r.label = text_of(s, 1);
    r.status = status_of(text_of(s, 2));
    r.reason = text_of(s, 3);
    r.world_size = sqlite3_column_int64(s, 4);
    double* const figures[] = {&r.step_time_s, &r.tokens_per_s, &r.tokens_per_s_per_gpu, &r.mfu, &r.hfu, &r.bubble_fraction};
    for (int i = 0; i < 6; ++i) *figures[i] = sqlite3_column_double(s, 5 + i);
    r.peak_bytes = sqlite3_column_int64(s, 11);
    r.capacity_bytes = sqlite3_column_int64(s, 12);
    r.step_time_error_bar = sqlite3_column_double(s, 13);
    r.memory_error_bar = sqlite3_column_double(s, 14);
    r.cost_usd = sqlite3_column_double(s, 15);
    r.energy_j = sqlite3_column_double(s, 16);
    r.time_to_target_s = sqlite3_column_double(s, 17);
    if (sqlite3_column_type(s, 18) != SQLITE_NULL) r.run_finished = sqlite3_column_double(s, 18);
    double* const of_run[] = {&r.run_goodput, &r.run_s, &r.run_tokens, &r.run_cost_usd};
    for (int i = 0; i < 4; ++i) *of_run[i] = sqlite3_column_double(s, 19 + i);
    r.step_time_interval = {sqlite3_column_double(s, 23), sqlite3_column_double(s, 24)};
    if (sqlite3_column_type(s, 25) != SQLITE_NULL) r.straggler_fraction = sqlite3_column_double(s, 25);
    return r;
}

// A damaged file may have any bytes in its rows; SQLite does not look at them.
bool undamaged(const SweepRow& r) {
    if (!is_printable(r.hash) || !is_printable(r.label) || !is_printable(r.reason)) return false;
    for (const double figure : {r.step_time_s, r.tokens_per_s, r.tokens_per_s_per_gpu, r.mfu, r.hfu, r.bubble_fraction, r.cost_usd,
                                r.energy_j, r.time_to_target_s, r.run_goodput, r.run_s, r.run_tokens, r.run_cost_usd,
                                r.step_time_interval.faster, r.step_time_interval.slower})
        if (!std::isfinite(figure) || figure < -1e-6) return false;
    if (!(r.straggler_fraction >= -1 && r.straggler_fraction < 2)) return false;
    return (r.status != PointStatus::fits || r.step_time_s > 0) && r.mfu < 2 && r.world_size >= 0 && r.peak_bytes >= 0 &&
           r.capacity_bytes >= 0;
}

// Figures that are not known are NULL, as every column where nothing is bound.
void bind(sqlite3_stmt* s, const SweepRow& r) {
    sqlite3_clear_bindings(s);
    const bool fits = r.status == PointStatus::fits, sized = fits || r.status == PointStatus::too_big;
    bind_text(s, 1, r.hash);
    bind_text(s, 2, r.label);
    bind_text(s, 3, name(r.status));
    bind_text(s, 4, r.reason);
    if (sized) {
        sqlite3_bind_int64(s, 5, r.world_size);
        sqlite3_bind_int64(s, 12, r.peak_bytes);
        sqlite3_bind_int64(s, 13, r.capacity_bytes);
        sqlite3_bind_double(s, 14, r.step_time_error_bar);
        sqlite3_bind_double(s, 15, r.memory_error_bar);
        if (r.step_time_interval.known()) {
            sqlite3_bind_double(s, 24, r.step_time_interval.faster);
            sqlite3_bind_double(s, 25, r.step_time_interval.slower);
        }
    }
    if (!fits) return;
    const double figures[] = {r.step_time_s, r.tokens_per_s, r.tokens_per_s_per_gpu, r.mfu, r.hfu, r.bubble_fraction};
    for (int i = 0; i < 6; ++i) sqlite3_bind_double(s, 6 + i, figures[i]);
    if (r.cost_usd > 0) sqlite3_bind_double(s, 16, r.cost_usd);
    if (r.energy_j > 0) sqlite3_bind_double(s, 17, r.energy_j);
    if (r.time_to_target_s > 0) sqlite3_bind_double(s, 18, r.time_to_target_s);
    if (r.run_finished >= 0) sqlite3_bind_double(s, 19, r.run_finished);
    if (r.straggler_fraction >= 0) sqlite3_bind_double(s, 26, r.straggler_fraction);
    const double of_run[] = {r.run_goodput, r.run_s, r.run_tokens, r.run_cost_usd};
    for (int i = 0; i < 4; ++i)
        if (of_run[i] > 0) sqlite3_bind_double(s, 20 + i, of_run[i]);
}

} // namespace

SweepStore::SweepStore(const std::string& path) : path_(path) {
    std::error_code unknown; // SQLite would wait for a pipe, or read a device without end
    if (std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown))
        throw std::runtime_error(path + " " + unreadable(path));
    sqlite3* db = nullptr;
    const int opened = sqlite3_open(path.c_str(), &db);
    db_.reset(db); // where it failed, too: it says why
    if (opened != SQLITE_OK) fail("open");
    sqlite3_busy_timeout(db, static_cast<int>(patience.count()));
    refuse_strangers();
    write_ahead();
    execute("PRAGMA synchronous=FULL");
    // One transaction: of several programs that start on one new file, the first makes the table and the others find it.
    execute("BEGIN IMMEDIATE");
    execute("CREATE TABLE IF NOT EXISTS points (hash TEXT PRIMARY KEY, label TEXT, status TEXT, reason TEXT, world_size INTEGER, "
            "step_time_s REAL, "
            "tokens_per_s REAL, tokens_per_s_per_gpu REAL, mfu REAL, hfu REAL, bubble_fraction REAL, peak_bytes INTEGER, capacity_bytes "
            "INTEGER)");
    // Results of before there were these columns stay good: theirs are not known.
    for (const char* column :
         {"step_time_error_bar", "memory_error_bar", "cost_usd", "energy_j", "time_to_target_s", "run_finished", "run_goodput", "run_s",
          "run_tokens", "run_cost_usd", "step_time_faster", "step_time_slower", "straggler_fraction"})
        if (!has_column(column)) execute((std::string("ALTER TABLE points ADD COLUMN ") + column + " REAL").c_str());
    execute(fmt::format("PRAGMA application_id={}", application_id).c_str());
    execute("COMMIT");
    insert_ = statement(
        fmt::format("INSERT OR REPLACE INTO points ({}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", columns), "write");
}

// Before anything is written: a database that is another program's stays as it is.
void SweepStore::refuse_strangers() const {
    const std::int64_t id = number("PRAGMA application_id");
    if (id == application_id) return;
    // Files of before there was an id have id 0 and the table; a new file has no table at all.
    const bool ours = id == 0 && (number("SELECT count(*) FROM sqlite_master") == 0 || has_column("hash"));
    if (!ours)
        throw std::runtime_error(
            fmt::format("{} is a database of another program: name a new file with -o, or one that a sweep has written", path_));
}

// SQLite does not wait by itself where two programs switch a new file to its write-ahead log at once.
void SweepStore::write_ahead() {
    for (const auto until = std::chrono::steady_clock::now() + patience;;) {
        const int code = sqlite3_exec(db_.get(), "PRAGMA journal_mode=WAL", nullptr, nullptr, nullptr);
        if (code == SQLITE_OK) return;
        if (code != SQLITE_BUSY || std::chrono::steady_clock::now() > until) fail("write");
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

std::int64_t SweepStore::number(const char* sql) const {
    const auto query = statement(sql, "read");
    if (sqlite3_step(query.get()) != SQLITE_ROW) fail("read");
    return sqlite3_column_int64(query.get(), 0);
}

void SweepStore::Close::operator()(sqlite3* db) const { sqlite3_close(db); }
void SweepStore::Close::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

std::unique_ptr<sqlite3_stmt, SweepStore::Close> SweepStore::statement(const std::string& sql, const char* doing) const {
    sqlite3_stmt* made = nullptr;
    if (sqlite3_prepare_v2(db_.get(), sql.c_str(), -1, &made, nullptr) != SQLITE_OK) fail(doing);
    return std::unique_ptr<sqlite3_stmt, Close>(made);
}

std::map<std::string, SweepRow> SweepStore::rows() const {
    const auto select = statement(fmt::format("SELECT {} FROM points", columns), "read");
    std::map<std::string, SweepRow> found;
    int code = 0;
    while ((code = sqlite3_step(select.get())) == SQLITE_ROW) {
        SweepRow r = read(select.get());
        if (!undamaged(r))
            throw std::runtime_error(path_ + " is damaged: a point in it has what no prediction gives; start over with --fresh, or name "
                                             "another file");
        found.emplace(r.hash, std::move(r));
    }
    if (code != SQLITE_DONE) fail("read");
    return found;
}

bool SweepStore::has_column(const std::string& name) const {
    const auto columns_of = statement("PRAGMA table_info(points)", "read");
    while (sqlite3_step(columns_of.get()) == SQLITE_ROW)
        if (text_of(columns_of.get(), 1) == name) return true;
    return false;
}

void SweepStore::commit(std::span<const SweepRow> rows) {
    execute("BEGIN IMMEDIATE");
    for (const SweepRow& r : rows) {
        bind(insert_.get(), r);
        if (sqlite3_step(insert_.get()) != SQLITE_DONE) fail("write");
        sqlite3_reset(insert_.get());
    }
    execute("COMMIT");
}

void SweepStore::clear() { execute("DELETE FROM points"); }

void SweepStore::execute(const char* sql) {
    if (sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail("write");
}

void SweepStore::fail(const std::string& doing) const {
    throw std::runtime_error("cannot " + doing + " the sweep's results in " + path_ + ": " + sqlite3_errmsg(db_.get()));
}

} // namespace orrery
