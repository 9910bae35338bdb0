// Scenarios over every field of the schema, so that a field is drawn as soon as it exists: small models and degrees, any strategy, runtime
// and training. Fields that the checker refuses are taken away until it accepts the rest.
#pragma once

#include "tests/fuzz/fuzz.hpp"

#include <nlohmann/json.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace orrery::fuzz {

using Json = nlohmann::json;

class LegalScenarios {
  public:
    // cluster: as in a scenario, but for the number of its devices. refused: further problems of a scenario that parses, such as what
    // cannot be executed.
    explicit LegalScenarios(std::vector<Json> clusters, std::function<std::vector<Problem>(const Scenario&)> refused);

    // One that is accepted, its JSON in `text`; nothing where taking fields away did not help.
    std::optional<Scenario> draw(Random& r, Json& text) const;

    std::size_t fields() const; // that are drawn

  private:
    struct Field {
        Json::json_pointer at;
        std::vector<Json> values;
    };
    // The fields of one object of the schema ("/strategy/offload"), which mean something together.
    struct Group {
        std::vector<Field> fields;
        bool nested = false; // not a section itself
    };

    void collect(const Json& schema, const std::string& path);
    Json drawn(Random& r) const;
    std::optional<Scenario> accepted(const Json& text, std::vector<Problem>& problems) const;

    std::vector<Json> clusters_;
    std::function<std::vector<Problem>(const Scenario&)> refused_;
    std::vector<Group> groups_;
};

} // namespace orrery::fuzz
