// Fields of a whole run with a form of their own, and what follows from the others. Private to this room.
#pragma once

#include "sim/scenario/fields.hpp"

namespace orrery {

const Fields& whole_run_fields();
const Fields& storage_fields();
const Fields& data_fields();
const Fields& convergence_fields();

void read_save_interval(Reading&, const Json&, const std::string& where);  // "auto", {"steps": n}, {"seconds": s}
void read_repair_deciles(Reading&, const Json&, const std::string& where); // nine numbers, none below the one before
void read_fault_trace(Reading&, const Json&, const std::string& where);    // a CSV file
void read_usual_run(Reading&, const Json&, const std::string& where);      // cluster.run

// Rules between these fields, and their defaults; part of check_combinations.
void check_whole_run(Reading& reading);
// Fields of a run that do nothing here, into scenario.notes; part of note_without_effect.
void note_whole_run(Reading& reading);

} // namespace orrery
