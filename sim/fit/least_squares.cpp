#include "sim/fit/fit.hpp"

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>

namespace orrery {

namespace {

// Soft-L1: 2 s^2 (sqrt(1 + (r/s)^2) - 1), whose weight on r^2 is 1 / sqrt(1 + (r/s)^2).
double loss(double r, double soft) { return 2 * soft * soft * (std::sqrt(1 + r * r / (soft * soft)) - 1); }

} // namespace

std::vector<double> least_squares(std::vector<double> parameters, std::size_t n,
                                  const std::function<double(const std::vector<double>&, std::size_t)>& residual, double soft) {
    const auto rows = static_cast<Eigen::Index>(n), cols = static_cast<Eigen::Index>(parameters.size());
    const auto all = [&](const std::vector<double>& p) {
        Eigen::VectorXd r(rows);
        for (Eigen::Index i = 0; i < rows; ++i) r[i] = residual(p, static_cast<std::size_t>(i));
        return r;
    };
    const auto total = [&](const Eigen::VectorXd& r) {
        double sum = 0;
        for (double x : r) sum += loss(x, soft);
        return sum;
    };
    Eigen::VectorXd r = all(parameters);
    double cost = total(r), damping = 1e-2;
    for (int iteration = 0; iteration < 60; ++iteration) {
        Eigen::MatrixXd jacobian(rows, cols);
        constexpr double step = 0.01;
        for (Eigen::Index c = 0; c < cols; ++c) {
            std::vector<double> moved = parameters;
            moved[c] *= std::exp(step);
            jacobian.col(c) = (all(moved) - r) / step;
        }
        const Eigen::VectorXd weight = (1 + (r / soft).array().square()).sqrt().inverse();
        const Eigen::MatrixXd normal = jacobian.transpose() * weight.asDiagonal() * jacobian;
        const Eigen::VectorXd gradient = jacobian.transpose() * weight.asDiagonal() * r;
        bool better = false;
        double gain = 0;
        for (int tries = 0; tries < 8 && !better; ++tries) {
            Eigen::MatrixXd damped = normal;
            damped.diagonal() += damping * (normal.diagonal().array() + 1e-9).matrix();
            const Eigen::VectorXd move = damped.ldlt().solve(-gradient);
            std::vector<double> next = parameters;
            for (Eigen::Index c = 0; c < cols; ++c) next[c] *= std::exp(std::clamp(move[c], -1.0, 1.0));
            const Eigen::VectorXd there = all(next);
            const double now = total(there);
            better = now < cost;
            if (better) {
                gain = (cost - now) / std::max(cost, 1e-30);
                parameters = std::move(next), r = there, cost = now, damping = std::max(damping / 5, 1e-9);
            } else {
                damping *= 5;
            }
        }
        if (!better || gain < 1e-6) break;
    }
    return parameters;
}

} // namespace orrery
