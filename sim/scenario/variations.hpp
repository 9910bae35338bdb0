// One scenario's text read once, and then many of its variations, each resolved and checked as parse_scenario would, without reading any
// text again: a search looks at hundreds of thousands. A variation is a set of settings: a field and its value.
#pragma once

#include "sim/scenario/parse.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

class Variations {
  public:
    Variations(std::string_view json_text, const ParseOptions& options);
    ~Variations();
    Variations(Variations&&) noexcept;
    Variations& operator=(Variations&&) noexcept;

    const std::vector<Problem>& problems() const; // of the text itself; with any, nothing can be varied
    bool given(const std::string& pointer) const; // the text states this field
    const Scenario& base() const;                 // as read: nothing derived yet
    // Whether settings of this field can be told without reading the whole again: fields of training, strategy and runtime, but for those
    // that choose defaults.
    static bool can_vary(const std::string& pointer);
    // Whether a field belongs to what all variations share: the model, the cluster, and what chooses defaults.
    static bool is_of_the_base(const std::string& pointer);
    // A setting's number. Throws std::invalid_argument where the field cannot vary, is not known, or the value is not JSON.
    int add(const std::string& pointer, const std::string& json_value);
    const std::string& pointer(int setting) const;
    const std::string& value(int setting) const;           // JSON text
    std::string json(std::span<const int> settings) const; // the whole scenario's text with them; later ones win

  private:
    friend class Variation;
    struct Data;
    std::unique_ptr<Data> data_;
};

// One at a time, for one thread. The Variations must outlive it and gain no settings meanwhile.
class Variation {
  public:
    // tells_defaults: scenarios say where values that nobody gave are from; false: they do not, and are made sooner.
    explicit Variation(const Variations& of, bool tells_defaults = true);
    ~Variation();
    Variation(Variation&&) noexcept;

    // Valid until the next call; nullptr where a rule refuses it: problems() says why. A scenario that cannot be lowered is refused, too.
    // The scenario's notes are left out.
    const Scenario* with(std::span<const int> settings);
    const std::vector<Problem>& problems() const;
    const Scenario& resolved() const; // of the last call, as far as it could be resolved

  private:
    struct Data;
    std::unique_ptr<Data> data_;
};

} // namespace orrery
