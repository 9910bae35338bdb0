#include "exec/simexec/step_log.hpp"

#include "exec/checkpoint/checkpoint.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace orrery::simexec {
namespace {

std::string cell(const std::optional<double>& x) { return x ? fmt::format("{:.6g}", *x) : ""; }

} // namespace

StepLog::StepLog(const std::string& file, bool append, bool evaluates)
    : file_(file), csv_(file.ends_with(".csv")), evaluates_(evaluates), out_(file, append ? std::ios::app : std::ios::trunc) {
    if (!out_) throw std::runtime_error(fmt::format("--log {}: {}", file, std::strerror(errno)));
    std::error_code none;
    if (csv_ && (!append || std::filesystem::file_size(file, none) == 0))
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
