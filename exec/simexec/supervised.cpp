#include "exec/simexec/supervised.hpp"

namespace orrery::simexec {

namespace fs = std::filesystem;

Supervised::Supervised(const std::string& folder, int attempt, int rank) {
    if (folder.empty()) return;
    beats_.emplace(fs::path(folder) / watch_name, rank);
    if (rank == 0) record_.emplace(fs::path(folder) / record_name, attempt);
}

void Supervised::begin(std::int64_t step) {
    first_ = step;
    if (beats_) beats_->steps(0);
    if (record_) record_->add("begin", step);
}

void Supervised::step(std::int64_t done, double loss) {
    if (beats_) beats_->steps(done - first_);
    if (record_) record_->add("step", done - 1, loss);
}

void Supervised::saved(std::int64_t step) {
    if (record_) record_->add("saved", step);
}

void Supervised::written(std::int64_t step) {
    if (record_) record_->add("written", step);
}

} // namespace orrery::simexec
