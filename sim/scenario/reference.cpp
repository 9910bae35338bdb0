// The field reference (schema.hpp): one table a section, from the same table of fields the reader uses.
#include "sim/scenario/fields.hpp"
#include "sim/scenario/frameworks.hpp"
#include "sim/scenario/schema.hpp"
#include "sim/scenario/suggest.hpp"
#include "sim/scenario/whole_run_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

// "|" would end a cell of the table.
std::string cell(std::string text) {
    for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
    return text;
}

struct TypeName {
    const Field& field;
    std::string operator()(IntSlot) const { return "integer"; }
    std::string operator()(LongSlot) const { return "integer"; }
    std::string operator()(SeedSlot) const { return "integer"; }
    std::string operator()(NumberSlot) const { return "number"; }
    std::string operator()(ScaledSlot) const { return "number"; }
    std::string operator()(BoolSlot) const { return "true or false"; }
    std::string operator()(TextSlot) const { return field.choices.empty() ? "text" : join(field.choices); }
    std::string operator()(ChoiceSlot) const {
        const std::vector<std::string> offered = offered_choices(field);
        std::vector<std::string> later;
        for (const std::string& choice : field.choices)
            if (std::find(offered.begin(), offered.end(), choice) == offered.end()) later.push_back(choice);
        return join(offered) + (later.empty() ? "" : "; not built yet: " + join(later));
    }
    std::string operator()(const SectionSlot& section) const {
        return section.word ? std::string("object, or its ") + section.word : "object";
    }
    std::string operator()(CustomSlot) const { return "several forms"; }
};

// Whole numbers in full, as far as doubles hold them: limits are counts and sizes.
std::string plain(double limit) {
    return limit == std::floor(limit) && limit < 1e16 ? fmt::format("{:.0f}", limit) : fmt::format("{:g}", limit);
}

std::string type_of(const Field& field) {
    std::string text = std::visit(TypeName{field}, field.slot);
    if (std::isfinite(field.minimum)) text += (field.above_minimum ? " > " : " >= ") + plain(field.minimum);
    if (std::isfinite(field.maximum)) text += ", at most " + plain(field.maximum);
    if (*field.unit != 0) text += fmt::format(", in {}", field.unit);
    return text;
}

// "false; fsdp: true (from 2023)": what everyone does, then each framework's own rows of the table of defaults, in its order.
std::string defaults_by_framework(const std::string& path) {
    std::vector<std::string> parts;
    for (const FrameworkDefault& row : framework_defaults()) {
        if (path != row.field) continue;
        std::string text = row.framework == std::string_view("*") ? "" : std::string(row.framework) + ": ";
        text += row.value;
        std::vector<std::string> when;
        if (row.year > 0) when.push_back(fmt::format("from {}", row.year));
        if (*row.architecture != 0) when.push_back(fmt::format("on {}", row.architecture));
        if (!when.empty()) text += " (" + join(when) + ")";
        parts.push_back(std::move(text));
    }
    return join(parts, "; ");
}

// A field that is no section: its line in examples.cpp.
const FieldExample* example_of(const std::string& path) {
    const auto all = field_examples();
    const auto found = std::find_if(all.begin(), all.end(), [&](const FieldExample& e) { return path == e.field; });
    return found == all.end() ? nullptr : &*found;
}

std::string default_of(const Field& field, const std::string& path) {
    if (field.required) return "required";
    const std::string by_framework = defaults_by_framework(path);
    const FieldExample* example = example_of(path);
    return !by_framework.empty() || !example ? by_framework : example->usual;
}

void write_section(std::string& text, const std::string& path, const Fields& fields, int depth) {
    text += fmt::format("\n{} {}\n\n| field | type | example | default | meaning |\n|---|---|---|---|---|\n",
                        std::string(static_cast<std::size_t>(depth), '#'), path);
    for (const Field& field : fields) {
        const std::string whole = path + "." + field.key;
        const FieldExample* example = example_of(whole);
        text += fmt::format("| `{}` | {} | {} | {} | {} |\n", field.key, cell(type_of(field)),
                            example ? fmt::format("`{}`", cell(example->example)) : "", cell(default_of(field, whole)), cell(field.help));
    }
    for (const Field& field : fields)
        if (const auto* section = std::get_if<SectionSlot>(&field.slot))
            write_section(text, path + "." + field.key, section->fields(), depth + 1);
}

// Two parts of a file are no table of fields: the list of disturbances, and the members that make a file a sweep.
constexpr const char* perturb_text = R"(
## perturb

