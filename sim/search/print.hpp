// A search's answer as text, JSON and CSV.
#pragma once

#include "sim/report/terminal.hpp"
#include "sim/search/search.hpp"

#include <string>

namespace orrery {

std::string to_text(const SearchResult& result, const SearchOptions& options, const TextStyle& style);
std::string to_json(const SearchResult& result, const SearchOptions& options);
// The simulated points that fit, best first. Unknown figures are left empty: intervals too, of points that a database has without one and
// that to_text() does not name.
std::string to_csv(const SearchResult& result, const SearchOptions& options);

// Why there is no answer: no legal point, or none that fits, and what the nearest lacks. Empty where there is one.
std::string no_answer(const SearchResult& result);

} // namespace orrery
