// Proves a plan before anything runs it: every broken rule is reported, none is fixed.
#pragma once

#include "sim/plan/plan.hpp"

#include <string>
#include <vector>

namespace orrery {

struct Scenario;

struct Violation {
    std::string rule;  // "transfer-unmatched", "read-before-write", ... (the list is in verify.cpp, a function a rule)
    std::string where; // "stage 3, action 17 (F12 microbatch 4), op l17.qkv.fwd"
    std::string what;
};

std::vector<Violation> verify(const Plan& plan);
std::string to_text(const std::vector<Violation>& violations);

// Throws std::logic_error where a rule does not hold (our bug), with the first violations.
void require_verified(const Plan& plan);
Plan verified_plan(const Scenario& scenario); // a scenario's plan, whose every rule holds

} // namespace orrery