A list of disturbances, each an object with one of these:

| entry | meaning |
|---|---|
| `{"slow": 1.2, "rank": 3}` | computation of rank 3 takes 1.2 times as long |
| `{"slow": 1.2, "node": 0}` | .. of all ranks of node 0 |
| `{"slow": 2, "link": "nic"}` | links of a class (`nic`, `scale_up`, `pcie`, `trunk`, `copy`) have a half of their rate; `"node": 0`: those of that node |
| `{"slow": 2, "link": "node0.nic0 > leaf0"}` | one link, by its name; an unknown name is answered with those there are |
| `{"background": 0.3, "link": "trunk"}` | other jobs take three tenths of those links |
| `{"jitter": 0.02}` | durations of kernels scatter by 2 % (log-normal, the same in every step) |

    "perturb": [{"slow": 1.3, "node": 0}, {"jitter": 0.01}]
)";

constexpr const char* sweep_text = R"(
## Sweeps

A scenario with `sweep` is many scenarios: one for each combination of the values listed. `simrun SWEEP.json` predicts all of them.

| member | type | example | meaning |
|---|---|---|---|
| `sweep` | object of lists | `{"/strategy/tensor_parallel": [1, 2, 4, 8], "/cluster/nodes": [8, 16]}` | by JSON pointer of a field, its values; a value may be a whole section: `"/model": ["llama3-8b", "llama3-70b"]` |
| `constraints` | list of texts | `["/strategy/tensor_parallel * /strategy/pipeline_parallel <= 64"]` | combinations for which a comparison does not hold are left out; numbers, JSON pointers of fields with numbers, `+ - * / %`, parentheses, and `<= < >= > == !=` |

    {"model": "llama3-70b", "cluster": "dgx-h100",
     "training": {"global_batch_size": 128, "micro_batch_size": 1, "sequence_length": 8192},
     "strategy": {"framework": "megatron", "zero_stage": 1, "sequence_parallel": true},
     "sweep": {"/cluster/nodes": [8, 16], "/strategy/tensor_parallel": [4, 8], "/strategy/pipeline_parallel": [2, 4, 8]},
     "constraints": ["/strategy/tensor_parallel * /strategy/pipeline_parallel <= 32"]}
)";

} // namespace

std::string field_reference() {
    std::string text =
        "# Every field of a scenario\n\n"
        "`simrun schema --markdown` writes this page from the table that the parser reads; a test holds it current.\n\n"
        "The column \"default\" lists what the software does where the scenario is silent: first every framework, then each framework "
        "with a habit of its\nown, with the year of the release and the device architecture where these matter. A later entry of the same "
        "framework replaces an earlier one.\n`simrun SCENARIO.json -v` prints every default that a scenario got, and its source.\n\n"
        "The column \"example\" has a value as `--set` takes it on the command line: `--set strategy.tensor_parallel=2`. In a file, texts "
        "have quotation\nmarks. Choices that are \"not built yet\" are refused with a message that says so.\n\n"
        "A complete scenario:\n\n"
        "    {\"model\": \"llama3-8b\",\n"
        "     \"cluster\": {\"preset\": \"dgx-h100\", \"nodes\": 2},\n"
        "     \"training\": {\"global_batch_size\": 64, \"micro_batch_size\": 1, \"sequence_length\": 8192},\n"
        "     \"strategy\": {\"framework\": \"megatron\", \"tensor_parallel\": 2, \"sequence_parallel\": true}}\n\n"
        "`model` is a name (`simrun list models`), `{\"preset\": name, field: value ..}`, `{\"hf_config\": path}`, or the fields below. "
        "`cluster` is a name\n(`simrun list clusters`), the path of a JSON file, `{\"preset\": name, field: value ..}`, or the fields "
        "below; "
        "`cluster.device` is a name\n(`simrun list devices`) or `{\"preset\": name, field: value ..}`.\n";
    write_section(text, "model", model_fields(), 2);
    write_section(text, "cluster", cluster_fields(), 2);
    write_section(text, "cluster.device", device_fields(), 3);
    write_section(text, "training", training_fields(), 2);
    write_section(text, "strategy", strategy_fields(), 2);
    write_section(text, "runtime", runtime_fields(), 2);
    write_section(text, "run", whole_run_fields(), 2);
    write_section(text, "federated", federated_fields(), 2);
    return text + perturb_text + sweep_text;
}

} // namespace orrery
