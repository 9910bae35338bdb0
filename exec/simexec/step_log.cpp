#include "exec/simexec/step_log.hpp"

#include "exec/checkpoint/checkpoint.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <string_view>

namespace orrery::simexec {
namespace {

std::string cell(const std::optional<double>& x) { return x ? fmt::format("{:.6g}", *x) : ""; }

// The step of a row of either form; -1: it has none.
std::int64_t step_of(std::string_view row) {
    constexpr std::string_view key = R"({"step":)";
    if (row.starts_with(key)) row.remove_prefix(key.size());
    std::int64_t step = -1;
    const auto [end, error] = std::from_chars(row.data(), row.data() + row.size(), step);
    return error == std::errc() && end != row.data() + row.size() && *end == ',' ? step : -1;
}

// Bytes of the file up to the first row of `first` or a later step, or one that was not written to its end.
std::uintmax_t bytes_before(const std::string& file, std::int64_t first) {
    std::ifstream in(file, std::ios::binary);
    std::uintmax_t bytes = 0;
    for (std::string row; std::getline(in, row) && !in.eof() && step_of(row) < first;) bytes += row.size() + 1;
    return bytes;
}

} // namespace

StepLog::StepLog(const std::string& file, std::int64_t first, bool evaluates)
    : file_(file), csv_(file.ends_with(".csv")), evaluates_(evaluates) {
    const std::uintmax_t kept = first > 0 ? bytes_before(file, first) : 0;
    std::error_code none;
    if (first > 0 && kept < std::filesystem::file_size(file, none) && !none) std::filesystem::resize_file(file, kept, none);
    out_.open(file, first > 0 ? std::ios::app : std::ios::trunc);
    if (!out_) throw std::runtime_error(fmt::format("--log {}: {}", file, std::strerror(errno)));
    if (csv_ && kept == 0)
        out_ << "step,loss,gradient_norm,learning_rate,seconds,tokens_per_s,mfu,memory_bytes" << (evaluates ? ",eval_loss" : "")
             << std::endl;
}

void StepLog::add(const StepFacts& f) {
    if (csv_) {
        out_ << fmt::format("{},{:.9g},{},{:.6g},{:.6g},{:.6g},{},{}", f.step, f.loss, cell(f.gradient_norm), f.learning_rate, f.seconds,
                            f.tokens_per_s, cell(f.mfu), f.memory_bytes)
             << (evaluates_ ? "," + (f.eval_loss ? fmt::format("{:.9g}", *f.eval_loss) : "") : "") << '\n';
    } else {
        nlohmann::ordered_json j{{"step", f.step},
                                 {"loss", f.loss},
                                 {"learning_rate", f.learning_rate},
                                 {"seconds", f.seconds},
                                 {"tokens_per_s", f.tokens_per_s},
                                 {"memory_bytes", f.memory_bytes}};
        if (f.gradient_norm) j["gradient_norm"] = *f.gradient_norm;
        if (f.mfu) j["mfu"] = *f.mfu;
        if (f.eval_loss) j["eval_loss"] = *f.eval_loss;
        out_ << j.dump() << '\n';
    }
    out_.flush();
    if (!out_)
        throw Unwritten(
            fmt::format("--log {}: cannot be written: {}", file_, errno == ENOSPC ? std::strerror(errno) : "the disk may be full"));
}

} // namespace orrery::simexec
