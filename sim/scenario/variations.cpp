// The sections that no variation changes (model, cluster, perturbations) are read, and applied, once; the others are put back as they were
// read before each variation.
#include "sim/scenario/variations.hpp"

#include "sim/scenario/fields.hpp"
#include "sim/scenario/perturb.hpp"
#include "sim/scenario/resolve.hpp"

#include <nlohmann/json.hpp>

#include <stdexcept>

namespace orrery {

namespace {

struct Setting {
    std::string pointer, text;
    Json value;
    const Field* field;
};

void put(Json& document, const std::string& pointer, const Json& value) {
    Json* at = &document;
    for (std::size_t from = 1; from <= pointer.size();) {
        const std::size_t slash = std::min(pointer.find('/', from), pointer.size());
        if (!at->is_object()) *at = Json::object();
        at = &(*at)[plain_step(std::string_view(pointer).substr(from, slash - from))];
        from = slash + 1;
    }
    *at = value;
}

} // namespace

struct Variations::Data {
    Json document;
    Reading reading;
    std::vector<Setting> settings;
};

Variations::Variations(std::string_view json_text, const ParseOptions& options) : data_(std::make_unique<Data>()) {
    Reading& reading = data_->reading;
    reading.options = options;
    reading.scenario.constants = options.constants;
    data_->document = read_json(json_text, reading.problems);
    if (reading.problems.empty() && !data_->document.is_object())
        reading.problem("", "the file holds " + type_name(data_->document) + ": a scenario is an object");
    if (reading.problems.empty())
        for (const std::string& text : options.overrides) apply_override(data_->document, text, reading.problems);
    if (reading.problems.empty()) read_sections(reading, data_->document);
    if (reading.problems.empty()) apply_to_cluster(reading.scenario);
}

Variations::~Variations() = default;
Variations::Variations(Variations&&) noexcept = default;
Variations& Variations::operator=(Variations&&) noexcept = default;

const std::vector<Problem>& Variations::problems() const { return data_->reading.problems; }
bool Variations::given(const std::string& pointer) const { return data_->reading.has(pointer); }
const Scenario& Variations::base() const { return data_->reading.scenario; }
const std::string& Variations::pointer(int setting) const { return data_->settings[setting].pointer; }
const std::string& Variations::value(int setting) const { return data_->settings[setting].text; }

bool Variations::is_of_the_base(const std::string& pointer) {
    return pointer.starts_with("/cluster") || pointer.starts_with("/model") || pointer == "/strategy/framework" ||
           pointer == "/runtime/year";
}

bool Variations::can_vary(const std::string& pointer) {
    const bool sections = pointer.starts_with("/training/") || pointer.starts_with("/strategy/") || pointer.starts_with("/runtime/");
    return sections && !is_of_the_base(pointer) && find_field(dotted(pointer)) != nullptr;
}

int Variations::add(const std::string& pointer, const std::string& json_value) {
    if (!can_vary(pointer)) throw std::invalid_argument(pointer + " cannot vary here");
    const Json value = Json::parse(json_value, nullptr, false);
    if (value.is_discarded()) throw std::invalid_argument(json_value + " is not JSON");
    for (std::size_t i = 0; i < data_->settings.size(); ++i)
        if (data_->settings[i].pointer == pointer && data_->settings[i].value == value) return static_cast<int>(i);
    data_->settings.push_back({pointer, value.dump(), value, find_field(dotted(pointer))});
    return static_cast<int>(data_->settings.size()) - 1;
}

std::string Variations::json(std::span<const int> settings) const {
    Json document = data_->document;
    for (const int id : settings) {
        const Setting& s = data_->settings[id];
        put(document, s.pointer, s.value);
    }
    return document.dump();
}

struct Variation::Data {
    const Variations::Data& of;
    Reading reading;
    std::vector<const std::string*> added{}; // to reading.given by the last settings
    bool more_added = false;                 // and fields inside of their values

    void give(std::span<const int> settings) {
        if (more_added)
            reading.given = of.reading.given;
        else
            for (const std::string* pointer : added) reading.given.erase(*pointer);
        added.clear();
        for (const int id : settings) {
            const Setting& one = of.settings[id];
            if (reading.given.insert(one.pointer).second) added.push_back(&one.pointer);
            read_value(reading, one.value, one.pointer, *one.field);
        }
        more_added = reading.given.size() != of.reading.given.size() + added.size();
    }
};

Variation::Variation(const Variations& of, bool tells_defaults) : data_(new Data{*of.data_, of.data_->reading}) {
    data_->reading.notes_defaults = tells_defaults;
}
Variation::~Variation() = default;
Variation::Variation(Variation&&) noexcept = default;

const std::vector<Problem>& Variation::problems() const { return data_->reading.problems; }

const Scenario& Variation::resolved() const { return data_->reading.scenario; }

const Scenario* Variation::with(std::span<const int> settings) {
    const Reading& base = data_->of.reading;
    Reading& r = data_->reading;
    r.problems.clear();
    r.layer_split = base.layer_split;
    r.rank_order = base.rank_order;
    Scenario& s = r.scenario;
    s.training = base.scenario.training;
    s.strategy = base.scenario.strategy;
    s.runtime = base.scenario.runtime;
    if (r.notes_defaults) s.defaults = base.scenario.defaults;
    s.model.max_positions = base.scenario.model.max_positions;
    s.notes.clear();
    data_->give(settings);
    resolve_derived(r);
    check_combinations(r);
    if (r.problems.empty()) r.problems = unsupported(s);
    return r.problems.empty() ? &s : nullptr;
}

} // namespace orrery
