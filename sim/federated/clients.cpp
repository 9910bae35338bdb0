#include "sim/federated/federated.hpp"

#include "sim/job/random.hpp"
#include "sim/scenario/parameters.hpp"
#include "sim/scenario/trainable.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace orrery {
namespace {

constexpr double bytes_of_mbit = 125'000;

// Box and Muller's; one of a pair.
double normal(JobRandom& random) {
    const double radius = std::sqrt(2 * random.exponential());
    return radius * std::cos(2 * std::numbers::pi * random.share());
}

} // namespace

std::vector<FederatedClient> clients_of(const Federated& f, std::uint64_t seed) {
    if (!f.table.empty()) return f.table;
    JobRandom random(seed ^ 0xC11E175u);
    std::vector<FederatedClient> all(static_cast<std::size_t>(f.clients));
    for (FederatedClient& c : all) {
        const double speed = normal(random), data = normal(random), link = normal(random);
        c.slowness = std::exp(f.slowness_sigma * speed);
        c.samples = std::max(1.0, std::round(f.samples * std::exp(f.samples_sigma * data)));
        c.down_mbit_per_s = f.down_mbit_per_s * std::exp(f.link_sigma * link);
        c.up_mbit_per_s = f.up_mbit_per_s * std::exp(f.link_sigma * link);
        c.available = f.available;
    }
    return all;
}

double training_s(const Federated& f, const FederatedClient& c, const FederatedTask& task) {
    const double steps = f.local_steps > 0 ? static_cast<double>(f.local_steps) : std::max(1.0, std::ceil(c.samples / task.batch));
    return steps * task.step_s * c.slowness;
}

double download_s(const FederatedClient& c, const FederatedTask& task) { return task.down_bytes / (c.down_mbit_per_s * bytes_of_mbit); }

double task_s(const Federated& f, const FederatedClient& c, const FederatedTask& task) {
    return download_s(c, task) + training_s(f, c, task) + task.up_bytes / (c.up_mbit_per_s * bytes_of_mbit);
}

FederatedTask federated_task(const Scenario& s, double step_s) {
    const DType sent = s.training.precision == DType::fp32 || s.training.precision == DType::tf32 ? DType::fp32 : DType::bf16;
    const std::int64_t trained = trained_parameters(s.model).value_or(parameter_count(s.model));
    // Frozen parameters lie with the clients already.
    const double bytes = static_cast<double>(trained) * bytes_per_element(sent);
    return {step_s, static_cast<double>(s.training.global_batch_size), bytes, bytes};
}

} // namespace orrery
