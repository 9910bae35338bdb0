#include "sim/scenario/open_fields.hpp"

#include "sim/scenario/fields.hpp"
#include "sim/scenario/scenario.hpp"

#include <algorithm>
#include <string_view>

namespace orrery {

OpenFields open_fields_of(const Scenario& s, std::span<const std::string> assumed) {
    OpenFields open{};
    for (std::size_t i = 0; i < open.size(); ++i) {
        const std::string whole = dotted(open_fields[i]);
        const std::string_view last = std::string_view(whole).substr(whole.rfind('.') + 1);
        open[i] = s.defaults.contains(open_fields[i]) ||
                  std::any_of(assumed.begin(), assumed.end(), [&](const std::string& a) { return a == whole || a == last; });
    }
    return open;
}

} // namespace orrery
